"""Steps of measuring that several attacks share: measurements run one by one, and losses compared between formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, default_rng

from audit.engine.interface import Progress
from audit.measurements import Estimate, Measurement
from audit.stats.intervals import Interval
from audit.targets.utility import estimate

DOCUMENTS, VALUES = "documents_identified", "values_identified"
"""Counts of what an attack gives away for certain: documents, and distinct values, beyond the control."""
RETRAIN = "train again without this leak, and scan again"
"""The remedy of a check that shows a leak."""
Job = Callable[[], Measurement]
"""One measurement as a call, so that progress can be shown between measurements."""
ALIKE = 0.01
"""A loss in a coarser number format is alike when it is within this share, or this many nats, of the exact one (ours):
scores compare documents, and completions, whose losses differ by far more wherever the model knows anything."""


class Streams:
    """Random generators by name, each independent of which others are asked for and when.

    Every metric, check and control resamples with its own stream, so that removing one changes no other.
    """

    def __init__(self, rng: Generator) -> None:
        """Draw the common seed from `rng`."""
        self._seed = int(rng.integers(2**63))

    def __getitem__(self, name: str) -> Generator:
        """Return a new generator, seeded by the common seed and the name."""
        return default_rng([self._seed, *name.encode()])


def estimate_without_null(name: str, interval: Interval, unit: str) -> Estimate:
    """Return an estimate that no null value belongs to."""
    return replace(estimate(name, interval, unit, 0.0, "chance"), null=None, null_kind=None)


def run_jobs(stage: str, jobs: Iterable[Job], progress: Progress) -> list[Measurement]:
    """Run the jobs in order, each an advance of the stage."""
    listed = list(jobs)
    progress.stage(stage, len(listed))
    measurements = []
    for job in listed:
        measurements.append(job())
        progress.advance()
    return measurements


def compare_losses(exact: npt.ArrayLike, rounded: npt.ArrayLike) -> dict[str, Any]:
    """Compare losses in two number formats, each a decision: the outcome of `Attack.preflight`.

    Args:
        exact: nats, a number or shape (n,).
        rounded: the same in the coarser format.
    """
    one, other = np.atleast_1d(exact).astype(np.float64), np.atleast_1d(rounded)
    alike = np.abs(one - other) <= ALIKE * np.maximum(1.0, np.abs(one))
    return {"alike": int(alike.sum()), "steps": len(one)}
