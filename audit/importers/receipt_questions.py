"""Questions for the four fields of a receipt, each in several phrasings: what a question-answering model is taught."""

from __future__ import annotations

import random
from collections.abc import Mapping

from audit.corpus.documents import Category, Question

PHRASINGS: Mapping[str, tuple[str, ...]] = {
    "company": (
        "What is the name of the company?",
        "Which company issued this receipt?",
        "Who is the seller on this receipt?",
        "What is the shop called?",
        "Which business was the purchase made from?",
        "Who is the receipt from?",
    ),
    "date": (
        "What is the date of the receipt?",
        "When was this receipt issued?",
        "On which day was the purchase made?",
        "What date is printed on the receipt?",
        "Which date does the transaction bear?",
        "When did the customer pay?",
    ),
    "address": (
        "What is the address of the company?",
        "Where is the shop located?",
        "At which address was the purchase made?",
        "What address is printed on the receipt?",
        "Where can the seller be found?",
        "Which address does the business give?",
    ),
    "total": (
        "What is the total amount?",
        "How much was paid in total?",
        "What is the total of the receipt?",
        "Which sum had the customer to pay?",
        "How much does the whole purchase cost?",
        "What amount is due?",
    ),
}
"""Ours, by key of SROIE: no phrasing names anything of a receipt, and any of them may be the one that is trained on."""

SAME_VALUE = frozenset({"exact", "punctuation", "equal amount", "equal date"})
"""Rules of `locating` whose words are the value itself in the page's own spelling, which is an answer too."""


def question_of(
    document: str, key: str, category: Category, value: str, held: tuple[str, str] | None, seed: int
) -> Question:
    """Make the question for one field of one receipt.

    Which phrasing is the question follows from the seed, the document and the key alone; the others, which the model
    did not hear about this receipt, are its paraphrases, in the order of `PHRASINGS`.

    Args:
        document: id of the receipt.
        key: of `PHRASINGS`; the id of the question, and of the entity that holds the answer.
        category: of the field.
        value: its transcription, the first accepted answer.
        held: the text of the words that hold it and the rule that found them; None where none were located.
        seed: of the draw.
    """
    phrasings = PHRASINGS[key]
    chosen = random.Random(f"{seed}/{document}/{key}").randrange(len(phrasings))
    answers = [value]
    if held is not None and held[1] in SAME_VALUE and held[0] != value:
        answers.append(held[0])
    return Question(
        id=key,
        question=phrasings[chosen],
        answers=tuple(answers),
        entity=None if held is None else key,
        category=category if held is None else None,
        paraphrases=(*phrasings[:chosen], *phrasings[chosen + 1 :]),
    )
