"""CDMI on models that answer questions about a page's words: which questions its adversary may use (ours).

The published attack (Dentan et al. 2024) knows taggers, SPADE and masked language models; its authors attack no model
that writes answers. What it needs of a target is the training loss of one page as a function of the page's tokens. A
model that reads these tokens and writes an answer has such a loss for every question that it was trained to answer:
minus the mean log-probability of the answer's tokens, its end among them. So algorithm 2 stays as it is. The public
model proposes candidates for each hidden token, and the target's loss is read with each candidate in place; that loss
is the mean over questions about the page.

As the published adversary knows a page's labels, this one knows its questions and answers, except those that give the
hidden value away. Whatever a model remembers shows only as far as the answers it was taught depend on the hidden words:
a target that ignores the rest of a page when it answers gives nothing away here, and is asked by the memorisation
attack. Models that see a page as pixels have no token to put a candidate in place of.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from audit.corpus.documents import Document, Entity, Question
from audit.corpus.folding import fold

N_QUESTIONS = 4
"""Questions about a page whose losses are read, the first ones that give nothing away (ours): each of them costs one
forward pass for every candidate."""


def without_telling_questions(document: Document, entity: Entity) -> Document:
    """The document with at most `N_QUESTIONS` questions, none of which gives the field away."""
    value = fold(document.text_of(entity))
    known = (question for question in document.questions if question.answers and not _tells(question, entity, value))
    return replace(document, questions=tuple(islice(known, N_QUESTIONS)))


def _tells(question: Question, entity: Entity, value: str) -> bool:
    """Whether a question is about the field, holds its value, or has an answer that holds it or a part of it.

    Answers and value are compared folded: case, width and spacing are no differences.
    """
    if question.entity == entity.id or value in fold(question.question):
        return True
    return any(value in answer or answer in value for answer in map(fold, question.answers))
