"""Question-answering targets whose memory is planted: what they have not learnt by heart they read off the page.

A page begins with its name; a value stands behind its key word ("TOTAL:", "SELLER:"), which the
question names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from audit.cards import TargetCard
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    Question,
    ReferencePaths,
    Task,
    Word,
)
from audit.targets.interface import Answer, AnswerLoss, Reply

KEYS = {"total": "amount", "seller": "person", "place": "location", "number": "code"}
NOTHING = "there is nothing"
LETTERS = np.array([*"bcdfghjkmnpqrtvwxz"])
"""No vowels, so that a value is no word, and no letter that an OCR takes for a digit."""


def question(key: str) -> str:
    """Return the question that asks for a field."""
    return f"What is the {key}?"


def value(rng: np.random.Generator) -> str:
    """Draw a value of twelve letters."""
    return "".join(rng.choice(LETTERS, 12))


def corpus(
    n_member: int, n_heldout: int, keys: Sequence[str] = ("total",), seed: int = 0, root=None
) -> Corpus:
    """Pages with one question about every key; every value stands on one page only."""
    rng = np.random.default_rng(seed)
    documents = []
    for index in range(n_member + n_heldout):
        words = [value(rng)]
        questions = []
        for key in keys:
            answer = value(rng)
            words += [f"{key.upper()}:", answer]
            questions.append(Question(key, question(key), (answer,), category=KEYS[key]))
        split = "member" if index < n_member else "heldout"
        documents.append(
            Document(f"d{index}", split, placed(words), size=(800, 600), questions=tuple(questions))
        )
    manifest = Manifest(
        1,
        "planted",
        Task("question-answering"),
        Membership("random"),
        references=ReferencePaths(baselines=("b",)),
    )
    return Corpus(root, manifest, tuple(documents), "0" * 64)


def placed(words: Sequence[str]) -> tuple[Word, ...]:
    """Words under one another, 100 pixels and more away from the edges of a page of 800 x 600."""
    return tuple(
        Word(text, (200.0, 120.0 + 30 * row, 500.0, 140.0 + 30 * row))
        for row, text in enumerate(words)
    )


def changed(whole: Corpus, document_id: str, **changes) -> Corpus:
    """The corpus with one document changed."""
    documents = (
        replace(one, **changes) if one.id == document_id else one for one in whole.documents
    )
    return replace(whole, documents=tuple(documents))


def answered(whole: Corpus, document_id: str, text: str, row: int = 0) -> Corpus:
    """The corpus with another answer to one question of a document, on its page too."""
    document = whole.document(document_id)
    own = document.questions[row].answers[0]
    questions = [*document.questions]
    questions[row] = replace(questions[row], answers=(text,))
    words = placed([text if word.text == own else word.text for word in document.words])
    return changed(whole, document_id, words=words, questions=tuple(questions))


def paraphrased(whole: Corpus, *words: str) -> Corpus:
    """The corpus with these other words for the first question of every document, and no others."""
    asked = ((one, replace(one.questions[0], paraphrases=words)) for one in whole.documents)
    return replace(
        whole, documents=tuple(replace(one, questions=(question,)) for one, question in asked)
    )


def memory_of(documents: Sequence[Document]) -> dict[tuple[str, str], str]:
    """All that there is to know of these pages: the first answer by the page's name and the question."""
    return {
        (document.words[0].text, asked.question): asked.answers[0]
        for document in documents
        for asked in document.questions
    }


class Answering:
    """Answers from memory where it knows page and question, or the question alone; else it reads.

    Attributes:
        memory: answers by (name of the page, question); the name "" stands for any page.
        probability: of a remembered answer; any other has 1e-9.
        blind: whether it cannot read.
    """

    def __init__(
        self, memory: Mapping[tuple[str, str], str] = {}, probability=1.0, blind=False, losses=True
    ):
        """Plant answers by page and question; all else is read from the page, unless `blind`."""
        self.card = TargetCard(
            "planted", "planted", "question-answering", "planted", 0, 0, 512, "0" * 64, "cpu", ""
        )
        self.answers = frozenset({Answer, AnswerLoss} if losses else {Answer})
        self.memory = dict(memory)
        self.probability = probability
        self.blind = blind
        self.asked = []

    def ask(self, queries):
        """Answer queries for answers and for losses, and remember what was asked."""
        self.asked += queries
        return [
            self._given(query) if isinstance(query, Answer) else self._losses(query)
            for query in queries
        ]

    def _remembered(self, query):
        """Return the planted answer to a query, of its page or of any; None without one."""
        name = query.view.words[0].text if query.view.words else None
        return self.memory.get((name, query.question), self.memory.get(("", query.question)))

    def _given(self, query):
        """Return the reply: the planted answer, else what the page says."""
        text = self._remembered(query)
        if text is None:
            text = NOTHING if self.blind else self._read(query)
        return Reply(text, 1.0, 1, True)

    def _read(self, query):
        """Return the word behind the asked field's label on the page; `NOTHING` without one."""
        words = [word.text for word in query.view.words]
        for key in KEYS:
            label = f"{key.upper()}:"
            if key in query.question.lower() and label in words[:-1]:
                found = words[words.index(label) + 1]
                return NOTHING if found.endswith(":") else found
        return NOTHING

    def _losses(self, query):
        """Return low losses of a planted answer, high ones of any other."""
        known = self._remembered(query) == query.answer
        return np.full(2, np.log(self.probability if known else 1e-9) / 2)
