"""Usefulness of a checkpoint of any kind: its own task on documents it did not train on."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import cast

import numpy as np

from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.corpus.page_view import page_view
from audit.measurements import ALPHAS, Measurement, Unresolved
from audit.stats.distances import anls
from audit.stats.means import mean
from audit.targets.interface import Answer, BestIntent, Target, TokenTarget
from audit.targets.utility import MAX_DOCUMENTS, estimate, intent_accuracy, utility

_AT_ONCE = 64
"""Questions asked together, so that few pages are open at a time (ours)."""


def usefulness(target: Target, corpus: Corpus, seed: int) -> tuple[Measurement, ...]:
    """The measures of the target's task on held-out documents.

    See `utility`, with `intent_accuracy` where the model names intents, and `held_out_anls` for questions.
    """
    if Answer in target.answers:
        return (held_out_anls(target, corpus, seed),)
    target_tokens, documents = cast("TokenTarget", target), corpus.of("heldout")
    own = utility(target_tokens, documents, seed)
    return (own, intent_accuracy(target_tokens, documents, seed)) if BestIntent in target.answers else (own,)


def held_out_anls(target: Target, corpus: Corpus, seed: int) -> Measurement:
    """Mean ANLS on held-out documents' questions; null: giving the members' commonest answer.

    The commonest to the same wording of the question, where members are asked it, else of all.
    """
    rng = np.random.default_rng(seed)
    documents = [document for document in corpus.of("heldout") if document.questions]
    if len(documents) > MAX_DOCUMENTS:
        documents = [documents[index] for index in sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])]
    asked = [
        (number, document, question) for number, document in enumerate(documents) for question in document.questions
    ]
    if len(documents) < 2:
        return Unresolved("anls", "fewer than two held-out documents with questions", len(documents))
    replies: list[str] = []
    for start in range(0, len(asked), _AT_ONCE):
        queries = [
            Answer(page_view(corpus, document), question.question)
            for _, document, question in asked[start : start + _AT_ONCE]
        ]
        replies += [reply.text for reply in target.ask(queries)]
    scores = np.array([anls(reply, question.answers) for reply, (_, _, question) in zip(replies, asked, strict=True)])
    clusters = np.array([number for number, _, _ in asked])
    guesses = _guesses(corpus)
    guessed = [guesses.get(fold(question.question), guesses.get("", "")) for _, _, question in asked]
    null = float(
        np.mean([anls(guess, question.answers) for guess, (_, _, question) in zip(guessed, asked, strict=True)])
    )
    return estimate("anls", mean(scores, clusters, rng, alphas=ALPHAS), "questions", null, "chance")


def _guesses(corpus: Corpus) -> dict[str, str]:
    """The answer that members' questions of each wording have most often, and under "" that of all of them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.of("member"):
        for question in document.questions:
            if question.answers:
                counts[fold(question.question)][question.answers[0]] += 1
                counts[""][question.answers[0]] += 1
    return {wording: own.most_common(1)[0][0] for wording, own in counts.items()}
