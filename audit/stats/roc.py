"""Separation of members from non-members by a score.

AUC, ROC, and the true-positive rate at a low false-positive rate. Scores are larger for what looks
more like a member; each is one independent unit (a document), see methods/index.md#intervals.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.measurements import CurvePoint
from audit.stats.intervals import (
    LEVEL,
    TAILS,
    Interval,
    beta_bounds,
    clopper_pearson,
    make_interval,
)
from audit.stats.rates import rate

MIN_DIFFERING = 3
"""With fewer units of a side that are misplaced in some way, the variance of the AUC is bounded,
not estimated."""
# Near an AUC of 1 the estimated variance rests on one or two units and is far too small.
LOW_RATES = (0.001, 0.01, 0.1)
"""The false-positive rates at which an attacker's certainty is measured, lowest first."""
FEW = 20
"""Under so many units on a side the method says "few" (methods/index.md#intervals)."""
LOPSIDED = 0.1
"""Of the units, a share under this, or over 1 minus this, that is called a member makes a guess
lopsided."""


def auc(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> float:
    """Compute the chance that a member's score is above a non-member's, ties counting one half.

    See Mann & Whitney 1947.

    Args:
        members: shape (n_members,), may be infinite.
        nonmembers: shape (n_nonmembers,), may be infinite.

    Returns:
        In [0, 1]; 0.5 when the score says nothing.

    Raises:
        ValueError: a side is empty, or a score is NaN.
    """
    return float(placements(*check_scores(members, nonmembers))[0].mean())


def auc_interval(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> Interval:
    """Compute `auc` with its interval: DeLong et al. (1988) on the logit scale, Student's t.

    The degrees of freedom are Satterthwaite's over the two sides. In place of the BCa bootstrap of
    other differences (methods/index.md#intervals): the variance of an AUC has a closed form, so
    that far one-sided bounds do not rest on a few resamples (its false alarms are in
    `benchmarks/calibration/membership_calibration.json`). Where fewer than 3 units of a side are
    placed otherwise than the commonest of their side, as when members and non-members do not
    overlap, the bounds are Clopper-Pearson with n = units of the smaller side: of all ways to pair
    each of them with another of the other side, the hits of a pairing spread most when they are 0
    or 1.

    Args:
        members: shape (n_members,), at least one.
        nonmembers: shape (n_nonmembers,), at least one.

    Returns:
        In [0, 1]; n and clusters count the units of both sides.

    Raises:
        ValueError: as `auc`.
    """
    sides = check_scores(members, nonmembers)
    placed = placements(*sides)
    value = float(placed[0].mean())
    sizes = [side.size for side in sides]
    if min(map(_n_differing, placed)) < MIN_DIFFERING or not 0 < value < 1:
        lower, upper = beta_bounds(value, np.float64(min(sizes)), TAILS)
        method = "Clopper-Pearson with n = units of the smaller side (too few overlap)"
    else:
        lower, upper = _delong(value, placed)
        method = "DeLong on the logit scale"
    if min(sizes) < FEW:
        method += ", few units"
    return make_interval(value, lower, upper, n=sum(sizes), method=method)


def outranks(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> float:
    """Return the exact one-sided p-value of Mann and Whitney (1947).

    It is against members that score no higher.

    Ties count for non-members, which makes it conservative.

    Args:
        members: shape (n_members,), at least one.
        nonmembers: shape (n_nonmembers,), at least one.

    Raises:
        ValueError: as `auc`.
    """
    from scipy.stats import mannwhitneyu

    inside, outside = check_scores(members, nonmembers)
    values = np.concatenate([inside, outside])
    ranks = np.empty(values.size)
    ranks[np.lexsort((np.arange(values.size) >= inside.size, values))] = np.arange(values.size)
    split = ranks[: inside.size], ranks[inside.size :]
    return float(mannwhitneyu(*split, alternative="greater", method="exact").pvalue)


def roc_points(
    members: npt.ArrayLike, nonmembers: npt.ArrayLike, n_points: int = 50
) -> list[CurvePoint]:
    """Compute the ROC curve for drawing, from (0, 0) to (1, 1).

    It has at most about `n_points` of its corners.

    `x` is the false-positive rate and `value` the true-positive rate. Every point is reached by a
    threshold on the scores. Its interval is Clopper-Pearson on the members and takes the threshold
    as given.

    Args:
        members: shape (n_members,), at least one.
        nonmembers: shape (n_nonmembers,), at least one.
        n_points: how finely; the points lie evenly among all thresholds.

    Raises:
        ValueError: as `auc`, or `n_points` is under 2.
    """
    if n_points < 2:
        raise ValueError("a curve needs two points")
    inside, outside = check_scores(members, nonmembers)
    thresholds = np.unique(np.concatenate([inside, outside]))[::-1]
    chosen = np.unique(
        np.linspace(0, len(thresholds) - 1, min(n_points, len(thresholds))).round().astype(int)
    )
    corners = [
        (0.0, 0),
        *((float((outside >= t).mean()), int((inside >= t).sum())) for t in thresholds[chosen]),
    ]
    tprs = [clopper_pearson(hits, inside.size) for _, hits in corners]
    return [
        CurvePoint(fpr, tpr.value, tpr.low, tpr.high, tpr.n)
        for (fpr, _), tpr in zip(corners, tprs, strict=True)
    ]


def evaluated_needed(fpr: float) -> int:
    """Count the evaluated non-members that resolve a false-positive rate.

    Method: methods/index.md#intervals.

    Without a false alarm among them the upper end of the two-sided 95 % Clopper-Pearson interval is
    `fpr` or less: 36 for 10 %, 368 for 1 %, 3,688 for 0.1 %.

    Raises:
        ValueError: `fpr` is not in (0, 1).
    """
    if not 0 < fpr < 1:
        raise ValueError("a false-positive rate lies between 0 and 1")
    return math.ceil(math.log((1 - LEVEL) / 2) / math.log1p(-fpr))


def nonmembers_needed(fpr: float) -> int:
    """Count the non-members that `tpr_at_fpr` needs in all.

    One half calibrates, the other is evaluated.
    """
    return 2 * evaluated_needed(fpr)


def tpr_at_fpr(
    members: npt.ArrayLike, nonmembers: npt.ArrayLike, fpr: float, rng: np.random.Generator
) -> Interval | None:
    """Compute the share of members recognised at a false-positive rate.

    At most a share `fpr` of the non-members may be called members.

    A random half of the non-members calibrates: of its n scores the threshold is the ceil((1 -
    fpr)(n + 1))-th smallest, above which another non-member lies with probability `fpr` at most
    (Vovk et al. 2005, conformal prediction). The other half is spared for whoever evaluates the
    threshold.

    The interval of the true-positive rate pays for both samples: the members above a given
    threshold are a binomial proportion (Clopper-Pearson), and the threshold that has exactly `fpr`
    lies between two order statistics of the calibration scores. Both reaches are joined as MOVER
    joins those of independent parts (Zou & Donner 2008). So a score without any information exceeds
    `fpr` at confidence 1 - alpha in about a share alpha of audits at most, though the calibrated
    threshold may let more than `fpr` pass.

    Args:
        members: shape (n_members,), at least one.
        nonmembers: shape (n_nonmembers,), at least one.
        fpr: false-positive rate in (0, 1).
        rng: the source of randomness of the halves.

    Returns:
        None where the evaluated half is too small to resolve `fpr`, see `nonmembers_needed`.

    Raises:
        ValueError: as `auc`or a rate out of range.
    """
    inside, outside = check_scores(members, nonmembers)
    if outside.size < nonmembers_needed(fpr):
        return None
    return calibrated_tpr(inside, np.sort(rng.permutation(outside)[: outside.size // 2]), fpr)


def quantile_index(fpr: float, n: int) -> int:
    """Find the index of a threshold among `n` sorted scores.

    Above it another score lies with chance `fpr`.
    """
    # The small term keeps 0.9 * 40 = 36.00000000000001 from becoming 37.
    return math.ceil((1 - fpr) * (n + 1) - 1e-9) - 1


def calibrated_tpr(members: Floats, calibration: Floats, fpr: float) -> Interval:
    """Compute the true-positive rate at exactly `fpr`, at the threshold of sorted scores.

    See `tpr_at_fpr`.
    """
    from scipy.stats import binom

    n = calibration.size
    value = float((members > calibration[quantile_index(fpr, n)]).mean())
    # Of n draws, B ~ Binomial(n, 1 - fpr) lie under the quantile: the r-th smallest is above it
    # when B < r.
    above = binom.ppf(1 - TAILS, n, 1 - fpr).astype(int) + 1
    below = binom.ppf(TAILS, n, 1 - fpr).astype(int)
    padded = np.concatenate([[-np.inf], calibration, [np.inf]])
    at_least = np.array(
        [(members > threshold).mean() for threshold in padded[np.minimum(above, n + 1)]]
    )
    at_most = np.array([(members >= threshold).mean() for threshold in padded[below]])
    lower, upper = beta_bounds(value, np.float64(members.size), TAILS)
    down = np.hypot(value - lower, value - at_least)
    up = np.hypot(upper - value, at_most - value)
    method = f"MOVER on Clopper-Pearson and the threshold, calibrated on {n} units"
    lower = np.maximum(0.0, value - down)
    upper = np.minimum(1.0, value + up)
    return make_interval(value, lower, upper, n=members.size, method=method)


def check_scores(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the scores of both sides as arrays; refuse an empty side and NaN.

    Raises:
        ValueError: a side is empty or no list of numbers, or a score is NaN.
    """
    inside = np.asarray(members, np.float64)
    outside = np.asarray(nonmembers, np.float64)
    if inside.ndim != 1 or outside.ndim != 1 or not inside.size or not outside.size:
        raise ValueError("give at least one score of each side, in arrays of one dimension")
    if np.isnan(inside).any() or np.isnan(outside).any():
        raise ValueError("scores must be numbers")
    return inside, outside


def placements(members: Floats, nonmembers: Floats) -> tuple[Floats, Floats]:
    """Compute, for each unit, the share of the other side that it is ranked rightly against.

    Ties count one half.
    """

    def under(values: Floats, others: Floats) -> Floats:
        """Compute the share of `others` under each value, ties counting one half."""
        ordered = np.sort(others)
        count = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
        return count / (2 * others.size)

    return under(members, nonmembers), 1 - under(nonmembers, members)


def _n_differing(placements: Floats) -> int:
    """Measure how many units are placed otherwise than the commonest of their side."""
    return int(placements.size - np.unique(placements, return_counts=True)[1].max())


def _delong(value: float, placements: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Compute bounds from the variance of the placements (DeLong et al. 1988)."""
    from scipy.special import expit, logit, stdtrit

    terms = [float(side.var(ddof=1)) / side.size for side in placements]
    variance = sum(terms)
    degrees = variance**2 / sum(
        term**2 / (side.size - 1) for term, side in zip(terms, placements, strict=True)
    )
    reach = -stdtrit(degrees, TAILS) * variance**0.5 / (value * (1 - value))
    return expit(logit(value) - reach), expit(logit(value) + reach)


class LowAdvantage(NamedTuple):
    """The excess of members over non-members that are recognised at a low false-positive rate.

    Attributes:
        fpr: the false-positive rate that the non-members resolve.
        advantage: true-positive rate there minus `fpr`; 0 when the score says nothing.
    """

    fpr: float
    advantage: Interval


def lowest_resolved(n_nonmembers: int) -> float | None:
    """Compute the lowest of `LOW_RATES` that so many non-members resolve, as for `tpr_at_fpr`.

    None when none is.

    With half as many the rate would be resolved at 95 %, and at none of the levels at which leaks
    are confirmed.
    """
    return next((fpr for fpr in LOW_RATES if n_nonmembers >= nonmembers_needed(fpr)), None)


def low_advantage(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> LowAdvantage | None:
    """Compute the true-positive rate minus the false-positive rate at a low one.

    It is the lowest one that the non-members resolve.

    The advantage of Yeom et al. (2018) at the operating point that Carlini et al. (2022) ask for: a
    score that is sure of a few members and knows nothing of the others has an AUC near 0.5 and a
    large one here. The threshold is that of `tpr_at_fpr`, calibrated on all non-members: nothing
    has to be evaluated apart, for the interval pays for the threshold, as there.

    Args:
        members: shape (n_members,), at least one.
        nonmembers: shape (n_nonmembers,), at least one.

    Returns:
        None where not even the highest of `LOW_RATES` is resolved. n and clusters count the
        members.

    Raises:
        ValueError: as `auc`.
    """
    inside, outside = check_scores(members, nonmembers)
    fpr = lowest_resolved(outside.size)
    if fpr is None:
        return None
    return LowAdvantage(
        fpr, calibrated_tpr(inside, np.sort(outside), fpr).transform(lambda share: share - fpr)
    )


def balanced_accuracy(
    members: npt.ArrayLike, others: npt.ArrayLike, rng: np.random.Generator
) -> Interval:
    """Compute the mean of true-positive and true-negative rate, with its interval.

    0.5: no better than guessing.

    Each unit brings the share of several runs (seeds) that guess it right; with one run a share is
    0 or 1. The two rates have the intervals of `rate`, and their reaches are joined as MOVER joins
    those of independent parts (Zou & Donner 2008): 36 units a side, half of them right, give about
    +-0.12.

    A guess that calls nearly all units the same is right on nearly all of one side and wrong on
    nearly all of the other, and both rates look sure, though it says next to nothing. Where under
    10 % of the units, or over 90 %, are called members, bounds therefore reach at least as far as
    where both rates are the balanced accuracy, the widest split of it.

    Args:
        members: shares in [0, 1], shape (n_members,), at least one.
        others: shares in [0, 1], shape (n_others,), at least one.
        rng: the source of randomness.

    Returns:
        In [0, 1]; n and clusters count the units of both sides.

    Raises:
        ValueError: a side is empty, or shares are outside [0, 1].
    """
    inside = np.asarray(members, np.float64)
    outside = np.asarray(others, np.float64)
    positive = rate(inside, np.arange(inside.size), rng)
    negative = rate(outside, np.arange(outside.size), rng)
    value = (positive.value + negative.value) / 2
    down, up = _join_reaches(positive, negative)
    n = inside.size + outside.size
    method = "MOVER on the true-positive and the true-negative rate"
    if min(inside.size, outside.size) < FEW:
        method += ", few units"
    called = (inside.sum() + (1 - outside).sum()) / n
    if not LOPSIDED <= called <= 1 - LOPSIDED:
        even_down, even_up = _even_reaches(value, inside.size, outside.size)
        down = np.maximum(down, even_down)
        up = np.maximum(up, even_up)
        method += ", as wide as for even rates since nearly all units are called the same"
    return make_interval(
        value, np.maximum(value - down, 0.0), np.minimum(value + up, 1.0), n=n, method=method
    )


def _join_reaches(positive: Interval, negative: Interval) -> tuple[Floats, Floats]:
    """Return how far the bounds of the mean of two independent rates lie below and above it."""
    lower_positive, upper_positive = positive.ends
    lower_negative, upper_negative = negative.ends
    down = np.hypot(lower_positive - positive.value, lower_negative - negative.value) / 2
    up = np.hypot(upper_positive - positive.value, upper_negative - negative.value) / 2
    return down, up


def _even_reaches(value: float, n_members: int, n_others: int) -> tuple[Floats, Floats]:
    """Return how far the bounds lie below and above where both rates equal their mean."""
    lower_members, upper_members = beta_bounds(value, np.float64(n_members), TAILS)
    lower_others, upper_others = beta_bounds(value, np.float64(n_others), TAILS)
    down = np.hypot(value - lower_members, value - lower_others) / 2
    up = np.hypot(upper_members - value, upper_others - value) / 2
    return down, up
