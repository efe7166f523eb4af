"""What `docaudit forget-check` concludes of simulated models that have forgotten documents, or not quite.

No model is trained: the logit confidence of a document is its difficulty (SD 2) plus noise (SD 1), for the target and
for a reference that never saw it, as in `membership_calibration.py`. Loss and calibrated loss are limited, and certain
documents are counted by the ratio of losses too. The policy is the shipped one, without its conditions on power and
coverage; no blind check is run. "Known" documents have 30 logits more than others, "hated" ones 30 less. A "leak" is
added to all listed documents, in SDs of the noise.

    python benchmarks/forget_calibration.py # writes forget_calibration.json and the table of forget_calibration.md
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from membership_calibration import CERTAIN, DOCUMENTS, FLOOR, REFERENCED, completed, record_of

from audit.arrays import Floats
from audit.attacks.membership.scores import WORSE
from audit.cards import Forgotten
from audit.policy import Verdict, evaluate, load

HERE = Path(__file__)
SIDES = ((150, 150), (213, 213), (250, 300), (300, 300), (300, 1000), (1000, 1000))
"""Listed and unseen documents."""
MODELS: dict[str, tuple[int, int, float]] = {
    "never saw them": (0, 0, 0.0),
    "3 known": (3, 0, 0.0),
    "5 known": (5, 0, 0.0),
    "8 known": (8, 0, 0.0),
    "15 known": (15, 0, 0.0),
    "5 hated": (0, 5, 0.0),
    "8 hated": (0, 8, 0.0),
    "leak 0.5": (0, 0, 0.5),
    "leak 1": (0, 0, 1.0),
    "leak -1": (0, 0, -1.0),
}
"""How many listed documents are known and hated, and the leak of all."""
SHIPPED = load("forget")
POLICY = replace(SHIPPED, limits=tuple(replace(limit, min_power=None, min_coverage=None) for limit in SHIPPED.limits))


def write_table(lines: Sequence[str], name: str) -> None:
    """Replace the table of this name on the page."""
    page, begin, end = HERE.with_suffix(".md"), f"<!-- {name} -->\n\n", f"\n\n<!-- end of {name} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(before + begin + "\n".join(lines) + end + rest.partition(end)[2], encoding="utf-8")


def verdict_of(sides: tuple[int, int], model: tuple[int, int, float], seed: int) -> Verdict:
    """Simulate an audit of a model and judge it."""
    (listed, unseen), (known, hated, leak) = sides, model
    rng = np.random.default_rng([seed, listed, unseen])
    difficulty = rng.normal(0, 2, listed + unseen)
    target, reference = (difficulty + rng.normal(0, 1, listed + unseen) for _ in range(2))
    target[:listed] += leak
    target[:known] += CERTAIN
    target[known : known + hated] -= CERTAIN

    def loss(logits: Floats) -> Floats:
        return np.maximum(FLOOR, np.logaddexp(0, -logits))

    own, usual = loss(target), loss(reference)
    columns = {"loss": -own, "calibrated": usual - own, "ratio": np.log(usual) - np.log(own)}
    found = {name: (column[:listed], column[listed:]) for name, column in columns.items()}
    result, (members, others) = completed(found, REFERENCED), found["calibrated"]
    worse = DOCUMENTS.count_certain(WORSE, (-members, -others))
    record = record_of(replace(result, measurements=(*result.measurements, worse)))
    card = replace(record.corpus, forgotten=Forgotten(listed, "0" * 64, {}))
    return evaluate(replace(record, corpus=card), POLICY, dt.date(2026, 1, 1))


def main() -> None:
    """Simulate every model with every number of documents, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=200)
    audits = parser.parse_args().audits
    outcomes = ("passed", "undecided", "violated")
    rows, counts = [], {}
    for listed, unseen in SIDES:
        cells = []
        for name, model in MODELS.items():
            counted = Counter(verdict_of((listed, unseen), model, seed).overall for seed in range(audits))
            counts[f"{listed} + {unseen}, {name}"] = {outcome: counted[outcome] for outcome in outcomes}
            cells.append(" / ".join(str(counted[outcome]) for outcome in outcomes))
        rows.append(f"| {listed} + {unseen} | {' | '.join(cells)} |")
    found = {"date": time.strftime("%Y-%m-%d"), "audits": audits, "verdicts": counts}
    HERE.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    head = f"| listed + unseen | {' | '.join(MODELS)} |\n|---{'|---' * len(MODELS)}|"
    write_table([head, *rows], "table")


if __name__ == "__main__":
    main()
