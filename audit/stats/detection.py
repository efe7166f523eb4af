"""Smallest leak that an audit of so many units confirms, before anything is measured.

The complement of `power`: that module plans passes, this one plans violations. A leak is confirmed
where the lower bound of its number lies beyond the limit (`audit.policy.verdict`). Bounds are those
of `power`, at a smaller tail.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from audit.stats.power import (
    DIFFERING,
    MetricKind,
    difference_bounds,
    numbers_of_hits,
    satterthwaite,
)

UNPLANNED: tuple[MetricKind, ...] = ("balanced accuracy", "low advantage")
"""Kinds of metrics whose smallest confirmed leak is not planned."""
STEP = 0.01
"""By which leaks grow in search of the smallest one that is confirmed."""


# Asked of every limit, in every plan, with few different numbers.
@cache
def confirmed_from(
    kind: MetricKind, members: int, others: int, limit: float, tail: float, power: float = 0.8
) -> float | None:
    """Find the smallest leak that an audit confirms beyond a limit with some power.

    It is found to the next percent.

    Args:
        kind: what the metric is; a balanced accuracy and a low advantage are not planned.
        members: units that training saw, at least one.
        others: units that it never saw; a paired difference does not look at them.
        limit: the largest value that the policy permits.
        tail: level of the one-sided test of the limit, adjusted for the number of tests.
        power: wanted chance of a confirmation, in (0, 1).

    Returns:
        A value of the metric in (limit, 1]. None where no leak is confirmed so often, or the kind
        is not planned.

    Raises:
        ValueError: the tail or the power is not in (0, 1).

    Example:
        >>> confirmed_from("auc", 40, 40, 0.65, tail=0.05)
        0.8
    """
    if not 0 < tail < 1 or not 0 < power < 1:
        raise ValueError("a tail and a power lie between 0 and 1")
    if kind in UNPLANNED:
        return None
    n_steps = round((1 - limit) / STEP)
    for step in range(1, n_steps + 1):
        leak = round(limit + step * STEP, 4)
        if _chance(kind, members, others, leak, limit, tail) >= power:
            return leak
    return None


def _chance(
    kind: MetricKind, members: int, others: int, leak: float, limit: float, tail: float
) -> float:
    """Compute the chance that an audit of so many units confirms a leak beyond a limit."""
    if kind == "auc":
        return _area_chance(members, others, leak, limit, tail)
    return _difference_chance(kind, members, others, leak, limit, tail)


def _difference_chance(
    kind: MetricKind, members: int, others: int, leak: float, limit: float, tail: float
) -> float:
    """Compute the chance that the lower bound of a difference of shares is beyond the limit."""
    if kind == "paired difference":
        others = members
    member_hits, member_chances = numbers_of_hits(members, min(1.0, leak + DIFFERING))
    other_hits, other_chances = numbers_of_hits(others, DIFFERING)
    first, second = np.meshgrid(member_hits / members, other_hits / others, indexing="ij")
    lower, _ = difference_bounds(kind, first.ravel(), second.ravel(), members, others, tail)
    return float(np.outer(member_chances, other_chances).ravel()[lower > limit].sum())


def _area_chance(members: int, others: int, leak: float, limit: float, tail: float) -> float:
    """Compute the chance that the lower bound of an AUC lies beyond the limit.

    The bound is normal on the logit scale.

    The variance is that of Hanley & McNeil (1982), for exponential scores; an AUC of 1 has an exact
    bound.
    """
    from scipy.special import logit, ndtr, stdtrit

    if leak >= 1:
        # Sides that do not overlap have the bound of Clopper & Pearson, of which nothing is left to
        # chance.
        return float(tail ** (1 / min(members, others)) > limit)
    if min(members, others) < 4:
        return 0.0
    member_pairs = leak / (2 - leak) - leak**2
    other_pairs = 2 * leak**2 / (1 + leak) - leak**2
    spread = leak * (1 - leak)
    variance = (spread + (members - 1) * member_pairs + (others - 1) * other_pairs) / (
        members * others
    )
    error = variance**0.5 / spread
    reach = (logit(leak) - logit(limit)) / error
    return float(ndtr(reach + stdtrit(satterthwaite(members, others), tail)))
