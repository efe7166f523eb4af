"""The share of the trials that a budget takes, and their order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from audit.engine.interface import Trial

SHARES = {"quick": 0.25, "standard": 1.0, "full": 1.0}
"""Share of the trials of each stratum by budget (ours). `full` differs from `standard` in the attacks' parameters."""

SEED = 0
"""Of a scan that is not told another: which trials a plan expects a budget to take."""
FOLDS = "folds"
"""The stratum of trials that only fit something: all are taken, under every budget, sorted by their ids."""


def sample(trials: Sequence[Trial], share: float, seed: int) -> list[Trial]:
    """The trials that a budget takes, in the order in which they are run.

    Per stratum there is one seeded order, whatever the share: one trial of each unit before a second of any. A smaller
    share is the beginning of a larger one. The stratum `FOLDS` is taken whole: a fold left out is a result of nothing.
    """
    strata: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    taken = []
    for name, members in sorted(strata.items()):
        if name == FOLDS:
            taken += sorted(members, key=lambda trial: trial.id)
            continue
        ordered = _round_robin(members, np.random.default_rng([seed, *name.encode()]))
        taken += ordered[: math.ceil(share * len(ordered))]
    return taken


def _round_robin(trials: Sequence[Trial], rng: np.random.Generator) -> list[Trial]:
    units: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        units[trial.unit].append(trial)
    shuffled = []
    for unit in sorted(units):
        members = sorted(units[unit], key=lambda trial: trial.id)
        shuffled.append([members[index] for index in rng.permutation(len(members))])
    order = [shuffled[index] for index in rng.permutation(len(shuffled))]
    rounds = zip_longest(*order)
    return [trial for row in rounds for trial in row if trial is not None]
