"""Features of providers: both sides cut to as much, then one row a provider (Tito et al. 2024, section 5).

As much is looked at of providers that are in as of providers that are out (ours; methods.md#provider-membership). A
provider's features are means over its kept-aside documents and questions: the fewer there are, the more they scatter,
and the rarer is "any answer without its evidence came out right". Training takes documents away from providers that are
in, and groups differ in size, so that the numbers kept aside tell the sides apart without any model: where nothing
leaks and providers in had 3 documents on average, those out 1.3, a forest on these means reached an AUC of 0.72.
So both sides are cut to the same distribution of documents, then of questions, before anything is averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.attacks.score_figures import LOW
from audit.engine.interface import Json, Trial

FEATURES = ("accuracy", "similarity", "loss", "confidence", "loss_change", "confidence_change")
"""What the paper's unsupervised attack (the first two) and its supervised one (all) look at
(methods.md#provider-membership)."""
MEMORY = ("memory_similarity", "memory_change")
"""The paper's two memorisation tests: NLS_mem (M1) and dNLS_mem (M2)."""
METHODS = ("azk", "apk", "azk_ensemble", "apk_ensemble")
"""The paper's four attacks: with zero and with partial knowledge, each alone and in a majority of three with M1, M2."""
POWER = "questions_a_provider"
"""The median number of questions that are compared of a provider: what the paper finds lives where there are five, or
ten, and both sides are cut to match."""
CERTAIN_SCORES = {"user": LOW, "loss": f"{LOW}.loss", "memory_similarity": f"{LOW}.memory_similarity"}
"""The scores that rank providers on their own: user inference, the loss, the first memorisation test (ours). Forests
are left out, which are trained on some of the providers that set the threshold."""
CERTAIN_METRICS = tuple(CERTAIN_SCORES.values())
ABSENT_KEY = "absent_key"


@dataclass(frozen=True, eq=False)
class ProviderTable:
    """One row a provider; everything the attacks use.

    Attributes:
        names: folded names, in row order; for `evidence/` and for provider numbers only.
        member: whether training saw documents of the provider, shape (n,).
        n_questions: answered questions (pages, for token classifiers) of the provider, shape (n,).
        n_documents: kept-aside documents of the provider, shape (n,).
        features: of `FEATURES` and `MEMORY`, those that any provider has: the mean over its questions, shape (n,), NaN
            where it has none.
        user: user inference, the mean over the provider's documents of log p_target - log p_reference in nats, shape
            (n,), NaN possible; None without a reference.
    """

    names: tuple[str, ...]
    member: Bools
    n_questions: Ints
    n_documents: Ints
    features: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))
    user: Floats | None = None

    def __post_init__(self) -> None:
        """Check that every column has one value a provider.

        Raises:
            ValueError: a column has another shape, or a feature is none of `FEATURES` and `MEMORY`.
        """
        shape = (len(self.names),)
        columns = [self.member, self.n_questions, self.n_documents, *self.features.values()]
        if any(column.shape != shape for column in (*columns, *([] if self.user is None else [self.user]))):
            raise ValueError("every column needs one value a provider")
        if not set(self.features) <= {*FEATURES, *MEMORY}:
            raise ValueError(f"features are some of {', '.join((*FEATURES, *MEMORY))}")

    def __len__(self) -> int:
        """The number of providers."""
        return len(self.names)

    def take(self, rows: Ints) -> ProviderTable:
        """These rows, in this order."""
        return ProviderTable(
            names=tuple(self.names[row] for row in rows),
            member=self.member[rows],
            n_questions=self.n_questions[rows],
            n_documents=self.n_documents[rows],
            features={name: column[rows] for name, column in self.features.items()},
            user=None if self.user is None else self.user[rows],
        )


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
        inside = [index for index, trial in enumerate(self.trials) if trial.stratum == IN]
        held, kept = (
            float(np.median([numbers[index] for index in inside])) if inside else 0.0
            for numbers in (self.held, [_n_questions(outcome["documents"]) for outcome in self.outcomes])
        )
        if kept >= ENOUGH * held:
            return None
        return (
            f"of {held:g} questions about a provider in training, as an attacker has them, {kept:g} were compared "
            "(medians): of providers out of training fewer documents were kept aside; keep aside as many of theirs"
        )


