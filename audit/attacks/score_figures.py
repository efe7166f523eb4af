"""Scores of two sides compared, whatever the units: areas, rates, advantages, histograms, curves.

Method: methods/index.md#intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.measuring import RETRAIN
from audit.measurements import (
    CAUTIOUS_PASS_ALPHA,
    Check,
    CurvePoint,
    Estimate,
    Histogram,
    Measurement,
    Unresolved,
)
from audit.stats.estimates import estimate
from audit.stats.ranking import ALLOWED, FEWEST_OTHERS, count_outranking, outranking_p
from audit.stats.roc import (
    LOW_RATES,
    auc_interval,
    low_advantage,
    nonmembers_needed,
    roc_points,
    tpr_at_fpr,
)

LOW = "low_fpr_advantage"
"""True-positive rate minus false-positive rate at the lowest rate that is resolved, see
`stats.roc`."""
TPR = "tpr_at_fpr_10"
RATE = 0.1
"""The share of members found at this rate of false alarms."""
N_BINS = 20
OUTER = 0.02
"""Share of all scores in the outermost bin of either end: one that lies far out would squeeze the
others."""

CERTAIN = 0.1
"""An advantage at a low false-positive rate that is no chance, whatever the area."""
WEIGHTS = (0.8, 0.2)
"""Shares of the level of `check_certain` for those that outrank the others, and for advantages.

