"""Intervals of the excess where few documents hold most fields: coverage, and how often a leak passes.

No model is trained. Documents hold so many fields each; whole documents are memorised (the fields
of one go together, intra-document correlation 1), any document alike or the likelier the more
fields it holds, so that the share of fields given away is 0, the limit, or twice the limit in
expectation. What the interval of `audit.stats.rates.excess_rate` says of that share is counted over
many simulated audits, with Kish's effective number of documents and with documents counted as they
are. In cells "known", attack and baseline each find a tenth of all fields without memory, so that
documents of both splits differ and the interval is resampled.

    python -m benchmarks.calibration.unequal_documents  # rewrites unequal_documents.json and .md
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from audit.arrays import Ints
from audit.stats import resampling
from audit.stats.intervals import Interval
from audit.stats.rates import Columns, excess_rate

LIMIT = 0.05
KNOWN = 0.1
"""Share of fields that the attack, and the baseline, finds without memory in cells "known"."""
COUNTED = [f"audit.stats.{name}.effective_number" for name in ("intervals", "resampling", "rates")]
# Forms of FUNSD by how many answers they hold: (answers, forms), counted over all 149 training
# forms that hold any.
FUNSD = (
    (2, 4), (3, 4), (4, 1), (5, 3), (6, 5), (7, 5), (8, 11), (9, 8), (10, 2), (11, 10), (12, 11), (13, 7), (14, 1),
    (15, 8), (16, 7), (17, 4), (18, 3), (19, 4), (20, 2), (21, 4), (22, 2), (23, 2), (24, 5), (26, 4), (27, 3), (28, 1),
    (29, 1), (30, 1), (33, 2), (34, 1), (36, 3), (38, 3), (40, 3), (41, 3), (42, 4), (46, 1), (47, 1), (59, 1), (71, 1),
    (109, 1),
)  # fmt: skip


def funsd(n: int, rng: np.random.Generator) -> Ints:
    """Draw forms of FUNSD."""
    return rng.choice(np.repeat(*np.array(FUNSD).T), n)


def lognormal(n: int, rng: np.random.Generator) -> Ints:
    """Draw sizes whose logarithm is normal with mean 1 and deviation 1.2, rounded, at least 1."""
    return np.maximum(1, np.round(rng.lognormal(1.0, 1.2, n))).astype(np.int64)


SIZES: dict[str, Callable[[int, np.random.Generator], Ints]] = {
    "4 each": lambda n, _: np.full(n, 4),
    "3 or 4": lambda n, rng: rng.integers(3, 5, n),
    "FUNSD's own counts": funsd,
    "lognormal(1, 1.2)": lognormal,
    "5 % of documents hold 60": lambda n, rng: np.where(rng.random(n) < 0.05, 60, 1),
}


def _moment(draw: Callable[[int, np.random.Generator], Ints]) -> float:
    """E[m] / E[m^2], so that chances in proportion to m give away the share of fields that was asked for."""
    sizes = draw(1_000_000, np.random.default_rng(0)).astype(float)
    return float(sizes.mean() / np.mean(sizes**2))


MOMENTS = {name: _moment(draw) for name, draw in SIZES.items()}


@dataclass(frozen=True)
class Cell:
    """One kind of audit: sizes of documents, how many in a split, and what share of fields leaks from which."""

    sizes: str
    documents: int
    leak: float
    proportional: bool = False
    known: bool = False

    def memorised(self, sizes: Ints, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Which fields are given away: all of some documents."""
        # What is known without memory cannot be gained by it.
        leak = self.leak / (1 - KNOWN) if self.known else self.leak
        chance = (
            leak * sizes * MOMENTS[self.sizes] if self.proportional else np.full(sizes.size, leak)
        )
        return np.repeat(rng.random(sizes.size) < chance, sizes)


def audit(cell: Cell, seed: int) -> tuple[Interval, float]:
    """One simulated audit: the interval of the excess, and Kish's number of member documents."""
    rng = np.random.default_rng([seed, cell.documents])
    columns: list[Columns] = []
    kish = []
    known = KNOWN if cell.known else 0.0
    for split in ("member", "heldout"):
        sizes = SIZES[cell.sizes](cell.documents, rng)
        documents = np.repeat(np.arange(cell.documents), sizes)
        taken = cell.memorised(sizes, rng) if split == "member" else np.zeros(documents.size, bool)
        attack, baseline = (rng.random(documents.size) < known for _ in ("attack", "baseline"))
        columns.append((taken | attack, baseline, documents))
        kish.append(float(sizes.sum() ** 2 / np.sum(sizes**2)))
    return excess_rate(columns, rng), kish[0]


