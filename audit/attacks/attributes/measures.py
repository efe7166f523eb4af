"""Measurements of attribute inference (methods/attribute-inference.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Self

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Floats, Ints
from audit.attacks import counting, measuring
from audit.attacks.attributes.hidden import Hidden
from audit.attacks.blind_baseline import Blind, heldout_condition, reference_control
from audit.attacks.interface import AUDITED, HELDOUT_CHOICES, LABELS, WORDS
from audit.attacks.text import SHARED
from audit.corpus.documents import CATEGORIES, Split
from audit.engine.interface import Json
from audit.measurements import (
    Check,
    Condition,
    Control,
    Count,
    Coverage,
    Estimate,
    Measurement,
    Unresolved,
)
from audit.stats.estimates import estimate
from audit.stats.intervals import median_interval
from audit.stats.paired import UnitScores
from audit.stats.rates import Columns, choose_columns, excess_mean, mean, net

ALLOWED = 0.15
"""The excess of one category over which no limit is passed: what `default.toml` allows on all
values."""
NEEDED = 72
"""Documents of a split with which most models that leak nothing pass
(`benchmarks/calibration/attribute_calibration.json`)."""
ALONE = "of these, values that occur in no other document"
ENOUGH = 20
"""Documents of a split from which on a limit is held: a large leak shows, and nothing passes by
their number."""
LEAST = 2
"""The same for a number that no limit names: one document has no spread."""


def jobs(
    table: AttributeTable, streams: measuring.Streams, population: counting.Population
) -> Iterator[measuring.Job]:
    """Yield a call for every measurement of the attack, but for the blind check.

    Args:
        table: values that were asked about.
        streams: streams of resamples.
        population: what the counts are of.
    """
    for group, method in product(table.groups, METHODS):
        name = named(f"{EXCESS}.{group}", method)
        yield partial(
            _excess, name, table.group(group), method, streams[name], by_lot=population.by_lot
        )
    for method in METHODS:
        unique = table.where(table.unique).tried(method)
        name = named(measuring.VALUES, method)
        yield partial(counting.count_values, name, unique, population, excess_mean, streams[name])
        yield partial(
            counting.count_documents, named(measuring.DOCUMENTS, method), unique, population
        )
    for split in AUDITED:
        rows = table.split(split)
        name = f"{CHOSEN}.{split}"
        yield partial(_share, name, rows, LOSS, streams[name])
        for method in METHODS:
            name_of_unique = named(f"{name}.unique", method)
            unique_rows = rows.group("unique")
            yield partial(_share, name_of_unique, unique_rows, method, streams[name_of_unique])
    yield partial(_median_candidates, table.split("member"))
    yield partial(_power, table.split("heldout"), streams[POWER])


def check_kinds(
    table: AttributeTable, streams: measuring.Streams, *, by_lot: bool
) -> tuple[Check, ...]:
    """Test whether the values of any one category are known, by any method.

    `by_lot`: a lot chose the members.
    """
    kinds = counting.KindsCheck(ALLOWED, by_lot)
    apart = table.kinds({*table.category.tolist()} & {*CATEGORIES})
    for (kind, (words, rows)), method in product(apart.items(), METHODS):
        kinds.test(
            words, rows.tried(method), excess_mean, streams[named(f"{EXCESS}.{kind}", method)]
        )
    return kinds.check()


def methods_of(table: AttributeTable, metrics: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the methods of each limited metric (`Result.methods`).

    Those of the input alone are included.
    """
    methods = METHODS if table.calibrated.any() else (LOSS,)
    names: dict[str, tuple[str, ...]] = {}
    for metric in metrics:
        variants = [metric]
        if metric == EXCESSES[1]:
            variants += [f"{EXCESS}.{group}" for group in table.groups[len(GROUPS) :]]
        names[metric] = tuple(named(*pair) for pair in product(variants, methods))
    return names


