"""What training with differential privacy is made of: units, learners, and clipped sums (methods.md#dp-training).

Every step draws units by independent coins, sums what each contributes, clipped to a norm, adds Gaussian noise and
divides by a constant. What a unit contributes is a gradient (Abadi et al. 2016; for whole providers the mean gradient
of their documents) or the change that a few local steps make (Tito et al. 2024, Algorithm 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch

from audit.arrays import Floats
from audit.corpus.documents import Document

UnitKind = Literal["document", "provider"]
Batch = dict[str, torch.Tensor]
"""Arguments of a model's loss on the learner's device; the first dimension of every tensor is the sample's."""
Parameters = Mapping[str, torch.nn.Parameter]
"""The parameters that are trained, by the names they have in the learner's model."""


@dataclass(frozen=True, eq=False)
class Unit:
    """Whoever is protected as a whole: a document, or a provider with all its documents.

    Attributes:
        name: of the document or the provider; never in a record.
        documents: at least one; a document belongs to one unit only.
    """

    name: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, eq=False)
class DrawnUnit:
    """The samples of a unit for one step.

    Attributes:
        samples: of all its documents, at least one.
        weights: (n_samples,) sum 1: the mean over documents of the mean over a document's samples.
    """

    samples: tuple[Any, ...]
    weights: tuple[float, ...]


class Learner(ABC):
    """A model that is trained, and what it learns from a document.

    Attributes:
        model: on `device`, in evaluation mode: without dropout a unit's gradient is a function of the unit.
        device: "cpu", "cuda" or "mps".
    """

    model: torch.nn.Module
    device: str

    @abstractmethod
    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Any, ...]:
        """The samples of a document: its page, its questions with an answer, or its utterance; may be empty.

        Args:
            document: of the data set that the learner was made for.
            rng: of masks, which a masked language model draws anew each time; no part of the guarantee.
        """

    @abstractmethod
    def alike(self, sample: Any) -> Hashable:
        """A key: only samples of one key share a batch."""

    @abstractmethod
    def collate(self, samples: Sequence[Any]) -> Batch:
        """The batch of samples with one key; padding changes no sample's loss but in the last bits."""

    @abstractmethod
    def losses(self, batch: Batch) -> torch.Tensor:
        """The training loss of each sample, (n_samples,), as the model would have it of that sample alone."""

    @abstractmethod
    def save(self, folder: Path, *, half: bool = False) -> None:
        """Write an ordinary checkpoint that `docaudit scan` loads.

        Raises:
            TargetError: a parameter is not finite.
        """


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """What some units contribute together.

    Attributes:
        total: by parameter, the sum over units of contribution * min(1, max_norm / norm), in float64 where the device
            has it.
        norms: (n_units,) before clipping.
    """

    total: dict[str, torch.Tensor]
    norms: Floats


class Contributions(Protocol):
    """Sums what units contribute: gradients (an engine) or changes by local steps."""

    def clipped_sum(self, units: Sequence[DrawnUnit], max_norm: float) -> ClippedSum:
        """Clip every unit's contribution to `max_norm` (L2 over all trained parameters together) and add them up.

        Args:
            units: may be empty: then the sum is zero.
            max_norm: above 0; infinite: nothing is clipped.

        Raises:
            TrainingError: a contribution is not finite.
        """
        ...


class Engine(ABC):
    """Computes the gradients of units; `exact` defines them, others must equal it (`preflight`).

    Args:
        learner: whose losses are differentiated.
        parameters: what is trained.
        rows: samples of one forward pass at most; memory depends on it, results do not but in the last bits.
    """

    name: ClassVar[str]

    def __init__(self, learner: Learner, parameters: Parameters, rows: int = 8) -> None:
        self.learner = learner
        self.parameters = parameters
        self.rows = rows

    @abstractmethod
    def unit_gradients(self, units: Sequence[DrawnUnit]) -> dict[str, torch.Tensor]:
        """The gradient of every unit's weighted mean loss, by parameter: (n_units, *parameter.shape)."""

    @abstractmethod
    def clipped_sum(self, units: Sequence[DrawnUnit], max_norm: float) -> ClippedSum:
        """See `Contributions.clipped_sum`."""


class RandomSource(Protocol):
    """Coins and noise of a training: from the operating system, or (no guarantee) from a seed."""

    @property
    def secure(self) -> bool:
        """True where nobody can draw the same numbers again; without it no epsilon is printed."""
        ...

    def coins(self, n: int, probability: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """`n` independent coins that fall true with this probability."""
        ...

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Independent standard normal numbers, float64, on the CPU."""
        ...


MakeEngine = Callable[[Learner, Parameters, int], Engine]
