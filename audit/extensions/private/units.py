"""Units of privacy: documents, or providers with all their documents.

Also the learners that read them.

See methods/dp-training.md.
"""

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.errors import ManifestError
from audit.extensions.private.options import UnitKind
from audit.references.provenance import content_of

MIN_UNITS = 2
"""Units to train on at least: of one unit alone its absence leaves nothing."""
_LISTED = re.compile(r"[;|\n]")
"""Marks between names where a document names several providers."""
Batch = dict[str, torch.Tensor]
"""Arguments of a model's loss on the learner's device; the first dimension of every tensor is the
sample's."""
Parameters = Mapping[str, torch.nn.Parameter]
"""The parameters that are trained, by the names they have in the learner's model."""


@dataclass(frozen=True, eq=False)
class Unit:
    """Whoever is protected as a whole: a document, or a provider with all its documents.

    Attributes:
        name: name of the document or the provider; never in a record.
        documents: documents, at least one; a document belongs to one unit only.
    """

    name: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, eq=False)
class DrawnUnit:
    """The samples of a unit for one step.

    Attributes:
        samples: samples of all its documents, at least one.
        weights: (n_samples,) sum 1: the mean over documents of the mean over a document's samples.
    """

    samples: tuple[Any, ...]
    weights: tuple[float, ...]


class Learner(ABC):
    """A model that is trained, and what it learns from a document.

    Attributes:
        model: model on `device`, in evaluation mode: without dropout a unit's gradient is a
            function of the unit.
        device: "cpu", "cuda" or "mps".
    """

    model: torch.nn.Module
    device: str

    @abstractmethod
    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Any, ...]:
        """Make the samples of a document: its page, its questions with an answer, or its utterance.

        May be empty.

        Args:
            document: document of the data set that the learner was made for.
            rng: random generator of masks, which a masked language model draws anew each time; no
                part of the guarantee.
        """

    @abstractmethod
    def alike(self, sample: Any) -> Hashable:
        """Return a key: only samples of one key share a batch."""

    @abstractmethod
    def collate(self, samples: Sequence[Any]) -> Batch:
        """Make the batch of samples with one key.

        Padding changes no sample's loss but in the last bits.
        """

    @abstractmethod
    def losses(self, batch: Batch) -> torch.Tensor:
        """Compute the training loss of each sample, (n_samples,).

        It is as the model would have it of that sample alone.
        """

    @abstractmethod
    def save(self, folder: Path, *, half: bool = False) -> None:
        """Write an ordinary checkpoint that `docaudit scan` loads.

        Raises:
            TargetError: a parameter is not finite.
        """


def kind_of(documents: Sequence[Document], asked: UnitKind | None = None) -> UnitKind:
    """Return the unit of privacy: as asked, else the provider if documents name one.

    Else it is the provider where every document names one, or the document.
    """
    if asked is not None:
        return asked
    names_all = all(fold(document.provider or "") for document in documents)
    return "provider" if documents and names_all else "document"


def units_of(
    corpus: Corpus,
    documents: Sequence[Document],
    kind: UnitKind,
    *,
    per_unit: int | None = None,
    seed: int = 0,
) -> tuple[Unit, ...]:
    """Group documents into units; each document belongs to one of them.

    Copies of a document are one unit, so that all of them are absent together. A provider has all
    its documents, copies of others' pages too: were they kept by one provider only, its absence
    would change what another one contributes, beyond what noise for one unit hides. Where a unit
    has more than `per_unit` documents, the choice of them depends on the unit and `seed` alone: on
    nobody else's presence.

    Args:
        corpus: the data set of the documents.
        documents: the members.
        kind: whoever is protected.
        per_unit: documents of a unit at most; None: all.
        seed: seed of that choice.

    Returns:
        At least two units, in the order of their first documents.

    Raises:
        ManifestError: fewer than two units; for providers, a document that names none or several.
    """
    if kind == "provider":
        _refuse_unclear_providers(documents)
    grouped = _group_by_unit(corpus, documents, kind)
    if len(grouped) < MIN_UNITS:
        plural = "" if len(grouped) == 1 else "s"
        hint = "give more training documents"
        if kind == "provider":
            hint = "train on documents of two providers or more"
        raise ManifestError(
            f"{len(grouped)} {kind}{plural} to train on: a guarantee hides one among several", hint
        )
    units: list[Unit] = []
    for key, group in grouped.items():
        name = str(key) if kind == "provider" else group[0].id
        units.append(Unit(name, tuple(_at_most(group, per_unit, seed, name))))
    return tuple(units)


def _group_by_unit(
    corpus: Corpus, documents: Sequence[Document], kind: UnitKind
) -> dict[Hashable, list[Document]]:
    """Group documents by provider, or by content, so that copies are one unit."""
    grouped: dict[Hashable, list[Document]] = defaultdict(list)
    for document in documents:
        key: Hashable = fold(document.provider or "")
        if kind != "provider":
            key = content_of(corpus, document)
        grouped[key].append(document)
    return grouped


def draw_samples(learner: Learner, unit: Unit, step: int, seed: int) -> DrawnUnit | None:
    """Return a unit's samples in one step with their weights; None where it has no sample.

    They weigh as in the mean over documents of the mean over their samples.

    Masks follow the seed, the step and the unit's name: they are the same whoever else is there. A
    stream that units share would let the presence of one change what the others contribute.

    Returns:
        None where no document of the unit makes a sample: then it contributes nothing.
    """
    rng = np.random.default_rng([seed, step, *unit.name.encode()])
    samples: list[Any] = []
    n_samples: list[int] = []
    for document in unit.documents:
        of_document = learner.samples_of(document, rng)
        if of_document:
            samples += of_document
            n_samples.append(len(of_document))
    if not samples:
        return None
    weights: list[float] = []
    for n in n_samples:
        weights += [1 / (len(n_samples) * n)] * n
    return DrawnUnit(tuple(samples), tuple(weights))


def _refuse_unclear_providers(documents: Sequence[Document]) -> None:
    """Refuse documents that name no provider, or several: no one unit would protect them."""
    counts = []
    for document in documents:
        names = map(fold, _LISTED.split(document.provider or ""))
        counts.append(sum(bool(name) for name in names))
    hint = "name one provider for each, leave them out of the members, or protect documents: --unit document"
    n_unnamed = counts.count(0)
    if n_unnamed:
        raise ManifestError(
            f"{n_unnamed} training documents name no provider: they would be protected by nobody's unit",
            hint,
        )
    n_several = sum(count > 1 for count in counts)
    if n_several:
        raise ManifestError(
            f"{n_several} training documents name several providers: they would belong to more than one unit",
            hint,
        )


def _at_most(
    documents: Sequence[Document], count: int | None, seed: int, name: str
) -> Sequence[Document]:
    """Return at most `count` documents of a unit, drawn by the seed and its name."""
    if count is None or len(documents) <= count:
        return documents
    drawn = np.random.default_rng([seed, *name.encode()]).choice(
        len(documents), count, replace=False
    )
    return [documents[index] for index in sorted(drawn)]
