"""How often the numbers of documents and values that leak are within their limits, by luck.

No model is asked: the values that each document gives away are drawn, and the product's
`count_leaking` counts the documents. Luck is the share of values that an attacker gets without
memory. Under correlation documents differ in it (beta-binomial). Whole documents leak all their
values, single ones one value each, 2 to 6 times as many documents as the limit allows. "All" adds
the limits on the number of values and on the excess, which see single values too.

    python -m benchmarks.calibration.documents_by_luck --out before.json  # in an older checkout
    python -m benchmarks.calibration.documents_by_luck --before before.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from audit.arrays import Bools
from audit.policy import load
from audit.stats import rates
from audit.stats.estimates import estimate
from audit.stats.leaking import count_leaking

HERE = Path(__file__).resolve()
SIZES = ((100, 20), (150, 20), (300, 30))
"""Documents a side, and the limit of the default policy on picked values."""
PAGES = ((4, 0.25), (5, 0.4), (8, 0.3), (8, 0.5))
"""Values of a document, and luck."""
CORRELATIONS = (0.0, 0.2)
SEED = 5

Shape = Literal["whole", "single"]


@dataclass(frozen=True)
class Cell:
    """A row of the table.

    Attributes:
        documents: documents a side.
        limit: most documents that may leak.
        values: values of a document.
        luck: share of the values that the attacker gets without memory.
        correlation: correlation of luck within a document.
    """

    documents: int
    limit: int
    values: int
    luck: float
    correlation: float

    def draw(self, rng: np.random.Generator) -> Bools:
        """Draw which values of each document luck gives, (documents, values)."""
        chances = np.full(self.documents, self.luck)
        if self.correlation:
            size = (1 - self.correlation) / self.correlation
            chances = rng.beta(self.luck * size, (1 - self.luck) * size, self.documents)
        return rng.random((self.documents, self.values)) < chances[:, None]

    def shares_within(self, n_leaking: int, shape: Shape, audits: int) -> tuple[float, float]:
        """Return the share of audits whose documents are within the limit, and with all limits.

        Args:
            n_leaking: training documents that leak.
            shape: what of them leaks.
            audits: number of audits.
        """
        rng = np.random.default_rng(SEED)
        leaking_values = self.values if shape == "whole" else 1
        n_within = 0
        n_all_within = 0
        for _ in range(audits):
            members = self.draw(rng)
            others = self.draw(rng)
            members[:n_leaking, :leaking_values] = True
            sums = (members.sum(axis=1), others.sum(axis=1))
            counted = count_leaking(*sums, self.values, self.documents, complete=True)
            is_within = counted.value <= self.limit
            n_within += is_within
            n_all_within += is_within and self._meets_others(members, others, rng)
        return n_within / audits, n_all_within / audits

    def _meets_others(self, members: Bools, others: Bools, rng: np.random.Generator) -> bool:
        """Tell whether the number of values and the excess are within the limits."""
        documents = np.repeat(np.arange(self.documents), self.values)
        columns: list[rates.Columns] = [
            (side.ravel().astype(np.float64), None, documents) for side in (members, others)
        ]
        excess = rates.excess_rate(columns, rng)
        limits = {(limit.attack, limit.metric): limit for limit in load("default").limits}
        of_values = limits["attribute_inference", "values_identified"]
        of_excess = limits["attribute_inference", "excess.all"]
        values = estimate("values", rates.scaled(excess, members.size), "values", 0.0, "held-out")
        values = replace(values, total=members.size)
        measured = estimate("excess", excess, "values", 0.0, "held-out")
        return of_values.applied(values).is_met_by(values) and of_excess.is_met_by(measured)


def cells() -> Iterator[Cell]:
    """Yield the rows of the table."""
    for (documents, limit), (values, luck), correlation in product(SIZES, PAGES, CORRELATIONS):
        yield Cell(documents, limit, values, luck, correlation)


def row_of(cell: Cell, audits: int) -> dict[str, Any]:
    """Simulate a cell."""
    row: dict[str, Any] = vars(cell).copy()
    row["clean"], row["clean, all"] = cell.shares_within(0, "whole", audits)
    row["whole, 1x"] = cell.shares_within(cell.limit, "whole", audits)[0]
    row["whole, 2x"] = cell.shares_within(2 * cell.limit, "whole", audits)[0]
    for times in (2, 3, 4, 6):
        n_leaking = min(times * cell.limit, cell.documents)
        alone, with_all = cell.shares_within(n_leaking, "single", audits)
        row[f"single, {times}x"] = alone
        row[f"single, {times}x, all"] = with_all
    return row


def page(content: dict[str, Any]) -> str:
    """Write the table in Markdown, each share beside that of the older checkout."""
    rows = content["rows"]
    columns = [name for name in rows[0] if name not in Cell.__dataclass_fields__]
    header = [*Cell.__dataclass_fields__, *columns]
    lines = [
        "# Documents that leak, by luck",
        "",
        str(__doc__).split("\n\n")[1].replace("\n", " "),
        "",
        f"Share of {content['audits']} audits within the limit, before -> now. "
        f"Measured on a 2-core CPU, {content['date']}.",
        "",
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
    ]
    for before, row in zip(content["before"], rows, strict=True):
        shares = [f"{before[name]:.2f} -> {row[name]:.2f}" for name in columns]
        fields = [str(row[name]) for name in Cell.__dataclass_fields__]
        lines.append(f"| {' | '.join([*fields, *shares])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate all cells, and write the page where an older checkout's are given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--before", type=Path, help="the JSON of an older checkout")
    parser.add_argument("--out", type=Path, default=HERE.with_suffix(".json"))
    options = parser.parse_args()
    content: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "audits": options.audits,
        "rows": [row_of(cell, options.audits) for cell in cells()],
        "before": [],
    }
    if options.before is not None:
        content["before"] = json.loads(options.before.read_text(encoding="utf-8"))["rows"]
        HERE.with_suffix(".md").write_text(page(content), encoding="utf-8")
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
