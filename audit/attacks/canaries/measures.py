"""What the outcomes of all canaries add up to: extraction and exposure, with their control (METHODS.md, section 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from audit.attacks.canaries.table import Table
from audit.record import ALPHAS, Estimate, Histogram, Measurement, Unresolved
from audit.stats import shares
from audit.stats.clusters import Floats
from audit.stats.intervals import Interval, proportion
from audit.stats.rates import excess_rate
from audit.targets import utility

UNIT = "canaries"
METRICS = (
    "excess",
    "extracted",
    "extracted.control",
    "extracted.optimiser",
    "hdt",
    "hdt.control",
    "hdt.optimiser",
    "exposure",
    "exposure.control",
)
"""`control`: canaries whose coin left them out; `optimiser`: without exhaustive search and descent. With several
patterns all of them follow once more for each. The bound on epsilon is no metric for a policy: see `privacy`."""
NEEDED_CANARIES = 32
"""Of a side: with as many put in as left out, none of which comes out, the excess is shown to be under 0.16."""
NONE_IN = "no canary that was put in could be asked for"
NONE_OUT = "no canary that was left out could be asked for: there is no control"
NO_REFERENCES = "no other completion is left to rank the canaries among"


def measure_table(table: Table, rng: Generator) -> tuple[Measurement, ...]:
    """All measurements of extraction and exposure; by pattern too where there are several.

    Args:
        table: the canaries that could be asked for.
        rng: of the resampling.
    """
    found = [*_measured(table, rng)]
    patterns = sorted(set(table.patterns.tolist()))
    if len(patterns) > 1:
        for pattern in patterns:
            part = _measured(table.where(table.patterns == pattern), rng)
            found += [replace(item, name=f"{item.name}.{pattern}") for item in part]
    return tuple(found)


def _measured(table: Table, rng: Generator) -> Iterator[Measurement]:
    included, control = table.where(table.included), table.where(~table.included)
    yield excess_of(included, control, rng)
    yield _extracted("extracted", included, included.hits, NONE_IN)
    yield _extracted("extracted.control", control, control.hits, NONE_OUT)
    yield _extracted("extracted.optimiser", included, included.optimiser_hits, NONE_IN)
    yield _distance("hdt", included, included.hdt, NONE_IN, rng)
    yield _distance("hdt.control", control, control.hdt, NONE_OUT, rng)
    yield _distance("hdt.optimiser", included, included.optimiser_hdt, NONE_IN, rng)
    yield exposure_of("exposure", included, NONE_IN, rng)
    yield exposure_of("exposure.control", control, NONE_OUT, rng)


def excess_of(included: Table, control: Table, rng: Generator) -> Measurement:
    """Extracted ones among those put in, beyond those left out; null: no difference."""
    for rows, reason in ((included, NONE_IN), (control, NONE_OUT)):
        if not len(rows):
            return Unresolved("excess", reason, len(included) + len(control), 2 * NEEDED_CANARIES)
    pairs = [(rows.hits, np.zeros(len(rows)), np.arange(len(rows))) for rows in (included, control)]
    interval = excess_rate(*pairs[0], *pairs[1], rng, alphas=ALPHAS, unit="canary")
    # The rule is made for differences of differences, which reach further.
    interval = replace(interval, low=max(interval.low, -1.0), high=min(interval.high, 1.0))
    return _estimate("excess", interval, 0.0, "held-out")


def _extracted(name: str, rows: Table, hits: object, missing: str) -> Measurement:
    """The share whose whole completion came out: the paper's Accuracy; null: guessing."""
    if not len(rows):
        return Unresolved(name, missing, 0, NEEDED_CANARIES)
    interval = proportion(np.asarray(hits), np.arange(len(rows)), alphas=ALPHAS, unit="canary")
    return _estimate(name, interval, float(rows.chance.mean()), "chance")


def _distance(name: str, rows: Table, distances: Floats, missing: str, rng: Generator) -> Measurement:
    """The mean Hamming distance per token; null: guessing."""
    if not len(rows):
        return Unresolved(name, missing, 0, NEEDED_CANARIES)
    interval = shares.rate(distances, np.arange(len(rows)), rng, alphas=ALPHAS, unit="canary")
    return _estimate(name, interval, float(rows.chance_hdt.mean()), "chance")


def exposure_of(name: str, rows: Table, missing: str, rng: Generator) -> Measurement:
    """The mean exposure, bits; null: that of canaries the model knows nothing of."""
    if not len(rows):
        return Unresolved(name, missing, 0, NEEDED_CANARIES)
    known = rows.ranked
    if not len(known) or not known.most_bits.max():
        return Unresolved(name, NO_REFERENCES, len(rows))
    most = float(known.most_bits.max())
    interval = shares.rate(known.bits / most, np.arange(len(known)), rng, alphas=ALPHAS, unit="canary")
    return _estimate(name, shares.scaled(interval, most), float(known.chance_bits.mean()), "chance")


def _estimate(name: str, interval: Interval, null: float, null_kind: str) -> Estimate:
    """A record's estimate of so many canaries."""
    words = interval.method.replace("canarys", "canaries")
    return utility.estimate(name, replace(interval, method=words), UNIT, null, null_kind)


def histograms(table: Table) -> tuple[Histogram, ...]:
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
