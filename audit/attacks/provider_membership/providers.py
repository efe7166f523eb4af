"""Providers that the attack asks about, what is compared of each, and their features.

After Tito et al. 2024, section 5. As much is compared of providers that are in as of providers that
are out (methods/provider-membership.md). A provider's features are means over its kept-aside
documents and questions: the fewer there are, the more they scatter, and the rarer is "any answer
without its evidence came out right". Training takes documents away from providers that are in, and
groups differ in size, so that the numbers kept aside tell the sides apart without any model: where
nothing leaks and providers in had 3 documents on average, those out 1.3, a forest on these means
reached an AUC of 0.72. So both sides are cut to the same distribution of documents, then of
questions, before anything is averaged.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.attacks.interface import LossKind, loss_kind
from audit.attacks.measuring import hash_of, scatter
from audit.attacks.membership.documents import left_out
from audit.attacks.questions import distinct_answers
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.summary import unnamed_members
from audit.engine.interface import Json, Trial
from audit.targets.interface import Answer, Target

Askable = Callable[[Document], bool]
IN = "in"
OUT = "out"
"""The strata of trials: providers that training saw, and those that it did not."""
MIN_PROVIDERS = 2
"""Providers in, and out, without which nothing can be compared: one alone has no spread."""
BY_CHANCE = 20
"""The same where documents were drawn by lot: few providers are out then, and nothing can be said
of so few."""


@dataclass(frozen=True)
class Provider:
    """Describe one provider of the data set.

    Attributes:
        name: folded; the name of its trial.
        member: whether any of its documents is a member.
        spellings: how the data set writes its name, sorted.
        heldout: its documents that were kept aside, in file order.
        asked: those of them that can be asked about.
    """

    name: str
    member: bool
    spellings: tuple[str, ...]
    heldout: tuple[Document, ...]
    asked: tuple[Document, ...]


def provider_of(document: Document) -> str:
    """Return the folded name of a document's provider: "" where it names none."""
    return fold(document.provider or "")


def providers_of(corpus: Corpus, askable: Askable) -> tuple[Provider, ...]:
    """List every provider of a data set, by folded name.

    Names that differ by case or spacing only are one provider.

    Args:
        corpus: the data set.
        askable: whether a kept-aside document can be asked about.
    """
    by_name: dict[str, list[Document]] = defaultdict(list)
    for document in corpus.documents:
        if name := provider_of(document):
            by_name[name].append(document)
    providers = []
    for name, documents in sorted(by_name.items()):
        heldout = tuple(document for document in documents if document.split == "heldout")
        provider = Provider(
            name=name,
            member=any(document.split == "member" for document in documents),
            spellings=tuple(sorted({document.provider or "" for document in documents})),
            heldout=heldout,
            asked=tuple(filter(askable, heldout)),
        )
        providers.append(provider)
    return tuple(providers)


def select_compared(corpus: Corpus, providers: Sequence[Provider]) -> list[Provider]:
    """Select the providers that can be asked about; none where a side has too few to compare."""
    askable_providers = [provider for provider in providers if provider.asked]
    n_inside = sum(provider.member for provider in askable_providers)
    n_outside = len(askable_providers) - n_inside
    if min(n_inside, n_outside) < min_providers(corpus):
        return []
    return askable_providers


def min_providers(corpus: Corpus) -> int:
    """Return the least number of providers of a side that can be compared."""
    return BY_CHANCE if corpus.manifest.membership.assigned == "random" else MIN_PROVIDERS


def shortage(corpus: Corpus, askable: Askable) -> tuple[str, str] | None:
    """Return why the providers of a data set cannot be compared, and what the owner can add.

    None when they can.
    """
    providers = providers_of(corpus, askable)
    if not providers:
        return "no document names a provider", "name each document’s provider"
    if select_compared(corpus, providers):
        return None
    inside = [provider for provider in providers if provider.member]
    outside = [provider for provider in providers if not provider.member]
    n_askable = [_count_askable(side) for side in (inside, outside)]
    numbers = {"used": len(inside), "unused": len(outside), "least": min_providers(corpus)}
    reason = SENTENCES["few_providers"].format(asked=n_askable, **numbers)
    return reason, SENTENCES["keep_providers"]


