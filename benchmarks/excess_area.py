"""The excess AccAUC of the CDMI paper's tables: two areas of ranked fields compared over two splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.intervals import Interval, make_interval, tail_levels
from audit.stats.ranking import MIN_DIFFERING_DOCUMENTS, Ranking, interval_of_area, rank_fields
from audit.stats.resampling import bootstrap


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
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Excess AccAUC: (attack - baseline) on member fields minus the same on held-out fields.

    See methods.md#reconstruction-metrics.

    Attack and baseline each rank the fields by a score of their own. BCa over documents, stratified by split. Where
    a split has fewer than 3 documents that differ (see `area_interval`), or no spread, the interval is MOVER (Zou &
    Donner 2008) on the difference in either split; a split without spread has its difference between the bounds of its
    two areas, and nothing is assumed of how attack and baseline go together.

    Scores, outcomes and documents of each split are what `area_interval` takes, attack and baseline on the same fields,
    shape (n_m,) or (n_h,); outcomes of 1 - Hamming distance give the excess HamAAC. The rest is as there.

    Returns:
        The excess, in [-2, 2]; n counts the fields and clusters the documents of both splits.
    """
    splits = (
        _Split(
            rank_fields(member_scores_attack, member_hits_attack, member_clusters),
            rank_fields(member_scores_baseline, member_hits_baseline, member_clusters),
        ),
        _Split(
            rank_fields(heldout_scores_attack, heldout_hits_attack, heldout_clusters),
            rank_fields(heldout_scores_baseline, heldout_hits_baseline, heldout_clusters),
        ),
    )
    n = sum(split.attack.outcomes.size for split in splits)
    if all(split.spreads for split in splits):
        width = max(split.n_documents for split in splits)
        interval = bootstrap(
            [np.eye(split.n_documents, width) for split in splits],
            lambda totals: splits[0].differences(totals[:, 0]) - splits[1].differences(totals[:, 1]),
            rng,
            n_resamples=n_resamples,
            alphas=alphas,
            n=n,
            unit=unit,
            limits=(-2.0, 2.0),
            sizes=[split.attack.sizes for split in splits],
        )
        if interval is not None:
            return interval
    tails = tail_levels(alphas).tolist()
    (value_m, lower_m, upper_m), (value_h, lower_h, upper_h) = (
        _split_bounds(split, rng, n_resamples, tails, unit) for split in splits
    )
    value = value_m - value_h
    return make_interval(
        value,
        np.maximum(-2.0, value - np.hypot(value_m - lower_m, upper_h - value_h)),
        np.minimum(2.0, value + np.hypot(upper_m - value_m, value_h - lower_h)),
        n=n,
        clusters=sum(split.n_documents for split in splits),
        method=f"MOVER on the difference of areas in either split ({unit}s too alike to resample)",
        alphas=alphas,
    )


@dataclass(frozen=True, eq=False)
class _Split:
    """The fields of one split as the attack ranks them, and as the baseline does."""

    attack: Ranking
    baseline: Ranking

    @property
    def n_documents(self) -> int:
        return self.attack.n_documents

    @property
    def spreads(self) -> bool:
        return max(self.attack.n_differing, self.baseline.n_differing) >= MIN_DIFFERING_DOCUMENTS

    def differences(self, weights: Floats) -> Floats:
        """Area of the attack minus that of the baseline, shape (n,); columns past the last document are padding."""
        used = weights[:, : self.n_documents]
        return self.attack.areas(used) - self.baseline.areas(used)


def _split_bounds(
    split: _Split, rng: np.random.Generator, n_resamples: int, tails: list[float], unit: str
) -> tuple[float, Floats, Floats]:
    """Attack minus baseline in one split, and its bounds at each tail, each of shape (n_tails,)."""
    if split.spreads:
        difference = bootstrap(
            [np.eye(split.n_documents)],
            lambda totals: split.differences(totals[:, 0]),
            rng,
            n_resamples=n_resamples,
            alphas=tails,
            sizes=[split.attack.sizes],
        )
        if difference is not None:
            return difference.value, *difference.one_sided
    attack, baseline = (
        interval_of_area(ranking, rng, n_resamples, tails, unit) for ranking in (split.attack, split.baseline)
    )
    (attack_lower, attack_upper), (base_lower, base_upper) = attack.one_sided, baseline.one_sided
    return attack.value - baseline.value, attack_lower - base_upper, attack_upper - base_lower
