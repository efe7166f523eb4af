"""Recognition of classes beyond a blind guesser: the share of the rest, and the class recognised best (ours).

Both are 0 for answers that do not depend on the truth, and 1 for whoever is always right, however common the
commonest class is: a lift over naming it cannot exceed what it leaves (methods.md#redaction-context).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.stats.intervals import Interval, cluster_sums, make_interval, proportion, tail_levels
from audit.stats.rates import MIN_DIFFERING_CLUSTERS, squared_reach


def lift_share(
    right: npt.ArrayLike,
    blind: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The share recognised of what a blind guesser misses: (accuracy - blind accuracy) / (1 - blind accuracy).

    That is the share gained of the rows that the guesser misses, minus the share lost of the others times their odds.
    The interval is the outer one of two: MOVER (Zou & Donner 2008) on the `proportion` intervals of both shares, which
    holds where hits are rare, at the observed odds, their correlation over clusters used where it is negative; and
    cluster-t on the linearised ratio, which knows that the odds were estimated as well. Where nothing is lost and 20
    clusters or more differ, losses that were not seen are not reckoned with, as in `audit.stats.rates.net`.

    Args:
        right: where the attacker is right, 0/1, shape (n,).
        blind: where the blind guesser is, 0/1, shape (n,).
        clusters: the cluster of each row, shape (n,), integers.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        At most 1; below 0 for an attacker who does worse than the blind guesser.

    Raises:
        ValueError: shapes differ, or the blind guesser is always right.
    """
    hits, known, labels = np.asarray(right, bool), np.asarray(blind, bool), np.asarray(clusters, np.int64)
    if labels.ndim != 1 or not hits.shape == known.shape == labels.shape or known.all():
        raise ValueError("give rows of one length, at least one of them untold by somebody blind")
    tails = tail_levels(alphas)
    gained, gained_low, gained_high = _bounds(hits[~known], labels[~known], tails)
    lost, lost_low, lost_high = _lost(hits, known, labels, tails)
    odds = float(known.sum() / (~known).sum())
    correlation = _correlation((hits & ~known, ~known), (~hits & known, known), labels)
    away = (0.0, odds * (lost_low - lost), odds * (lost_high - lost))
    down, up = squared_reach((gained, gained_low, gained_high), away, correlation)
    value = gained - odds * lost
    reach = _linearised_reach(hits, known, labels, value, tails)
    return make_interval(
        value,
        value - np.maximum(np.sqrt(down), reach),
        np.minimum(value + np.maximum(np.sqrt(up), reach), 1.0),
        n=hits.size,
        clusters=np.unique(labels).size,
        method=f"MOVER on Korn-Graubard and Clopper-Pearson rates or cluster-t, clustered by {unit}",
        alphas=alphas,
    )


def _lost(hits: Bools, known: Bools, labels: Ints, tails: Floats) -> tuple[float, Floats, Floats]:
    """The share lost of what the blind one knows, with its bounds."""
    differing = np.unique(labels[hits != known]).size
    if not known.any() or (hits[known].all() and differing >= MIN_DIFFERING_CLUSTERS):
        return 0.0, np.zeros(tails.size), np.zeros(tails.size)
    return _bounds(~hits[known], labels[known], tails)


def _linearised_reach(hits: Bools, known: Bools, labels: Ints, value: float, tails: Floats) -> Floats:
    """How far the bounds of (hits - known) / untold lie from it by its linearised variance over clusters."""
    from scipy.special import stdtrit

    gains, rest = cluster_sums([hits.astype(np.float64) - known, ~known], labels).T
    if gains.size < 2:
        return np.zeros_like(tails)
    variance = gains.size / (gains.size - 1) * float(np.sum((gains - value * rest) ** 2)) / float(rest.sum()) ** 2
    return np.asarray(-stdtrit(gains.size - 1, tails) * np.sqrt(variance), np.float64)


def _correlation(first: tuple[Bools, Bools], second: tuple[Bools, Bools], labels: Ints) -> float:
    """Correlation over clusters of two ratios of sums, from their linearised residuals; 0 where one is constant."""
    totals = cluster_sums([*first, *second], labels)
    sums = totals.sum(axis=0)
    if not sums[1] or not sums[3]:
        return 0.0
    one, other = (totals[:, i] - totals[:, i + 1] * sums[i] / sums[i + 1] for i in (0, 2))
    spread = float(np.sqrt(np.sum(one**2) * np.sum(other**2)))
    return float(np.sum(one * other) / spread) if spread > 0 else 0.0


def _bounds(hits: Bools, labels: Ints, tails: Floats) -> tuple[float, Floats, Floats]:
    """A share with its one-sided bounds at these levels."""
    share = proportion(hits, labels, alphas=tails.tolist())
    return share.value, *share.one_sided


@dataclass(frozen=True)
class WorstClass:
    """The class that is recognised best.

    Attributes:
        index: the class, as in the data.
        interval: of the largest informedness over the classes.
    """

    index: int
    interval: Interval


def worst_class(
    classes: npt.ArrayLike,
    predicted: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> WorstClass:
    """The largest informedness of any class: the share of its rows called by it minus that of the other rows.

    Youden's J of one class against the rest (Youden 1950). By class MOVER on two `proportion` intervals. The lower
    bound is the highest of all classes at a level divided by their number (Bonferroni), which pays for picking the
    largest; the upper bound is the highest at the level itself, for the truth of the worst class is under its own.

    Args:
        classes: shape (n,); two that occur at least.
        predicted: shape (n,).
        clusters: the cluster of each row, shape (n,), integers.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        The class, the rarest of equals, and the number, in [-1, 1].

    Raises:
        ValueError: shapes differ, or there are fewer than two classes.
    """
    true, named, labels = (np.asarray(column, np.int64) for column in (classes, predicted, clusters))
    distinct, counts = np.unique(true, return_counts=True)
    if labels.ndim != 1 or not true.shape == named.shape == labels.shape or distinct.size < 2:
        raise ValueError("give rows of one length, of two classes at least")
    tails = tail_levels(alphas)
    by_class = [_informedness(true == one, named == one, labels, tails, distinct.size) for one in distinct]
    values = np.array([value for value, _, _ in by_class])
    # Of two classes both are recognised alike: the rarer one is named.
    best = int(np.lexsort((counts, -values.round(9)))[0])
    interval = make_interval(
        float(values[best]),
        np.max([lower for _, lower, _ in by_class], axis=0),
        np.max([upper for _, _, upper in by_class], axis=0),
        n=true.size,
        clusters=np.unique(labels).size,
        method=f"largest of {distinct.size} classes, MOVER on Korn-Graubard rates, clustered by {unit}, Bonferroni",
        alphas=alphas,
    )
    return WorstClass(int(distinct[best]), interval)


def _informedness(
    own: Bools, called: Bools, labels: Ints, tails: Floats, n_classes: int
) -> tuple[float, Floats, Floats]:
    """Recall minus false calls; the lower bounds at `tails` divided by `n_classes`, the upper ones at `tails`."""
    both = np.concatenate([tails / n_classes, tails])
    recall, recall_low, recall_high = _bounds(called[own], labels[own], both)
    false, false_low, false_high = _bounds(called[~own], labels[~own], both)
    value = recall - false
    lower = value - np.hypot(recall - recall_low, false_high - false)
    upper = value + np.hypot(recall_high - recall, false - false_low)
    return value, np.maximum(lower[: tails.size], -1.0), np.minimum(upper[tails.size :], 1.0)