def _count_askable(providers: Iterable[Provider]) -> int:
    """Count the providers that can be asked about."""
    return sum(bool(provider.asked) for provider in providers)


def describe_unnamed(corpus: Corpus) -> str | None:
    """Describe that documents of training without a provider hide who is in.

    None when all of training name one.
    """
    n = unnamed_members(corpus)
    if not n:
        return None
    documents = "document" if n == 1 else "documents"
    return (
        f"{n} training {documents} without a provider may belong to an “unused” one:"
        " name each provider"
    )


def style_of(target: Target) -> LossKind | None:
    """Return what a target is asked for: answers, also without their losses, or the loss of a page.

    None: neither.
    """
    return "answers" if Answer in target.answers else loss_kind(target)


def questions_of(document: Document) -> list[Question]:
    """Return the questions of a document that have an answer."""
    return [question for question in document.questions if distinct_answers(question.answers)]


def askable(case: Case) -> Askable:
    """Return the function that tells whether this target can be asked about a document.

    Without a target, of whether some target can.
    """
    if not case.target.card.is_model:
        return perhaps_askable(case.corpus)
    if style_of(case.target) == "answers":
        return lambda document: bool(questions_of(document))
    return lambda document: left_out(case, document) is None


def asked_of(case: Case) -> tuple[Provider, ...]:
    """List every provider of a case, with the documents that this target can be asked about."""
    return providers_of(case.corpus, askable(case))


def perhaps_askable(corpus: Corpus) -> Askable:
    """Return the function that tells whether some target may be asked about a document.

    This is for a time before there is one.
    """
    if corpus.manifest.task.asks:
        return lambda document: bool(questions_of(document))
    return lambda document: bool(document.words)


def knows_public(corpus: Corpus) -> bool:
    """Test whether a public document is of a provider that has kept-aside ones.

    Baselines are trained on public documents.
    """
    public = {provider_of(document) for document in corpus.of("public")} - {""}
    if not public:
        return False
    return any(provider_of(document) in public for document in corpus.of("heldout"))


def askable_documents(case: Case, name: str) -> tuple[Document, ...]:
    """Return the documents of one provider, by folded name, that are asked about."""
    documents = (
        document for document in case.corpus.of("heldout") if provider_of(document) == name
    )
    return tuple(filter(askable(case), documents))


ENOUGH = 0.5
"""Of the questions that an attacker has about a provider, the share under which it is starved by
the cut."""
Size = tuple[int, ...]
"""How much there is of a provider: parts of it, largest first."""


@dataclass(frozen=True)
class Matched:
    """Hold the providers that are compared, with as much of each on either side.

    Attributes:
        trials: the providers of whom anything was asked, in the given order.
        outcomes: theirs, with the documents and questions that are looked at.
        held: questions that were asked about each of them, before anything was cut.
        dropped: providers of whom nothing was asked.
    """

    trials: tuple[Trial, ...]
    outcomes: tuple[Json, ...]
    held: tuple[int, ...]
    dropped: int

    def starved(self) -> str | None:
        """Describe that matching leaves too few questions, and what to add; None for enough.

        None when it has enough.

        Judged by providers in training: where training took documents away from these, those out
        are cut to what an attacker has.
        """
        inside = [index for index, trial in enumerate(self.trials) if trial.stratum == IN]
        if not inside:
            return None
        before = float(np.median([self.held[index] for index in inside]))
        after = float(np.median([len(_questions(self.outcomes[index])) for index in inside]))
        if after >= ENOUGH * before:
            return None
        return SENTENCES["starved"].format(kept=after, held=before)


