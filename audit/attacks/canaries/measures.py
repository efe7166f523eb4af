"""Measurements on the outcomes of all canaries: extraction and exposure, with their control (methods.md#canaries)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools
from audit.attacks.canaries.outcomes import CanaryTable, Outcome, table_of
from audit.attacks.measuring import Streams
from audit.corpus.canaries.schema import Canary
from audit.measurements import ALPHAS, Bound, Estimate, Histogram, Measurement, Unresolved
from audit.stats import rates
from audit.stats.intervals import Interval, proportion
from audit.stats.means import widen_to_welch
from audit.stats.paired import UnitScores
from audit.stats.rates import excess_mean, excess_rate
from audit.targets import utility

UNIT = "canaries"
POWER = "most_bits"
NEEDED_CANARIES = 32
"""Of a side: with as many put in as left out, none of which comes out, the excess is shown to be under 0.16."""
NONE_IN = "no canary that was put in could be asked for"
NONE_OUT = "no canary that was left out could be asked for: there is no control"
ALONE = "a single canary of a side says nothing of how canaries differ"
COUNTED = "counted, not estimated: the exposure of the first rank, least over the canaries that are ranked"
NO_REFERENCES = "no other completion is left to rank the canaries among"


def measure_table(table: CanaryTable, rng: Generator) -> tuple[Measurement, ...]:
    """All measurements of extraction and exposure.

    Args:
        table: the canaries that could be asked for.
        rng: of the resampling.
    """
    streams = Streams(rng)
    included, control = table.where(table.included), table.where(~table.included)
    return (
        excess_of(included, control, streams["excess"]),
        excess_top3_of(included, control, streams["excess_top3"]),
        excess_exposure_of(included, control, streams["excess_exposure"]),
        _extracted("extracted", included, NONE_IN),
        _extracted("extracted.control", control, NONE_OUT),
        _top3("top3", included, NONE_IN),
        _top3("top3.control", control, NONE_OUT),
        exposure_of("exposure", included, NONE_IN, streams["exposure"]),
        exposure_of("exposure.control", control, NONE_OUT, streams["exposure.control"]),
        most_bits_of(table),
    )


def excess_of(included: CanaryTable, control: CanaryTable, rng: Generator) -> Measurement:
    """Extracted ones among those put in, beyond those left out; null: no difference."""
    missing = _one_sided("excess", included, control, (NONE_IN, NONE_OUT))
    return missing or _excess_rate("excess", included.hits, control.hits, rng)


def excess_top3_of(included: CanaryTable, control: CanaryTable, rng: Generator) -> Measurement:
    """Those that rank among the first three, of those put in, beyond those left out; null: no difference.

    Whoever has three tries need not hit at once: a model that holds every secret second gives all of them away, and
    `excess_of` is 0.
    """
    ranked, other = included.ranked, control.ranked
    missing = _one_sided("excess_top3", ranked, other, _unranked(included, control))
    return missing or _excess_rate("excess_top3", ranked.early, other.early, rng)


def excess_exposure_of(included: CanaryTable, control: CanaryTable, rng: Generator) -> Measurement:
    """The mean exposure of those put in minus that of those left out, bits; null: no difference."""
    ranked, other = included.ranked, control.ranked
    missing = _one_sided("excess_exposure", ranked, other, _unranked(included, control))
    if missing is not None:
        return missing
    most = float(max(ranked.most_bits.max(), other.most_bits.max()))
    if not most:
        return Unresolved("excess_exposure", NO_REFERENCES, len(ranked) + len(other))
    pairs = [(rows.bits / most, np.zeros(len(rows)), np.arange(len(rows))) for rows in (ranked, other)]
    interval = excess_mean(*pairs[0], *pairs[1], rng, alphas=ALPHAS, unit="canary")
    interval = widen_to_welch(interval, pairs[0][0], pairs[1][0])
    return _estimate("excess_exposure", rates.scaled(_within_one(interval), most), 0.0, "held-out")


def most_bits_of(table: CanaryTable) -> Measurement:
    """The most bits that any ranked canary could have shown, of the one that could show least: no estimate, a count."""
    known = table.ranked
    if not len(known):
        return Unresolved(POWER, NO_REFERENCES, len(table), NEEDED_CANARIES)
    least = float(known.most_bits.min())
    bounds = tuple(Bound(alpha, least, least) for alpha in ALPHAS)
    return Estimate(POWER, least, least, least, len(known), UNIT, len(known), COUNTED, bounds=bounds)


def _one_sided(name: str, included: CanaryTable, control: CanaryTable, reasons: tuple[str, str]) -> Unresolved | None:
    """Why two sides cannot be compared; None when they can."""
    for rows, reason in zip((included, control), reasons, strict=True):
        if len(rows) < 2:
            n = len(included) + len(control)
            return Unresolved(name, ALONE if len(rows) else reason, n, 2 * NEEDED_CANARIES)
    return None


def _unranked(included: CanaryTable, control: CanaryTable) -> tuple[str, str]:
    """Why no canary of a side is ranked: it has none, or none has a reference."""
    return NO_REFERENCES if len(included) else NONE_IN, NO_REFERENCES if len(control) else NONE_OUT


def _excess_rate(name: str, hits: Bools, control_hits: Bools, rng: Generator) -> Measurement:
    pairs = [(own, np.zeros(len(own)), np.arange(len(own))) for own in (hits, control_hits)]
    interval = excess_rate(*pairs[0], *pairs[1], rng, alphas=ALPHAS, unit="canary")
    return _estimate(name, _within_one(interval), 0.0, "held-out")


def _within_one(interval: Interval) -> Interval:
    """The rule is made for differences of differences, which reach further."""
    return replace(interval, low=max(interval.low, -1.0), high=min(interval.high, 1.0))


def _extracted(name: str, rows: CanaryTable, missing: str) -> Measurement:
    """The share whose whole completion came out: the paper's Accuracy; null: guessing."""
    if not len(rows):
        return Unresolved(name, missing, 0, NEEDED_CANARIES)
    interval = proportion(rows.hits, np.arange(len(rows)), alphas=ALPHAS, unit="canary")
    return _estimate(name, interval, float(rows.chance.mean()), "chance")


