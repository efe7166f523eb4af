"""Limits on counts: how often leak-free models pass them, and models that leak once, twice and three times as much.

    python -m benchmarks.calibration.count_limits [--audits 10000] [--judged 100]

No model is asked. Tables of outcomes are drawn, the attacks' own functions count what is given away
(`attacks.counting`, `attacks.memorisation.scores`, `stats.ranking`), and the policy's own limits
apply (`policy.Limit.applied`). A count passes if its estimate is within the limit by every method.
It is violated if a lower bound is confirmed over the limit at a one-sided level of 0.001, about
what Holm's rule asks of the first of 30 tests. Bounds take most of the time. So only some audits
are judged in full, for violations. Passes are counted in more audits, whose estimates follow from
sums by the product's rules; both have to agree.

Each document holds four values. Luck is the share of values that the target gets without memory,
and the public model apart from it. `exact` and `near` are two ways to take a value for found; near
ones have twice the luck. Of attribute inference, which picks from a list, luck is one in four and
one way of picking is simulated. Leaks come as whole documents, or as single values of as many
documents.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.counting import Population, TriedValues, count_documents, count_values
from audit.attacks.measuring import DOCUMENTS, VALUES
from audit.measurements import Estimate, Measurement
from audit.policy import Limit, load
from audit.stats import rates
from audit.stats.estimates import estimate
from audit.stats.intervals import TAILS
from audit.stats.ranking import count_outranking
from benchmarks.calibration.simulated_audits import fewer_resamples

HERE = Path(__file__).parent
SIZES = (150, 300, 1000)
LUCK = (0.0, 0.01, 0.05)
LUCK_OF_LISTS = 0.25
"""The share of values that are picked from a list of candidates without memory."""
ATTRIBUTES = "attribute_inference"
COVERAGE = (1.0, 0.5, 0.25)
MULTIPLES = (0, 1, 2, 3)
SLOWER = 10
"""By which fewer audits are drawn for counts of documents."""
ROWS = 4
CONFIRMED = 0.001
RESAMPLES = 100
SHAPES = ("whole documents", "single values")


class Cell(NamedTuple):
    """One kind of simulated audit.

    Attributes:
        policy: whose limits apply.
        limit: attack and metric of the limit.
        documents: of each side.
        luck: share of values found without memory.
        coverage: share of the values of each document that is tried.
        shape: how the leak is spread.
        multiple: of its limit, how much leaks.
    """

    policy: str
    limit: tuple[str, str]
    documents: int
    luck: float
    coverage: float
    shape: str
    multiple: int


def cells() -> Iterator[Cell]:
    """Yield every cell of the tables."""
    counts = [
        ("reconstruction", VALUES),
        ("reconstruction", DOCUMENTS),
        ("memorisation", "identified"),
    ]
    for count, documents, luck, multiple in product(counts, SIZES, LUCK, MULTIPLES):
        yield Cell("default", count, documents, luck, 1.0, SHAPES[0], multiple)
    for documents, luck in product(SIZES, LUCK):
        yield Cell("default", ("reconstruction", DOCUMENTS), documents, luck, 1.0, SHAPES[1], 2)
    for documents, coverage, multiple in product(SIZES, COVERAGE[1:], (0, 2)):
        yield Cell(
            "default", ("reconstruction", VALUES), documents, 0.01, coverage, SHAPES[0], multiple
        )
    for documents, multiple in product(SIZES, MULTIPLES):
        yield Cell("default", ("membership", DOCUMENTS), documents, 0.0, 1.0, SHAPES[0], multiple)
        yield Cell("default", ("membership", DOCUMENTS), documents, 0.0, 0.25, SHAPES[0], multiple)
    for count, documents, multiple in product(counts, SIZES, (0, 2)):
        yield Cell("strict", count, documents, 0.01, 1.0, SHAPES[0], multiple)
    picks = [(ATTRIBUTES, VALUES), (ATTRIBUTES, DOCUMENTS)]
    for count, documents, multiple in product(picks, SIZES, MULTIPLES):
        yield Cell("default", count, documents, LUCK_OF_LISTS, 1.0, SHAPES[0], multiple)
    for documents in SIZES:
        yield Cell("default", (ATTRIBUTES, DOCUMENTS), documents, LUCK_OF_LISTS, 1.0, SHAPES[1], 2)
    for count, documents, multiple in product(picks, SIZES, (0, 2)):
        yield Cell("strict", count, documents, LUCK_OF_LISTS, 1.0, SHAPES[0], multiple)


def ways_of(cell: Cell) -> tuple[str, ...]:
    """Return the ways to take a value for found that are simulated."""
    if cell.limit[0] == ATTRIBUTES:
        return ("exact",)
    return ("exact", "near")


def limit_of(policy: str, count: tuple[str, str]) -> Limit:
    """Return the limit of a shipped policy on a count."""
    return next(limit for limit in load(policy).limits if (limit.attack, limit.metric) == count)


def most_of(limit: Limit, total: int) -> float:
    """Return the maximum that applies where a count is of so many."""
    any_count = Estimate("count", 0.0, 0.0, 0.0, total, "units", total, "none", total=total)
    largest = limit.applied(any_count).max
    assert largest is not None
    return largest


def counts_of(cell: Cell, rng: np.random.Generator) -> list[Measurement]:
    """Draw one audit and count what it leaks, by every method, as the product does."""
    if cell.limit[0] == "membership":
        return [_membership(cell, rng)]
    member, heldout = (_simulated_hits(cell, rng, leaks=leaks) for leaks in (True, False))
    counts: list[Measurement] = []
    excess = rates.excess_mean if cell.limit[0] == ATTRIBUTES else rates.excess_rate
    for way in ways_of(cell):
        if cell.limit[0] == "memorisation":
            counts.append(_identified(cell, *member[way]))
            continue
        tried, population = _tried(cell, member[way], heldout[way])
        if cell.limit[1] == VALUES:
            counts.append(count_values(VALUES, tried, population, excess, rng))
        elif way == "exact":
            counts.append(count_documents(DOCUMENTS, tried, population))
    return counts


class Sums(NamedTuple):
    """Sums over the values of a side that were tried, of each of many audits: shape (n_audits,) each.

    Attributes:
        n: values.
        found: those that the target finds.
        gained, lost: those that it alone finds, and that the public model alone finds.
    """

    n: int
    found: Floats
    gained: Floats
    lost: Floats

    @property
    def plain(self) -> tuple[Floats, Floats]:
        """The mean of what the target finds, and the squared distances from it."""
        return self.found / self.n, self.found - self.found**2 / self.n

    @property
    def compared(self) -> tuple[Floats, Floats]:
        """The same of what it finds less what the public model finds."""
        difference = self.gained - self.lost
        return difference / self.n, self.gained + self.lost - difference**2 / self.n


def draw_sums(cell: Cell, audits: int, rng: np.random.Generator, *, leaks: bool) -> dict[str, Sums]:
    """Draw the sums of `counts_of` without the values: by way, of a side."""
    n = cell.documents * max(1, round(cell.coverage * ROWS))
    n_leaked = _n_leaked(cell) if leaks else 0
    drawn = (
        rng.hypergeometric(n_leaked, cell.documents * ROWS - n_leaked, n, audits)
        if n_leaked
        else np.zeros(audits, int)
    )
    shares = np.array([cell.luck, (1 - cell.luck) * cell.luck, (1 - cell.luck) ** 2])
    # Rows: what the target finds (exactly, nearly, not); columns: what the public model finds.
    lucky = np.stack(
        [rng.multinomial(n - int(k), np.outer(shares, shares).ravel()) for k in drawn]
    ).reshape(-1, 3, 3)
    leaked = np.stack([rng.multinomial(int(k), shares) for k in drawn])
    lucky[:, 0] += leaked
    sums = {}
    for last, way in enumerate(ways_of(cell), start=1):
        found = lucky[:, :last].sum(axis=(1, 2))
        both = lucky[:, :last, :last].sum(axis=(1, 2))
        public = lucky[:, :, :last].sum(axis=(1, 2))
        sums[way] = Sums(n, found, found - both, public - both)
    return sums


def estimates_of(cell: Cell, member: Sums, heldout: Sums) -> Floats:
    """Compute the estimates that the product computes from these sums: shape (n_audits,)."""
    if cell.limit[0] == "memorisation":
        return member.gained - member.lost
    member_rate, member_variance = member.plain
    heldout_rate, heldout_variance = heldout.plain
    member_net, member_net_variance = member.compared
    heldout_net, heldout_net_variance = heldout.compared
    needs_baseline = member_net_variance + heldout_net_variance < member_variance + heldout_variance
    plain_excess = member_rate - heldout_rate
    excess: Floats = np.where(needs_baseline, member_net - heldout_net, plain_excess)
    return excess * cell.documents * ROWS


def pass_rate(cell: Cell, most: float, audits: int) -> float:
    """Compute the share of audits in which all estimates are within the limit."""
    rng = np.random.default_rng(
        [cell.documents, round(1000 * cell.luck), cell.multiple, round(100 * cell.coverage)]
    )
    if cell.limit[0] == "membership" or cell.limit[1] == DOCUMENTS:
        with (
            patch("audit.stats.leaking.TAILS", TAILS[:1]),
            patch("audit.stats.ranking.TAILS", TAILS[:1]),
        ):
            return sum(within(counts_of(cell, rng), most) for _ in range(audits)) / audits
    member, heldout = (draw_sums(cell, audits, rng, leaks=leaks) for leaks in (True, False))
    inside = np.ones(audits, bool)
    for way, sums in member.items():
        inside &= estimates_of(cell, sums, heldout[way]) <= most
    return float(inside.mean())


def within(counts: list[Measurement], most: float) -> bool:
    """Tell whether the estimates of all methods are within a limit."""
    return all(item.value <= most for item in counts if isinstance(item, Estimate))


Table = dict[str, tuple[Bools, Bools]]
"""By way, whether target and public model find each value: (n_documents, ROWS) each."""


def _simulated_hits(cell: Cell, rng: np.random.Generator, *, leaks: bool) -> Table:
    """Return hits of attack and baseline by method, (documents, rows), `leaks` planted or not."""
    shape = (cell.documents, ROWS)
    leaked = np.zeros(shape, bool)
    if leaks:
        n = _n_leaked(cell)
        if cell.shape == SHAPES[0]:
            leaked.ravel()[: n * ROWS if cell.limit[1] == DOCUMENTS else n] = True
        else:
            leaked[np.arange(n) % cell.documents, np.arange(n) // cell.documents] = True
    exact, other = (rng.random(shape) < cell.luck for _ in range(2))
    nearly, other_nearly = (rng.random(shape) < cell.luck for _ in range(2))
    return {
        "exact": (exact | leaked, other),
        "near": (exact | nearly | leaked, other | other_nearly),
    }


def _n_leaked(cell: Cell) -> int:
    """Return how many leaks a cell plants: its multiple of what the limit permits."""
    return round(cell.multiple * most_of(limit_of(cell.policy, cell.limit), _n_counted(cell)))


def _n_counted(cell: Cell) -> int:
    """Return the number of units that the cell's limit counts: documents, or all rows."""
    if cell.limit[1] == DOCUMENTS:
        return cell.documents
    return cell.documents * ROWS


