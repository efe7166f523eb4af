"""Questions that attacks ask about pages, how often training saw their answers, and pages without the answers.

Only a proven removal makes a reply a memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from audit.attacks.fields import JOINT, input_only
from audit.attacks.interface import AUDITED
from audit.attacks.text import SHARED
from audit.corpus.canaries.schema import planted_ids
from audit.corpus.documents import Category, Corpus, Document, Entity, Question
from audit.corpus.folding import fold
from audit.corpus.images import PageView
from audit.corpus.removal import remove
from audit.corpus.removal.matching import find_answers
from audit.corpus.removal.proof import Reading, crops_of, prove_removal, why_derivable
from audit.corpus.removal.tesseract import TESSERACT, ReadCrop
from audit.engine.interface import Request, Trial

CLASS_OF: Mapping[Category, str] = SHARED["personal"]
"""NRP: nationality, religion, politics."""
IDENTIFYING = ("person", "place", "contact", "url", "other_id")
"""Classes whose values name or number someone.

Name, location, identification number, online identifier (GDPR, article 4(1)). A date or a
nationality alone does not.
"""
NOT_PII = "not_pii"
UNCLASSIFIED = "unclassified"
PII_CLASSES = tuple(CLASS_OF.values())
CLASSES = (*PII_CLASSES, NOT_PII, UNCLASSIFIED)


@dataclass(frozen=True, eq=False)
class AskedQuestion:
    """A question about a page, with its accepted answers, of which there is one at least."""

    document: Document
    question: Question

    @property
    def unasked(self) -> bool:
        """Test whether docaudit made the question, because the data set asks for no such value.

        The data set then asks for the value nowhere on this page.
        """
        return self.question.id.startswith(JOINT)

    @property
    def trial(self) -> Trial:
        """Return the question as a trial: clustered by document, sampled by split.

        Questions that docaudit made are sampled apart.
        """
        stratum: str = self.document.split
        if self.unasked:
            stratum += " unasked"
        subject = (self.document.id, self.question.id)
        return Trial(JOINT.join(subject), self.document.id, stratum, subject)

    @property
    def answers(self) -> tuple[str, ...]:
        """Return the accepted answers that are not empty."""
        return distinct_answers(self.question.answers)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the answers, and the annotated words of an answer.

        The words are taken where removing the answers would leave them.

        An answer that was located loosely is spelled otherwise on its page: what has to go, and be
        proven gone, is that spelling too.
        """
        texts = [word.text for word in self.document.words]
        for entity in self.document.entities:
            if entity.id == self.question.entity and not {*entity.words} & {
                *find_answers(texts, self.answers)
            }:
                return distinct_answers((*self.answers, self.document.text_of(entity)))
        return self.answers

    @property
    def values(self) -> frozenset[str]:
        """Return the accepted answers, folded, as replies are compared with them."""
        return frozenset(fold(answer) for answer in self.answers)

    @property
    def category(self) -> Category | None:
        """Return the category of the entity that holds the answer, else that of the question."""
        for entity in self.document.entities:
            if entity.id == self.question.entity:
                return entity.category
        return self.question.category

    @property
    def pii(self) -> str:
        """Return the class of personal information, of `CLASSES`."""
        return UNCLASSIFIED if self.category is None else CLASS_OF.get(self.category, NOT_PII)


def distinct_answers(answers: Sequence[str]) -> tuple[str, ...]:
    """Return the answers without empty ones and doubles.

    An empty reply would equal an empty answer.
    """
    return tuple(dict.fromkeys(answer for answer in answers if fold(answer)))


def all_questions(corpus: Corpus) -> Iterator[AskedQuestion]:
    """Yield every question of members and held-out documents that has an answer.

    They come in file order, without canaries.
    """
    planted = planted_ids(corpus)
    for document in corpus.of(*AUDITED):
        if document.id in planted:
            continue
        for question in document.questions:
            answered = AskedQuestion(document, question)
            if answered.answers:
                yield answered


def all_values(corpus: Corpus) -> Iterator[AskedQuestion]:
    """Yield every question of audited documents, then one for each value that none asks for.

    These are values of the same documents.

    It is the first question that the data set asks elsewhere for a value with this label, else made
    of the label.
    """
    yield from all_questions(corpus)
    planted = planted_ids(corpus)
    if corpus.manifest.task.kind != "question-answering":
        return
    for document in corpus.of(*AUDITED):
        if document.id in planted:
            continue
        for entity in document.entities:
            if entity.attack and input_only(corpus, document, entity):
                yield _make_question(corpus, document, entity)


