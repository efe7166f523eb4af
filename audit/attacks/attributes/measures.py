"""Measurements of attribute inference (methods.md#attribute-inference)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy.typing as npt
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.attributes.description import CHOSEN, EXCESS, GROUPS, LOSS, METHODS, POWER, PUBLIC, named
from audit.attacks.attributes.hidden import Hidden
from audit.attacks.attributes.table import AttributeTable
from audit.attacks.measuring import Job, estimate_without_null
from audit.attacks.splits import AUDITED, LABELS
from audit.corpus.documents import CATEGORIES
from audit.measurements import ALPHAS, Count, Coverage, Measurement, Unresolved
from audit.stats.intervals import Interval
from audit.stats.means import mean
from audit.stats.medians import median_interval
from audit.stats.rates import excess_mean
from audit.targets.utility import estimate

NEEDED = 72
"""Documents of a split with which most models that leak nothing pass (`benchmarks/attribute_calibration.json`)."""
ENOUGH = 20
"""Documents of a split from which on a limit is held (ours): a large leak shows, and nothing passes by their number."""
LEAST = 2
"""The same for a number that no limit names: one document has no spread."""


def jobs(table: AttributeTable, rng: Generator) -> Iterator[Job]:
    """Every measurement but the blind check, as a call."""
    categories = sorted({*table.category.tolist()} & {*CATEGORIES})
    for group, method in product((*GROUPS, *categories), METHODS):
        if group in ("unique", "all") or len(table.group(group)):
            yield partial(_excess, f"{EXCESS}.{group}", table.group(group), method, rng)
    for split, method in product(AUDITED, METHODS):
        rows = table.split(split)
        yield partial(_share, named(f"{CHOSEN}.{split}", method), rows, rows.chosen[method], rows.public, rng)
    for split in AUDITED:
        rows = table.split(split)
        yield partial(_share, f"{PUBLIC}.{split}", rows, rows.public, None, rng)
        for group in (*GROUPS[:2], *categories):
            own = rows.group(group)
            if len(own):
                yield partial(_share, f"{CHOSEN}.{split}.{group}", own, own.chosen[LOSS], own.public, rng)
                yield partial(_share, f"{PUBLIC}.{split}.{group}", own, own.public, None, rng)
    yield partial(_power, table.split("member"))


def gated_methods(table: AttributeTable) -> dict[str, tuple[str, ...]]:
    """See `Findings.methods`: without a public model there is no calibrated loss."""
    methods = METHODS if table.calibrated.any() else (LOSS,)
    return {f"{EXCESS}.{group}": tuple(named(f"{EXCESS}.{group}", one) for one in methods) for group in GROUPS}


def coverage(everything: Sequence[Hidden]) -> tuple[Coverage, ...]:
    """Of all values of documents trained on, those that there are enough plausible others for, in all and by kind."""
    members = [one for one in everything if one.document.split == "member"]
    total = Counter(one.category for one in members if one.category in CATEGORIES)
    tried = Counter(one.category for one in members if one.left_out is None)
    return (
        Coverage("all", tried.total(), len(members), "values"),
        *(Coverage(name, tried[name], total[name], "values") for name in sorted(total)),
    )


def counts(
    everything: Sequence[Hidden], lost: Counter[str], reasons: Mapping[str, str], table: AttributeTable
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
    gone = Counter(one.left_out for one in everything) + lost
    return [*found, *(Count(f"left out: {name}", gone[name], meaning) for name, meaning in reasons.items())]


def _excess(name: str, table: AttributeTable, method: str, rng: Generator) -> Measurement:
    """(with the model - without) on member values minus the same on held-out values."""
    bare, name = name, named(name, method)
    columns: list[npt.NDArray[Any]] = []
    for split in AUDITED:
        rows = table.split(split)
        if rows.n_documents < (ENOUGH if bare.removeprefix(f"{EXCESS}.") in GROUPS else LEAST):
            return Unresolved(name, f"too few {LABELS[split]} documents with such values", rows.n_documents, NEEDED)
        columns += [rows.chosen[method], rows.public, rows.cluster]
    of: Callable[..., Interval] = excess_mean
    return estimate(name, of(*columns, rng, alphas=ALPHAS), "values", 0.0, "held-out")


def _share(name: str, rows: AttributeTable, values: Floats, public: Floats | None, rng: Generator) -> Measurement:
    """Share of values that are chosen; null: without the model, and without that by lot."""
    if rows.n_documents < LEAST:
        return Unresolved(name, "fewer than two documents with such values", rows.n_documents, NEEDED)
    null = (
        (float((1 / rows.n_candidates).mean()), "chance") if public is None else (float(public.mean()), "public model")
    )
    return estimate(name, mean(values, rows.cluster, rng, alphas=ALPHAS), "values", *null)


def _power(rows: AttributeTable) -> Measurement:
    """The median number of values that the attacker chooses among, the true one included."""
    if not len(rows):
        return Unresolved(POWER, "no value of a member document was asked about", 0, NEEDED)
    found = median_interval(rows.n_candidates, alphas=ALPHAS, unit="value")
    return estimate_without_null(POWER, found, "values")
