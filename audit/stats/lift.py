"""What an attacker recognises beyond a blind guesser, over all classes and of one.

See methods/redaction-context.md.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.stats.intervals import TAILS, Interval, cluster_sums, make_interval, proportion_bounds
from audit.stats.rates import MIN_DIFFERING_CLUSTERS, RATES, Bounds, squared_reach


def lift_share(right: npt.ArrayLike, blind: npt.ArrayLike, clusters: npt.ArrayLike) -> Interval:
    """Compute the share recognised of what a blind guesser misses.

    (accuracy - blind accuracy) / (1 - blind accuracy). That is the share gained of the rows that
    the guesser misses, minus the share lost of the others times their odds: 0 for answers that do
    not depend on the truth, and 1 for whoever is always right, however common the commonest class
    (methods/redaction-context.md). The interval is the outer one of two: MOVER (Zou & Donner 2008)
    on the `proportion` intervals of both shares, which holds where hits are rare, at the observed
    odds, their correlation over clusters used where it is negative; and cluster-t on the linearised
    ratio, which knows that the odds were estimated as well. Where nothing is lost and 20 clusters
    or more differ, losses that were not seen are not reckoned with, as in `net`.

    Args:
        right: where the attacker is right, 0/1, shape (n,).
        blind: where the blind guesser is, 0/1, shape (n,).
        clusters: the cluster of each row, shape (n,), integers.

    Returns:
        At most 1; below 0 for an attacker who does worse than the blind guesser.

    Raises:
        ValueError: shapes differ, or the blind guesser is always right.
    """
    hits = np.asarray(right, bool)
    guessed = np.asarray(blind, bool)
    labels = np.asarray(clusters, np.int64)
    if labels.ndim != 1 or not hits.shape == guessed.shape == labels.shape or guessed.all():
        raise ValueError(
            "give rows of one length, at least one of them missed by the blind guesser"
        )
    gained = _share(hits[~guessed], labels[~guessed], TAILS)
    lost = 0.0, np.zeros(TAILS.size), np.zeros(TAILS.size)
    differing = np.unique(labels[hits != guessed]).size
    if guessed.any() and not (hits[guessed].all() and differing >= MIN_DIFFERING_CLUSTERS):
        lost = _share(~hits[guessed], labels[guessed], TAILS)
    odds = float(guessed.sum() / (~guessed).sum())
    correlation = _correlate_ratios((hits & ~guessed, ~guessed), (~hits & guessed, guessed), labels)
    value = gained[0] - odds * lost[0]
    away = (0.0, odds * (lost[1] - lost[0]), odds * (lost[2] - lost[0]))
    down, up = squared_reach(gained, away, correlation)
    reach = _linearised_reach(hits, guessed, labels, value)
    lower = value - np.maximum(np.sqrt(down), reach)
    upper = np.minimum(value + np.maximum(np.sqrt(up), reach), 1.0)
    n_clusters = np.unique(labels).size
    return make_interval(
        value, lower, upper, n=hits.size, clusters=n_clusters, method=f"{RATES} or cluster-t"
    )


def _linearised_reach(hits: Bools, known: Bools, labels: Ints, value: float) -> Floats:
    """Compute how far bounds of (hits - known) / missed lie from it.

    Its variance is linearised over clusters.
    """
    from scipy.special import stdtrit

    gains, unknown = cluster_sums([hits.astype(np.float64) - known, ~known], labels).T
    if gains.size < 2:
        return np.zeros_like(TAILS)
    variance = (
        gains.size
        / (gains.size - 1)
        * float(np.sum((gains - value * unknown) ** 2))
        / float(unknown.sum()) ** 2
    )
    return np.asarray(-stdtrit(gains.size - 1, TAILS) * np.sqrt(variance), np.float64)


def _correlate_ratios(
    first: tuple[Bools, Bools], second: tuple[Bools, Bools], labels: Ints
) -> float:
    """Correlate two ratios of sums over clusters by their linearised residuals.

    0 where one is constant.
    """
    totals = cluster_sums([*first, *second], labels)
    sums = totals.sum(axis=0)
    if not sums[1] or not sums[3]:
        return 0.0
    one, other = (totals[:, i] - totals[:, i + 1] * sums[i] / sums[i + 1] for i in (0, 2))
    spread = float(np.sqrt(np.sum(one**2) * np.sum(other**2)))
    return float(np.sum(one * other) / spread) if spread > 0 else 0.0


def _share(hits: Bools, labels: Ints, tails: Floats) -> Bounds:
    """Compute a share of hits with its one-sided bounds at the levels `tails`."""
    value = float(hits.mean())
    lower, upper, _ = proportion_bounds(hits, labels, tails)
    return value, np.minimum(lower, value), np.maximum(upper, value)


class WorstClass(NamedTuple):
    """The class that is recognised best.

    Attributes:
        label: the class, as in the data.
        interval: interval of the largest informedness over the classes.
    """

    label: int
    interval: Interval


def worst_class(
    classes: npt.ArrayLike, predicted: npt.ArrayLike, clusters: npt.ArrayLike
) -> WorstClass:
    """Compute the largest informedness of any class.

    The share of its rows called by it minus that of the other rows. Youden's J of one class against
    the rest (Youden 1950). By class MOVER on two `proportion` intervals. The lower bound is the
    highest of all classes at a level divided by their number (Bonferroni), which pays for picking
    the largest; the upper bound is the highest at the level itself, for the truth of the worst
    class is under its own.

    Args:
        classes: shape (n,); two that occur at least.
        predicted: shape (n,).
        clusters: the cluster of each row, shape (n,), integers.

    Returns:
        The class, the rarest of equals, and the number, in [-1, 1].

    Raises:
        ValueError: shapes differ, or there are fewer than two classes.
    """
    true, named, labels = (
        np.asarray(column, np.int64) for column in (classes, predicted, clusters)
    )
    distinct, counts = np.unique(true, return_counts=True)
    if labels.ndim != 1 or not true.shape == named.shape == labels.shape or distinct.size < 2:
        raise ValueError("give rows of one length, of two classes at least")
    by_class = [
        _informedness(true == label, named == label, labels, distinct.size) for label in distinct
    ]
    values, lowers, uppers = zip(*by_class, strict=True)
    # Of two classes both are recognised alike: the rarer one is named.
    best = int(np.lexsort((counts, -np.round(values, 9)))[0])
    ends = (np.max(lowers, axis=0), np.max(uppers, axis=0))
    n_clusters = np.unique(labels).size
    method = f"largest of {distinct.size} classes, MOVER on Korn-Graubard rates, Bonferroni"
    interval = make_interval(values[best], *ends, n=true.size, clusters=n_clusters, method=method)
    return WorstClass(int(distinct[best]), interval)


def _informedness(own: Bools, called: Bools, labels: Ints, n_classes: int) -> Bounds:
    """Compute a class's recall minus its rate of false calls, with bounds.

    Lower bounds at `TAILS` divided by `n_classes`, upper ones at `TAILS`.
    """
    both = np.concatenate([TAILS / n_classes, TAILS])
    recall, recall_low, recall_high = _share(called[own], labels[own], both)
    false, false_low, false_high = _share(called[~own], labels[~own], both)
    value = recall - false
    lower = value - np.hypot(recall - recall_low, false_high - false)
    upper = value + np.hypot(recall_high - recall, false - false_low)
    return value, np.maximum(lower[: TAILS.size], -1.0), np.minimum(upper[TAILS.size :], 1.0)