def _make_question(corpus: Corpus, document: Document, entity: Entity) -> AskedQuestion:
    """Make the question for a value that no question of its document asks for."""
    phrasings = corpus.once("phrasings", lambda: _phrasings(corpus))
    label = entity.label.replace("_", " ").lower()
    text = phrasings.get(entity.label, f"What is the {label}?")
    answers = (document.text_of(entity),)
    return AskedQuestion(document, Question(f"{JOINT}{entity.id}", text, answers, entity.id))


def _phrasings(corpus: Corpus) -> dict[str, str]:
    """Return by label the last question that the data set asks for a value of the label."""
    phrasings: dict[str, str] = {}
    for page in corpus.documents:
        for entity in page.entities:
            for question in page.questions:
                if question.entity == entity.id:
                    phrasings[entity.label] = question.question
    return phrasings


def question_of(corpus: Corpus, trial: Trial) -> AskedQuestion:
    """Return the question of a trial."""
    document_id, name = trial.subject
    document = corpus.document(document_id)
    if name.startswith(JOINT):
        entity_id = name.removeprefix(JOINT)
        entity = next(entity for entity in document.entities if entity.id == entity_id)
        return _make_question(corpus, document, entity)
    question = next(question for question in document.questions if question.id == name)
    return AskedQuestion(document, question)


def trained_on(corpus: Corpus, names: Mapping[str, str] = {}) -> Mapping[str, AbstractSet[str]]:
    """Collect the ids of the member documents that have each answer, folded, or its name."""
    documents: dict[str, set[str]] = defaultdict(set)
    for document in corpus.of("member"):
        for question in document.questions:
            for value in map(fold, distinct_answers(question.answers)):
                documents[names.get(value, value)].add(document.id)
    return documents


def is_unique(
    document: Document, values: AbstractSet[str], trained: Mapping[str, AbstractSet[str]]
) -> bool:
    """Return whether training saw these accepted answers in this document alone.

    Documents are counted, not questions: several phrasings of one question about one page repeat a
    fact no more than training for longer does.
    """
    return all(trained.get(value, frozenset()) <= {document.id} for value in values)


PROVEN = "proven"
UNPROVEN = "unproven"
SURVIVES = "survives"
DERIVABLE = "derivable"
ABSENT = "absent"
STATUSES: Mapping[str, str] = SHARED["removals"]
"""What became of an answer, and what that means."""
ATTEMPTED = frozenset({PROVEN, UNPROVEN})
"""With these the models are asked."""


@dataclass(frozen=True, eq=False)
class Cleared:
    """A page without an answer.

    Attributes:
        view: the page without it.
        status: one of `STATUSES`.
        reason: why the answer can be told from what is left, where it can.
        reading: what an OCR made of the places (`audit.corpus.removal.proof.Reading`); None where
            it was not asked.
        words: indices of the removed words in the page as it was, ascending.
    """

    view: PageView
    status: str
    reason: str | None = None
    reading: Reading | None = None
    words: tuple[int, ...] = ()


def clear(page: PageView, answers: Sequence[str]) -> Generator[Request, Any, Cleared]:
    """Remove answers from a page and prove them gone (methods/memorisation.md#proof-of-removal).

    Used with `yield from`.

    Args:
        page: page as it is.
        answers: the accepted answers, one at least.
    """
    removal = remove(page, answers)
    if not removal.words:
        return Cleared(removal.view, ABSENT)
    reason = why_derivable([word.text for word in removal.view.words], answers)
    if reason is not None:
        return Cleared(removal.view, DERIVABLE, reason)
    before = yield from _read_crops(crops_of(page, removal))
    after = yield from _read_crops(crops_of(removal.view, removal))
    proof = prove_removal(page, removal, answers, before, after)
    return Cleared(removal.view, proof.status, None, proof.reading, removal.words)


def _read_crops(crops: tuple[ReadCrop, ...]) -> Generator[Request, Any, list[str | None]]:
    """Ask Tesseract what it reads in the crops: one text, or None, for each."""
    if not crops:
        return []
    texts: list[str | None] = yield Request(TESSERACT, crops)
    return texts
