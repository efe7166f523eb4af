"""Steps of measuring that several attacks share: measurements run one by one, and losses compared between formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.random import Generator, default_rng

from audit.arrays import Bools, Floats, Ints
from audit.engine.interface import Progress
from audit.measurements import Estimate, Measurement
from audit.stats.intervals import Interval
from audit.targets.utility import estimate

Mean = Literal["geometric", "arithmetic"]
TEMPERATURE = 0.3
TARGET_WEIGHT = 0.4
MEAN: Mean = "geometric"
"""The settings that docaudit ships; the paper gives ranges."""
MEMORY = 2.0
"""By which a positive control makes the true candidate likelier, see `memory_of` (ours)."""


def log_softmax(scores: Floats) -> Floats:
    """Logarithm of the softmax of `scores`, shape (n_candidates,)."""
    shifted = scores - scores.max()
    log_probabilities: Floats = shifted - np.log(np.exp(shifted).sum())
    return log_probabilities


def log_likelihood_of_losses(losses: Floats, temperature: float) -> tuple[Floats, bool]:
    """Step 4: log softmax((2 - l / median(l)) / T), and whether the losses could be used.

    A median of 0 or a loss that is not finite says nothing about the candidates: the likelihood is uniform then, and
    the second value False.
    """
    median = float(np.median(losses)) if np.isfinite(losses).all() else 0.0
    if median == 0.0:
        return np.full(len(losses), -np.log(len(losses))), False
    return log_softmax((2 - losses / median) / temperature), True


def combine(log_public: Floats, log_target: Floats, target_weight: float, mean: Mean) -> Floats:
    """Step 5: logarithm of the weighted mean of both likelihoods, renormalised; shape (n_candidates,)."""
    if mean == "geometric":
        return log_softmax(target_weight * log_target + (1 - target_weight) * log_public)
    with np.errstate(divide="ignore"):  # a weight of 0 or 1 leaves one likelihood out
        weights = np.log([target_weight, 1 - target_weight])
    return log_softmax(np.logaddexp(weights[0] + log_target, weights[1] + log_public))


def memory_of(values: Floats) -> float:
    """Compute how strong a planted memory is: `MEMORY` standard deviations of the difference between two candidates.

    Args:
        values: (n_candidates,) losses or logits; those that are not finite do not count.
    """
    finite = values[np.isfinite(values)]
    return MEMORY * math.sqrt(2) * float(finite.std()) if finite.size else 0.0


class Columns:
    """A dataclass of columns, of tables, and of dictionaries of either."""

    def where(self, mask: Bools) -> Self:
        """The rows that `mask`, shape (n_rows,), takes."""

        def take(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: take(own) for name, own in value.items()}
            return value.where(mask) if isinstance(value, Columns) else value[mask]

        return type(self)(**{name: take(column) for name, column in vars(self).items()})


class DocumentColumns(Columns):
    """A table whose rows are parts of documents.

    Attributes:
        member: whether the document is a member, shape (n_rows,).
        cluster: a number for the document, shape (n_rows,).
    """

    member: Bools
    cluster: Ints

    def __len__(self) -> int:
        return len(self.cluster)

    def split(self, name: str) -> Self:
        """The rows of "member" or "heldout" documents."""
        return self.where(self.member if name == "member" else ~self.member)

    @property
    def n_documents(self) -> int:
        """The number of documents that the rows come from."""
        return len(np.unique(self.cluster))


DOCUMENTS, VALUES = "documents_identified", "values_identified"
"""Counts of what an attack gives away for certain: documents, and distinct values, beyond the control."""
RETRAIN = "train again without this leak, and scan again"
"""The remedy of a check that shows a leak."""
Job = Callable[[], Measurement]
"""One measurement as a call, so that progress can be shown between measurements."""


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