@dataclass(frozen=True)
class _AskedProvider:
    """A provider of whom anything was asked, with its documents that have questions."""

    trial: Trial
    documents: list[Json]

    @property
    def sizes(self) -> Size:
        """Return the number of questions of each document."""
        return tuple(len(document["questions"]) for document in self.documents)

    def with_fewer_documents(self, n_documents: int) -> Self:
        """Return the provider with so many of its documents, those with most questions first.

        Which ones follows from their ids; documents that are as long stay in the order that their
        ids decide.
        """
        ids = [document["id"] for document in self.documents]
        chosen = scatter(self.documents, ids)[:n_documents]
        ranked = sorted(chosen, key=lambda document: -len(document["questions"]))
        return replace(self, documents=ranked)

    def with_fewer_questions(self, n_questions: Size) -> Json:
        """Return its outcome with so many questions of each document."""
        pairs = zip(self.documents, n_questions, strict=False)
        return {"documents": [_cut_questions(*pair) for pair in pairs]}


def _asked_providers(trials: Sequence[Trial], outcomes: Sequence[Json]) -> list[_AskedProvider]:
    """Return the providers of whom anything was asked, in trial order."""
    providers = []
    for trial, outcome in zip(trials, outcomes, strict=True):
        documents = [document for document in outcome["documents"] if document["questions"]]
        if documents:
            providers.append(_AskedProvider(trial, documents))
    return providers


def match_sides(trials: Sequence[Trial], outcomes: Sequence[Json]) -> Matched:
    """Cut both sides to the same documents a provider, then to the same questions.

    Questions are cut document by document. Each side is ordered by number and matched by rank (see
    `limit_to_partners`); of each provider as many are kept as of the smaller of the two partners.
    Which ones follows from the ids of documents, and places in them, alone. Where one side has no
    provider nothing is cut.

    Args:
        trials: trials of the providers.
        outcomes: outcomes, as `ask_about` gives them, by document, in trial order.
    """
    providers = _asked_providers(trials, outcomes)
    member = np.array([provider.trial.stratum == IN for provider in providers], bool)
    names = [provider.trial.cluster for provider in providers]
    limits = limit_to_partners(
        [(len(provider.documents),) for provider in providers], member, names
    )
    shorter = [
        provider.with_fewer_documents(limit[0])
        for provider, limit in zip(providers, limits, strict=True)
    ]
    limits = limit_to_partners([provider.sizes for provider in shorter], member, names)
    cut = [
        provider.with_fewer_questions(limit)
        for provider, limit in zip(shorter, limits, strict=True)
    ]
    return Matched(
        trials=tuple(provider.trial for provider in providers),
        outcomes=tuple(cut),
        held=tuple(sum(provider.sizes) for provider in providers),
        dropped=len(trials) - len(providers),
    )


