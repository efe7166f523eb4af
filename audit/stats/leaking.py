"""Numbers of units that leak, out of all that a data set holds.

What was tried is scaled to what was not. A unit is a document of training, and a row a value of it.
What guessing gives shows on units that training never saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats.intervals import TAILS, Interval, make_interval
from audit.stats.roc import check_scores

REACH = 3.0
"""Standard errors of a threshold's noise by which thresholds without evidence are compared."""
# Under no leak the quietest threshold then decides: with 2, one clean audit in 15 counts over 5 %
# of the documents.
METHOD = "exact, hypergeometric, at thresholds of 1, 2, 4, ... values"


class Threshold(NamedTuple):
    """What lies at or over a number of values.

    Attributes:
        values: the number.
        n, m: units of training, and others.
        inside, outside: those of either that give away so many values or more.
    """

    values: int
    n: int
    m: int
    inside: int
    outside: int

    @property
    def excess(self) -> float:
        """Return the members over the threshold minus those expected from the others' share."""
        return self.inside - self.n * self.outside / self.m

    @property
    def leaking(self) -> float:
        """Estimate the number of members that leak, at least 0.

        Of the others a share passes the threshold by luck, and so do units that leak.
        """
        if self.outside == self.m:
            return 0.0
        return max(0.0, self.excess / (1 - self.outside / self.m))

    @property
    def noise(self) -> float:
        """Return the standard error of the number that leaks where nothing does.

        Where nearly every unit passes the threshold by luck, a unit of excess stands for many.
        """
        share = (self.outside + 1) / (self.m + 2)
        of_excess = self.n * np.sqrt(share * (1 - share) * (1 / self.n + 1 / self.m))
        return float(of_excess / (1 - share))

    def p_values(self) -> Floats:
        """Compute the p-values against "at most k members leak", k = 0, 1, ..., for each k.

        `inside`, (inside + 1,), ascending.

        The units that do not leak are exchangeable with the others (Fisher's exact test); those
        that leak are taken to lie over the threshold, which leaves the fewest to luck.
        """
        from scipy.stats import hypergeom

        leaking = np.arange(self.inside + 1)
        lucky = self.inside - leaking
        drawn = self.n - leaking
        chances = hypergeom.sf(lucky - 1, drawn + self.m, lucky + self.outside, drawn)
        return np.where(lucky == 0, 1.0, np.asarray(chances, np.float64))

    def p_values_below(self) -> Floats:
        """Compute the p-values against "k members leak or more", k = 0, 1, ..., for each k.

        `inside`, (inside + 1,), descending.
        """
        from scipy.stats import hypergeom

        leaking = np.arange(self.inside + 1)
        lucky = self.inside - leaking
        drawn = self.n - leaking
        return np.asarray(
            hypergeom.cdf(lucky, drawn + self.m, lucky + self.outside, drawn), np.float64
        )


def thresholds_of(members: npt.ArrayLike, others: npt.ArrayLike, most: int) -> list[Threshold]:
    """Count members and others that give away at least k values, k = 1, 2, 4, ... up to `most`.

    Args:
        members: values that each unit of training gives away, shape (n,), at least one.
        others: values that each other unit gives away, shape (m,), at least one.
        most: values of a unit that were tried, at most.

    Raises:
        ValueError: an empty side, or a NaN.
    """
    inside, outside = check_scores(members, others)
    thresholds = []
    values = 1
    while values <= max(most, 1):
        over = [int((side > values - 0.5).sum()) for side in (inside, outside)]
        thresholds.append(Threshold(values, inside.size, outside.size, *over))
        values *= 2
    return thresholds


def leaking_p(members: npt.ArrayLike, others: npt.ArrayLike, most: int) -> float:
    """Return a p-value against "no unit leaks".

    It is the smallest of the thresholds, times their number (Bonferroni).

    Args and errors are those of `thresholds_of`.
    """
    thresholds = thresholds_of(members, others, most)
    smallest = min(float(threshold.p_values()[0]) for threshold in thresholds)
    return min(1.0, len(thresholds) * smallest)


