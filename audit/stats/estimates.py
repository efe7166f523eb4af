"""Estimates of a record, made from intervals."""

from __future__ import annotations

import numpy as np

from audit.measurements import PASS_ALPHA, Bound, Estimate
from audit.stats.intervals import Interval


def estimate(name: str, interval: Interval, unit: str, null: float, null_kind: str) -> Estimate:
    """Make a record's estimate of an interval; levels at which it has no bounds are left out."""
    bounds = tuple(Bound(*bound) for bound in interval.bounds if np.isfinite(bound).all())
    return Estimate(
        name,
        interval.value,
        interval.low,
        interval.high,
        interval.n,
        unit,
        interval.clusters,
        interval.method,
        null,
        null_kind,  # type: ignore[arg-type]
        bounds=bounds,
        pass_alpha=PASS_ALPHA,
    )
