"""What someone reaches on held-out questions who never looks at a page."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from audit.corpus.documents import Corpus
from audit.stats.distances import anls


def guesses(corpus: Corpus) -> dict[str, float]:
    """Mean ANLS on held-out questions of three ways to guess, all chosen on members.

    Returns:
        "commonest": their commonest answer to every question, the null of the record's utility;
        "commonest_by_field": the commonest one for each field; "best_by_field": for each field the
        answer that is most like the others (it has the format of a date, say), the strongest of the
        three and the one that a model must beat to have read.
    """
    members = _answers(corpus, "member")
    heldout = _answers(corpus, "heldout")
    (overall, _), *_ = Counter(
        answer for given in members.values() for answer in given
    ).most_common(1)
    chosen = {
        "commonest": dict.fromkeys(members, overall),
        "commonest_by_field": {
            field: Counter(given).most_common(1)[0][0] for field, given in members.items()
        },
        "best_by_field": {field: _most_alike(given) for field, given in members.items()},
    }
    accepted = [
        (question.id, question.answers)
        for document in corpus.of("heldout")
        for question in document.questions
        if question.answers
    ]
    assert heldout.keys() <= members.keys(), "every field is asked about among members"
    return {
        way: float(np.mean([anls(answers[field], given) for field, given in accepted]))
        for way, answers in chosen.items()
    }


def _answers(corpus: Corpus, split: str) -> dict[str, list[str]]:
    """The first accepted answers, by field."""
    found: dict[str, list[str]] = defaultdict(list)
    for document in corpus.documents:
        if document.split == split:
            for question in document.questions:
                if question.answers:
                    found[question.id].append(question.answers[0])
    return found


def _most_alike(given: list[str]) -> str:
    """The answer with the highest mean ANLS to all of these."""
    return max(
        dict.fromkeys(given), key=lambda guess: sum(anls(guess, [answer]) for answer in given)
    )
