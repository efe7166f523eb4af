"""Delete-a-group jackknife: intervals where units are used in more ways than one, as to train and to judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from audit.stats.intervals import Interval, make_interval, tail_levels


def group_jackknife(
    value: float,
    without: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    n: int,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The interval of a number in [0, 1] from what it is when each group of units is left out in turn.

    The variance is that of the pseudo-values, weighted for groups of unequal sizes (Busing, Meijer & van der Leeden
    1999), the bounds Student's t with one degree of freedom less than there are groups, and cut to [0, 1]. Whatever is
    made of the units, in one step or in several, is in it, as long as the number without a group rests on nothing that
    was made of the group.

    Args:
        value: of all units.
        without: the number without each group, shape (n_groups,), at least two.
        sizes: units in each group, shape (n_groups,), each under `n`.
        n: units in all, also of groups that are not left out because the number without them is not known.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a unit is, singular, for the method's wording.

    Returns:
        n and clusters count the units.

    Raises:
        ValueError: fewer than two groups, a group without units or of all, or a level out of range.
    """
    from scipy.special import stdtrit

    rest, counts = np.asarray(without, np.float64), np.asarray(sizes, np.float64)
    if rest.ndim != 1 or rest.size < 2 or rest.shape != counts.shape:
        raise ValueError("give two groups at least, and the size of each")
    if not ((counts > 0) & (counts < n)).all():
        raise ValueError("a group needs units, and others beside it")
    times = n / counts
    pseudo = times * value - (times - 1) * rest
    deviation = float(np.sqrt(np.mean((pseudo - pseudo.mean()) ** 2 / (times - 1))))
    reach = -stdtrit(rest.size - 1, tail_levels(alphas)) * deviation
    return make_interval(
        value,
        np.maximum(value - reach, 0.0),
        np.minimum(value + reach, 1.0),
        n=n,
        clusters=n,
        method=f"jackknife of {rest.size} groups of {unit}s",
        alphas=alphas,
    )


def widen_to(interval: Interval, floor: Interval) -> Interval:
    """The interval with bounds that lie at least as far from its value as those of another from its own.

    A jackknife sees no spread where every unit says the same, or nearly so; an interval that knows how many units there
    are then says how little that shows.

    Args:
        interval: of a number in [0, 1].
        floor: the other, of a number in [0, 1] and with bounds at the same levels.

    Returns:
        Bounds cut to [0, 1]; the wording of `interval`, unless `floor` reaches further on both sides.

    Raises:
        ValueError: the levels differ.
    """
    if [bound[0] for bound in interval.bounds] != [bound[0] for bound in floor.bounds]:
        raise ValueError("both intervals need bounds at the same levels")

    def lower(own: float, other: float) -> float:
        return max(min(own, interval.value - (floor.value - other)), 0.0)

    def upper(own: float, other: float) -> float:
        return min(max(own, interval.value + (other - floor.value)), 1.0)

    pairs = zip(interval.bounds, floor.bounds, strict=True)
    low, high = lower(interval.low, floor.low), upper(interval.high, floor.high)
    wider = low < interval.low and high > interval.high
    return replace(
        interval,
        low=low,
        high=high,
        method=f"{floor.method}, wider than the {interval.method}" if wider else interval.method,
        bounds=tuple((own[0], lower(own[1], other[1]), upper(own[2], other[2])) for own, other in pairs),
    )
