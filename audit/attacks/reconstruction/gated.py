"""Measurements that limits are held against, method by method, and what a verdict rests on (methods.md#ours)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.blind_baseline import Blind
from audit.attacks.controls import reference_control
from audit.attacks.given_away import NEEDED_DOCUMENTS, KindsCheck, count_values
from audit.attacks.measuring import DOCUMENTS, VALUES, Job, Streams
from audit.attacks.reconstruction.names import (
    DETECTION,
    EXCESSES,
    GAIN,
    GROUPS,
    LENGTHS_APART,
    METHODS,
    PLAYERS,
    POWER,
    named,
)
from audit.attacks.reconstruction.table import FieldTable, unresolved
from audit.attacks.splits import AUDITED
from audit.measurements import ALPHAS, Check, Control, Estimate, Measurement, Unresolved
from audit.stats.intervals import Interval, proportion
from audit.stats.rates import excess_mean, excess_rate
from audit.stats.resampling import MIN_CLUSTERS
from audit.stats.shares import net
from audit.targets.utility import estimate

TRAINED_ON = 0.05
"""With the lower bound of the gain on held-out fields over it, held-out documents look trained on (ours): a model that
never saw a value of a single page gives it back hardly more often than the public model does, while the most that
`default.toml` lets members gain is as much."""
APART = 0.05
"""The excess of one category of fields, or of long or short ones, over which no limit is passed (ours): what
`default.toml` allows on all fields of usual length."""
_APART_WORDS = {"long": "ends of fields too long to be attacked whole", "short": "fields of one or two word pieces"}


def excess(name: str, table: FieldTable, method: str, rng: Generator, *, of_baseline: bool = False) -> Measurement:
    """(attack - baseline) on member fields minus the same on held-out fields (methods.md#held-out-control).

    Distances are turned into similarities (1 - HD), so that more is worse. `of_baseline`: the baseline alone, minus 0.
    """
    splits = [table.split(split) for split in AUDITED]
    few = unresolved(name, splits, NEEDED_DOCUMENTS)
    if few is not None:
        return few
    exact = name.startswith(EXCESSES[0])
    columns: list[npt.NDArray[Any]] = []
    for rows in splits:
        values = [rows.scores["pr" if exact else "hd", named(player, method)] for player in PLAYERS]
        values = values if exact else [1 - value for value in values]
        columns += [*((values[1], 0 * values[1]) if of_baseline else values), rows.cluster]
    of: Callable[..., Interval] = excess_rate if exact else excess_mean
    return estimate(name, of(*columns, rng, alphas=ALPHAS), "fields", 0.0, "held-out")


def jobs(
    usual: FieldTable, apart: dict[str, FieldTable], methods: Sequence[str], streams: Streams, kinds: KindsCheck
) -> Iterator[Job]:
    """Every measurement of this module but the default method's excess on fields of usual length.

    Args:
        usual: fields of usual length.
        apart: those of each unusual length, of any value.
        methods: those of the attack, the default one first.
        streams: the source of randomness.
        kinds: tests categories and lengths.
    """
    for method, group, what in product(methods[1:], GROUPS, EXCESSES):
        name = named(f"{what}.{group}", method)
        yield partial(excess, name, usual.group(group), method, streams[name])
    unique = usual.group("unique")
    for method, split, player in product(methods[1:], AUDITED, PLAYERS):
        rows, who = unique.split(split), named(player, method)
        yield partial(_exact, f"pr.{split}.{player}.unique.{method}", rows, who, named("baseline", method))
    yield partial(_detection, DETECTION, usual.split("heldout"), methods)
    yield partial(_detection, POWER, unique.split("heldout"), methods)
    for method in methods:
        yield partial(_detection, f"{POWER}.{method}", unique.split("heldout"), [method])
    for method in methods:
        name = named(GAIN, method)
        yield partial(_gain, name, unique.split("heldout"), method, streams[name])
    for method in methods:
        name = named(VALUES, method)
        yield partial(count_values, name, unique.tried(method), excess_rate, streams[name])
        yield partial(kinds.count_documents, named(DOCUMENTS, method), unique.tried(method))
    for (length, table), method in product(apart.items(), methods):
        if len(table):
            rows, (name, hamming) = table.group("unique"), (named(f"{what}.{length}", method) for what in EXCESSES)
            words, rng = _APART_WORDS[length], streams[name]
            yield partial(kinds.measure, name, words, rows.tried(method), excess_rate, "fields", rng)
            yield partial(excess, hamming, rows, method, streams[hamming])
    for category, method in product(sorted(set(unique.category.tolist())), methods):
        rows, name = unique.category_of(category), named(f"{EXCESSES[0]}.{category}", method)
        words = f"values of category {category}"
        yield partial(kinds.measure, name, words, rows.tried(method), excess_rate, "fields", streams[name])


def gated_methods(methods: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """See `Findings.methods`."""
    names = [f"{what}.{group}" for what, group in product(EXCESSES, (*GROUPS, *LENGTHS_APART))]
    return {name: tuple(named(name, method) for method in methods) for name in names}


def counted_methods(methods: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the same for counts, which no control bounds."""
    return {name: tuple(named(name, method) for method in methods) for name in (VALUES, DOCUMENTS)}


def reference_controls(
    table: FieldTable, methods: Sequence[str], blind: Blind, streams: Streams
) -> tuple[Control, ...]:
    """Bound what the documents explain by what the public model alone rebuilds; empty where nothing is in doubt.

    Args:
        table: fields of usual length.
        methods: those of the attack.
        blind: the blind check of the documents.
        streams: of resamples.
    """
    if not blind.in_doubt:
        return ()
    found: list[Control] = []
    for what, group, method in product(EXCESSES, GROUPS, methods):
        name = named(f"{what}.{group}", method)
        rng = streams[f"reference control of {name}"]
        found += reference_control([name], excess(name, table.group(group), method, rng, of_baseline=True))
    return tuple(found)


def check_heldout(measurements: Sequence[Measurement]) -> tuple[Check, ...]:
    """Test whether the model gives held-out values back: then held-out documents are no control."""
    found = _estimates(measurements, GAIN)
    if not found:
        return ()
    most = max(found, key=lambda estimate: estimate.low)
    reason = (
        "the held-out documents look trained on, unless this is chance: of their values that stand in no other "
        f"document, {100 * most.value:.0f} in 100 more are put back with the model than without it "
        f"(95 % interval {100 * most.low:.0f} to {100 * most.high:.0f})"
    )
    remedy = "keep documents aside that no training saw, and scan again"
    return (Check("held-out gain", _smallest_p(found, TRAINED_ON), "confounded", reason, remedy),)


def _smallest_p(found: Sequence[Estimate], threshold: float) -> float:
    """Return the smallest p-value over the methods, corrected for their number."""
    return min(1.0, len(found) * min(estimate.p_above(threshold) for estimate in found))


def _estimates(measurements: Sequence[Measurement], name: str) -> list[Estimate]:
    """A metric by every method."""
    names = {named(name, method) for method in METHODS}
    return [one for one in measurements if isinstance(one, Estimate) and one.name in names]


def _exact(name: str, table: FieldTable, player: str, baseline: str) -> Measurement:
    """Share rebuilt exactly by a method; the attack's null is the public model, the public model's is chance."""
    few = unresolved(name, [table], MIN_CLUSTERS)
    if few is not None:
        return few
    interval = proportion(table.scores["pr", player] > 0, table.cluster, alphas=ALPHAS)
    if player == baseline:
        return estimate(name, interval, "fields", float(table.chance["pr"].mean()), "chance")
    return estimate(name, interval, "fields", float(table.scores["pr", baseline].mean()), "public model")


def _detection(name: str, table: FieldTable, methods: Sequence[str]) -> Measurement:
    """Share of held-out fields that one of these methods rebuilds exactly with a planted memory, and none without."""
    if not len(table):
        return Unresolved(name, "no such field was attacked", 0, NEEDED_DOCUMENTS)
    planted = np.any([table.planted[method] for method in methods], axis=0)
    detected = planted & ~np.any([table.scores["pr", named("attack", method)] > 0 for method in methods], axis=0)
    return estimate(name, proportion(detected, table.cluster, alphas=ALPHAS), "fields", 0.0, "chance")


def _gain(name: str, table: FieldTable, method: str, rng: Generator) -> Measurement:
    """Share of held-out fields rebuilt exactly with the target, minus the share by the public model alone."""
    few = unresolved(name, [table], MIN_CLUSTERS)
    if few is not None:
        return few
    attack, baseline = (table.scores["pr", named(player, method)] for player in PLAYERS)
    gained: Floats = np.maximum(attack - baseline, 0.0)
    lost: Floats = np.maximum(baseline - attack, 0.0)
    return estimate(name, net(gained, lost, table.cluster, rng, alphas=ALPHAS), "fields", 0.0, "public model")
