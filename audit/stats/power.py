"""Power of a number of units before anything is measured.

Smallest limit, chance to pass, units needed. All of it rests on the bounds that audits draw:
`rates.excess_rate` ("difference", and "plain difference" where nothing is taken off within a side),
`rates.net` ("paired difference"), `roc.auc_interval` ("auc"), `roc.balanced_accuracy` and
`roc.low_advantage`, at one outcome a unit. Numbers of hits are summed over exactly, with MOVER also
where many hits would be resampled; an AUC is taken for normal on the logit scale, with the variance
that two normal distributions of scores give it.

A model that leaks nothing has a difference of 0, and an AUC and a balanced accuracy of 0.5. Limits
on these two hold on both sides of 0.5: under its mirror image a score shows members as well, with
the opposite sign.
"""

from bisect import bisect_left
from functools import cache
from typing import Literal, get_args

import numpy as np

from audit.arrays import Floats
from audit.measurements import CAUTIOUS_PASS_ALPHA, PASS_ALPHA
from audit.stats.intervals import beta_bounds
from audit.stats.roc import lowest_resolved, quantile_index

MetricKind = Literal[
    "difference",
    "plain difference",
    "paired difference",
    "auc",
    "balanced accuracy",
    "low advantage",
]
"""What a metric is."""
# A difference between the shares of hits of members and of others, each less a baseline's, or
# plain; between what two models do on the same members (`others` is not looked at); the chance to
# rank a member above another unit; the mean of the shares of members and of others that are called
# right; the advantage at the lowest false-positive rate that the others resolve.
CHANCE: dict[MetricKind, float] = dict.fromkeys(get_args(MetricKind), 0.0) | {
    "auc": 0.5,
    "balanced accuracy": 0.5,
}
"""What a model that leaks nothing has."""
DIFFERING = 0.0025
"""Share of units on which a model without a leak differs from what it is compared with."""
# With it 150 members and 150 others pass a limit of 0.05 in 99 % of audits
# (methods/index.md#power-and-coverage).
MAX_UNITS = 1_000_000
"""More units a side are not asked for."""
_NEGLIGIBLE = 1e-8
_MAX_NUMBERS = 300
_QUANTILES = 400
"""Quantiles of a threshold's false-positive rate that are averaged over."""
_STEP = 1.02
_STAYS = 1.5
"""Power must stay up to so many times the number of units, in steps of 2 %: hits are whole."""


def certified(kind: MetricKind, members: int, others: int) -> float:
    """Compute the smallest limit that a leak-free model passes with so many units.

    That is at its expected outcome.

    That is the one-sided bound for a pass without any hit (differences), or at exactly 0.5.

    Args:
        kind: what the metric is.
        members: units that training saw, at least one.
        others: units that it never saw, at least one unless the difference is paired.

    Raises:
        ValueError: a side has no units.
    """
    _check_sides(kind, members, others)
    if kind == "auc":
        return _auc_upper(members, others)
    if kind == "low advantage":
        fpr = lowest_resolved(others)
        return 1.0 if fpr is None else _advantage_upper(fpr, members, others, fpr)
    expected = np.array([CHANCE[kind]])
    return float(difference_bounds(kind, expected, expected, members, others)[1][0])


def pass_power(kind: MetricKind, members: int, others: int, limit: float) -> float:
    """Compute the chance that a model which leaks nothing passes `limit`.

    That the bounds for a pass are within it. Of an AUC and a balanced accuracy: between `limit` and
    its mirror image 1 - `limit`. Args and errors are those of `certified`.
    """
    _check_sides(kind, members, others)
    if kind == "auc":
        return max(0.0, 2 * _auc_chance(members, others, limit) - 1)
    if kind == "low advantage":
        return _advantage_chance(members, others, limit)
    if kind == "paired difference":
        others = members
    expected = {"paired difference": DIFFERING / 2, "balanced accuracy": 0.5}.get(kind, DIFFERING)
    (first, p), (second, q) = (numbers_of_hits(n, expected) for n in (members, others))
    first_shares, second_shares = np.meshgrid(first / members, second / others, indexing="ij")
    lower, upper = difference_bounds(
        kind, first_shares.ravel(), second_shares.ravel(), members, others
    )
    least = 1 - limit if kind == "balanced accuracy" else -np.inf
    return float(np.outer(p, q).ravel()[(upper <= limit) & (lower >= least)].sum())