def match_sides(trials: Sequence[Trial], outcomes: Sequence[Json]) -> Matched:
    """Cut both sides to the same documents a provider, then, document by document, to the same questions.

    Each side is ordered by number and matched by rank (see `limit_to_partners`); of each provider as many are kept as
    of the smaller of the two partners. Which ones follows from the ids of documents, and places in them, alone. Where
    one side has no provider nothing is cut.

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
    of_each = limit_to_partners([(len(documents),) for _, documents in asked], member, names)
    kept = [
        scatter(documents, [document["id"] for document in documents])[: limit[0]]
        for (_, documents), limit in zip(asked, of_each, strict=True)
    ]
    # Longest first; documents that are as long stay in the order that their ids decide.
    ranked = [sorted(documents, key=lambda document: -len(document["questions"])) for documents in kept]
    limits = limit_to_partners(
        [tuple(len(one["questions"]) for one in documents) for documents in ranked], member, names
    )
    cut = [
        [_shorten(document, limit) for document, limit in zip(documents, own, strict=False)]
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


def limit_to_partners(sizes: Sequence[Size], member: Bools, names: Sequence[str]) -> list[Size]:
    """The smaller of what each provider and its partner of the other side have, part by part.

    Each side is ordered by parts, then by their sum, then by the parts themselves, ties as hashes of names fall. The
    partner is the one at the same rank or, where the sides differ in number, at the same quantile: then both sides are
    cut to the lower of the two quantile functions.

    Args:
        sizes: of each provider, its parts, largest first.
        member: shape (n,).
        names: of the providers.
    """
    ranks = [(len(size), sum(size), size, _hash(name)) for size, name in zip(sizes, names, strict=True)]
    sides = [sorted(np.flatnonzero(member == side).tolist(), key=ranks.__getitem__) for side in (True, False)]
    limits = list(sizes)
    if not all(sides):
        return limits
    for own, other in (sides, sides[::-1]):
        for rank, row in enumerate(own):
            # The middle of this rank among the other side's ranks, in whole numbers.
            partner = other[(2 * rank + 1) * len(other) // (2 * len(own))]
            limits[row] = tuple(map(min, sizes[row], sizes[partner]))
    return limits


def scatter(items: Iterable[_Item], names: Iterable[str]) -> list[_Item]:
    """The items in an order that follows from their names alone, and follows no order of theirs."""
    return [item for _, item in sorted(zip(map(_hash, names), items, strict=True), key=lambda pair: pair[0])]


def _shorten(document: Json, n_questions: int) -> Json:
    """The document with so many of its questions, in their order."""
    question_numbers = range(len(document["questions"]))
    kept = scatter(question_numbers, [f"{document['id']}\0{index}" for index in question_numbers])[:n_questions]
    return {**document, "questions": [document["questions"][index] for index in sorted(kept)]}


def _n_questions(documents: Sequence[Json]) -> int:
    return sum(len(document["questions"]) for document in documents)


def _hash(name: str) -> bytes:
    return sha256(name.encode()).digest()


_CHANGES = {"loss_change": "loss", "confidence_change": "confidence"}


def table_of(trials: Sequence[Trial], outcomes: Sequence[Json]) -> ProviderTable:
    """One row a provider of whom anything was asked, in trial order, both sides cut to match (see `matching`).

    A feature is the mean over those of the provider's questions that have it; `memory_change`, which is asked once a
    document, the mean over its documents. User inference is the mean over documents of the mean over their questions of
    the log-probability a token of the true answer, minus that of the reference.
    """
    return tabulate(match_sides(trials, outcomes))


def tabulate(compared: Matched) -> ProviderTable:
    """The same of what was cut to match already."""
    trials, outcomes = compared.trials, compared.outcomes
    columns = {name: _column([_values(outcome, name) for outcome in outcomes]) for name in (*FEATURES, *MEMORY)}
    user = _column([_gains(outcome) for outcome in outcomes])
    return ProviderTable(
        tuple(trial.unit for trial in trials),
        np.array([trial.stratum == IN for trial in trials], bool),
        np.array([len(_questions(outcome)) for outcome in outcomes], np.int64),
        np.array([len(outcome["documents"]) for outcome in outcomes], np.int64),
        {name: column for name, column in columns.items() if np.isfinite(column).any()},
        user if np.isfinite(user).any() else None,
    )


def _questions(outcome: Json) -> list[Json]:
    return [question for document in outcome["documents"] for question in document["questions"]]


def _values(outcome: Json, name: str) -> list[float | None]:
    """One feature of a provider, by question, or by document where it is asked once."""
    if name == "memory_change":
        return [document["memory_change"] for document in outcome["documents"]]
    if name not in _CHANGES:
        return [question[name] for question in _questions(outcome)]
    changes = [_difference(question, _CHANGES[name]) for question in _questions(outcome)]
    return [None if change is None else abs(change) for change in changes]


def _gains(outcome: Json) -> list[float | None]:
    """By document: how much likelier the true answers became, nats a token."""
    documents = [[_difference(question, "loss") for question in own["questions"]] for own in outcome["documents"]]
    means = [_mean(losses) for losses in documents]
    return [None if mean is None else -mean for mean in means]


def _difference(question: Json, name: str) -> float | None:
    """What the target has more of than the pretrained model."""
    before = question["pretrained"]
    if before is None or before[name] is None or question[name] is None:
        return None
    return float(question[name] - before[name])


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _column(rows: Sequence[Sequence[float | None]]) -> Floats:
    """The mean of each row, NaN where it has no number: shape (n_rows,)."""
    return np.array([np.nan if (mean := _mean(row)) is None else mean for row in rows], np.float64)
