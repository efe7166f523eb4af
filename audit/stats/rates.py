"""Excess over a baseline on member documents beyond that on held-out ones.

Method: methods.md#reconstruction, held-out control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats.clusters import effective_number
from audit.stats.intervals import Interval, beta_bounds, make_interval, name_number, proportion, tail_levels
from audit.stats.means import resampled_mean
from audit.stats.mover import correlation_of_means, squared_reach

MIN_DIFFERING_CLUSTERS = 20
"""With fewer documents that differ in a split, resampling sees too few distinct cases: MOVER instead. Ours: with 10,
coverage falls to 0.92 where fields of a document go together; with 20 it was 0.956 or more (simulated)."""
_LIMITS = (-2.0, 2.0)
_Bounds = Callable[[Floats, Ints], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class _Split:
    """Attack minus baseline of each field, in [-1, 1], and the field's document."""

    differences: Floats
    clusters: Ints

    @property
    def differing(self) -> int:
        return int(np.unique(self.clusters[self.differences != 0]).size)

    @property
    def n_clusters(self) -> int:
        return int(np.unique(self.clusters).size)

    @property
    def parts(self) -> tuple[Floats, Floats]:
        """Gains and losses of the attack, each in [0, 1]."""
        return np.maximum(self.differences, 0.0), np.maximum(-self.differences, 0.0)


