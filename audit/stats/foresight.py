"""Units that a training is about to memorise, told from two of its checkpoints.

A score of each unit says how much less loss the model has than a reference that never saw it.
Units that score highest early in a training tend to do so at its end. A second training without
them exposes no fewer of the others (benchmarks/calibration/early_list.md).

The idea is that of Dentan et al. 2025 (arXiv 2409.18858). They predict memorised samples of
classifiers from hidden states and labels, by pointwise sliced mutual information. Documents of
other tasks have no such label, so score and tests here are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.stats.roc import outranks

LEVEL = 0.05
"""Level of both tests without which nothing is listed, and the most that the list may hold of units
that the model knows no better than unseen ones. Ours."""
LEAST_UNSEEN = round(1 / LEVEL) - 1
"""Unseen units that a list needs: with fewer, one unit above all of them is no rarer than that."""
Doubt = Literal["unscored", "few", "first", "unseen", "disagree"]
"""Why nothing is listed: no scores, too few unseen units, no earlier checkpoint, members score no
higher than unseen units, or the two checkpoints rank others first."""


@dataclass(frozen=True)
class Scored:
    """Scores of one checkpoint, by name of the unit.

    Attributes:
        members: scores of units of the training; high where the model knows more than a reference.
        unseen: scores of units that no training saw.
    """

    members: Mapping[str, float]
    unseen: Mapping[str, float]


@dataclass(frozen=True)
class Foreseen:
    """What two checkpoints say about the units that the end of a training will remember.

    Attributes:
        listed: the units with the highest scores, highest first; empty where `doubt` says why.
        n_scored: units of the training that have a score at both checkpoints.
        n_again: how many of these were among the first units at the earlier checkpoint.
        by_chance: how many of them would be, if it ranked at random.
        doubt: why nothing is listed; None: the list stands.
    """

    listed: tuple[str, ...] = ()
    n_scored: int = 0
    n_again: int = 0
    by_chance: float = 0.0
    doubt: Doubt | None = None


def foresee(before: Scored | None, now: Scored | None, share: float) -> Foreseen:
    """List the units of the training that score highest, if two checkpoints agree on them.

    A unit is listed if it is among the first, and scores above all but `LEVEL` of the unseen units
    at the later checkpoint. So of the units that the model knows no better than unseen ones, at
    most that share is listed (conformal p-values, Vovk et al. 2005).

    Nothing is listed unless members outrank unseen units at the later checkpoint (Mann and Whitney
    1947), and more of the listed units are first at the earlier one than by chance
    (hypergeometric). Both tests are at `LEVEL`.

    Args:
        before: scores of an earlier checkpoint; None: there is none.
        now: scores of the later one; None: there are none.
        share: largest share of the units that is listed, in (0, 1); at least one is.
    """
    if now is None or not now.members or not now.unseen:
        return Foreseen(doubt="unscored")
    if len(now.unseen) < LEAST_UNSEEN:
        return Foreseen(n_scored=len(now.members), doubt="few")
    if before is None:
        return Foreseen(n_scored=len(now.members), doubt="first")
    names = sorted(now.members.keys() & before.members.keys())
    n_first = max(1, round(share * len(names)))
    if n_first >= len(names):
        return Foreseen(n_scored=len(names), doubt="unscored")
    listed = _above_unseen(_first(now.members, names, n_first), now)
    n_again = len({*listed} & {*_first(before.members, names, n_first)})
    by_chance = len(listed) * n_first / len(names)
    if not listed or outranks([*now.members.values()], [*now.unseen.values()]) > LEVEL:
        return Foreseen((), len(names), n_again, by_chance, "unseen")
    if _chance_of(n_again, len(listed), n_first, len(names)) > LEVEL:
        return Foreseen((), len(names), n_again, by_chance, "disagree")
    return Foreseen(listed, len(names), n_again, by_chance)


def _above_unseen(names: Sequence[str], scored: Scored) -> tuple[str, ...]:
    """Return the units that few enough unseen units reach, in their order."""
    unseen = np.array([*scored.unseen.values()])
    above = []
    for name in names:
        n_reaching = np.count_nonzero(unseen >= scored.members[name])
        if (1 + n_reaching) / (1 + len(unseen)) <= LEVEL:
            above.append(name)
    return tuple(above)


def _first(scores: Mapping[str, float], names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names with the highest scores, highest first; ties go to the earlier name."""
    ranked = sorted(names, key=lambda name: (-scores[name], name))
    return tuple(ranked[:count])


def _chance_of(n_again: int, n_listed: int, n_first: int, n_all: int) -> float:
    """Return how likely a random list holds so many of the first of all units, or more."""
    from scipy.stats import hypergeom

    return float(hypergeom.sf(n_again - 1, n_all, n_first, n_listed))