def _tried(
    cell: Cell, member: tuple[Bools, Bools], heldout: tuple[Bools, Bools]
) -> tuple[TriedValues, Population]:
    """Return the values that the coverage tries, and what the counts are of.

    All documents hold as many values.
    """
    n = cell.documents
    per_document = max(1, round(cell.coverage * ROWS))
    attack, baseline = (
        np.concatenate([one, other])[:, :per_document]
        for one, other in zip(member, heldout, strict=True)
    )
    cluster = np.repeat(np.arange(2 * n), per_document)
    tried = TriedValues(
        cluster < n,
        cluster,
        np.arange(cluster.size),
        attack.ravel().astype(float),
        baseline.ravel().astype(float),
        np.ones(cluster.size),
    )
    population = Population(
        n * ROWS, n, per_document == ROWS, by_lot=True, n_rows={}, n_same={}, chances={}
    )
    return tried, population


def _identified(cell: Cell, target: Bools, baseline: Bools) -> Estimate:
    """Count the values of members that the target alone gives, as the memorisation attack does."""
    gained = (target & ~baseline).ravel()
    lost = (~target & baseline).ravel()
    cluster = np.repeat(np.arange(cell.documents), ROWS)
    net = rates.net(gained.astype(float), lost.astype(float), cluster, np.random.default_rng(0))
    return estimate("identified", rates.scaled(net, net.n), "values", 0.0, "chance")


