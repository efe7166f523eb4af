"""As much is looked at of providers that are in as of providers that are out (ours; methods.md#provider-membership).

A provider's features are means over its kept-aside documents and questions: the fewer there are, the more they scatter,
and the rarer is "any answer without its evidence came out right". Training takes documents away from providers that are
in, and groups differ in size, so that the numbers kept aside tell the sides apart without any model: where nothing
leaks and providers in had 3 documents on average, those out 1.3, a forest on these means reached an AUC of 0.72.
So both sides are cut to the same distribution of documents, then of questions, before anything is averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np

from audit.arrays import Bools
from audit.engine.interface import Json, Trial

IN, OUT = "in", "out"
"""The strata of trials: providers that training saw, and those that it did not."""
ENOUGH = 0.5
"""Of the questions that an attacker has about a provider, the share under which it is starved by the cut (ours)."""
Size = tuple[int, ...]
"""How much there is of a provider: parts of it, largest first."""
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Matched:
    """What is compared.

    Attributes:
        trials: the providers of whom anything was asked, in the given order.
        outcomes: theirs, with the documents and questions that are looked at.
        held: questions that were asked about each of them, before anything was cut.
        cut: questions that are not looked at, so that both sides have as many.
        dropped: providers of whom nothing was asked.
    """

    trials: tuple[Trial, ...]
    outcomes: tuple[Json, ...]
    held: tuple[int, ...]
    cut: int
    dropped: int

    def starved(self) -> str | None:
        """That a cut leaves the attacker little of what it has, and what to give; None when it has enough.

        Told by providers in training, which it wants to know of: where training took documents away from these, those
        out are cut to what an attacker has.
        """
        inside = [place for place, trial in enumerate(self.trials) if trial.stratum == IN]
        held, kept = (
            float(np.median([numbers[place] for place in inside])) if inside else 0.0
            for numbers in (self.held, [_n_questions(outcome["documents"]) for outcome in self.outcomes])
        )
        if kept >= ENOUGH * held:
            return None
        return (
            f"of {held:g} questions about a provider in training, as an attacker has them, {kept:g} were compared "
            "(medians): of providers out of training fewer documents were kept aside; keep aside as many of theirs"
        )


def matched(trials: Sequence[Trial], outcomes: Sequence[Json]) -> Matched:
    """Cut both sides to the same documents a provider, then, document by document, to the same questions.

    Each side is ordered by number and matched by rank (see `partnered`); of each provider as many are kept as of the
    smaller of the two partners. Which ones follows from the ids of documents, and places in them, alone. Where one side
    has no provider nothing is cut.

    Args:
        trials: of the providers.
        outcomes: as `asking.ask_about` gives them, by document, in trial order.
    """
    asked = [
        (trial, documents)
        for trial, outcome in zip(trials, outcomes, strict=True)
        if (documents := [document for document in outcome["documents"] if document["questions"]])
    ]
    member = np.array([trial.stratum == IN for trial, _ in asked], bool)
    names = [trial.unit for trial, _ in asked]
    of_each = partnered([(len(documents),) for _, documents in asked], member, names)
    kept = [
        scattered(documents, [document["id"] for document in documents])[: limit[0]]
        for (_, documents), limit in zip(asked, of_each, strict=True)
    ]
    # Longest first; documents that are as long stay in the order that their ids decide.
    ranked = [sorted(documents, key=lambda document: -len(document["questions"])) for documents in kept]
    limits = partnered([tuple(len(one["questions"]) for one in documents) for documents in ranked], member, names)
    cut = [
        [_shortened(document, limit) for document, limit in zip(documents, own, strict=False)]
        for documents, own in zip(ranked, limits, strict=True)
    ]
    held = tuple(_n_questions(documents) for _, documents in asked)
    return Matched(
        tuple(trial for trial, _ in asked),
        tuple({"documents": documents} for documents in cut),
        held,
        sum(held) - sum(map(_n_questions, cut)),
        len(trials) - len(asked),
    )


def partnered(sizes: Sequence[Size], member: Bools, names: Sequence[str]) -> list[Size]:
    """The smaller of what each provider and its partner of the other side have, part by part.

    Each side is ordered by parts, then by their sum, then by the parts themselves, ties as hashes of names fall. The
    partner is the one at the same rank or, where the sides differ in number, at the same quantile: then both sides are
    cut to the lower of the two quantile functions.

    Args:
        sizes: of each provider, its parts, largest first.
        member: shape (n,).
        names: of the providers.
    """
    places = [(len(size), sum(size), size, _hash(name)) for size, name in zip(sizes, names, strict=True)]
    sides = [sorted(np.flatnonzero(member == side).tolist(), key=places.__getitem__) for side in (True, False)]
    limits = list(sizes)
    if not all(sides):
        return limits
    for own, other in (sides, sides[::-1]):
        for rank, row in enumerate(own):
            # The middle of this rank among the other side's ranks, in whole numbers.
            partner = other[(2 * rank + 1) * len(other) // (2 * len(own))]
            limits[row] = tuple(map(min, sizes[row], sizes[partner]))
    return limits


def scattered(items: Iterable[_Item], names: Iterable[str]) -> list[_Item]:
    """The items in an order that follows from their names alone, and follows no order of theirs."""
    return [item for _, item in sorted(zip(map(_hash, names), items, strict=True), key=lambda pair: pair[0])]


def _shortened(document: Json, n_questions: int) -> Json:
    """The document with so many of its questions, in their order."""
    places = range(len(document["questions"]))
    kept = scattered(places, [f"{document['id']}\0{place}" for place in places])[:n_questions]
    return {**document, "questions": [document["questions"][place] for place in sorted(kept)]}


def _n_questions(documents: Sequence[Json]) -> int:
    return sum(len(document["questions"]) for document in documents)


def _hash(name: str) -> bytes:
    return sha256(name.encode()).digest()
