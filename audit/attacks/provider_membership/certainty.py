"""Whom the attacker knows for certain: members found at the lowest false-positive rate that can be measured.

A score that is sure of one company in four and knows nothing of the others is right for little more than half of them,
and gives the four away that it accuses (Carlini et al. 2022, methods.md#statistics).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.provider_membership.columns import directed, sides, unscored
from audit.attacks.provider_membership.table import ProviderTable
from audit.measurements import ALPHAS, Diagnostic, Estimate, Measurement, Unresolved
from audit.stats.advantage import LOW_RATES, low_advantage, lowest_resolved
from audit.stats.roc import nonmembers_needed
from audit.targets.utility import estimate

METRIC = "low_fpr_advantage"
"""True-positive rate minus false-positive rate at the lowest rate that is resolved, see `stats.advantage`."""
SCORES = {"user": METRIC, "loss": f"{METRIC}.loss", "memory_similarity": f"{METRIC}.memory_similarity"}
"""The scores that rank providers on their own: user inference, the loss, the first memorisation test (ours). Forests
are left out, which are trained on some of the providers that set the threshold."""
METHODS = tuple(SCORES.values())
ALARM = 0.1
"""Where so many more members than others are shown to be found, a leak is there whatever the AUC (ours)."""


@dataclass(frozen=True)
class Certain:
    """The advantages, in the order of `METHODS`; the rate at which they were taken; what speaks for a leak."""

    measurements: tuple[Measurement, ...]
    diagnostics: tuple[Diagnostic, ...]
    alarms: tuple[str, ...]


def measure_certain(table: ProviderTable, rng: Generator, uncompared: str) -> Certain:
    """The advantage of each score at the lowest false-positive rate that providers out resolve; null: 0.

    Args:
        table: of the providers.
        rng: the order of providers that have the same score, such as all whom nothing is remembered of: the attacker
            tosses a coin, which reaches every false-positive rate exactly.
        uncompared: why there is no user inference, where there is none.
    """
    found = [
        _advantage(name, table, table.user, rng, uncompared)
        if score == "user"
        else _advantage(name, table, directed(table, score), rng, "no provider has it")
        for score, name in SCORES.items()
    ]
    rate = lowest_resolved(int((~table.member).sum()))
    meaning = f"the false-positive rate of {METRIC}: the lowest of 10 %, 1 % and 0.1 % that providers out resolve"
    return Certain(tuple(found), () if rate is None else (Diagnostic("low_fpr", rate, meaning),), _alarms(found))


def _advantage(name: str, table: ProviderTable, column: Floats | None, rng: Generator, nothing: str) -> Measurement:
    if column is None:
        return Unresolved(name, nothing, 0)
    missing = unscored(name, table, column)
    if missing is not None:
        return missing
    inside, outside = sides(table, _untied(column, rng))
    advantage = low_advantage(inside, outside, alphas=ALPHAS, unit="provider")
    if advantage is None:
        reason = f"not even 10 % false alarms are resolvable with {len(outside)} providers out of training"
        return Unresolved(name, reason, len(outside), nonmembers_needed(max(LOW_RATES)))
    return estimate(name, advantage.advantage, "providers", 0.0, "chance")


def _alarms(found: Sequence[Measurement]) -> tuple[str, ...]:
    """What forbids to pass a limit, the largest first."""
    sure = [item for item in found if isinstance(item, Estimate) and item.low > ALARM]
    if not sure:
        return ()
    most = max(sure, key=lambda item: item.value)
    return (
        f"some companies are known for certain: almost without a false alarm {100 * most.value:.0f} of 100 in training "
        f"are found beyond chance ({100 * most.low:.0f} to {100 * most.high:.0f})",
    )


def _untied(column: Floats, rng: Generator) -> Floats:
    """Ranks, ties in random order, shape (n,); NaN where unknown."""
    ranks = np.full(column.size, np.nan)
    known = np.flatnonzero(~np.isnan(column))
    ranks[known[np.lexsort((rng.random(known.size), column[known]))]] = np.arange(known.size)
    return ranks