def _membership(cell: Cell, rng: np.random.Generator) -> Estimate:
    """Count the documents that rank above all but one unseen one.

    Those that leak rank above all.
    """
    limit = limit_of(cell.policy, cell.limit)
    scores = rng.normal(size=cell.documents)
    scores[: round(cell.multiple * most_of(limit, cell.documents))] += 100
    drawn = rng.permutation(cell.documents)[: round(cell.coverage * cell.documents)]
    others = rng.normal(size=drawn.size)
    counted = count_outranking(scores[drawn], others, cell.documents)
    return estimate(DOCUMENTS, counted, "documents", 0.0, "chance")


def is_violated(cell: Cell, counts: list[Measurement], most: float) -> bool:
    """Tell whether a lower bound is confirmed over the limit by a method."""
    return any(
        isinstance(item, Estimate) and item.p_above(most) <= CONFIRMED / len(counts)
        for item in counts
    )


def run_cell(cell: Cell, audits: int, judged: int) -> dict[str, object]:
    """Simulate a cell: passes in `audits`, violations in `judged` ones, which are counted with all bounds."""
    most = most_of(limit_of(cell.policy, cell.limit), _n_counted(cell))
    passed = 0
    violated = 0
    for seed in range(judged):
        rng = np.random.default_rng([seed, cell.documents, round(1000 * cell.luck), cell.multiple])
        with fewer_resamples(RESAMPLES):
            counts = counts_of(cell, rng)
        passed += within(counts, most)
        violated += is_violated(cell, counts, most)
    rate = pass_rate(cell, most, audits)
    spread = np.sqrt(max(rate * (1 - rate), 1 / audits) / judged)
    assert abs(passed / judged - rate) < 5 * spread + 1 / judged, (
        "the estimates are not the product's"
    )
    shares = {"passed": rate, "violated": violated / judged}
    return {**cell._asdict(), "limit": most, "audits": audits, "judged": judged, **shares}