The first test recognises fewer units; the second one is decided by the limit on the advantage
wherever there is one."""
TwoSides = tuple[Floats, Floats]
"""The finite scores of members, and those of the others; larger = more like a member."""


@dataclass(frozen=True)
class ScoreComparison:
    """What the scores are of.

    Attributes:
        unit: what is a member or not, singular ("document", "provider").
        nonmembers: non-members that training never saw, as a reason names them.
        labels: labels of the two sides, in a histogram.
    """

    unit: str
    nonmembers: str
    labels: tuple[str, str]

    def measure_auc(self, name: str, sides: TwoSides) -> Measurement:
        """Estimate the chance that a member scores higher than another; null: 0.5."""
        return estimate(name, auc_interval(*sides), f"{self.unit}s", 0.5, "chance")

    def measure_tpr(self, sides: TwoSides, rng: Generator) -> Measurement:
        """Measure the share of members found at a false-positive rate of 10 %; null: that rate."""
        interval = tpr_at_fpr(*sides, RATE, rng)
        if interval is None:
            n = len(sides[1])
            reason = f"too few: {n} {self.nonmembers}, and half of them set the threshold"
            return Unresolved(TPR, reason, n, nonmembers_needed(RATE))
        return estimate(TPR, interval, f"{self.unit}s", RATE, "chance")

    def measure_advantage(self, name: str, sides: TwoSides) -> tuple[Measurement, float | None]:
        """Estimate the advantage at the lowest false-positive rate that is resolved, and that rate.

        Null: 0.
        """
        resolved = low_advantage(*sides)
        if resolved is None:
            n = len(sides[1])
            reason = f"{n} {self.nonmembers} are too few even for 10 % false alarms"
            return Unresolved(name, reason, n, nonmembers_needed(max(LOW_RATES))), None
        advantage = estimate(name, resolved.advantage, f"{self.unit}s", 0.0, "chance")
        # Passes at the limit are 1.4 times as many as the level says
        # (`benchmarks/calibration/low_fpr_errors.py`).
        return replace(advantage, pass_alpha=CAUTIOUS_PASS_ALPHA), resolved.fpr

    def count_certain(
        self, name: str, sides: TwoSides, total: int, *, mirrored: bool = False
    ) -> Measurement:
        """Count the members that rank above all but one of the others, beyond chance; null: 0.

        Args:
            name: name of the measurement.
            sides: scores of independent units.
            total: number of members, with a score or not.
            mirrored: whether to count those that rank below all but one.
        """
        n = len(sides[1])
        if n < FEWEST_OTHERS or not len(sides[0]):
            reason = (
                f"no {self.unit} in training, or fewer than {FEWEST_OTHERS} {self.nonmembers},"
                " without copies"
            )
            return Unresolved(name, reason, n, FEWEST_OTHERS)
        members, nonmembers = (-side if mirrored else side for side in sides)
        interval = count_outranking(members, nonmembers, total)
        counted = estimate(name, interval, f"{self.unit}s", 0.0, "chance")
        return replace(counted, total=total, open_above=True)

    def check_certain(
        self, sides: Sequence[TwoSides], advantages: Sequence[Measurement]
    ) -> tuple[Check, ...]:
        """Test whether some members are known for certain, by any score.

        Empty where no score can tell.

        Args:
            sides: sides by score, each of independent units.
            advantages: advantages by score, see `measure_advantage`.
        """
        tests = [*self._test_ranks(sides), *self._test_advantages(advantages)]
        if not tests:
            return ()
        weights = WEIGHTS if len(tests) > 1 else (1.0,)
        p_value, words = min(
            (p / weight, words) for (p, words), weight in zip(tests, weights, strict=True)
        )
        reason = f"the model reveals some training {self.unit}s: {words}"
        return (Check(f"certain {self.unit}s", min(1.0, p_value), "alarm", reason, RETRAIN),)

    def _test_ranks(self, sides: Sequence[TwoSides]) -> Iterator[tuple[float, str]]:
        """Yield the p-value of the score by which members outrank the others most, in words.

        Bonferroni's rule is applied over the scores; nothing where no score can tell.
        """
        enough = [pair for pair in sides if len(pair[0]) and len(pair[1]) >= FEWEST_OTHERS]
        ranked = [(outranking_p(*pair), pair) for pair in enough]
        if not ranked:
            return
        p_value, (members, nonmembers) = min(ranked, key=lambda item: item[0])
        above = int((members > np.sort(nonmembers)[-1 - ALLOWED]).sum())
        by_chance = (ALLOWED + 1) * len(members) / (len(nonmembers) + 1)
        words = (
            f"{above} of {len(members)} training {self.unit}s rank above all but {ALLOWED}"
            f" of {len(nonmembers)} {self.nonmembers}, and chance gives {by_chance:.1f}"
        )
        yield len(ranked) * p_value, words

    def _test_advantages(self, advantages: Sequence[Measurement]) -> Iterator[tuple[float, str]]:
        """Yield the p-value that some advantage exceeds `CERTAIN`, in words, as `_test_ranks`."""
        sure = [item for item in advantages if isinstance(item, Estimate)]
        if not sure:
            return
        most = max(sure, key=lambda item: item.low)
        value, low, high = (f"{100 * share:.0f}" for share in (most.value, most.low, most.high))
        words = f"few false alarms, and {value} % found beyond chance ({low} to {high} %)"
        yield len(sure) * min(item.p_above(CERTAIN) for item in sure), words

    def histogram(self, quantity: str, sides: TwoSides) -> tuple[Histogram, ...]:
        """Count the primary scores of either side by bin; `quantity` labels the axis.

        The first and the last bin hold what lies beyond them as well.
        """
        ends = np.quantile(np.concatenate(sides), (OUTER, 1 - OUTER))
        edges = np.histogram_bin_edges(ends, N_BINS)
        heights = [tuple(np.histogram(np.clip(side, *ends), edges)[0].tolist()) for side in sides]
        counts = dict(zip(self.labels, heights, strict=True))
        return (Histogram("primary_score", quantity, tuple(edges.tolist()), counts),)


def draw_roc(sides: TwoSides) -> tuple[CurvePoint, ...]:
    """Compute the points of the scores' ROC curve."""
    return tuple(roc_points(*sides))


def rank_scores(scores: Floats) -> Floats:
    """Rank scores from the largest, from 1, shape (n,); ties share the best rank, NaN stays."""
    ranks = np.array([1.0 + np.sum(scores > score) for score in scores])
    return np.where(np.isnan(scores), np.nan, ranks)
