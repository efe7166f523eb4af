"""The share of the trials that a budget takes, and their order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from audit.engine.interface import Trial

if TYPE_CHECKING:
    from audit.policy import Limit

SHARES = {"quick": 0.25, "standard": 1.0, "full": 1.0}
"""Least share of the trials of each stratum by budget. `full` differs from `standard` in the
attacks' parameters."""
BY_TIME = "quick"
"""The budget that takes more than its least share of an attack's trials where a few minutes allow
it."""
SECONDS = 90.0
"""Time that this budget has for the trials of all attacks together; least shares are taken in any
case."""
HALF = 0.5
"""The only share between the least and all, so that a small difference in speed seldom changes a
choice."""

SEED = 0
"""Seed of a scan that is told no other: a plan expects a budget to take the trials of this draw."""
PUBLIC = "public"
"""The stratum of public documents, which are compared with and not attacked."""
FOLDS = "folds"
"""The stratum of trials that only fit something: all are taken, under every budget, sorted by their
ids."""


def budget_that_can_pass(limits: Iterable[Limit], budget: str) -> str:
    """Return the least budget, from a scan's own on, that takes the share which a pass rests on.

    Args:
        limits: limits of the policy.
        budget: budget of the scan.
    """
    asked = 0.0
    for limit in limits:
        asked = max(asked, limit.min_coverage or 0.0, limit.min_category_coverage or 0.0)
    names = [*SHARES]
    for name in names[names.index(budget) :]:
        if SHARES[name] >= asked:
            return name
    return names[-1]


def sample(
    trials: Sequence[Trial],
    share: float,
    seed: int,
    documents: int | None = None,
    part: float = 1.0,
) -> list[Trial]:
    """Sample the trials that a budget takes, in the order in which they are run.

    Per stratum there is one seeded order, whatever the share: one trial of each unit before a
    second of any. A smaller share is the beginning of a larger one. The stratum `FOLDS` is taken
    whole: a fold left out is a result of nothing.

    Args:
        trials: all that could be tried.
        share: share of the trials of each stratum; where units are bounded, at least one trial of
            each unit is taken.
        seed: seed of the order.
        documents: number of units on both sides together at most, divided evenly; public ones
            stay.
        part: part of the units of each side that is taken, at least one unit.
    """
    strata: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    units: Mapping[str, set[str]] = {}
    if documents is not None or part < 1:
        units = _choose_units(strata, seed, documents, part)
    sampled: list[Trial] = []
    for name, members in sorted(strata.items()):
        if name == FOLDS:
            sampled += sorted(members, key=lambda trial: trial.id)
        else:
            ordered = _round_robin(members, np.random.default_rng([seed, *name.encode()]))
            sampled += _take_share(ordered, share, units.get(side_of(name)))
    return sampled


def _take_share(ordered: Sequence[Trial], share: float, units: set[str] | None) -> Sequence[Trial]:
    """Return the beginning of a stratum's ordered trials, of the length that the share asks for.

    Args:
        ordered: trials of the stratum in their order.
        share: share of the trials that is taken.
        units: units whose trials are taken, at least one of each; None: they are not bounded.
    """
    if units is None:
        return ordered[: math.ceil(share * len(ordered))]
    bounded = [trial for trial in ordered if trial.cluster in units]
    least = len({trial.cluster for trial in bounded})
    return bounded[: max(math.ceil(share * len(bounded)), least)]


def choose_shares(seconds: Mapping[str, float], least: float) -> dict[str, float]:
    """Choose the share of each attack's trials that a few minutes allow.

    The cheapest attacks take all their trials, as long as these whole sets together stay within
    `SECONDS`. Every other attack takes the least share. What is then left of `SECONDS` goes to
    these others, cheapest first: each takes half of its trials where that still fits. All of them
    never fit, or the attack would have been among the first.

    Args:
        seconds: time that all trials of an attack take, by its name.
        least: share that every attack takes, whatever the time.
    """
    shares = dict.fromkeys(seconds, least)
    cheapest_first = sorted(seconds, key=lambda name: seconds[name])
    total = 0.0
    for name in cheapest_first:
        total += seconds[name]
        if total > SECONDS:
            break
        shares[name] = 1.0
    left = SECONDS - sum(share * seconds[name] for name, share in shares.items())
    for name in cheapest_first:
        added = (HALF - shares[name]) * seconds[name]
        if 0 < added <= left:
            shares[name] = HALF
            left -= added
    return shares


def read_shares(stored: Mapping[str, float]) -> dict[str, float]:
    """Read the shares of the attacks' trials as a scan stored them.

    Raises:
        ValueError: one is no share.
    """
    shares = {attack: float(share) for attack, share in stored.items()}
    # Another share would let an owner choose how much of an attack decides.
    if not set(shares.values()) <= {*SHARES.values(), HALF}:
        raise ValueError("a share is the least one, half or all")
    return shares


MEMBERS = ("member", "in")
"""Sides of what training saw; trials of other sides do not tell theirs."""
OTHERS = ("heldout", "out")
"""Sides of what training did not see."""


def side_of(stratum: str) -> str:
    """Name the side that a stratum's trials are of: its first word."""
    return stratum.partition(" ")[0]


def halves(documents: int, sides: Sequence[int]) -> list[int]:
    """Divide `documents` evenly among sides of sizes `sides`; others take what one side lacks."""
    numbers = [0] * len(sides)
    left = min(documents, sum(sides))
    while left:
        open_sides = [index for index, most in enumerate(sides) if numbers[index] < most]
        fewest = min(open_sides, key=lambda index: numbers[index])
        numbers[fewest] += 1
        left -= 1
    return numbers


def _choose_units(
    strata: Mapping[str, Sequence[Trial]], seed: int, documents: int | None, part: float
) -> dict[str, set[str]]:
    """Choose the units of each side that are tried.

    They are the beginning of a seeded order, whatever their number.

    Args:
        strata: trials by stratum.
        seed: seed of the order.
        documents: number of units on both sides together at most; None: no bound.
        part: part of the units of each side, at most.
    """
    units: dict[str, set[str]] = defaultdict(set)
    for name, trials in strata.items():
        if name not in (FOLDS, PUBLIC):
            units[side_of(name)].update(trial.cluster for trial in trials)
    sides = sorted(units)
    sizes = [len(units[side]) for side in sides]
    numbers = [math.ceil(part * size) for size in sizes]
    if documents is not None:
        bounds = halves(documents, sizes)
        numbers = [min(pair) for pair in zip(numbers, bounds, strict=True)]
    return {
        side: _draw_units(side, units[side], seed, n)
        for side, n in zip(sides, numbers, strict=True)
    }


def _draw_units(side: str, units: set[str], seed: int, n: int) -> set[str]:
    """Draw `n` units of a side, the beginning of its seeded order."""
    ordered = sorted(units)
    order = np.random.default_rng([seed, *side.encode()]).permutation(len(ordered))
    return {ordered[index] for index in order[:n]}


def _round_robin(trials: Sequence[Trial], rng: np.random.Generator) -> list[Trial]:
    """Order trials at random: one of each cluster before a second of any."""
    clusters: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        clusters[trial.cluster].append(trial)
    shuffled: list[list[Trial]] = []
    for cluster in sorted(clusters):
        members = sorted(clusters[cluster], key=lambda trial: trial.id)
        shuffled.append([members[index] for index in rng.permutation(len(members))])
    order = [shuffled[index] for index in rng.permutation(len(shuffled))]
    ordered: list[Trial] = []
    for rank in zip_longest(*order):
        ordered += [trial for trial in rank if trial is not None]
    return ordered
