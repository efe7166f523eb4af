"""What so many units can decide about the advantage at a low false-positive rate, before anything is measured.

It rests on the interval of `roc.low_advantage`. The leak is a share of the members that is known for certain, the
others looking like non-members: scores of no leak are exchangeable, so that hits among the members are binomial at the
false-positive rate that the calibrated threshold happens to have, which is a beta variable.
"""

from __future__ import annotations

import numpy as np

from audit.stats.intervals import beta_bounds
from audit.stats.roc import LEVEL, lowest_resolved, quantile_place

_GRID = 400
"""Quantiles of the threshold's false-positive rate that are averaged over (ours)."""


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
    place = quantile_place(rate, others)
    passing = beta.ppf((np.arange(_GRID) + 0.5) / _GRID, others - place, place + 1)
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
