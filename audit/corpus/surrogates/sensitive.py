"""Sensitive values of a document: marked fields, slots of telling names, answers, the provider's name, canaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from audit.corpus.documents import Category, Document, Question

_SLOTS: Mapping[Category, str] = {
    "person": "person people name names artist author customer recipient sender user patient",
    "location": "city country state place location address street town geographic poi",
    "datetime": "date datetime time timerange day hour year month birthday",
    "amount": "amount price cost money balance salary",
    "contact": "phone telephone mail email contact",
    "code": "code pin password account number card iban id canary",
    "organization": "company organization organisation bank employer",
}
"""Words in the name of a slot that make its values sensitive (ours): NLU data sets have no categories."""


@dataclass(frozen=True)
class SensitiveValue:
    """A value that is to be replaced.

    Attributes:
        words: as they are written.
        category: its kind; None: not known.
        places: indices of its words on the page, where a mark says so; (): wherever it stands.
    """

    words: tuple[str, ...]
    category: Category | None
    places: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Its words joined by single spaces."""
        return " ".join(self.words)


def slot_category(label: str) -> Category | None:
    """The category of a slot's values by the slot's name, such as "B-account_number"; None: not sensitive."""
    words = set(re.split(r"[^a-z]+", label.removeprefix("B-").removeprefix("I-").lower()))
    return next((category for category, known in _SLOTS.items() if words & {*known.split()}), None)


def marked_values(document: Document, *, planted: bool = False) -> Iterator[SensitiveValue]:
    """The values that the document's marks say the place of: its fields, or where it has none, its slots.

    Args:
        document: of any task.
        planted: whether it holds a canary: then no field of it is there for other attacks, and all are sensitive.
    """
    for entity in document.entities:
        if entity.attack or planted:
            words = tuple(document.words[index].text for index in entity.words)
            yield SensitiveValue(words, entity.category, entity.words)
    if not document.entities and document.tags is not None:
        for places in _spans(document.tags):
            category = slot_category(document.tags[places[0]])
            if category is not None:
                yield SensitiveValue(tuple(document.words[index].text for index in places), category, places)


def asked_values(document: Document) -> Iterator[SensitiveValue]:
    """The answers of its questions that are sensitive."""
    for question in document.questions:
        category = _category(document, question)
        for answer in question.answers:
            if answer.split() and (category is not None or _telling(answer)):
                yield SensitiveValue(tuple(answer.split()), category)


def _category(document: Document, question: Question) -> Category | None:
    held = (entity.category for entity in document.entities if entity.id == question.entity)
    return next(held, question.category)


def _telling(answer: str) -> bool:
    """An answer of unknown kind: names begin with capitals and numbers have digits; "yes" says nothing of anybody."""
    return any(character.isdecimal() or character.isupper() for character in answer)


def _spans(tags: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """The places of each slot's words in BIO tags."""
    span: list[int] = []
    for index, tag in enumerate((*tags, "O")):
        continues = tag.startswith("I-") and bool(span) and tags[span[0]][2:] == tag[2:]
        if not continues and span:
            yield tuple(span)
            span = []
        if tag != "O":
            span.append(index)
