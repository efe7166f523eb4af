"""The absent-key test: questions that a page cannot answer (Tito et al. 2024, appendix D.1.4).

A key is what a question asks for: the label of the entity that holds its answer, else the answer's category. A page
that has a key neither in its questions nor in its entities is asked for it. A value of training that is answered then,
whatever its key, did not come from the page: from memory, or by chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from audit.attacks.measuring import estimate_without_null
from audit.attacks.provider_membership.features import ABSENT_KEY, scatter
from audit.attacks.provider_membership.providers import answers_of, provider_of, questions_of
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.removal.matching import find_answers
from audit.engine.interface import Json, Trial
from audit.measurements import ALPHAS, Count, Measurement, Unresolved
from audit.stats.intervals import proportion
from audit.targets.utility import estimate

NO_KEYS = "no member document has a question of which the key is known: the entity of its answer, or its category"
NONE_LACKS = "no kept-aside document lacks a key that member documents are asked about"
NOT_COMPARED = "needs the pretrained model, or a baseline: what that answers too is no memory"
PAGES = "for models that answer questions only"


@dataclass(frozen=True)
class AbsentKeyProbe:
    """A question about a key that a document does not have."""

    key: str
    question: str

    def as_json(self, target: str, pretrained: str | None) -> Json:
        """For the journal, with what the models replied."""
        return {"key": self.key, "question": self.question, "target": target, "pretrained": pretrained}


@dataclass(frozen=True)
class AbsentKeyReply:
    """What the target replied about a key that a document lacks.

    Attributes:
        provider: the folded name of the document's.
        document: its id.
        key: what was asked for.
        text: the reply.
        trained: whether it is a value of providers in, of any key; see `AbsentKeyAnswers`.
        unseen: whether it is a value of providers out; likewise.
    """

    provider: str
    document: str
    key: str
    text: str
    trained: bool
    unseen: bool


def key_of(document: Document, question: Question) -> str | None:
    """Return the key that a question asks for; None when the data set does not say."""
    labels = {entity.id: entity.label for entity in document.entities}
    return labels.get(question.entity or "", question.category)


def probes_for(
    corpus: Corpus, documents: Sequence[Document], n_absent: int, n_keys: int
) -> dict[str, list[AbsentKeyProbe]]:
    """The questions about missing keys, by document id.

    Documents and keys are taken in an order that follows from their names alone and follows no order of theirs (ours),
    so that all keys get their turn. A key is asked for in the commonest words that member documents ask for it. Pages
    of which nobody knows the words are not asked: whether a reply stands on them cannot be said.

    Args:
        corpus: the data set.
        documents: those of one provider that are asked about.
        n_absent: documents, at most.
        n_keys: keys of a document, at most.
    """
    if not n_absent:
        return {}
    wordings = _wordings(corpus)
    missing = {document.id: sorted(wordings.keys() - _keys_on(document)) for document in documents if document.words}
    lacking = _scattered(name for name, keys in missing.items() if keys)
    return {
        name: [AbsentKeyProbe(key, wordings[key]) for key in _scattered(missing[name], name)[:n_keys]]
        for name in lacking[:n_absent]
    }


def _wordings(corpus: Corpus) -> dict[str, str]:
    """How member documents ask for each key: the commonest words, ties to the first in the alphabet."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.of("member"):
        for question in questions_of(document):
            key = key_of(document, question)
            if key is not None:
                counts[key][question.question] += 1
    return {key: min(own, key=lambda text: (-own[text], text)) for key, own in counts.items()}


def _keys_on(document: Document) -> set[str]:
    """All keys that a document has, by whatever name: labels and categories of its entities and questions."""
    keys = {key for entity in document.entities for key in (entity.label, entity.category)}
    return keys.union(
        key for question in document.questions for key in (key_of(document, question), question.category) if key
    )


def _scattered(names: Iterable[str], salt: str = "") -> list[str]:
    listed = list(names)
    return scatter(listed, [f"{salt}\0{name}" for name in listed])


