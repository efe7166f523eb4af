"""AccAUC, HamAAC and excess AccAUC of the CDMI paper's tables: areas under curves of ranked fields.

The area is the mean of At(m / M) over m = 1..M (`audit.stats.ranking`): AccAUC of exact hits,
HamAAC one minus the area of Hamming distances (section 5.3, appendix B).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.intervals import (
    TAILS,
    Interval,
    beta_bounds,
    effective_number,
    make_interval,
    name_beta,
)
from audit.stats.ranking import Ranking, rank_fields
from audit.stats.resampling import bootstrap

MIN_DIFFERING_DOCUMENTS = 3
"""With fewer documents that have an outcome other than the commonest one (for hits: with a hit), resampling sees too
few orders of the ranking. Ours: with one or two, intervals of nominally 95 % missed in up to a
third of simulated audits, and one hit would give a narrower interval than none."""
_BLOCK = 100_000
"""Entries of the matrix of field weights held at once: 0.8 MB, and as much for each of about ten
made from it."""


@dataclass(frozen=True, eq=False)
class RankedFields(Ranking):
    """A ranking with what its area is resampled by."""

    @classmethod
    def of(cls, scores: npt.ArrayLike, outcomes: npt.ArrayLike, clusters: npt.ArrayLike) -> Self:
        """Sort fields by score; see `rank_fields`."""
        return cls(**vars(rank_fields(scores, outcomes, clusters)))

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """The number of fields of each document, shape (n_documents,)."""
        return np.bincount(self.documents)

    @property
    def n_differing(self) -> int:
        """The number of documents with an outcome other than the commonest one."""
        values, counts = np.unique(self.outcomes, return_counts=True)
        return int(np.unique(self.documents[self.outcomes != values[counts.argmax()]]).size)

    def areas(self, weights: Floats) -> Floats:
        """The area when document d occurs weights[:, d] times: shape (n,), from whole numbers, shape (n, n_documents).

        Copies of a field are fields of equal score. A group of total weight w and mean outcome h
        that follows a weight c with sum S adds sum_{j=1..w} (S + j h) / (c + j) = w h + (S - c h)
        (H(c + w) - H(c)), H the harmonic numbers.
        """
        block = max(1, _BLOCK // self.outcomes.size)
        return np.concatenate(
            [self._areas(weights[i : i + block]) for i in range(0, len(weights), block)]
        )

    def _areas(self, weights: Floats) -> Floats:
        """Return the areas for rows of document weights: (n_draws,)."""
        rows = weights[:, self.documents]
        sizes = rows
        sums = rows * self.outcomes
        if self.starts.size < self.outcomes.size:
            sizes, sums = (np.add.reduceat(column, self.starts, axis=1) for column in (sizes, sums))
        ends = np.cumsum(sizes, axis=1)
        starts = ends - sizes
        before = np.cumsum(sums, axis=1) - sums
        means = np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(ends.max()) + 1))])
        steps = harmonic[ends.astype(np.intp)] - harmonic[starts.astype(np.intp)]
        areas: Floats = np.sum(sums + (before - starts * means) * steps, axis=1) / ends[:, -1]
        return areas


def interval_of_area(ranking: RankedFields, rng: np.random.Generator, n_resamples: int) -> Interval:
    """The area with its interval: BCa over documents where enough of them differ, else bounds for every ranking.

    Of all rankings of outcomes in [0, 1] with mean q, the perfect one has the largest area, at most
    q (1 - ln q), and its reverse the smallest, at least q + (1 - q) ln(1 - q): with m ones on top
    of M the area is m / M (1 + H(M) - H(m)) for harmonic numbers H, and H(M) - H(m) <= ln(M / m);
    the reverse is one minus the perfect area of 1 - q. Both rise with q, from 0 at 0 to 1 at 1, so
    bounds of q give bounds of the area; those of q are Clopper-Pearson with n = number of
    documents, Kish's effective one (see `rates.mean`). Arguments are those of `area_interval`.
    """
    if ranking.n_differing >= MIN_DIFFERING_DOCUMENTS:
        interval = bootstrap(
            [np.eye(ranking.n_documents)],
            lambda totals: ranking.areas(totals[:, 0]),
            rng,
            n_resamples=n_resamples,
            n=ranking.outcomes.size,
            limits=(0.0, 1.0),
            sizes=[ranking.sizes],
        )
        if interval is not None:
            return interval
    share = float(ranking.outcomes.mean())
    effective = effective_number(ranking.sizes)
    lower, upper = beta_bounds(share, np.float64(effective), TAILS)
    return make_interval(
        float(ranking.curve().mean()),
        1 - _perfect_area(1 - lower),
        _perfect_area(upper),
        n=ranking.outcomes.size,
        clusters=ranking.n_documents,
        method=f"any ranking, {name_beta(effective, ranking.n_documents)} (too alike to resample)",
    )


def _perfect_area(share: Floats) -> Floats:
    """The largest area of outcomes with mean q: q (1 - ln q), and its limit 0 at q = 0."""
    logarithm = np.log(share, out=np.zeros_like(share), where=share > 0)
    return np.asarray(share * (1 - logarithm), dtype=np.float64)


def area_interval(
    scores: npt.ArrayLike,
    outcomes: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    complement: bool = False,
    n_resamples: int = 10_000,
) -> Interval:
    """Compute the area with its interval: BCa over documents, the fields of each resample ranked anew.

    Where fewer than 3 documents differ (no hit at all is the usual case), or there is one document
    only, the bounds are those that hold for every ranking (see `interval_of_area`).

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        outcomes: hits (0 or 1) or distances, in [0, 1], shape (M,).
        clusters: the document of each field, shape (M,), integers.
        rng: the source of randomness.
        complement: give 1 - area (HamAAC).
        n_resamples: resamples of the bootstrap.

    Returns:
        A number in [0, 1]; n is M.

    Raises:
        ValueError: as `rank_fields`, or a level out of range.
    """
    # The area of a constant is that constant, so 1 - area of the outcomes is the area of 1 -
    # outcomes.
    ranking = RankedFields.of(
        scores, 1 - np.asarray(outcomes, np.float64) if complement else outcomes, clusters
    )
    return interval_of_area(ranking, rng, n_resamples)


def excess_area(
    member_scores_attack: npt.ArrayLike,
    member_hits_attack: npt.ArrayLike,
    member_scores_baseline: npt.ArrayLike,
    member_hits_baseline: npt.ArrayLike,
    member_clusters: npt.ArrayLike,
    heldout_scores_attack: npt.ArrayLike,
    heldout_hits_attack: npt.ArrayLike,
    heldout_scores_baseline: npt.ArrayLike,
    heldout_hits_baseline: npt.ArrayLike,
    heldout_clusters: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
) -> Interval:
    """Excess AccAUC: (attack - baseline) on member fields minus the same on held-out fields.

    See methods/reconstruction.md#metrics.

    Attack and baseline each rank the fields by a score of their own. BCa over documents, stratified
    by split. Where a split has fewer than 3 documents that differ (see `area_interval`), or no
    spread, the interval is MOVER (Zou & Donner 2008) on the difference in either split; a split
    without spread has its difference between the bounds of its two areas, and nothing is assumed of
    how attack and baseline go together.

    Scores, outcomes and documents of each split are what `area_interval` takes, attack and baseline
    on the same fields, shape (n_m,) or (n_h,); outcomes of 1 - Hamming distance give the excess
    HamAAC. The rest is as there.

    Returns:
        The excess, in [-2, 2]; n counts the fields and clusters the documents of both splits.
    """
    splits = (
        _Split(
            RankedFields.of(member_scores_attack, member_hits_attack, member_clusters),
            RankedFields.of(member_scores_baseline, member_hits_baseline, member_clusters),
        ),
        _Split(
            RankedFields.of(heldout_scores_attack, heldout_hits_attack, heldout_clusters),
            RankedFields.of(heldout_scores_baseline, heldout_hits_baseline, heldout_clusters),
        ),
    )
    n = sum(split.attack.outcomes.size for split in splits)
    if all(split.spreads for split in splits):
        width = max(split.n_documents for split in splits)
        interval = bootstrap(
            [np.eye(split.n_documents, width) for split in splits],
            lambda totals: (
                splits[0].differences(totals[:, 0]) - splits[1].differences(totals[:, 1])
            ),
            rng,
            n_resamples=n_resamples,
            n=n,
            limits=(-2.0, 2.0),
            sizes=[split.attack.sizes for split in splits],
        )
        if interval is not None:
            return interval
    (value_m, lower_m, upper_m), (value_h, lower_h, upper_h) = (
        _split_bounds(split, rng, n_resamples) for split in splits
    )
    value = value_m - value_h
    return make_interval(
        value,
        np.maximum(-2.0, value - np.hypot(value_m - lower_m, upper_h - value_h)),
        np.minimum(2.0, value + np.hypot(upper_m - value_m, value_h - lower_h)),
        n=n,
        clusters=sum(split.n_documents for split in splits),
        method="MOVER on the difference of areas in either split (too alike to resample)",
    )


@dataclass(frozen=True, eq=False)
class _Split:
    """The fields of one split as the attack ranks them, and as the baseline does."""

    attack: RankedFields
    baseline: RankedFields

    @property
    def n_documents(self) -> int:
        """Return the number of documents of the attack's ranking."""
        return self.attack.n_documents

    @property
    def spreads(self) -> bool:
        """Test whether enough documents differ in outcome for a bootstrap."""
        return max(self.attack.n_differing, self.baseline.n_differing) >= MIN_DIFFERING_DOCUMENTS

    def differences(self, weights: Floats) -> Floats:
        """Area of the attack minus that of the baseline, shape (n,).

        Columns past the last document are padding.
        """
        used = weights[:, : self.n_documents]
        return self.attack.areas(used) - self.baseline.areas(used)


def _split_bounds(
    split: _Split, rng: np.random.Generator, n_resamples: int
) -> tuple[float, Floats, Floats]:
    """Attack minus baseline in one split, and its bounds at each tail, each of shape (n_tails,)."""
    if split.spreads:
        difference = bootstrap(
            [np.eye(split.n_documents)],
            lambda totals: split.differences(totals[:, 0]),
            rng,
            n_resamples=n_resamples,
            sizes=[split.attack.sizes],
        )
        if difference is not None:
            return difference.value, *difference.ends
    attack, baseline = (
        interval_of_area(ranking, rng, n_resamples) for ranking in (split.attack, split.baseline)
    )
    attack_lower, attack_upper = attack.ends
    base_lower, base_upper = baseline.ends
    return attack.value - baseline.value, attack_lower - base_upper, attack_upper - base_lower