HEADING = """# Limits on counts, simulated

No model is asked. Outcomes are drawn, the product's own functions count what leaks, and its shipped limits apply. A
count passes if its estimate is within the limit by every method. It is violated if a lower bound is confirmed over it.
Documents hold four values each. Luck is the share of values that the model gets without memory.

{findings}

Written by `count_limits.py`.
"""


def findings_of(rows: list[dict[str, object]]) -> str:
    """Say in sentences what the cells show, from their numbers."""

    def share(
        name: str, *, multiple: int, luck: float, policy: str = "default"
    ) -> tuple[float, float]:
        """Return the least and largest value of a column among full rows of these settings."""
        chosen = [
            float(str(row[name]))
            for row in rows
            if (row["multiple"], row["luck"], row["policy"], row["coverage"])
            == (multiple, luck, policy, 1.0)
        ]
        return min(chosen), max(chosen)

    lines = []
    for luck in (*LUCK, LUCK_OF_LISTS):
        least, most = share("passed", multiple=0, luck=luck)
        lines.append(
            f"- With luck {luck:g}, {100 * least:.1f} to {100 * most:.1f} % of leak-free models pass."
        )
        least, most = share("passed", multiple=2, luck=luck)
        lines.append(
            f"- Of models that leak twice the limit, {100 * least:.1f} to {100 * most:.1f} % pass there."
        )
    return "\n".join(lines)


def write(rows: list[dict[str, object]]) -> None:
    """Write all cells as JSON, and the tables."""
    (HERE / "count_limits.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    text = HEADING.format(findings=findings_of(rows))
    columns = ["policy", "count", "documents", "limit", "luck", "coverage", "shape", "multiple"]
    columns += ["audits", "passed", "violated"]
    text += f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    for row in rows:
        count = row["count"]
        assert isinstance(count, tuple)
        shown = {**row, "count": " ".join(count), "multiple": f"{row['multiple']}x"}
        shown |= {name: f"{float(str(row[name])):.3f}" for name in ("passed", "violated")}
        text += f"| {' | '.join(str(shown[name]) for name in columns)} |\n"
    (HERE / "count_limits.md").write_text(text, encoding="utf-8")


def main() -> None:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=10_000)
    parser.add_argument("--judged", type=int, default=100, help="of these, with all bounds")
    options = parser.parse_args()
    rows = []
    for cell in cells():
        # Documents are counted one audit after the other.
        audits = options.audits // SLOWER if cell.limit[1] == DOCUMENTS else options.audits
        rows.append(run_cell(cell, audits, options.judged))
        print(json.dumps(rows[-1]), flush=True)
    write(rows)


if __name__ == "__main__":
    main()