def reference_controls(
    table: AttributeTable,
    methods: Mapping[str, Sequence[str]],
    blind: Blind,
    streams: measuring.Streams,
) -> tuple[Control, ...]:
    """Bound what the documents explain by the public model's choices.

    Empty without one, or where nothing is in doubt.

    Args:
        table: table of the values that were asked about.
        methods: methods, see `methods_of`, of `EXCESSES`.
        blind: the blind check of the documents.
        streams: streams of resamples.
    """
    if not blind.in_doubt or not table.calibrated.any():
        return ()
    controls: list[Control] = []
    names = list(chain(*methods.values()))
    for metric in dict.fromkeys(f"{EXCESS}.{name.split('.')[1]}" for name in names):
        group = table.group(metric.removeprefix(f"{EXCESS}."))
        bound = _public_difference(metric, group, streams)
        if bound is not None:
            bounded = [name for name in names if name.startswith(metric)]
            controls += reference_control(bounded, bound, HELDOUT_CHOICES)
    return tuple(controls)


def _public_difference(
    metric: str, group: AttributeTable, streams: measuring.Streams
) -> Measurement | None:
    """Measure how much oftener the public model chooses member values than held-out ones.

    None where a split has too few documents.
    """
    sides = [group.split(split) for split in AUDITED]
    if min(rows.n_documents for rows in sides) < ENOUGH:
        return None
    columns: list[Columns] = [(rows.public, None, rows.cluster) for rows in sides]
    return _difference(metric, columns, streams[f"reference control of {metric}"])


def heldout_choices(table: AttributeTable, streams: measuring.Streams) -> Condition:
    """Say whether the target chooses held-out values as often as the public model.

    Without that the held-out values are no control.
    """
    rows = table.split("heldout")
    gaps: list[Estimate] = []
    if table.calibrated.any() and rows.n_documents >= ENOUGH:
        chosen = rows.chosen[LOSS]
        public = rows.public
        rng = streams["held-out choices"]
        interval = net(
            np.maximum(chosen - public, 0.0), np.maximum(public - chosen, 0.0), rows.cluster, rng
        )
        gaps.append(estimate("held-out choices", interval, "values", 0.0, "public model"))
    return heldout_condition(HELDOUT_CHOICES, gaps, "attribute inference by model and public model")


def coverage(
    everything: Iterable[Hidden], asked: Iterable[Hidden], withheld: Counter[str]
) -> tuple[Coverage, ...]:
    """Count the member values that this scan asked about, of all there are.

    Counted is in all and by category.

    Args:
        everything: values of member and held-out documents, asked about or not.
        asked: values that this scan asked about.
        withheld: number of member values that the owner keeps out of the audit, by category.
    """
    tried: Counter[str] = Counter()
    unique: Counter[str] = Counter()
    for hidden in asked:
        if hidden.document.split == "member":
            tried[hidden.category] += 1
            unique[hidden.category] += hidden.unique
    total = withheld + Counter(
        hidden.category for hidden in everything if hidden.document.split == "member"
    )
    names = [name for name in sorted(total) if name in CATEGORIES]
    return measuring.cover("values", names, tried, total, unique)


def counts(
    everything: Iterable[Hidden],
    lost: Counter[str],
    reasons: Mapping[str, str],
    table: AttributeTable,
) -> list[Count]:
    """Count what was asked, and what was left out.

    Args:
        everything: values of member and held-out documents, asked about or not.
        lost: number of values that could not be asked about after all, by reason.
        reasons: what each reason means.
        table: table of the values that were asked about.
    """
    rows: list[Count] = []
    with_input_only = bool(table.input_only.any())
    for split, label in LABELS.items():
        rows += _counts_of_split(split, label, table.split(split), with_input_only)
    left_out = lost + Counter(hidden.left_out for hidden in everything)
    for name, meaning in reasons.items():
        rows.append(Count(f"left out: {name}", left_out[name], meaning))
    return rows