# Asked of every limit, in every plan and scan, with few different numbers.
@cache
def needed(kind: MetricKind, limit: float, power: float = 0.8) -> int | None:
    """Find the number of units a side that a model which leaks nothing needs to pass `limit`.

    2 % too many at most.

    It passes with this power. For a paired difference: the number of members. None: more than
    `MAX_UNITS`, as for a limit without any room for chance.

    Raises:
        ValueError: the power is not in (0, 1).
    """
    if not 0 < power < 1:
        raise ValueError("a power lies between 0 and 1")
    if certified(kind, MAX_UNITS, MAX_UNITS) > limit:
        return None
    fewest = bisect_left(range(1, MAX_UNITS), True, key=lambda n: certified(kind, n, n) <= limit)
    candidate = n = 1 + fewest  # from so many on an expected outcome passes
    while n <= candidate * _STAYS:
        if n > MAX_UNITS:
            return None
        if pass_power(kind, n, n, limit) < power:
            candidate = max(n + 1, int(n * _STEP))
        n = max(n + 1, int(n * _STEP))
    return candidate


def _check_sides(kind: MetricKind, members: int, others: int) -> None:
    """Refuse a side without units; a paired difference needs no other side."""
    if members < 1 or (others < 1 and kind != "paired difference"):
        raise ValueError("give at least one unit of each side")


def numbers_of_hits(n: int, rate: float) -> tuple[Floats, Floats]:
    """Find the numbers of hits among `n` that are not negligible, and their probabilities.

    Where these are many, neighbours are taken together at their middle.
    """
    from scipy.stats import binom

    low, high = binom.ppf([_NEGLIGIBLE, 1 - _NEGLIGIBLE], n, rate)
    width = int(np.ceil((high - low + 1) / _MAX_NUMBERS))
    edges = np.arange(low - 1, high + width, width)
    return np.minimum((edges[:-1] + 1 + edges[1:]) / 2, n), np.diff(binom.cdf(edges, n, rate))


def difference_bounds(
    kind: MetricKind,
    first: Floats,
    second: Floats,
    members: int,
    others: int,
    tail: float = PASS_ALPHA,
) -> tuple[Floats, Floats]:
    """Compute lower and upper bounds of outcomes, two shares of hits each, by MOVER.

    See Zou & Donner 2008. Of a difference the hits of members and of others, of a paired one what
    the model does and the other does not and the reverse, of a balanced accuracy the members and
    the others that are called right; shape (n_outcomes,) each.
    """
    if kind == "paired difference":
        others = members
    down, up = _reach(first, members, tail)
    other_down, other_up = _reach(second, others, tail)
    if kind == "balanced accuracy":
        value = (first + second) / 2
        return value - np.hypot(down, other_down) / 2, value + np.hypot(up, other_up) / 2
    value = first - second
    below = down**2 + other_up**2
    above = up**2 + other_down**2
    if kind == "paired difference":
        # A unit is no gain and a loss at once, so that both rates are negatively correlated.
        odds = [share / np.maximum(1 - share, 1e-12) for share in (first, second)]
        correlation = -np.minimum(1.0, np.sqrt(odds[0] * odds[1]))
        below = below - 2 * correlation * down * other_up
        above = above - 2 * correlation * up * other_down
    elif kind == "difference":
        # What the others may have lost, and the members, though no unit shows it.
        below = below + _upper(0.0, members, tail) ** 2
        above = above + _upper(0.0, others, tail) ** 2
        # Of two parts that nobody saw the joint bound counts, where it is the nearer one
        # (`rates.excess_rate`).
        unseen = _upper(0.0, members, tail) ** 2 + _upper(0.0, others, tail) ** 2
        counted_twice = max(0.0, unseen - (np.log(tail) / min(members, others)) ** 2)
        below = np.where(second > 0, below, below - counted_twice)
        above = np.where(first > 0, above, above - counted_twice)
    return value - np.sqrt(below), value + np.sqrt(above)


