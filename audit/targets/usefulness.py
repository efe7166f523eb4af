"""Usefulness of a checkpoint of any kind: its own task on documents it did not train on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import cast

import numpy as np

from audit.arrays import Floats
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.page_view import page_view
from audit.measurements import ALPHAS, Measurement, Unresolved
from audit.stats.distances import anls
from audit.stats.means import mean
from audit.stats.paired import Ratios
from audit.targets.interface import Answer, BestClass, BestIntent, Target, TokenTarget
from audit.targets.utility import (
    MAX_DOCUMENTS,
    class_accuracy,
    estimate,
    intent_accuracy,
    sum_by_document,
    utility,
    utility_by_document,
)

ANLS = "anls"
Asked = tuple[int, Document, Question]
_AT_ONCE = 64
"""Questions asked together, so that few pages are open at a time (ours)."""


def usefulness(target: Target, corpus: Corpus, seed: int) -> tuple[Measurement, ...]:
    """The measures of the target's task on held-out documents.

    See `utility`, with `intent_accuracy` where the model names intents, `class_accuracy` where it classifies pages, and
    `held_out_anls` for questions.
    """
    if Answer in target.answers:
        return (held_out_anls(target, corpus, seed),)
    target_tokens, documents = cast("TokenTarget", target), corpus.of("heldout")
    if BestClass in target.answers:
        return (class_accuracy(target_tokens, documents, seed),)
    own = utility(target_tokens, documents, seed)
    return (own, intent_accuracy(target_tokens, documents, seed)) if BestIntent in target.answers else (own,)


def held_out_anls(target: Target, corpus: Corpus, seed: int) -> Measurement:
    """Mean ANLS on held-out documents' questions; null: giving the members' commonest answer.

    The commonest to the same wording of the question, where members are asked it, else of all.
    """
    rng = np.random.default_rng(seed)
    documents, asked = _asked(corpus, rng)
    if len(documents) < 2:
        return Unresolved(ANLS, "fewer than two held-out documents with questions", len(documents))
    scores = _scores(target, corpus, asked)
    clusters = np.array([number for number, _, _ in asked])
    guesses = _guesses(corpus)
    guessed = [guesses.get(fold(question.question), guesses.get("", "")) for _, _, question in asked]
    null = float(
        np.mean([anls(guess, question.answers) for guess, (_, _, question) in zip(guessed, asked, strict=True)])
    )
    unit = "fields" if corpus.manifest.task.kind == "parsing" else "questions"
    return estimate(ANLS, mean(scores, clusters, rng, alphas=ALPHAS), unit, null, "chance")


def usefulness_by_document(target: Target, corpus: Corpus, seed: int) -> dict[str, Ratios]:
    """The sums behind `usefulness` by held-out document, so that two models can be compared as pairs.

    Args:
        target: as it is measured.
        corpus: whose held-out documents are asked about.
        seed: the same as there.
    """
    if Answer not in target.answers:
        return utility_by_document(cast("TokenTarget", target), corpus.of("heldout"), seed)
    documents, asked = _asked(corpus, np.random.default_rng(seed))
    if not asked:
        return {}
    clusters = np.array([number for number, _, _ in asked])
    sums = sum_by_document(_scores(target, corpus, asked), clusters)
    return {ANLS: Ratios([document.id for document in documents], *sums)}


def _asked(corpus: Corpus, rng: np.random.Generator) -> tuple[list[Document], list[Asked]]:
    """Held-out documents with questions, no more than are measured, and each question with its document's place."""
    documents = [document for document in corpus.of("heldout") if document.questions]
    if len(documents) > MAX_DOCUMENTS:
        documents = [documents[index] for index in sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])]
    asked = [
        (number, document, question) for number, document in enumerate(documents) for question in document.questions
    ]
    return documents, asked


def _scores(target: Target, corpus: Corpus, asked: Sequence[Asked]) -> Floats:
    """ANLS of every question, (n_questions,)."""
    replies: list[str] = []
    for start in range(0, len(asked), _AT_ONCE):
        queries = [
            Answer(page_view(corpus, document), question.question)
            for _, document, question in asked[start : start + _AT_ONCE]
        ]
        replies += [reply.text for reply in target.ask(queries)]
    return np.array([anls(reply, question.answers) for reply, (_, _, question) in zip(replies, asked, strict=True)])


def _guesses(corpus: Corpus) -> dict[str, str]:
    """The answer that members' questions of each wording have most often, and under "" that of all of them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.of("member"):
        for question in document.questions:
            if question.answers:
                counts[fold(question.question)][question.answers[0]] += 1
                counts[""][question.answers[0]] += 1
    return {wording: own.most_common(1)[0][0] for wording, own in counts.items()}
