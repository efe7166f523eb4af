"""Power of a number of units before anything is measured: smallest limit, power, units needed.

All of it rests on the intervals that audits draw: `rates.excess_rate` ("difference"), `shares.net` ("paired
difference"), `roc.auc_interval` ("auc") and the mean of two shares by MOVER ("balanced accuracy"), at one outcome a
unit. Numbers of hits are summed over exactly, with MOVER also where many hits would be resampled; an AUC is taken for
normal on the logit scale, with the variance that two normal distributions of scores give it.

A model that leaks nothing has a difference of 0, and an AUC and a balanced accuracy of 0.5. Limits on these two hold on
both sides of 0.5: under its mirror image a score shows members as well, with the opposite sign.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from audit.arrays import Floats
from audit.stats.advantage import advantage_chance, advantage_upper
from audit.stats.intervals import beta_bounds

MetricKind = Literal["difference", "paired difference", "auc", "balanced accuracy", "low advantage"]
"""What a metric is: a difference between the shares of hits of members and of others; between what two models do on
the same members (`others` is not looked at); the chance to rank a member above another unit; the mean of the shares of
members and of others that are called right; the advantage at the lowest false-positive rate that the others resolve."""
CHANCE: dict[MetricKind, float] = {
    "difference": 0.0,
    "paired difference": 0.0,
    "auc": 0.5,
    "balanced accuracy": 0.5,
    "low advantage": 0.0,
}
"""What a model that leaks nothing has."""
DIFFERING = 0.0025
"""Share of units on which the model differs from what it is compared with though nothing leaks (ours). With it 150
members and 150 others pass a limit of 0.05 in 96 % of audits (methods.md#statistics)."""
TAIL = 0.025
"""A limit is passed when the upper end of the two-sided 95 % interval is within it."""
MAX_UNITS = 1_000_000
"""More units a side are not asked for."""
_NEGLIGIBLE = 1e-8
_MAX_NUMBERS = 300
_STEP = 1.02
_STAYS = 1.5
"""Power rises with the number of units, but not at every step, since hits are whole: it must stay up to so many
times the number, looked at in steps of 2 %."""


def certified(kind: MetricKind, members: int, others: int) -> float:
    """The smallest limit that a model which leaks nothing passes with so many units, at its expected outcome.

    That is the upper end of the two-sided 95 % interval without any hit (differences), or at exactly 0.5.

    Args:
        kind: what the metric is.
        members: units that training saw, at least one.
        others: units that it never saw, at least one unless the difference is paired.

    Raises:
        ValueError: a side has no units.
    """
    _check(kind, members, others)
    if kind == "auc":
        return float(_auc_upper(0.5, members, others))
    if kind == "low advantage":
        return advantage_upper(members, others)
    expected = _Shares(np.array([CHANCE[kind]]), np.array([CHANCE[kind]]), np.ones(1))
    return float(_bounds(kind, expected, members, others, TAIL)[1][0])


def pass_power(kind: MetricKind, members: int, others: int, limit: float) -> float:
    """The chance that a model which leaks nothing passes `limit`: that the whole 95 % interval is within it.

    Of an AUC and a balanced accuracy: between `limit` and its mirror image 1 - `limit`. Args and errors are those of
    `certified`.
    """
    _check(kind, members, others)
    if kind == "auc":
        one_side = _auc_chance(CHANCE[kind], members, others, limit, TAIL, over=False)
        return max(0.0, 2 * one_side - 1)
    if kind == "low advantage":
        return advantage_chance(CHANCE[kind], members, others, limit, TAIL, over=False)
    likely = _likely(kind, members, others, 0.0)
    lower, upper = _bounds(kind, likely, members, others, TAIL)
    least = 1 - limit if kind == "balanced accuracy" else -np.inf
    return float(likely.weight[(upper <= limit) & (lower >= least)].sum())


def power(
    kind: MetricKind,
    members: int,
    others: int,
    effect: float,
    limit: float,
    *,
    alpha: float = 0.05,
) -> float:
    """The chance that a leak is confirmed over `limit`: that its one-sided lower bound lies above.

    Args:
        kind: what the metric is.
        members: see `certified`.
        others: see `certified`.
        effect: what the metric truly is: a difference in (0, 1 - `DIFFERING`], or an AUC or a balanced accuracy in
            [0.5, 1). A leak adds hits on members; a classifier is taken to be right on members and others alike.
        limit: what it is held against.
        alpha: one-sided level of the bound.

    Raises:
        ValueError: as `certified`, or an effect or a level out of range.
    """
    _check(kind, members, others)
    chance = CHANCE[kind]
    if not chance <= effect <= 1 - DIFFERING or not 0 < alpha < 0.5:
        raise ValueError(f"the effect lies between {chance} and {1 - DIFFERING}, the level between 0 and 0.5")
    if kind == "auc":
        return _auc_power(effect, members, others, limit, alpha)
    if kind == "low advantage":
        return advantage_chance(effect, members, others, limit, alpha, over=True)
    likely = _likely(kind, members, others, effect - chance)
    return float(likely.weight[_bounds(kind, likely, members, others, alpha)[0] > limit].sum())


# Asked of every limit, in every plan and scan, with few different numbers.
@cache
def needed(kind: MetricKind, limit: float, power: float = 0.8) -> int | None:
    """Number of units a side that a model which leaks nothing needs to pass `limit`; 2 % too many at most.

    It passes with this power. For a paired difference: the number of members. None: more than `MAX_UNITS`, as for a
    limit without any room for chance.

    Raises:
        ValueError: the power is not in (0, 1).
    """
    if not 0 < power < 1:
        raise ValueError("a power lies between 0 and 1")
    if certified(kind, MAX_UNITS, MAX_UNITS) > limit:
        return None
    low, high = 0, MAX_UNITS  # at `high`, and not at `low`, an expected outcome passes
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(kind, middle, middle) <= limit else (middle, high)
    candidate = n = high
    while n <= candidate * _STAYS:
        if n > MAX_UNITS:
            return None
        if pass_power(kind, n, n, limit) < power:
            candidate = _next(n)
        n = _next(n)
    return candidate


def _next(n: int) -> int:
    return max(n + 1, int(n * _STEP))


def _check(kind: MetricKind, members: int, others: int) -> None:
    if members < 1 or (others < 1 and kind != "paired difference"):
        raise ValueError("give at least one unit of each side")


class _Shares(NamedTuple):
    """Outcomes: two shares of hits and how likely they are, each of shape (n_outcomes,).

    Of a difference the hits of members and of others, of a paired one what the model does and the other does not and
    the reverse, of a balanced accuracy the members and the others that are called right.
    """

    first: Floats
    second: Floats
    weight: Floats


def _likely(kind: MetricKind, members: int, others: int, leak: float) -> _Shares:
    """The outcomes that are not negligible when the metric is `leak` above chance."""
    match kind:
        case "paired difference":
            others = members
            rates = DIFFERING / 2 + leak, DIFFERING / 2
        case "balanced accuracy":
            rates = 0.5 + leak, 0.5 + leak
        case _:
            rates = DIFFERING + leak, DIFFERING
    (first, p), (second, q) = (_hits(n, min(1.0, share)) for n, share in zip((members, others), rates, strict=True))
    one, other = np.meshgrid(first / members, second / others, indexing="ij")
    return _Shares(one.ravel(), other.ravel(), np.outer(p, q).ravel())


def _hits(n: int, rate: float) -> tuple[Floats, Floats]:
    """The numbers of hits among `n` that are not negligible, and their probabilities.

    Where these are many, neighbours are taken together at their middle.
    """
    from scipy.stats import binom

    low, high = binom.ppf([_NEGLIGIBLE, 1 - _NEGLIGIBLE], n, rate)
    width = int(np.ceil((high - low + 1) / _MAX_NUMBERS))
    edges = np.arange(low - 1, high + width, width)
    return np.minimum((edges[:-1] + 1 + edges[1:]) / 2, n), np.diff(binom.cdf(edges, n, rate))


def _bounds(kind: MetricKind, seen: _Shares, members: int, others: int, tail: float) -> tuple[Floats, Floats]:
    """Lower and upper bound of each outcome, each at confidence 1 - tail: MOVER (Zou & Donner 2008)."""
    if kind == "paired difference":
        others = members
    down, up = _reach(seen.first, members, tail)
    other_down, other_up = _reach(seen.second, others, tail)
    if kind == "balanced accuracy":
        value = (seen.first + seen.second) / 2
        return value - np.hypot(down, other_down) / 2, value + np.hypot(up, other_up) / 2
    value = seen.first - seen.second
    below, above = down**2 + other_up**2, up**2 + other_down**2
    if kind == "paired difference":
        # A unit is no gain and a loss at once, so that both rates are negatively correlated.
        odds = [share / np.maximum(1 - share, 1e-12) for share in (seen.first, seen.second)]
        correlation = -np.minimum(1.0, np.sqrt(odds[0] * odds[1]))
        below, above = below - 2 * correlation * down * other_up, above - 2 * correlation * up * other_down
    else:
        # What the others may have lost, and the members, though no unit shows it.
        below, above = below + _unseen(members, tail) ** 2, above + _unseen(others, tail) ** 2
    return value - np.sqrt(below), value + np.sqrt(above)


def _reach(share: Floats, n: int, tail: float) -> tuple[Floats, Floats]:
    """How far the Clopper-Pearson bounds lie below and above each share."""
    values, back = np.unique(share, return_inverse=True)
    bounds = [beta_bounds(float(value), np.float64(n), np.array([tail])) for value in values]
    lower, upper = (np.array([bound[side][0] for bound in bounds]) for side in (0, 1))
    return (values - lower)[back], (upper - values)[back]


def _unseen(n: int, tail: float) -> float:
    """The upper bound of a share of which `n` units show no hit."""
    return float(beta_bounds(0.0, np.float64(n), np.array([tail]))[1][0])


def _auc_upper(value: float, members: int, others: int) -> float:
    """The upper end of the 95 % interval of an AUC at its expected variance."""
    from scipy.special import expit, logit, stdtrit

    error, degrees = _auc_error(value, members, others)
    if degrees <= 0:
        return float(beta_bounds(value, np.float64(min(members, others)), np.array([TAIL]))[1][0])
    return float(expit(logit(value) - stdtrit(degrees, TAIL) * error))


def _auc_chance(effect: float, members: int, others: int, limit: float, tail: float, *, over: bool) -> float:
    """The chance that the bound of an AUC lies above `limit` (`over`), or that the interval is within it."""
    from scipy.special import logit, ndtr, stdtrit

    if not 0 < limit < 1:
        return float((limit <= 0) == over)
    error, degrees = _auc_error(effect, members, others)
    if degrees <= 0:
        return 0.0
    room = float(logit(effect) - logit(limit)) * (1 if over else -1)
    return float(ndtr(room / error + stdtrit(degrees, tail)))


def _auc_power(effect: float, members: int, others: int, limit: float, tail: float) -> float:
    """The chance that a leak is confirmed over `limit`, which never falls as the AUC grows.

    The normal approximation on the logit scale does near 1 with few units (ours): scores that are better separated are
    no harder to tell apart, so that beyond its largest chance the effect that has it is taken.
    """
    effects = np.arange(50, 100) / 100
    chances = [_auc_chance(float(one), members, others, limit, tail, over=True) for one in effects]
    most = float(effects[int(np.argmax(chances))])
    return _auc_chance(min(effect, most), members, others, limit, tail, over=True)


def _auc_error(value: float, members: int, others: int) -> tuple[float, float]:
    """The standard error of an AUC on the logit scale, and Satterthwaite's degrees of freedom (0: too few units).

    Both sides' scores are normal with one variance.
    """
    from scipy.special import ndtr, ndtri

    if min(members, others) < 4:  # `auc_interval` then never estimates the variance
        return np.inf, 0.0
    grid = ndtri((np.arange(999) + 0.5) / 999)
    spread = float(np.var(ndtr(grid + np.sqrt(2) * ndtri(value))))  # of the placements of one side
    rest = value * (1 - value) - 2 * spread
    variance = (rest + spread * (members + others)) / (members * others)
    terms = np.array([1 / members, 1 / others])
    degrees = terms.sum() ** 2 / float(np.sum(terms**2 / np.array([members - 1, others - 1])))
    return float(variance**0.5 / (value * (1 - value))), float(degrees)
