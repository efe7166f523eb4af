"""How often the check of resemblance fires where a lot divided the documents.

Method: methods/checks.md#checks-of-the-documents.

    python -m benchmarks.calibration.resemblance_calibration [--draws 500] [--data FOLDER]

Real corpora are imported once. A lot divides their documents anew in each draw. No model is asked.
A p-value of at most 5 % is a false alarm then. In a scan the checks share their level, so that this
one fires less often. Beside it stands how often the rule on values of people fires, which no chance
excuses.

Documents whose words another document holds as well are left out first, as an audit leaves out
copies.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.attacks.membership import resemblance
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.folding import fold
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

OUT = Path(__file__).with_suffix(".json")
REAL_DATA = Path(
    os.environ.get("DOCAUDIT_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
)
SHARES: Mapping[Split, float] = {"member": 0.4, "heldout": 0.3, "public": 0.3}
SIZES = (75, 150, 300)
LEVELS = (0.01, 0.05)


def read_corpus(name: str, data: Path) -> Corpus:
    """Import a corpus, and leave out documents with the words of another."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        FORMATS[name].convert(ImportRequest(data / name, folder, SHARES, seed=7))
        corpus = manifest.load(folder)
        by_words: dict[tuple[str, ...], Document] = {}
        for document in corpus.documents:
            by_words.setdefault(tuple(fold(word.text) for word in document.words), document)
        return replace(corpus, documents=tuple(by_words.values()))


def divide(corpus: Corpus, n: int, rng: np.random.Generator) -> Corpus:
    """Draw n members and n held-out documents by lot."""
    drawn = rng.permutation(len(corpus.documents))[: 2 * n]
    members = [replace(corpus.documents[place], split="member") for place in drawn[:n]]
    heldout = [replace(corpus.documents[place], split="heldout") for place in drawn[n:]]
    return replace(corpus, documents=(*members, *heldout))


def count_alarms(corpus: Corpus, n: int, draws: int) -> dict[str, object]:
    """Count the draws in which the check fires."""
    alarms: Counter[str] = Counter()
    for seed in range(draws):
        check = resemblance.check_heldout(divide(corpus, n, np.random.default_rng([seed, n])))
        if isinstance(check, str):
            return {"documents a side": n, "not made": check}
        assert check.p_value is not None
        alarms["same people"] += check.p_value == 0.0
        for level in LEVELS:
            alarms[f"p <= {level:g}"] += check.p_value <= level
    return {"documents a side": n, "draws": draws, **alarms}


def main() -> None:
    """Count the alarms on every corpus that is there, and write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--data", type=Path, default=REAL_DATA, help="folder of the real corpora")
    options = parser.parse_args()
    corpora: dict[str, object] = {}
    for name in ("sroie", "snips"):
        corpus = read_corpus(name, options.data)
        sizes = [n for n in SIZES if 2 * n <= len(corpus.documents)]
        rows = [count_alarms(corpus, n, options.draws) for n in sizes]
        corpora[name] = {"documents": len(corpus.documents), "rows": rows}
        print(name, corpora[name], flush=True)
    report = {
        "machine": "2-core CPU",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "corpora": corpora,
    }
    OUT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