def _counts_of_split(
    split: Split, label: str, rows: AttributeTable, with_input_only: bool
) -> list[Count]:
    """Count the values and documents of one split that were tried."""
    words = WORDS[split]
    counted = [
        Count(f"{label} values", len(rows), f"values of {words} documents that were tried"),
        Count(f"{label} documents", rows.n_documents, f"{words} documents that hold them"),
        Count(f"{label} values, unique", int(rows.unique.sum()), ALONE),
    ]
    if with_input_only:
        n = int(rows.input_only.sum())
        meaning = f"of these, {SHARED['kinds'][measuring.INPUT_ONLY]}"
        counted.append(Count(f"{label} values, input only", n, meaning))
    return counted


def _excess(
    name: str, table: AttributeTable, method: str, rng: Generator, *, by_lot: bool
) -> Measurement:
    """Estimate (with the model - without) on member values minus the same on held-out values.

    `by_lot`: whether a lot chose the members, see `rates.choose_columns`.
    """
    columns: list[Columns] = []
    for split in AUDITED:
        rows = table.split(split)
        if rows.n_documents < ENOUGH:
            return Unresolved(
                name, f"too few {WORDS[split]} documents with such values", rows.n_documents, NEEDED
            )
        columns.append((rows.chosen[method], rows.public, rows.cluster))
    return _difference(name, choose_columns(columns, by_lot=by_lot), rng)


def _difference(name: str, columns: Sequence[Columns], rng: Generator) -> Measurement:
    """Return an estimate of the excess of mean choices on members over held-out values; null: 0."""
    return estimate(name, excess_mean(columns, rng), "values", 0.0, "held-out")


def _share(name: str, rows: AttributeTable, method: str, rng: Generator) -> Measurement:
    """Measure the share of values that a method chooses; null: without the model."""
    if rows.n_documents < LEAST:
        return Unresolved(
            name, "fewer than two documents with such values", rows.n_documents, NEEDED
        )
    interval = mean(rows.chosen[method], rows.cluster, rng)
    return estimate(name, interval, "values", float(rows.public.mean()), "public model")


def _median_candidates(rows: AttributeTable) -> Measurement:
    """Estimate the median number of candidates that a value of training is chosen from.

    The true one is included.
    """
    if not len(rows):
        return Unresolved(LISTED, "no value of a training document was tried", 0, NEEDED)
    interval = median_interval(rows.n_candidates)
    return measuring.estimate_without_null(LISTED, interval, "values")


def _power(rows: AttributeTable, rng: Generator) -> Measurement:
    """Estimate the share of held-out values that are chosen with a planted memory only.

    They are chosen by some method with the memory, and by none without it.
    """
    if rows.n_documents < LEAST:
        return Unresolved(
            POWER, "fewer than two unseen documents with such values", rows.n_documents, NEEDED
        )
    planted = np.max([*rows.planted.values()], axis=0)
    chosen = np.max([*rows.chosen.values()], axis=0)
    interval = mean(np.maximum(planted - chosen, 0.0), rows.cluster, rng)
    return estimate(POWER, interval, "values", 0.0, "chance")


@dataclass(frozen=True)
class _ValueLosses:
    """Losses of the candidates of one value, the true one first, each of shape (n_candidates,).

    Attributes:
        target: losses of the target.
        public: losses of the public model; None without one.
        calibrated: see `calibrate`.
        planted: the target's losses with a planted memory of the true value.
        planted_calibrated: `planted`, calibrated.
    """

    target: Floats
    public: Floats | None
    calibrated: Floats
    planted: Floats
    planted_calibrated: Floats

    @classmethod
    def of(cls, outcome: Json, *, alike: bool) -> Self:
        """Read the losses of one value from its outcome; `alike` as in `build_table`."""
        target = _read_losses(outcome["target"])
        public = None if outcome["public"] is None else _read_losses(outcome["public"])
        planted = _planted(target)
        return cls(
            target,
            public,
            calibrate(target, public, alike=alike),
            planted,
            calibrate(planted, public, alike=alike),
        )

    @property
    def chance_without_model(self) -> float:
        """Return the chance that the true value is chosen by the public model, else at random."""
        if self.public is None:
            return 1 / self.target.size
        return chance_of_first(self.public)


