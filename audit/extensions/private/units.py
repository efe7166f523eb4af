"""Units of privacy: documents, or providers with all their documents (methods.md#dp-training)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.errors import ManifestError, UsageError
from audit.extensions.private.interface import DrawnUnit, Learner, Unit, UnitKind
from audit.references.provenance import content_of

MIN_UNITS = 2
"""Of one unit alone its absence leaves nothing to train on."""
_LISTED = re.compile(r"[;|\n]")
"""Marks between names where a document names several providers (ours)."""


def kind_of(documents: Sequence[Document], asked: UnitKind | None = None) -> UnitKind:
    """The unit that was asked for, or the provider where every document names one, else the document."""
    if asked is not None:
        return asked
    return "provider" if documents and all(fold(document.provider or "") for document in documents) else "document"


def units_of(
    corpus: Corpus,
    documents: Sequence[Document],
    kind: UnitKind,
    *,
    per_unit: int | None = None,
    seed: int = 0,
) -> tuple[Unit, ...]:
    """The units that these documents make; each document belongs to one of them.

    Copies of a document are one unit, so that all of them are absent together. A provider has all its documents, copies
    of others' pages too: were they kept by one provider only, its absence would change what another one contributes,
    beyond what noise for one unit hides. Where a unit has more than `per_unit` documents, the choice of them depends on
    the unit and `seed` alone: on nobody else's presence.

    Args:
        corpus: the data set of the documents.
        documents: the members.
        kind: whoever is protected.
        per_unit: documents of a unit at most; None: all.
        seed: of that choice.

    Returns:
        At least two units, in the order of their first documents.

    Raises:
        UsageError: `per_unit` is under 1.
        ManifestError: fewer than two units; for providers, a document that names none or several.
    """
    if per_unit is not None and per_unit < 1:
        raise UsageError(f"{per_unit} documents a unit: none would be left", "give at least 1")
    grouped = _by_provider(documents) if kind == "provider" else _by_content(corpus, documents)
    if len(grouped) < MIN_UNITS:
        raise ManifestError(
            f"{len(grouped)} {kind}{'' if len(grouped) == 1 else 's'} to train on: a guarantee hides one among others",
            "train on documents of two providers or more" if kind == "provider" else "give more member documents",
        )
    return tuple(Unit(name, tuple(_at_most(own, per_unit, seed, name))) for name, own in grouped.items())


def outsiders(corpus: Corpus, kind: UnitKind, per_unit: int | None = None) -> Iterator[Unit]:
    """Units of public and of held-out documents: members decide nothing that is chosen by a look at these.

    Args:
        corpus: the data set.
        kind: whoever is protected; a document that names no provider stands alone.
        per_unit: documents of a unit at most; None: all.
    """
    grouped: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in (*corpus.of("public"), *corpus.of("heldout")):
        provider = fold(document.provider or "") if kind == "provider" else ""
        grouped[provider, "" if provider else document.id].append(document)
    return (Unit(provider or name, tuple(own[:per_unit])) for (provider, name), own in grouped.items())


def draw_samples(learner: Learner, unit: Unit, step: int, seed: int) -> DrawnUnit | None:
    """The samples of a unit in one step, weighted by the mean over documents of the mean over a document's samples.

    Masks follow the seed, the step and the unit's name: they are the same whoever else is there. A stream that units
    share would let the presence of one change what the others contribute.

    Returns:
        None where no document of the unit makes a sample: then it contributes nothing.
    """
    rng = np.random.default_rng([seed, step, *unit.name.encode()])
    found = [samples for samples in (learner.samples_of(document, rng) for document in unit.documents) if samples]
    if not found:
        return None
    weights = [1 / (len(found) * len(samples)) for samples in found for _ in samples]
    return DrawnUnit(tuple(sample for samples in found for sample in samples), tuple(weights))


def _by_content(corpus: Corpus, documents: Sequence[Document]) -> Mapping[str, list[Document]]:
    units: dict[Hashable, list[Document]] = defaultdict(list)
    for document in documents:
        units[content_of(corpus, document)].append(document)
    return {own[0].id: own for own in units.values()}


def _by_provider(documents: Sequence[Document]) -> Mapping[str, list[Document]]:
    _refuse_nameless(documents)
    _refuse_several(documents)
    units: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        units[fold(document.provider or "")].append(document)
    return units


def _refuse_nameless(documents: Sequence[Document]) -> None:
    nameless = sum(not fold(document.provider or "") for document in documents)
    if nameless:
        raise ManifestError(
            f"{nameless} member documents name no provider: they would be protected by nobody's unit",
            "name the provider of each, leave them out of the members, or protect documents: --unit document",
        )


def _refuse_several(documents: Iterable[Document]) -> None:
    several = sum(len(list(_names_in(document.provider or ""))) > 1 for document in documents)
    if several:
        raise ManifestError(
            f"{several} member documents name several providers: they would belong to more than one unit",
            "name one provider for each, leave them out of the members, or protect documents: --unit document",
        )


def _names_in(provider: str) -> Iterator[str]:
    return filter(None, map(fold, _LISTED.split(provider)))


def _at_most(documents: Sequence[Document], count: int | None, seed: int, name: str) -> Sequence[Document]:
    if count is None or len(documents) <= count:
        return documents
    drawn = np.random.default_rng([seed, *name.encode()]).choice(len(documents), count, replace=False)
    return [documents[index] for index in sorted(drawn)]
