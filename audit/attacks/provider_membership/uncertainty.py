"""Certainty of what the attacks reach: permuted labels, and intervals over companies.

Methods: methods.md#provider-membership and #statistics.

A forest of APK looks at the labels of its training share only. Whatever the labels of those providers are that none of
several forests was trained on, all of them call them what they call them; where membership was assigned at random every
order of these labels is as likely as the true one, so that judging the mean call by permuted ones is an exact test
(ours). With every forest that there is nobody would be left, so the first `JOINT` are taken. AZK, M1, M2 and their
ensemble look at no label: of them that is everybody. Given is how much is looked at of each provider (`features`). The
whole pipeline is run with permuted labels by `benchmarks/provider_invoices.py`.

Intervals resample companies through training and judging: a forest is trained on some companies and judges the others,
and what it is right about depends on whom it knows. Taken as independent given the forests, companies of which a model
does give something away have intervals that cover 0.84 where 0.95 is said (measured on simulated audits, as in
`benchmarks/provider_calibration.json`). So each group of companies is left out in turn, as judged and as known: what is
left are the forests that were trained on nobody of it. Nothing is fitted anew. The draw of the forests that are left
adds to the variance, so that intervals are rather too wide than too narrow (ours).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.measuring import Streams
from audit.attacks.provider_membership.inference import (
    MIN_JUDGED,
    Inference,
    balanced,
    mean_known,
    right_shares,
    smaller_side,
)
from audit.attacks.provider_membership.methods import groups_of
from audit.engine.interface import Progress
from audit.stats.advantage import balanced_accuracy
from audit.stats.intervals import Interval
from audit.stats.means import group_jackknife, widen_to
from audit.stats.roc import auc, auc_interval

JOINT = 5
"""Seeds that are judged jointly, at most (ours): shares of 15 % leave 44 % of the providers that none of five knows."""
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Permuted:
    """A method under permuted labels.

    Attributes:
        n: providers that all of the first `JOINT` seeds judge: no forest of theirs was trained on any.
        observed: the balanced accuracy of these seeds among them, with their own labels.
        values: the same with permuted ones, shape (n_permutations,).
    """

    n: int
    observed: float
    values: Floats

    @property
    def p_value(self) -> float:
        """One-sided: (1 + as high or higher) / (1 + permutations), in (0, 1]."""
        return float((1 + np.sum(self.values >= self.observed - _ROUNDING)) / (1 + self.values.size))


def permute_labels(
    inference: Inference, member: Bools, rng: np.random.Generator, progress: Progress, *, n_permutations: int
) -> dict[str, Permuted]:
    """Every method under permuted labels; `progress` is advanced for each permutation.

    A method is left out where fewer than two providers of a side are judged by all of these seeds.

    Args:
        inference: what `infer` found.
        member: shape (n,).
        rng: the source of randomness.
        progress: advanced for each permutation.
        n_permutations: how many.
    """
    called: dict[str, tuple[Floats, Bools]] = {}
    for method, every in inference.calls.items():
        calls = every[:JOINT]
        judged = ~np.isnan(calls).any(axis=0)
        if smaller_side(member[judged]) >= MIN_JUDGED:
            called[method] = calls[:, judged].mean(axis=0), member[judged]
    values: dict[str, list[float]] = {method: [] for method in called}
    streams = Streams(rng)
    rngs = {method: streams[method] for method in called}
    for _ in range(n_permutations):
        for method, (mean, own) in called.items():
            values[method].append(balanced(mean, rngs[method].permutation(own)))
        progress.advance()
    return {
        method: Permuted(len(own), balanced(mean, own), np.array(values[method]))
        for method, (mean, own) in called.items()
    }


MembershipStatistic = Callable[[Floats, Bools], float]
"""A number in [0, 1] from what seeds say, shape (n_seeds, n), NaN for not judged, and who is a member, shape (n,)."""


def measure_accuracy(
    calls: Floats, member: Bools, rng: np.random.Generator, alphas: tuple[float, ...]
) -> Interval | None:
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
    return _resample(lambda votes, own: balanced(mean_known(votes), own), calls, member, given, alphas)


def measure_forest_area(probabilities: Floats, member: Bools, alphas: tuple[float, ...]) -> Interval | None:
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
    return _resample(mean_area, probabilities, member, given, alphas)


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


def _resample(
    statistic: MembershipStatistic, votes: Floats, member: Bools, given: Interval, alphas: tuple[float, ...]
) -> Interval:
    """The interval of what forests reach, over companies trained on and judged.

    Args:
        statistic: of what forests say of providers.
        votes: shape (n_seeds, n), NaN for not judged. A row of the table that no seed judges is passed over.
        member: shape (n,).
        given: the interval of the same, or of much the same, number when the forests are taken as given: bounds reach
            at least as far from the value. It is the interval where no group can be left out, as with one forest.
        alphas: one-sided levels for `Interval.bounds`, those of `given`.
    """
    judged = ~np.isnan(mean_known(votes))
    known = np.isnan(votes) & judged
    left = list(_without(statistic, votes, member, known, judged)) if known.any() else []
    if len(left) < 2:
        return given
    without, sizes = zip(*left, strict=True)
    value, n = statistic(votes[:, judged], member[judged]), int(judged.sum())
    return widen_to(group_jackknife(value, without, sizes, n=n, alphas=alphas, unit="provider"), given)


def _without(
    statistic: MembershipStatistic, votes: Floats, member: Bools, known: Bools, judged: Bools
) -> Iterator[tuple[float, int]]:
    """The number without each group, and how many of the group are judged; groups that every forest knows have none."""
    groups = groups_of(member)
    for group in np.unique(groups[judged]):
        inside = groups == group
        spared = ~known[:, inside].any(axis=1)
        rest = judged & ~inside
        rest &= ~np.isnan(votes[spared]).all(axis=0) if spared.any() else False
        if member[rest].any() and not member[rest].all():
            yield statistic(votes[spared][:, rest], member[rest]), int((judged & inside).sum())
