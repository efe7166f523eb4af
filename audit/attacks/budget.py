"""The share of the trials that a budget takes, and their order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np

from audit.engine.interface import Trial

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
"""Of a scan that is not told another: which trials a plan expects a budget to take."""
PUBLIC = "public"
"""The stratum of public documents, which are compared with and not attacked."""
FOLDS = "folds"
"""The stratum of trials that only fit something: all are taken, under every budget, sorted by their
ids."""


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
        share: of the trials of each stratum; where units are bounded, at least one of each.
        seed: of the order.
        documents: units on both sides together at most, as many of each as there are; public ones
            stay.
        part: of the units of each side, at least one.
    """
    strata: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    kept = None if documents is None and part >= 1 else _kept_units(strata, seed, documents, part)
    taken = []
    for name, members in sorted(strata.items()):
        if name == FOLDS:
            taken += sorted(members, key=lambda trial: trial.id)
            continue
        ordered = _round_robin(members, np.random.default_rng([seed, *name.encode()]))
        least = 0
        if kept is not None and (side := side_of(name)) in kept:
            ordered = [trial for trial in ordered if trial.cluster in kept[side]]
            least = len({trial.cluster for trial in ordered})
        taken += ordered[: max(math.ceil(share * len(ordered)), least)]
    return taken


def choose_shares(seconds: Mapping[str, float], least: float) -> dict[str, float]:
    """Choose the share of each attack's trials that a few minutes allow.

    The cheapest attacks take all their trials, as long as these whole sets together stay within
    `SECONDS`. Every other attack takes the least share. What is then left of `SECONDS` goes to
    these others, cheapest first: each takes half of its trials where that still fits. All of them
    never fit, or the attack would have been among the first.

    Args:
        seconds: that all trials of an attack take, by its name.
        least: share that every attack takes, whatever the time.
    """
    shares = dict.fromkeys(seconds, least)
    cheapest_first = sorted(seconds, key=lambda name: seconds[name])
    whole = 0.0
    for name in cheapest_first:
        whole += seconds[name]
        if whole > SECONDS:
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
    if not all(0 < share <= 1 for share in shares.values()):
        raise ValueError("a share lies between 0 and 1")
    return shares


MEMBERS, OTHERS = ("member", "in"), ("heldout", "out")
"""Sides of what training saw, and of what it did not; other trials do not tell theirs."""


def side_of(stratum: str) -> str:
    """Name the side that a stratum's trials are of: its first word."""
    return stratum.partition(" ")[0]


def halves(documents: int, sides: Sequence[int]) -> list[int]:
    """Divide a number of units evenly among sides; what one side lacks goes to the others."""
    given = [0] * len(sides)
    left = min(documents, sum(sides))
    while left:
        index = min(
            (given[index], index) for index in range(len(sides)) if given[index] < sides[index]
        )[1]
        given[index] += 1
        left -= 1
    return given


def _kept_units(
    strata: Mapping[str, Sequence[Trial]], seed: int, documents: int | None, part: float
) -> dict[str, set[str]]:
    """Choose the units of each side that are tried: the beginning of a seeded order, whatever their number."""
    units: dict[str, set[str]] = defaultdict(set)
    for name, members in strata.items():
        if name not in (FOLDS, PUBLIC):
            units[side_of(name)].update(trial.cluster for trial in members)
    sides = sorted(units)
    most = [math.ceil(part * len(units[side])) for side in sides]
    if documents is not None:
        most = [
            min(pair)
            for pair in zip(
                most, halves(documents, [len(units[side]) for side in sides]), strict=True
            )
        ]
    kept = {}
    for side, n in zip(sides, most, strict=True):
        ordered = sorted(units[side])
        order = np.random.default_rng([seed, *side.encode()]).permutation(len(ordered))
        kept[side] = {ordered[index] for index in order[:n]}
    return kept


def _round_robin(trials: Sequence[Trial], rng: np.random.Generator) -> list[Trial]:
    units: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        units[trial.cluster].append(trial)
    ordered = [sorted(units[unit], key=lambda trial: trial.id) for unit in sorted(units)]
    shuffled = [[members[index] for index in rng.permutation(len(members))] for members in ordered]
    order = [shuffled[index] for index in rng.permutation(len(shuffled))]
    return [trial for row in zip_longest(*order) for trial in row if trial is not None]
