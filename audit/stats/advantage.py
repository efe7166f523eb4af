"""The advantage at the lowest resolved false-positive rate, and balanced accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from audit.stats.intervals import LEVEL, Interval, beta_bounds, make_interval, tail_levels
from audit.stats.rates import rate
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


FEW = 20
"""Under so many units on a side the method says "few" (methods.md#statistics)."""
LOPSIDED = 0.1
"""Of the units, a share under this, or over 1 minus this, that is called a member makes a guess lopsided (ours)."""


def balanced_accuracy(
    members: npt.ArrayLike,
    others: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The mean of the true-positive and the true-negative rate, with its interval; 0.5: no better than guessing.

    Each unit brings the share of several runs (seeds) that guess it right; with one run a share is 0 or 1. The two
    rates have the intervals of `rate`, and their reaches are joined as MOVER joins those of independent parts (Zou &
    Donner 2008): 36 units a side, half of them right, give about +-0.12.

    A guess that calls nearly all units the same is right on nearly all of one side and wrong on nearly all of the
    other, and both rates look sure, though it says next to nothing. Where under 10 % of the units, or over 90 %, are
    called members, bounds therefore reach at least as far as where both rates are the balanced accuracy, the widest
    split of it (ours).

    Args:
        members: shares in [0, 1], shape (n_members,), at least one.
        others: shares in [0, 1], shape (n_others,), at least one.
        rng: the source of randomness.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a row is, singular, for the method's wording.

    Returns:
        In [0, 1]; n and clusters count the units of both sides.

    Raises:
        ValueError: a side is empty, shares outside [0, 1], or a level out of range.
    """
    tails = tail_levels(alphas)
    sides = [np.asarray(side, np.float64) for side in (members, others)]
    rates = [rate(side, np.arange(side.size), rng, alphas=tails.tolist(), unit=unit) for side in sides]
    value = sum(one.value for one in rates) / 2
    bounds = zip(*(one.one_sided for one in rates), strict=True)
    down, up = (np.hypot(*(bound - one.value for bound, one in zip(side, rates, strict=True))) / 2 for side in bounds)
    called = (sides[0].sum() + (1 - sides[1]).sum()) / sum(side.size for side in sides)
    lopsided = not LOPSIDED <= called <= 1 - LOPSIDED
    if lopsided:
        even = [np.array(beta_bounds(value, np.float64(side.size), tails)) for side in sides]
        down = np.maximum(down, np.hypot(*(value - lower for lower, _ in even)) / 2)
        up = np.maximum(up, np.hypot(*(upper - value for _, upper in even)) / 2)
    few = f", few {unit}s" if min(side.size for side in sides) < FEW else ""
    alike = f", as wide as for even rates since nearly all {unit}s are called the same" if lopsided else ""
    n = sum(side.size for side in sides)
    return make_interval(
        value,
        np.maximum(value - down, 0.0),
        np.minimum(value + up, 1.0),
        n=n,
        clusters=n,
        method=f"MOVER on the true-positive and the true-negative rate, {unit}s{few}{alike}",
        alphas=alphas,
    )
