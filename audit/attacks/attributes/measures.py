"""Measurements of attribute inference (methods.md#attribute-inference)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple, Self

import numpy as np
from numpy.random import Generator

from audit.attacks.attributes.hidden import Hidden
from audit.attacks.attributes.table import CHOSEN, EXCESS, GROUPS, LISTED, LOSS, METHODS, POWER, AttributeTable, named
from audit.attacks.blind_baseline import Blind, reference_control
from audit.attacks.given_away import KindsCheck, count_documents, count_values
from audit.attacks.interface import AUDITED, LABELS
from audit.attacks.measuring import DOCUMENTS, VALUES, Job, Streams, estimate_without_null
from audit.corpus.documents import CATEGORIES, Split
from audit.measurements import Check, Control, Count, Coverage, Measurement, Unresolved
from audit.stats.intervals import median_interval
from audit.stats.rates import Columns, excess_mean, mean
from audit.targets.utility import estimate

ALLOWED = 0.15
"""The excess of one category over which no limit is passed (ours): what `default.toml` allows on all values."""
NEEDED = 72
"""Documents of a split with which most models that leak nothing pass (`benchmarks/attribute_calibration.json`)."""
ENOUGH = 20
"""Documents of a split from which on a limit is held (ours): a large leak shows, and nothing passes by their number."""
LEAST = 2
"""The same for a number that no limit names: one document has no spread."""


def jobs(table: AttributeTable, streams: Streams) -> Iterator[Job]:
    """Yield every measurement but the blind check, as a call."""
    for group, method in product(GROUPS, METHODS):
        name = named(f"{EXCESS}.{group}", method)
        yield partial(_excess, name, table.group(group), method, streams[name])
    for method in METHODS:
        unique, name = table.group("unique").tried(method), named(VALUES, method)
        yield partial(count_values, name, unique, excess_mean, streams[name])
        yield partial(count_documents, named(DOCUMENTS, method), unique)
    for split in AUDITED:
        yield partial(_share, f"{CHOSEN}.{split}", table.split(split), streams[f"{CHOSEN}.{split}"])
    yield partial(_listed, table.split("member"))
    yield partial(_power, table.split("heldout"), streams[POWER])


def check_kinds(table: AttributeTable, streams: Streams) -> tuple[Check, ...]:
    """Test whether the values of any one category are known, by any method."""
    kinds = KindsCheck(ALLOWED)
    for category, method in product(sorted({*table.category.tolist()} & {*CATEGORIES}), METHODS):
        name, words = named(f"{EXCESS}.{category}", method), f"values of category {category}"
        tried = table.where(table.category == category).tried(method)
        kinds.test(words, tried, excess_mean, streams[name])
    return kinds.check()


def gated_methods(table: AttributeTable) -> dict[str, tuple[str, ...]]:
    """See `Result.methods`: without a public model there is no calibrated loss."""
    methods = METHODS if table.calibrated.any() else (LOSS,)
    return {f"{EXCESS}.{group}": tuple(named(f"{EXCESS}.{group}", one) for one in methods) for group in GROUPS}


def counted_methods(table: AttributeTable) -> dict[str, tuple[str, ...]]:
    """Return the same for counts, which no control bounds."""
    methods = METHODS if table.calibrated.any() else (LOSS,)
    return {name: tuple(named(name, one) for one in methods) for name in (VALUES, DOCUMENTS)}


def reference_controls(
    table: AttributeTable, methods: Mapping[str, Sequence[str]], blind: Blind, streams: Streams
) -> tuple[Control, ...]:
    """Bound what the documents explain by the public model's choices; empty without one, or where nothing is in doubt.

    Args:
        table: of the values that were asked about.
        methods: see `gated_methods`.
        blind: the blind check of the documents.
        streams: of resamples.
    """
    if not blind.in_doubt or not table.calibrated.any():
        return ()
    found: list[Control] = []
    for metric, names in methods.items():
        sides = [table.group(metric.removeprefix(f"{EXCESS}.")).split(split) for split in AUDITED]
        if min(rows.n_documents for rows in sides) >= ENOUGH:
            columns: list[Columns] = [(rows.public, 0 * rows.public, rows.cluster) for rows in sides]
            found += reference_control(names, _difference(metric, columns, streams[f"reference control of {metric}"]))
    return tuple(found)


class Kind(NamedTuple):
    """What is counted of a hidden value; see `Hidden`."""

    split: Split
    category: str
    left_out: str | None

    @classmethod
    def of(cls, hidden: Hidden) -> Self:
        """The kind of a value."""
        return cls(hidden.document.split, hidden.category, hidden.left_out)


def coverage(everything: Mapping[Kind, int], asked: Iterable[Hidden], withheld: Counter[str]) -> tuple[Coverage, ...]:
    """Count the member values that this scan asked about, of all there are, in all and by category.

    Args:
        everything: number of values by kind, asked about or not.
        asked: those that this scan asked about.
        withheld: number of member values that the owner keeps out of the audit, by category.
    """
    own = [hidden for hidden in asked if hidden.document.split == "member"]
    tried, unique = Counter(one.category for one in own), Counter(one.category for one in own if one.unique)
    total = Counter(withheld)
    for kind, n in everything.items():
        if kind.split == "member":
            total[kind.category] += n
    return (
        Coverage("all", tried.total(), total.total(), "values", unique.total()),
        *(
            Coverage(name, tried[name], total[name], "values", unique[name])
            for name in sorted(total)
            if name in CATEGORIES
        ),
    )


def counts(
    everything: Mapping[Kind, int], lost: Counter[str], reasons: Mapping[str, str], table: AttributeTable
) -> list[Count]:
    """Count what was asked, and what was left out."""
    found = []
    for split, label in LABELS.items():
        rows = table.split(split)
        found += [
            Count(f"{label} values", len(rows), f"values of {label} documents that were asked about"),
            Count(f"{label} documents", rows.n_documents, f"{label} documents they come from"),
            Count(
                f"{label} values, unique", int(rows.unique.sum()), "of these, values that stand in no other document"
            ),
        ]
    gone = Counter[str | None](lost)
    for kind, n in everything.items():
        gone[kind.left_out] += n
    return [*found, *(Count(f"left out: {name}", gone[name], meaning) for name, meaning in reasons.items())]


def _excess(name: str, table: AttributeTable, method: str, rng: Generator) -> Measurement:
    """(with the model - without) on member values minus the same on held-out values."""
    columns: list[Columns] = []
    for split in AUDITED:
        rows = table.split(split)
        if rows.n_documents < ENOUGH:
            return Unresolved(name, f"too few {LABELS[split]} documents with such values", rows.n_documents, NEEDED)
        columns.append((rows.chosen[method], rows.public, rows.cluster))
    return _difference(name, columns, rng)


def _difference(name: str, columns: Sequence[Columns], rng: Generator) -> Measurement:
    return estimate(name, excess_mean(columns, rng), "values", 0.0, "held-out")


def _share(name: str, rows: AttributeTable, rng: Generator) -> Measurement:
    """Measure the share of values that are chosen by the loss; null: without the model."""
    if rows.n_documents < LEAST:
        return Unresolved(name, "fewer than two documents with such values", rows.n_documents, NEEDED)
    found = mean(rows.chosen[LOSS], rows.cluster, rng)
    return estimate(name, found, "values", float(rows.public.mean()), "public model")


def _listed(rows: AttributeTable) -> Measurement:
    """The median number of values that the attacker chooses among, the true one included."""
    if not len(rows):
        return Unresolved(LISTED, "no value of a member document was asked about", 0, NEEDED)
    found = median_interval(rows.n_candidates)
    return estimate_without_null(LISTED, found, "values")


def _power(rows: AttributeTable, rng: Generator) -> Measurement:
    """Share of held-out values that a planted memory lets the attacker choose: by any method, and by none without."""
    if rows.n_documents < LEAST:
        return Unresolved(POWER, "fewer than two held-out documents with such values", rows.n_documents, NEEDED)
    planted, chosen = (np.max([*found.values()], axis=0) for found in (rows.planted, rows.chosen))
    found = mean(np.maximum(planted - chosen, 0.0), rows.cluster, rng)
    return estimate(POWER, found, "values", 0.0, "chance")
