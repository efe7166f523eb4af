"""Scores of two sides compared, whatever the units: areas, rates, advantages, histograms, curves.

Method: methods.md#statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.interface import Protected, Provable
from audit.attacks.shared_report import LOW, RATES
from audit.measurements import ALPHAS, CurvePoint, Histogram, Measurement, Unresolved
from audit.stats.advantage import LOW_RATES, low_advantage
from audit.stats.roc import auc_interval, nonmembers_needed, roc_points, tpr_at_fpr
from audit.targets.utility import estimate

N_BINS = 20
OUTER = 0.02
"""Share of all scores at either end that the outermost bins take in (ours): one that lies far out would leave all the
others in a single bar."""

TwoSides = tuple[Floats, Floats]
"""The finite scores of members, and those of the others; larger = more like a member."""


@dataclass(frozen=True)
class ScoreComparison:
    """What the scores are of.

    Attributes:
        unit: what is a member or not, singular ("document", "provider").
        nonmembers: those that training never saw, as a reason names them.
        labels: of the two sides, in a histogram.
    """

    unit: str
    nonmembers: str
    labels: tuple[str, str]

    def measure_auc(self, name: str, sides: TwoSides) -> Measurement:
        """The chance that a member scores higher than another; null: 0.5."""
        return estimate(name, auc_interval(*sides, alphas=ALPHAS, unit=self.unit), f"{self.unit}s", 0.5, "chance")

    def measure_rates(
        self, name: str, fpr_name: str, sides: TwoSides, rate: float, rng: Generator
    ) -> tuple[Measurement, Measurement]:
        """The share of members found at a false-positive rate, and that rate as it came out; null: the rate itself."""
        point = tpr_at_fpr(*sides, rate, rng, alphas=ALPHAS, unit=self.unit)
        if point is None:
            n = len(sides[1])
            reason = f"not resolvable with {n} {self.nonmembers}, of which half set the threshold"
            needed = nonmembers_needed(rate)
            return Unresolved(name, reason, n, needed), Unresolved(fpr_name, reason, n, needed)
        unit = f"{self.unit}s"
        return estimate(name, point.tpr, unit, rate, "chance"), estimate(fpr_name, point.fpr, unit, rate, "chance")

    def measure_advantage(self, name: str, sides: TwoSides) -> tuple[Measurement, float | None]:
        """The advantage at the lowest false-positive rate that is resolved, and that rate; null: 0."""
        found = low_advantage(*sides, alphas=ALPHAS, unit=self.unit)
        if found is None:
            n = len(sides[1])
            reason = f"not even 10 % false alarms are resolvable with {n} {self.nonmembers}"
            return Unresolved(name, reason, n, nonmembers_needed(max(LOW_RATES))), None
        return estimate(name, found.advantage, f"{self.unit}s", 0.0, "chance"), found.fpr

    def histogram(self, quantity: str, sides: TwoSides) -> tuple[Histogram, ...]:
        """The distribution of the primary score on either side; `quantity` labels its axis.

        The first and the last bin hold what lies beyond them as well.
        """
        ends = np.quantile(np.concatenate(sides), (OUTER, 1 - OUTER))
        edges = np.histogram_bin_edges(ends, N_BINS)
        counts = {
            label: tuple(int(height) for height in np.histogram(np.clip(side, *ends), edges)[0])
            for label, side in zip(self.labels, sides, strict=True)
        }
        return (Histogram("primary_score", quantity, tuple(float(edge) for edge in edges), counts),)


def provable_of(unit: Protected) -> dict[str, Provable]:
    """The metrics of scores that the guarantee of a training bounds."""
    return {
        "auc": Provable("auc", unit),
        LOW: Provable("advantage", unit, fpr=max(LOW_RATES), fpr_in="low_fpr"),
        **{f"tpr_at_fpr_{name}": Provable("tpr", unit, fpr=rate) for name, rate in RATES.items()},
    }


def draw_roc(sides: TwoSides) -> tuple[CurvePoint, ...]:
    """The ROC curve of the scores."""
    return tuple(roc_points(*sides))


def rank_scores(scores: Floats) -> Floats:
    """The rank of each score from the largest, from 1, shape (n,); ties share the best rank, NaN stays."""
    ranks = np.array([1.0 + np.sum(scores > score) for score in scores])
    return np.where(np.isnan(scores), np.nan, ranks)
