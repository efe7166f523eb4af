"""Intervals of what the attacks reach: companies are resampled through training and judging (methods.md#statistics).

A forest of APK is trained on some companies and judges the others, and what it is right about hangs on whom it knows.
Taken as independent given the forests, companies of which a model does give something away have intervals that cover
0.84 where 0.95 is said (measured on simulated audits, as in `benchmarks/provider_calibration.json`). So each group of
companies is left out in turn, as judged and as known: what is left are the forests that were trained on nobody of it.
Nothing is fitted anew. The draw of the forests that are left adds to the variance, so that intervals are rather too
wide than too narrow (ours).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.provider_membership.forest import groups_of
from audit.attacks.provider_membership.inference import MIN_JUDGED, balanced, mean_known, right_shares, smaller_side
from audit.stats.balanced import balanced_accuracy
from audit.stats.group_jackknife import group_jackknife, widen_to
from audit.stats.intervals import Interval
from audit.stats.roc import auc, auc_interval

MembershipStatistic = Callable[[Floats, Bools], float]
"""A number in [0, 1] from what seeds say, shape (n_seeds, n), NaN for not judged, and who is a member, shape (n,)."""


def accuracy(calls: Floats, member: Bools, rng: np.random.Generator, alphas: tuple[float, ...]) -> Interval | None:
    """Balanced accuracy over the providers that were judged; None where fewer than two of a side were.

    Args:
        calls: shape (n_seeds, n).
        member: shape (n,).
        rng: the source of randomness.
        alphas: one-sided levels for `Interval.bounds`.
    """
    right = right_shares(calls, member)
    judged = ~np.isnan(right)
    if smaller_side(member[judged]) < MIN_JUDGED:
        return None
    sides = (right[judged & member], right[judged & ~member])
    given = balanced_accuracy(*sides, rng, alphas=alphas, unit="provider")
    return _resampled(lambda said, own: balanced(mean_known(said), own), calls, member, given, alphas)


def forest_area(probabilities: Floats, member: Bools, alphas: tuple[float, ...]) -> Interval | None:
    """The mean AUC of the single forests, over the providers each judges; None where fewer than two of a side are.

    An attacker knows some companies, and has one forest. Given that forest, whoever it judges without a leak is as
    likely a member as not, so that chance is 0.5; the mean probability over forests, by which a member is judged by
    those that may know its neighbours that are out rather than itself, would lie under it (0.47 of 80 companies).

    Args:
        probabilities: of being a member, by forest, shape (n_seeds, n), NaN for not judged.
        member: shape (n,).
        alphas: one-sided levels for `Interval.bounds`.
    """
    mean = mean_known(probabilities)
    judged = ~np.isnan(mean)
    if smaller_side(member[judged]) < MIN_JUDGED:
        return None
    given = auc_interval(mean[judged & member], mean[judged & ~member], alphas=alphas, unit="provider")
    return _resampled(mean_area, probabilities, member, given, alphas)


def mean_area(probabilities: Floats, member: Bools) -> float:
    """The mean over forests of the AUC among those that each judges; of forests that judge both sides, else 0.5.

    Args:
        probabilities: shape (n_seeds, n), NaN for not judged.
        member: shape (n,).
    """
    known = ~np.isnan(probabilities)
    areas = [
        auc(row[judged & member], row[judged & ~member])
        for row, judged in zip(probabilities, known, strict=True)
        if (judged & member).any() and (judged & ~member).any()
    ]
    return float(np.mean(areas)) if areas else 0.5


def _resampled(
    statistic: MembershipStatistic, said: Floats, member: Bools, given: Interval, alphas: tuple[float, ...]
) -> Interval:
    """The interval of what forests reach, over companies trained on and judged.

    Args:
        statistic: of what forests say of providers.
        said: shape (n_seeds, n), NaN for not judged. A row of the table that no seed judges is passed over.
        member: shape (n,).
        given: the interval of the same, or of much the same, number when the forests are taken as given: bounds reach
            at least as far from the value. It is the interval where no group can be left out, as with one forest.
        alphas: one-sided levels for `Interval.bounds`, those of `given`.
    """
    judged = ~np.isnan(mean_known(said))
    known = np.isnan(said) & judged
    left = list(_without(statistic, said, member, known, judged)) if known.any() else []
    if len(left) < 2:
        return given
    without, sizes = zip(*left, strict=True)
    value, n = statistic(said[:, judged], member[judged]), int(judged.sum())
    return widen_to(group_jackknife(value, without, sizes, n=n, alphas=alphas, unit="provider"), given)


def _without(
    statistic: MembershipStatistic, said: Floats, member: Bools, known: Bools, judged: Bools
) -> Iterator[tuple[float, int]]:
    """The number without each group, and how many of the group are judged; groups that every forest knows have none."""
    groups = groups_of(member)
    for group in np.unique(groups[judged]):
        inside = groups == group
        spared = ~known[:, inside].any(axis=1)
        rest = judged & ~inside
        rest &= ~np.isnan(said[spared]).all(axis=0) if spared.any() else False
        if member[rest].any() and not member[rest].all():
            yield statistic(said[spared][:, rest], member[rest]), int((judged & inside).sum())