def _top3(name: str, rows: CanaryTable, missing: str) -> Measurement:
    """The share that rank among the first three; null: every rank equally likely."""
    if not len(rows):
        return Unresolved(name, missing, 0, NEEDED_CANARIES)
    known = rows.ranked
    if not len(known):
        return Unresolved(name, NO_REFERENCES, len(rows))
    interval = proportion(known.early, np.arange(len(known)), alphas=ALPHAS, unit="canary")
    return _estimate(name, interval, float(known.chance_early.mean()), "chance")


def exposure_of(name: str, rows: CanaryTable, missing: str, rng: Generator) -> Measurement:
    """The mean exposure, bits; null: that of canaries the model knows nothing of."""
    if not len(rows):
        return Unresolved(name, missing, 0, NEEDED_CANARIES)
    known = rows.ranked
    if not len(known) or not known.most_bits.max():
        return Unresolved(name, NO_REFERENCES, len(rows))
    most = float(known.most_bits.max())
    interval = rates.rate(known.bits / most, np.arange(len(known)), rng, alphas=ALPHAS, unit="canary")
    return _estimate(name, rates.scaled(interval, most), float(known.chance_bits.mean()), "chance")


def _estimate(name: str, interval: Interval, null: float, null_kind: str) -> Estimate:
    """A record's estimate of so many canaries."""
    words = interval.method.replace("canarys", "canaries")
    return utility.estimate(name, replace(interval, method=words), UNIT, null, null_kind)


def histograms(table: CanaryTable) -> tuple[Histogram, ...]:
    """Exposure by bits, of canaries put in and left out."""
    known = table.ranked
    if not len(known):
        return ()
    edges = np.arange(math.ceil(float(known.most_bits.max())) + 1.0)
    if len(edges) < 2:
        return ()
    counts = {
        label: tuple(int(height) for height in np.histogram(known.bits[rows], edges)[0])
        for label, rows in (("included", known.included), ("control", ~known.included))
        if rows.any()
    }
    return (Histogram("exposure", "bits of exposure", tuple(float(edge) for edge in edges), counts),)


def paired_by_canary(canaries: Sequence[Canary], outcomes: Sequence[Outcome]) -> Mapping[str, UnitScores]:
    """Extraction, rank among the first and exposure of each canary; those left out by their coin are the others.

    Args:
        canaries: those that were tried.
        outcomes: of each, in the same order.
    """
    asked = [canary.id for canary, outcome in zip(canaries, outcomes, strict=True) if outcome.left_out is None]
    if not asked:
        return {}
    table = table_of(canaries, outcomes)
    names, ranked = np.array(asked, object), np.isfinite(table.bits)
    columns = {"excess": (np.ones(len(asked), bool), table.hits.astype(float), 1.0)}
    if ranked.any():
        columns["excess_top3"] = ranked, table.early.astype(float), 1.0
        columns["excess_exposure"] = ranked, table.bits, float(table.most_bits[ranked].max()) or 1.0
    return {
        metric: UnitScores(
            names[rows].tolist(), names[rows].tolist(), table.included[rows], values[rows], limits=(0.0, most)
        )
        for metric, (rows, values, most) in columns.items()
    }