def measure_absent(
    corpus: Corpus, trials: Sequence[Trial], outcomes: Sequence[Json], reason: str | None
) -> tuple[Measurement, tuple[Count, ...]]:
    """The share of questions about missing keys that are answered with a trained value, clustered by provider.

    Null: the share answered with an unseen one, as if there were as many of these as of trained ones (ours: the more
    values, the more are hit by chance). See `AbsentKeyAnswers` for both.

    Args:
        corpus: the data set.
        trials: the providers.
        outcomes: theirs.
        reason: why this model was not asked; None when it was.
    """
    values = AbsentKeyAnswers.of(corpus, outcomes)
    replies = judge_replies(corpus, values, trials, outcomes)
    wordless = [
        document["id"]
        for outcome in outcomes
        for document in outcome["documents"]
        if reason is None and not corpus.document(document["id"]).words
    ]
    trained = np.array([reply.trained for reply in replies], bool)
    counts = (
        Count("absent-key questions", len(replies), "questions about keys that a kept-aside document does not have"),
        Count("absent-key pages without words", len(wordless), "documents without words, which are not asked"),
        Count(
            "absent-key answers",
            int(trained.sum()),
            "of these, answered with a value of member documents that no document of a provider out has",
        ),
        Count(
            "absent-key values",
            len({fold(reply.text) for reply in replies if reply.trained}),
            "distinct values among these answers",
        ),
    )
    if not replies:
        nothing = reason or (NONE_LACKS if _wordings(corpus) else NO_KEYS)
        return Unresolved(ABSENT_KEY, nothing, 0), counts
    providers = {name: number for number, name in enumerate(sorted({reply.provider for reply in replies}))}
    clusters = [providers[reply.provider] for reply in replies]
    interval = proportion(trained, clusters, alphas=ALPHAS, unit="provider")
    null = values.null(sum(reply.unseen for reply in replies) / len(replies))
    if null is None:
        return estimate_without_null(ABSENT_KEY, interval, "questions"), counts
    return estimate(ABSENT_KEY, interval, "questions", null, "held-out"), counts


@dataclass(frozen=True)
class AbsentKeyAnswers:
    """Folded answers, without those that the reference gave to any of the questions (methods.md#provider-membership).

    Both sides are made alike (ours). A value that many providers have, such as a town, is hit by chance; were it left
    among those of training, and only what training never saw made the null, the null would hold rare values alone, and
    lie under chance. So a value that stands in documents of both sides, whatever their split, is of neither.

    Attributes:
        trained: of member documents, where no document of a provider that is out has them.
        unseen: of kept-aside documents of providers that are out, where no document of a provider that is in has them.
    """

    trained: frozenset[str]
    unseen: frozenset[str]

    @classmethod
    def of(cls, corpus: Corpus, outcomes: Sequence[Json]) -> AbsentKeyAnswers:
        """Those of a data set, and of what the pretrained model replied."""
        known = {fold(reply["pretrained"]) for _, reply in _each_reply(outcomes) if reply["pretrained"] is not None}
        inside = {provider_of(document) for document in corpus.of("member")} - {""}
        trained, sides, unseen = set[str](), (set[str](), set[str]()), set[str]()
        for document in corpus.documents:
            values, provider = _answers(document), provider_of(document)
            # Member documents that name no provider were trained on; others of which nobody knows the side have none.
            if document.split == "member":
                trained |= values
            if document.split == "member" or provider in inside:
                sides[0].update(values)
            elif provider:
                sides[1].update(values)
                unseen |= values if document.split == "heldout" else set()
        return cls(frozenset(trained - sides[1] - known), frozenset(unseen - sides[0] - known))

    def null(self, share: float) -> float | None:
        """The share of replies that are unseen values, had there been as many of these as of trained ones."""
        return min(1.0, share * len(self.trained) / len(self.unseen)) if self.unseen else None


def judge_replies(
    corpus: Corpus, values: AbsentKeyAnswers, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> list[AbsentKeyReply]:
    """Judge each reply, in trial order; pages without words are passed over.

    What stands on the page, or nearly so, or is an answer to any of its questions, is neither trained nor unseen.
    """
    replies = []
    for trial, outcome in zip(trials, outcomes, strict=True):
        for document, reply in _each_reply([outcome]):
            page = corpus.document(document)
            if not page.words:
                continue
            value, text = fold(reply["target"]), reply["target"]
            trained, unseen = value in values.trained, value in values.unseen
            if (trained or unseen) and (
                value in _answers(page) or find_answers([word.text for word in page.words], [text])
            ):
                trained = unseen = False
            replies.append(AbsentKeyReply(trial.unit, document, reply["key"], text, trained, unseen))
    return replies


def _answers(document: Document) -> set[str]:
    """The folded answers to a document's questions."""
    return {fold(answer) for question in document.questions for answer in answers_of(question)}


def _each_reply(outcomes: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """The document, and what was replied, of every question about a missing key."""
    for outcome in outcomes:
        for document in outcome["documents"]:
            for reply in document["absent"]:
                yield document["id"], reply