def measure(cell: Cell, audits: int, n_resamples: int) -> dict[str, float]:
    """Shares over simulated audits: covered, passed, confirmed over the limit.

    Mean width and Kish's number.
    """
    with patch.dict(resampling.bootstrap.__kwdefaults__, n_resamples=n_resamples):
        found = [audit(cell, seed) for seed in range(audits)]
    intervals = [interval for interval, _ in found]
    numbers = {
        "coverage": np.mean([interval.low <= cell.leak <= interval.high for interval in intervals]),
        "passed": np.mean([interval.high <= LIMIT for interval in intervals]),
        "violated": np.mean([interval.p_above(LIMIT) <= 0.05 for interval in intervals]),
        "width": np.mean([interval.high - interval.low for interval in intervals]),
        "kish": np.mean([kish for _, kish in found]),
    }
    return {name: round(float(number), 4) for name, number in numbers.items()}


def measure_both(cell: Cell, audits: int, n_resamples: int) -> dict[str, dict[str, float]]:
    """`measure` as the product has it, and with documents counted as they are."""
    with ExitStack() as stack:
        for name in COUNTED:
            stack.enter_context(patch(name, lambda sizes: float(np.asarray(sizes).size)))
        before = measure(cell, audits, n_resamples)
    return {"documents as they are": before, "effective number": measure(cell, audits, n_resamples)}


def cells(counts: Iterable[int], known: bool) -> Iterator[Cell]:
    """Every cell of the table."""
    for documents in counts:
        for sizes in SIZES:
            yield Cell(sizes, documents, 0.0, known=known)
            for leak in (LIMIT, 2 * LIMIT):
                yield Cell(sizes, documents, leak, known=known)
                if sizes != "4 each":
                    yield Cell(sizes, documents, leak, proportional=True, known=known)


def page(content: dict[str, Any]) -> str:
    """The tables, in Markdown."""
    lines = [
        "# Documents of unequal size",
        "",
        str(__doc__).split("\n\n")[1].replace("\n", " "),
        "",
        f"Limit {LIMIT:g}. Each pair: documents counted as they are -> Kish's effective number. Whole documents are"
        " memorised; *by size*: the likelier the more fields a document holds."
        f" {content['audits']} audits a cell ({content['audits_known']} where attack and baseline know fields).",
        "",
        f"Measured on a {content['machine']}, {content['date']}, {content['seconds']:.0f} s of CPU.",
    ]
    for known in (False, True):
        lines += [
            "",
            f"## {'A tenth of all fields is known without memory' if known else 'Nothing is known'}",
            "",
        ]
        lines += [
            "| fields a document | documents | Kish | leak | coverage | passed | confirmed over the limit |"
        ]
        lines += ["|---|---|---|---|---|---|---|"]
        for row in content["cells"]:
            cell = row["cell"]
            before = row["documents as they are"]
            after = row["effective number"]
            if cell["known"] != known:
                continue
            leak = f"{cell['leak']:g}" + (", by size" if cell["proportional"] else "")
            pairs = [
                f"{before[name]:.3f} -> {after[name]:.3f}"
                for name in ("coverage", "passed", "violated")
            ]
            lines.append(
                f"| {cell['sizes']} | {cell['documents']} | {after['kish']:.0f} | {leak} | {' | '.join(pairs)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate every cell and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=500)
    parser.add_argument("--audits-known", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    rows = []
    for known, audits, counts in (
        (False, options.audits, (150, 400)),
        (True, options.audits_known, (150,)),
    ):
        for cell in cells(counts, known):
            rows.append({"cell": asdict(cell), **measure_both(cell, audits, n_resamples=800)})
            print(rows[-1], flush=True)
    content = {
        "machine": "2-core CPU",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.process_time()),
        "audits": options.audits,
        "audits_known": options.audits_known,
        "limit": LIMIT,
        "cells": rows,
    }
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(content), encoding="utf-8")


if __name__ == "__main__":
    main()