def _reach(share: Floats, n: int, tail: float) -> tuple[Floats, Floats]:
    """Compute how far the Clopper-Pearson bounds lie below and above each share."""
    values, back = np.unique(share, return_inverse=True)
    bounds = [beta_bounds(float(value), np.float64(n), np.array([tail])) for value in values]
    lower = np.array([lower_bounds[0] for lower_bounds, _ in bounds])
    upper = np.array([upper_bounds[0] for _, upper_bounds in bounds])
    return (values - lower)[back], (upper - values)[back]


def _upper(share: float, n: int, tail: float = PASS_ALPHA) -> float:
    """Compute the upper Clopper-Pearson bound of a share of `n` units."""
    return float(beta_bounds(share, np.float64(n), np.array([tail]))[1][0])


def _auc_upper(members: int, others: int) -> float:
    """Compute the one-sided upper bound of an AUC of 0.5 at its expected variance."""
    from scipy.special import expit, stdtrit

    error, degrees = _auc_error(members, others)
    if degrees <= 0:
        return _upper(0.5, min(members, others))
    return float(expit(-stdtrit(degrees, PASS_ALPHA) * error))


def _auc_chance(members: int, others: int, limit: float) -> float:
    """Compute the chance that the one-sided upper bound of an AUC of 0.5 is within `limit`."""
    from scipy.special import logit, ndtr, stdtrit

    if not 0 < limit < 1:
        return float(limit > 0)
    error, degrees = _auc_error(members, others)
    return (
        0.0
        if degrees <= 0
        else float(ndtr(float(logit(limit)) / error + stdtrit(degrees, PASS_ALPHA)))
    )


def _auc_error(members: int, others: int) -> tuple[float, float]:
    """Compute the standard error of an AUC of 0.5 on the logit scale.

    Its degrees of freedom come with it; 0: too few units.

    Both sides' scores are normal with one variance; a side's placements are then uniform, of
    variance 1 / 12.
    """
    if min(members, others) < 4:  # `auc_interval` then never estimates the variance
        return np.inf, 0.0
    spread = 1 / 12
    variance = (0.25 - 2 * spread + spread * (members + others)) / (members * others)
    return float(variance**0.5 / 0.25), satterthwaite(members, others)


def satterthwaite(members: int, others: int) -> float:
    """Compute the degrees of freedom of the variance of an AUC whose sides vary alike.

    At least two units a side.
    """
    terms = np.array([1 / members, 1 / others])
    return float(terms.sum() ** 2 / np.sum(terms**2 / np.array([members - 1, others - 1])))


def _advantage_upper(share: float, members: int, others: int, fpr: float) -> float:
    """Compute the bound for a pass of `roc.low_advantage` at a share of hits, as it draws it."""
    tail = CAUTIOUS_PASS_ALPHA
    reach = _upper(share, members, tail) - share
    threshold = min(1 - share, _upper(fpr, others, tail) - fpr)
    return share - fpr + float(np.hypot(reach, threshold))


def _advantage_chance(members: int, others: int, limit: float) -> float:
    """Compute the chance that the bound of an advantage of 0 is within `limit`.

    0 where no rate is resolved.
    """
    from scipy.stats import beta, binom

    fpr = lowest_resolved(others)
    if fpr is None:
        return 0.0
    index = quantile_index(fpr, others)
    passing = beta.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES, others - index, index + 1)

    def is_beyond(hits: int) -> bool:
        """Test whether the bound for a pass at so many hits lies beyond the limit."""
        return _advantage_upper(hits / members, members, others, fpr) > limit

    fewest = bisect_left(range(members + 1), True, key=is_beyond)
    return float(binom.cdf(fewest - 1, members, passing).mean())
