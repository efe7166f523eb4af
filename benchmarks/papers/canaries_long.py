"""Canaries of up to ten words, and canaries seen once (Parikh et al. 2022, table 2 and C.1).

    python -m benchmarks.papers.canaries_long --snips snips --embeddings minilm-l6-h384 \
        --work FOLDER --date 2026-11-30

trains and attacks ten models in each cell as `canaries_snips.py` does, without a defence. It
writes `canaries_long.json` and `canaries_long.md`. What FOLDER holds is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from audit.stats.intervals import proportion
from benchmarks.papers.canaries_snips import read, run
from benchmarks.papers.canaries_snips_models import PATTERN_NAMES, Cell, Settings

HERE = Path(__file__).parent
CELLS = ((4, 1), (6, 100), (8, 100), (10, 100), (10, 500))
"""Unknown words n and copies R, as the paper's tables have them."""
PAPER: dict[tuple[str, int, int], tuple[float, float]] = {
    ("color", 4, 1): (0.33, 0.43),
    ("pin", 4, 1): (0.10, 0.60),
    ("call", 4, 1): (0.10, 0.58),
    ("color", 6, 100): (0.30, 0.45),
    ("pin", 6, 100): (0.10, 0.45),
    ("call", 6, 100): (0.20, 0.50),
    ("color", 8, 100): (0.10, 0.60),
    ("pin", 8, 100): (0.00, 0.61),
    ("call", 8, 100): (0.00, 0.60),
    ("pin", 10, 100): (0.10, 0.43),
    ("color", 10, 500): (0.00, 0.59),
    ("call", 10, 500): (0.00, 0.59),
}
"""Accuracy and HDT of the paper by canary, n and R: table 2, and C.1 for R of 1."""
FEWEST_MODELS = 5
"""Models of a cell from which on it has a row."""
CHANCE = {"color": 11 / 12, "pin": 0.9, "call": 0.9}
"""HDT of somebody who guesses."""


@dataclass(frozen=True)
class Row:
    """One canary in one cell: how many models gave it away whole, and how many words were wrong.

    Attributes:
        canary: pattern of the canary.
        n_words: its unknown words.
        copies: copies of it in training.
        n_models: models that were attacked.
        whole: models of which the relaxed attack read it whole.
        low, high: 95 % interval of that share.
        hdt: mean share of unknown words that are wrong.
        hdt_low, hdt_high: 95 % interval of that mean, normal over models.
        paper: accuracy and HDT of the paper; None where it has none.
    """

    canary: str
    n_words: int
    copies: int
    n_models: int
    whole: int
    low: float
    high: float
    hdt: float
    hdt_low: float
    hdt_high: float
    paper: tuple[float, float] | None


def main() -> None:
    """Train and attack what is missing, and write the table."""
    options = _parse_options()
    rows: list[Row] = []
    seconds = 0.0
    for n_words, copies in CELLS:
        lines = lines_of(n_words, copies, options)
        if len(lines) < FEWEST_MODELS:
            print(f"n = {n_words}, R = {copies}: not measured")
            continue
        seconds += sum(line["seconds"] + line["training"]["seconds"] for line in lines)
        rows += [row_of(lines, canary, n_words, copies) for canary in PATTERN_NAMES]
    content = {
        "machine": options.machine,
        "date": options.date,
        "processor_minutes": round(seconds / 60, 1),
        "rows": [asdict(row) for row in rows],
    }
    (options.out / "canaries_long.json").write_text(json.dumps(content, indent=1) + "\n")
    (options.out / "canaries_long.md").write_text(page_of(rows, content))


def _parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--snips", type=Path, default=Path("snips"), help="as it is distributed")
    parser.add_argument("--embeddings", type=Path, help="a BERT-like checkpoint for word vectors")
    parser.add_argument("--work", type=Path, required=True, help="folder of what was measured")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the table")
    parser.add_argument("--models", type=int, default=10, help="models of a cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    parser.add_argument("--report", action="store_true", help="train nothing; write what is there")
    parser.add_argument("--date", required=True, help="date of the run, YYYY-MM-DD")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def lines_of(n_words: int, copies: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what was found of the models of a cell, training those that are missing."""
    name = "random" if options.embeddings is None else options.embeddings.name
    settings = replace(Settings(), length=n_words, embeddings=name)
    results = options.work / f"models-{settings.key}.jsonl"
    cells = [Cell(number, copies, "none") for number in range(options.models)]
    if not options.report:
        run(cells, settings, options, results)
    return [line for line in read(results) if line["repeat"] == copies]


def row_of(lines: Sequence[dict[str, Any]], canary: str, n_words: int, copies: int) -> Row:
    """Summarise the relaxed attack on one canary over the models of a cell."""
    distances = np.array([line["patterns"][canary]["relaxed"]["hdt"] for line in lines])
    whole = distances == 0
    share = proportion(whole, np.arange(whole.size))
    mean = float(distances.mean())
    reach = 1.96 * float(distances.std(ddof=1)) / distances.size**0.5
    return Row(
        canary=canary,
        n_words=n_words,
        copies=copies,
        n_models=len(lines),
        whole=int(whole.sum()),
        low=round(share.low, 3),
        high=round(share.high, 3),
        hdt=round(mean, 3),
        hdt_low=round(max(0.0, mean - reach), 3),
        hdt_high=round(min(1.0, mean + reach), 3),
        paper=PAPER.get((canary, n_words, copies)),
    )


def page_of(rows: Sequence[Row], content: dict[str, Any]) -> str:
    """Write the table beside the paper's numbers."""
    lines = [
        "# Longer canaries, and canaries seen once",
        "",
        f"`python -m benchmarks.papers.canaries_long` wrote this page: {content['date']}, "
        f"{content['machine']}, {content['processor_minutes']} minutes of processor time.",
        "",
        "Models as in [canaries_snips](canaries_snips/README.md), without a defence.",
        "The attack is the paper's, with four starts. Accuracy is the share of models that give",
        "the canary away whole. HDT is the mean share of its words that are wrong.",
        "Intervals are 95 %.",
        "The paper prints the best number of several R; ours is that of one R.",
        "",
        "| canary | n | R | models | accuracy | paper | HDT | paper | guessing |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        accuracy = f"{row.whole / row.n_models:.2f} [{row.low:.2f}, {row.high:.2f}]"
        distance = f"{row.hdt:.2f} [{row.hdt_low:.2f}, {row.hdt_high:.2f}]"
        paper_accuracy = ""
        paper_distance = ""
        if row.paper is not None:
            paper_accuracy = f"{row.paper[0]:.2f}"
            paper_distance = f"{row.paper[1]:.2f}"
        lines.append(
            f"| {row.canary} | {row.n_words} | {row.copies} | {row.n_models} "
            f"| {accuracy} | {paper_accuracy} | {distance} | {paper_distance} "
            f"| {CHANCE[row.canary]:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
