"""The advantage at a low false-positive rate: its interval, and what so many units can decide about it.

For what is decided before anything is measured, the leak is a share of the members that is known for certain, the
others looking like non-members: scores of no leak are exchangeable, so that hits among the members are binomial at the
false-positive rate that the calibrated threshold happens to have, which is a beta variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from audit.stats.intervals import LEVEL, Interval, beta_bounds
from audit.stats.roc import calibrated_tpr, check_scores, nonmembers_needed, quantile_index

LOW_RATES = (0.001, 0.01, 0.1)
"""The false-positive rates at which an attacker's certainty is measured, lowest first (ours)."""
_GRID = 400
"""Quantiles of the threshold's false-positive rate that are averaged over (ours)."""


class LowAdvantage(NamedTuple):
    """The excess of members over non-members that are recognised at a low false-positive rate.

    Attributes:
        fpr: the false-positive rate that the non-members resolve.
        advantage: true-positive rate there minus `fpr`; 0 when the score says nothing.
    """

    fpr: float
    advantage: Interval


def lowest_resolved(n_nonmembers: int) -> float | None:
    """The lowest of `LOW_RATES` that so many non-members resolve, as for `tpr_at_fpr`; None when none is.

    With half as many the rate would be resolved at 95 %, and at none of the levels at which leaks are confirmed.
    """
    return next((rate for rate in LOW_RATES if n_nonmembers >= nonmembers_needed(rate)), None)


def low_advantage(
    members: npt.ArrayLike, nonmembers: npt.ArrayLike, *, alphas: Sequence[float] = (), unit: str = "document"
) -> LowAdvantage | None:
    """The true-positive rate minus the false-positive rate, at the lowest one that the non-members resolve.

    The advantage of Yeom et al. (2018) at the operating point that Carlini et al. (2022) ask for: a score that is sure
    of a few members and knows nothing of the others has an AUC near 0.5 and a large one here. The threshold is that of
    `tpr_at_fpr`, calibrated on all non-members: nothing has to be evaluated apart, for the interval pays for the
    threshold, as there.

    Args:
        members: shape (n_members,), at least one.
        nonmembers: shape (n_nonmembers,), at least one.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what one score belongs to, singular, for the method's wording.

    Returns:
        None where not even the highest of `LOW_RATES` is resolved. n and clusters count the members.

    Raises:
        ValueError: as `auc`, or a level out of range.
    """
    inside, outside = check_scores(members, nonmembers)
    rate = lowest_resolved(outside.size)
    if rate is None:
        return None
    tpr = calibrated_tpr(inside, np.sort(outside), rate, alphas, unit)
    return LowAdvantage(rate, tpr.transform(lambda share: share - rate))


def advantage_upper(members: int, others: int) -> float:
    """The upper end of the 95 % interval at an advantage of exactly 0; 1 where no rate is resolved."""
    rate = lowest_resolved(others)
    return 1.0 if rate is None else _reach(rate, members, others, rate, 0.0, (1 - LEVEL) / 2)[1]


def advantage_chance(effect: float, members: int, others: int, limit: float, tail: float, *, over: bool) -> float:
    """The chance that the bound of an advantage lies above `limit` (`over`), or that the interval is within it.

    Args:
        effect: the advantage in truth, in [0, 1).
        members: units that training saw.
        others: units that it never saw.
        limit: what it is held against.
        tail: one-sided level of the bound.
        over: which bound: the lower one above the limit, or the upper one within it.

    Returns:
        0 where the others resolve no rate.
    """
    from scipy.stats import beta, binom

    rate = lowest_resolved(others)
    if rate is None:
        return 0.0
    known = min(1.0, effect / (1 - rate))
    index = quantile_index(rate, others)
    passing = beta.ppf((np.arange(_GRID) + 0.5) / _GRID, others - index, index + 1)
    hit = known + (1 - known) * passing

    def beyond(hits: int) -> bool:
        down, up = _reach(hits / members, members, others, rate, known, tail)
        reached = hits / members - rate
        return reached - down > limit if over else reached + up > limit

    low, high = -1, members + 1  # the fewest hits that are beyond it lie above `low`, and at `high` at most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    share = float(binom.cdf(low, members, hit).mean())
    return 1 - share if over else share


def _reach(share: float, members: int, others: int, rate: float, known: float, tail: float) -> tuple[float, float]:
    """How far the bounds lie below and above a share of hits, as `roc.low_advantage` draws them."""
    bounds = [beta_bounds(at, np.float64(n), np.array([tail])) for at, n in ((share, members), (rate, others))]
    (lower, upper), (least, most) = [[float(bound[0]) for bound in side] for side in bounds]
    # Members that nobody knows pass a threshold as often as others do.
    fewer, more = ((1 - known) * room for room in (rate - least, most - rate))
    return float(np.hypot(share - lower, min(share, fewer))), float(np.hypot(upper - share, min(1 - share, more)))