LOSS = "loss"
CALIBRATED = "calibrated"
METHODS = (LOSS, CALIBRATED)
FEWEST_ALONE = 150
"""Documents of a split with input-only values from which on a limit holds for these
(benchmarks/calibration/input_only.md)."""
GROUPS = ("unique", "all")
"""Groups of values that training named."""
EXCESS = "excess"
CHOSEN = "chosen"
LISTED = "candidates"
POWER = "planted_choice"
EXCESSES = tuple(f"{EXCESS}.{group}" for group in GROUPS)
"""Metrics that the documents may explain; counts are beyond what control documents give away."""


def named(name: str, method: str) -> str:
    """Return the full name of a metric by a method: "NAME.METHOD", or "NAME" for the loss."""
    return name if method == LOSS else f"{name}.{method}"


@dataclass(frozen=True, eq=False)
class AttributeTable(measuring.ValueColumns):
    """One row a value that was asked about; every column has shape (n_values,).

    Attributes:
        n_candidates: number of candidates, the true one among them.
        chosen: chance by method that the true value is chosen with the model: 1, 0, or a share
            among equals.
        public: the same without the model: by the loss of the public model, else 1 / n_candidates.
        rank: place by method of the true value, 1 the best, the mean of places among equals.
        calibrated: whether a public model gave losses.
        planted: chance by method that the true value is chosen with the model, its loss lowered by
            `memory_of`.
    """

    n_candidates: Ints
    chosen: dict[str, Floats]
    public: Floats
    rank: dict[str, Floats]
    calibrated: Bools
    planted: dict[str, Floats]

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the names of the groups of values that are measured by themselves.

        Values that training never named need enough documents.
        """
        return (*GROUPS, measuring.INPUT_ONLY) if self.holds_input_only(FEWEST_ALONE) else GROUPS

    def tried(self, method: str) -> counting.TriedValues:
        """Return the values with the chance to choose each by a method, and without the model."""
        chosen = self.chosen[method]
        return counting.TriedValues(
            self.member, self.cluster, self.value, chosen, self.public, self.weight
        )


def build_table(
    hidden: Sequence[Hidden], outcomes: Sequence[Json], *, alike: bool
) -> AttributeTable:
    """Build the table of values and their outcomes, in the same order.

    Args:
        hidden: values that were asked about.
        outcomes: outcomes, see `AttributeInference.attempt`.
        alike: whether the public model is asked what the target is asked.
    """
    rows = [_ValueLosses.of(outcome, alike=alike) for outcome in outcomes]
    losses = {LOSS: [row.target for row in rows], CALIBRATED: [row.calibrated for row in rows]}
    planted = {
        LOSS: [row.planted for row in rows],
        CALIBRATED: [row.planted_calibrated for row in rows],
    }
    values = (
        measuring.ValueRow(
            value.document,
            "\0".join(sorted(value.values)),
            value.unique,
            value.input_only,
            value.category,
        )
        for value in hidden
    )
    return AttributeTable(
        **measuring.columns_of(values),
        n_candidates=np.array([row.target.size for row in rows], np.int64),
        chosen=_apply(chance_of_first, losses),
        public=np.array([row.chance_without_model for row in rows], float),
        rank=_apply(rank_of_first, losses),
        calibrated=np.array([row.public is not None for row in rows], bool),
        planted=_apply(chance_of_first, planted),
    )


def weigh(
    table: AttributeTable,
    everything: Sequence[Hidden],
    tried: Sequence[Hidden],
    asked: Sequence[Hidden],
    *,
    by_lot: bool,
) -> tuple[AttributeTable, counting.Population]:
    """Weigh the rows of a table by how likely each was to be tried.

    Args:
        table: table of `asked`, in the same order.
        everything: values that could be tried, tried or not.
        tried: values that were tried.
        asked: values of these that could be asked about.
        by_lot: whether a lot chose the members.

    Returns:
        The table, and what its counts are of.
    """
    rows = [_row_of(value) for value in asked]
    measured = rows if len(asked) < len(tried) else None
    population = counting.Population.of(
        [_row_of(value) for value in everything],
        [_row_of(value) for value in tried],
        by_lot=by_lot,
        measured=measured,
    )
    return replace(table, weight=population.weights(rows)), population


def _apply(
    statistic: Callable[[Floats], float], losses: Mapping[str, Sequence[Floats]]
) -> dict[str, Floats]:
    """Compute a statistic of each value's losses, by method: shape (n_values,)."""
    columns = {}
    for method, rows in losses.items():
        columns[method] = np.array([statistic(row) for row in rows], float)
    return columns