def count_leaking(
    members: npt.ArrayLike, others: npt.ArrayLike, most: int, total: int, *, complete: bool
) -> Interval:
    """Count the units of training that leak at least one value, of all that a data set holds.

    A unit that leaks gives away as many values as it leaks and those that luck gives. So at every
    threshold the excess over the other units bounds the number that leaks from below, whatever they
    leak; of one value in each of many units the lowest threshold sees most, of whole units the
    higher ones. Lower bounds share their level among the thresholds (Bonferroni). The number is
    that of the threshold which shows most for certain; where none shows any, of the one that noise
    moves least. At one value, every unit that leaks lies over the threshold, which bounds the
    number from above too, if all its values were tried.

    Args:
        members: values that each unit of training gives away, shape (n,), at least one.
        others: values that each other unit gives away, shape (m,), at least one.
        most: values of a unit that were tried, at most.
        total: units of training that the data set holds, tried or not; the tried ones were drawn at
            random.
        complete: whether all values of the tried units were tried; else the upper bounds are
            `total`.

    Raises:
        ValueError: an empty side, a NaN, or a total under n.
    """
    thresholds = thresholds_of(members, others, most)
    n = thresholds[0].n
    if total < n:
        raise ValueError("the data set holds at least the units that were tried")
    tails = TAILS if total == n else TAILS / 2
    bounds = []
    for threshold in thresholds:
        p_values = threshold.p_values()
        bounds.append([int(np.argmax(p_values > tail)) for tail in tails / len(thresholds)])
    certain = np.array(bounds)
    shown = [
        (certain[row, 0], threshold.leaking - REACH * threshold.noise)
        for row, threshold in enumerate(thresholds)
    ]
    chosen = thresholds[max(range(len(thresholds)), key=lambda row: shown[row])]
    lower = scale_lower(certain.max(axis=0), n, total, tails)
    upper = np.full(TAILS.size, float(total))
    if complete:
        # Where luck favours the others, not even "no unit leaks" is likely: the bound is 0 then.
        below = thresholds[0].p_values_below()
        most_leaking = np.array([max(0, int((below > tail).sum()) - 1) for tail in tails])
        upper = scale_upper(most_leaking, n, total, tails)
    value = chosen.leaking * total / n
    method = f"{METHOD}; the number is that at {chosen.values}"
    return make_interval(value, lower, upper, n=n, method=method)


def scale_lower(counts: npt.ArrayLike, n: int, total: int, tails: Floats) -> Floats:
    """Compute lower bounds on a number of units of a data set from those of a random draw.

    At least so many of them are among those drawn.

    Args:
        counts: units among the drawn ones at each level, shape (n_tails,), whole numbers.
        n: units that were drawn at random.
        total: number of units of the data set.
        tails: one-sided levels that the draw may miss, shape (n_tails,).

    Returns:
        Shape (n_tails,).
    """
    drawn = np.asarray(counts, np.int64)
    if total == n:
        return np.asarray(drawn, np.float64)
    return np.array(
        [
            _fewest(int(count), n, total, float(tail))
            for count, tail in zip(drawn, tails, strict=True)
        ]
    )


def scale_upper(counts: npt.ArrayLike, n: int, total: int, tails: Floats) -> Floats:
    """Compute upper bounds on a number of units of a data set from those of a random draw.

    At most so many of them are among those drawn.

    Args are those of `scale_lower`: what is not counted is bounded from below.
    """
    n_absent = n - np.asarray(counts, np.int64)
    return total - scale_lower(n_absent, n, total, tails)


@lru_cache(maxsize=4096)  # the bounds of a scan's methods are often alike
def _fewest(count: int, n: int, total: int, tail: float) -> float:
    """Find the fewest of `total` units of which a draw of `n` may well hold `count`.

    A draw of `n` holds `count` of them or more with a chance over `tail`.
    """
    from scipy.stats import hypergeom

    if count == 0:
        return 0.0
    possible: Ints = np.arange(count, total - n + count + 1)
    low = 0
    high = possible.size - 1
    while low < high:
        middle = (low + high) // 2
        if hypergeom.sf(count - 1, total, possible[middle], n) > tail:
            high = middle
        else:
            low = middle + 1
    return float(possible[low])


def chances_to_be_tried(offered: Sequence[int], tried: Sequence[int]) -> Floats:
    """Compute the chance that a unit has its r-th row tried, for r = 1, 2, ...

    r = 1, 2, ..., up to the most rows of a unit.

    Rows are drawn one of each unit before a second of any, in a seeded order of units: of the units
    that hold r rows or more, each is as likely as another to have r tried.

    Args:
        offered: rows that each unit holds, tried or not, shape (n_units,).
        tried: rows of it that were tried, at most as many.
    """
    n_offered = np.asarray(offered, np.int64)
    n_tried = np.asarray(tried, np.int64)
    places = np.arange(1, int(n_offered.max(initial=0)) + 1)
    holding = (n_offered[:, None] >= places).sum(axis=0)
    reached = (n_tried[:, None] >= places).sum(axis=0)
    return np.asarray(reached / np.maximum(holding, 1), np.float64)


def chance_of_value(n_rows: int, n_same: int, chances: Floats) -> float:
    """Compute the chance that a unit has one of the rows tried that hold one value.

    Args:
        n_rows: rows of the unit.
        n_same: rows of it that hold the value, at least one.
        chances: chances, see `chances_to_be_tried`.
    """
    missed = 1.0
    total = 0.0
    for place in range(1, n_rows + 1):
        # With `place` rows tried, each left-out row is as likely as another to hold the value.
        missed *= max(0, n_rows - n_same - place + 1) / (n_rows - place + 1)
        following = chances[place] if place < n_rows else 0.0
        total += (chances[place - 1] - following) * (1 - missed)
    return float(total)