def excess_rate(
    attack_m: npt.ArrayLike,
    base_m: npt.ArrayLike,
    clusters_m: npt.ArrayLike,
    attack_h: npt.ArrayLike,
    base_h: npt.ArrayLike,
    clusters_h: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Excess of a 0/1 outcome: (attack - baseline) over member fields minus the same over held-out fields.

    Where fewer than 20 documents of a split have a field on which attack and baseline differ, the interval is MOVER
    (Zou & Donner 2008; Newcombe's hybrid) on the `proportion` intervals of four rates, gained and lost in either split:
    two splits of 150 documents without any difference give about +-0.034. Otherwise BCa over documents, stratified by
    split.

    Args:
        attack_m: outcomes of the attack on member fields, 0/1, shape (n_m,).
        base_m: outcomes of the baseline on the same fields, 0/1, shape (n_m,).
        clusters_m: the document of each member field, shape (n_m,), integers.
        attack_h: outcomes of the attack on held-out fields, 0/1, shape (n_h,).
        base_h: outcomes of the baseline on the same fields, 0/1, shape (n_h,).
        clusters_h: the document of each held-out field, shape (n_h,), integers.
        rng: the source of randomness.
        n_resamples: resamples of the bootstrap.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        The excess, in [-2, 2]; n counts the fields and clusters the documents of both splits.

    Raises:
        ValueError: a split is empty, shapes differ, or values other than 0 and 1.
    """
    member = _split(attack_m, base_m, clusters_m)
    heldout = _split(attack_h, base_h, clusters_h)
    if not all(np.isin(split.differences, (-1.0, 0.0, 1.0)).all() for split in (member, heldout)):
        raise ValueError("outcomes must be 0 or 1; `excess_mean` takes values between")
    tails = tail_levels(alphas)

    def rate_bounds(part: Floats, clusters: Ints) -> tuple[Floats, Floats]:
        return proportion(part, clusters, alphas=tails.tolist(), unit=unit).one_sided

    method = f"MOVER on Korn-Graubard and Clopper-Pearson rates, clustered by {unit}"
    return _excess(member, heldout, rng, rate_bounds, method, n_resamples, alphas, unit)


def excess_mean(
    attack_m: npt.ArrayLike,
    base_m: npt.ArrayLike,
    clusters_m: npt.ArrayLike,
    attack_h: npt.ArrayLike,
    base_h: npt.ArrayLike,
    clusters_h: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Excess of a value in [0, 1], such as 1 - HD: as `excess_rate`, for means.

    BCa over documents, stratified by split. Where fewer than 20 documents of a split differ, or there is no spread, the
    interval is MOVER on the mean gain and the mean loss of either split, each taken for a share of hits among its
    documents (Clopper-Pearson at n = number of documents, Kish's effective one where they hold unequal numbers of
    fields). That is conservative: of all variables in [0, 1] with a given mean the 0/1 one spreads most (Hoeffding
    1963), and the mean of a document's fields spreads no more than one field.

    Args, returns and errors are those of `excess_rate`, with values in [0, 1].
    """
    member = _split(attack_m, base_m, clusters_m)
    heldout = _split(attack_h, base_h, clusters_h)
    tails = tail_levels(alphas)

    def mean_bounds(part: Floats, clusters: Ints) -> tuple[Floats, Floats]:
        return beta_bounds(float(part.mean()), np.float64(_effective(clusters)), tails)

    effective = sum(_effective(split.clusters) for split in (member, heldout))
    number = name_number(effective, member.n_clusters + heldout.n_clusters, unit)
    method = f"MOVER on Clopper-Pearson with n = {number} (differences too rare or too alike to resample)"
    return _excess(member, heldout, rng, mean_bounds, method, n_resamples, alphas, unit)


def _effective(clusters: Ints) -> float:
    return effective_number(np.unique(clusters, return_counts=True)[1])


def _split(attack: npt.ArrayLike, baseline: npt.ArrayLike, clusters: npt.ArrayLike) -> _Split:
    with_target, without = np.asarray(attack, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    labels = np.asarray(clusters, dtype=np.int64)
    if labels.ndim != 1 or labels.size == 0 or not with_target.shape == without.shape == labels.shape:
        raise ValueError("each split needs fields, and attack, baseline and clusters of one length")
    for values in (with_target, without):
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("attack and baseline must lie in [0, 1]")
    return _Split(with_target - without, labels)


def _excess(
    member: _Split,
    heldout: _Split,
    rng: np.random.Generator,
    part_bounds: _Bounds,
    mover_method: str,
    n_resamples: int,
    alphas: Sequence[float],
    unit: str,
) -> Interval:
    if all(split.differing >= min(MIN_DIFFERING_CLUSTERS, split.n_clusters) for split in (member, heldout)):
        samples = [(split.differences, split.clusters) for split in (member, heldout)]
        interval = resampled_mean(samples, rng, n_resamples=n_resamples, alphas=alphas, unit=unit, limits=_LIMITS)
        if interval is not None:
            return interval
        # Every document of a split differs alike: the rule for rare differences holds for these too.
    value, tails = float(member.differences.mean() - heldout.differences.mean()), tail_levels(alphas)
    loss_m, gain_m = _mover_terms(member, part_bounds)
    loss_h, gain_h = _mover_terms(heldout, part_bounds)
    return make_interval(
        value,
        value - np.sqrt(loss_m + gain_h - _counted_twice(member, 1, heldout, 0, tails)),
        value + np.sqrt(gain_m + loss_h - _counted_twice(member, 0, heldout, 1, tails)),
        n=member.differences.size + heldout.differences.size,
        clusters=member.n_clusters + heldout.n_clusters,
        method=mover_method,
        alphas=alphas,
    )


def _mover_terms(split: _Split, part_bounds: _Bounds) -> tuple[Floats, Floats]:
    """Squared reach of a split's mean difference downwards and upwards at each tail; see `squared_reach`.

    Gains and losses exclude each other on a field, so that their rates are negatively correlated.
    """
    gained, lost = split.parts
    return squared_reach(
        (float(gained.mean()), *part_bounds(gained, split.clusters)),
        (float(lost.mean()), *part_bounds(lost, split.clusters)),
        correlation_of_means(gained, lost, split.clusters),
    )


def _counted_twice(member: _Split, part: int, heldout: _Split, other: int, tails: Floats) -> Floats:
    """What MOVER's squares count twice where neither part occurs: shape (n_tails,), 0 where documents are of one size.

    Rates p and q of which nothing was seen among K and L documents are together at most ln(1 / alpha) / min(K, L), for
    (1 - p)^K (1 - q)^L >= alpha. MOVER has the root of two squares, about 1.4 times as far. That pays for Kish's K and
    L, as long as the reach stays over MOVER's with documents counted as they are (ours).
    """
    if member.parts[part].any() or heldout.parts[other].any():
        return np.zeros_like(tails)
    counts = np.array([[split.n_clusters, _effective(split.clusters)] for split in (member, heldout)])
    as_they_are, effective = np.sum((1 - tails ** (1 / counts[:, :, None])) ** 2, axis=0)
    needed = np.maximum((np.log(tails) / counts[:, 1].min()) ** 2, as_they_are)
    return np.asarray(np.maximum(effective - needed, 0.0), np.float64)