def _row_of(value: Hidden) -> counting.Row:
    """Convert a hidden value to a row that counts of distinct values rest on."""
    return counting.Row(
        value.document.id, value.trial.stratum, "\0".join(sorted(value.values)), value.unique
    )


def paired_by_value(
    hidden: Sequence[Hidden], table: AttributeTable, *, by_lot: bool
) -> dict[str, UnitScores]:
    """Return for each metric, by name, what each tried value adds to its excess."""
    trials = [value.trial for value in hidden]
    scores = {}
    for group, method in product(table.groups, METHODS):
        rows = table.rows(group)
        gains = measuring.gains_of(table.chosen[method], table.public, table, rows, by_lot=by_lot)
        scores[named(f"{EXCESS}.{group}", method)] = measuring.scores_of(
            trials, rows, table.member, gains
        )
    return scores


def _planted(losses: Floats) -> Floats:
    """Return the losses with that of the first candidate lowered by a planted memory."""
    return np.concatenate([losses[:1] - measuring.memory_of(losses), losses[1:]])


def calibrate(target: Floats, public: Floats | None, *, alike: bool) -> Floats:
    """Weigh the target's losses by the public model's, shape (n_candidates,).

    They are lowest where the target alone likes a value. Where both were asked the same, the
    difference of their losses, the logarithm of the likelihood ratio that membership inference
    rests on (Carlini et al. 2021). A tagger's loss is of labels, that of a masked language model of
    words: these are weighed as CDMI weighs them (Dentan et al. 2024, steps 4 and 5, with the
    settings that docaudit ships). Without a public model, the target's loss.
    """
    if public is None:
        return target
    if alike:
        with np.errstate(invalid="ignore"):
            difference = target - public
        return np.where(np.isfinite(difference), difference, np.inf)
    log_target, _ = measuring.log_likelihood_of_losses(target, measuring.TEMPERATURE)
    finite = np.where(np.isfinite(public), public, np.finfo(float).max / 1e9)
    log_public = measuring.log_softmax(-finite / measuring.TEMPERATURE)
    return -measuring.combine(log_public, log_target, measuring.TARGET_WEIGHT, measuring.MEAN)


def chance_of_first(losses: Floats) -> float:
    """Compute the chance that the first candidate is chosen as the one of lowest loss.

    Ties are broken at random.
    """
    best = losses == losses.min()
    return float(best[0]) / np.count_nonzero(best)


def rank_of_first(losses: Floats) -> float:
    """Compute the rank of the first candidate's loss, 1 the lowest, the mean rank among equals."""
    return np.count_nonzero(losses < losses[0]) + (np.count_nonzero(losses == losses[0]) + 1) / 2


def _read_losses(losses: Sequence[float | None]) -> Floats:
    """Read losses from the journal; those that are not finite become infinite."""
    return np.array([np.inf if loss is None else loss for loss in losses], float)