def limit_to_partners(sizes: Sequence[Size], member: Bools, names: Sequence[str]) -> list[Size]:
    """Return the smaller of what each provider and its partner of the other side have.

    Compared is part by part. Each side is ordered by parts, then by their sum, then by the parts
    themselves, ties as hashes of names fall. The partner is the one at the same rank or, where the
    sides differ in number, at the same quantile: then both sides are cut to the lower of the two
    quantile functions.

    Args:
        sizes: the parts of each provider, largest first.
        member: shape (n,).
        names: names of the providers.
    """
    ranks = [
        (len(size), sum(size), size, hash_of(name)) for size, name in zip(sizes, names, strict=True)
    ]
    inside = sorted(np.flatnonzero(member).tolist(), key=ranks.__getitem__)
    outside = sorted(np.flatnonzero(~member).tolist(), key=ranks.__getitem__)
    limits = list(sizes)
    if not inside or not outside:
        return limits
    for rows, partners in ((inside, outside), (outside, inside)):
        for rank, row in enumerate(rows):
            # The middle of this rank among the other side's ranks, in whole numbers.
            partner = partners[(2 * rank + 1) * len(partners) // (2 * len(rows))]
            limits[row] = tuple(map(min, sizes[row], sizes[partner]))
    return limits


def _cut_questions(document: Json, n_questions: int) -> Json:
    """Return the document with so many of its questions, in their order."""
    numbers = range(len(document["questions"]))
    chosen = scatter(numbers, [f"{document['id']}\0{index}" for index in numbers])[:n_questions]
    return {**document, "questions": [document["questions"][index] for index in sorted(chosen)]}


FEATURES = ("accuracy", "similarity", "loss", "confidence", "loss_change", "confidence_change")
"""Features of the paper's unsupervised attack (the first two) and of its supervised one (all)."""
MEMORY = ("memory_similarity", "memory_change")
"""The paper's two memorisation tests: NLS_mem (M1) and dNLS_mem (M2)."""
_CHANGES = {"loss_change": "loss", "confidence_change": "confidence"}


@dataclass(frozen=True, eq=False)
class ProviderTable:
    """Hold features of providers, a row for each.

    Attributes:
        names: folded names, in row order; for `evidence/` only.
        member: whether training saw documents of the provider, shape (n,).
        n_questions: answered questions (pages, for token classifiers) of the provider, shape (n,).
        n_documents: kept-aside documents of the provider, shape (n,).
        features: features of `FEATURES` and `MEMORY`, those that any provider has: the mean over
            its questions, shape (n,), NaN where it has none.
        user: user inference, the mean over the provider's documents of log p_target - log
            p_reference in nats, shape (n,), NaN possible; None without a reference.
    """

    names: tuple[str, ...]
    member: Bools
    n_questions: Ints
    n_documents: Ints
    features: Mapping[str, Floats]
    user: Floats | None = None


def table_of(matched: Matched) -> ProviderTable:
    """Build the table of providers, in trial order.

    A feature is the mean over those of the provider's questions that have it; `memory_change`,
    which is asked once a document, the mean over its documents. User inference is the mean over
    documents of the mean over their questions of the log-probability a token of the true answer,
    minus that of the reference.
    """
    outcomes = matched.outcomes
    features = {}
    for name in (*FEATURES, *MEMORY):
        # NaN where a provider has no number.
        means = [_mean(_feature_values(outcome, name)) for outcome in outcomes]
        column = np.array(means, np.float64)
        if np.isfinite(column).any():
            features[name] = column
    user = np.array([_mean(_likelihood_gains(outcome)) for outcome in outcomes], np.float64)
    return ProviderTable(
        names=tuple(trial.cluster for trial in matched.trials),
        member=np.array([trial.stratum == IN for trial in matched.trials], bool),
        n_questions=np.array([len(_questions(outcome)) for outcome in outcomes], np.int64),
        n_documents=np.array([len(outcome["documents"]) for outcome in outcomes], np.int64),
        features=features,
        user=user if np.isfinite(user).any() else None,
    )


def _questions(outcome: Json) -> list[Json]:
    """Return the questions of all documents of an outcome."""
    return list(chain.from_iterable(document["questions"] for document in outcome["documents"]))


def _feature_values(outcome: Json, name: str) -> list[float | None]:
    """Return one feature of a provider, by question, or by document where it is asked once."""
    if name == "memory_change":
        return [document["memory_change"] for document in outcome["documents"]]
    if name not in _CHANGES:
        return [question[name] for question in _questions(outcome)]
    changes = [_difference(question, _CHANGES[name]) for question in _questions(outcome)]
    return [None if change is None else abs(change) for change in changes]


def _likelihood_gains(outcome: Json) -> list[float | None]:
    """Compute by document how much likelier the true answers became, nats a token."""
    gains: list[float | None] = []
    for document in outcome["documents"]:
        mean = _mean(_difference(question, "loss") for question in document["questions"])
        gains.append(None if mean is None else -mean)
    return gains


def reference_losses(matched: Matched) -> Floats:
    """Return the reference's own mean loss of each provider, nats, in trial order.

    NaN where there is none.
    """
    means: list[float | None] = []
    for outcome in matched.outcomes:
        references = [question["pretrained"] for question in _questions(outcome)]
        means.append(_mean(reference["loss"] for reference in references if reference is not None))
    return np.array(means, np.float64)


def _difference(question: Json, name: str) -> float | None:
    """Return the target's number minus the reference's; None where either is missing."""
    before = question["pretrained"]
    if before is None or before[name] is None or question[name] is None:
        return None
    return float(question[name] - before[name])


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else None
