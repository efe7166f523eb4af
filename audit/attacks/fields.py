"""Fields of a corpus as attacks try them, and why others are left out.

Models that answer questions about a page's words: the published attack (Dentan et al. 2024) knows
taggers, SPADE and masked language models; its authors attack no model that writes answers. What it
needs of a target is the training loss of one page as a function of the page's tokens. A model that
reads these tokens and writes an answer has such a loss for every question that it was trained to
answer: minus the mean log-probability of the answer's tokens, its end among them. So algorithm 2
stays as it is. The public model proposes candidates for each hidden token, and the target's loss is
read with each candidate in place; that loss is the mean over questions about the page.

As the published adversary knows a page's labels, this one knows its questions and answers, except
those that give the hidden value away. Whatever a model remembers shows only as far as the answers
it was taught depend on the hidden words: a target that ignores the rest of a page when it answers
gives nothing away here, and is asked by the memorisation attack. Models that see a page as pixels
have no token to put a candidate in place of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal

from audit.attacks.interface import AUDITED
from audit.attacks.text import SHARED
from audit.case import Case
from audit.corpus.canaries.schema import planted_ids
from audit.corpus.documents import Corpus, Document, Entity, Question
from audit.corpus.folding import fold
from audit.corpus.removal.matching import find_answers
from audit.corpus.tagging import OUTSIDE
from audit.engine.interface import Trial
from audit.targets.encoded_page import Encoding
from audit.targets.interface import AnswerLoss

JOINT = "\x1f"
"""Between the ids of document and field, or question, in a trial's id: control characters are
refused in both."""
LENGTHS = (3, 15)
"""Of the fields that the paper's attack tries, least and most tokens (section 5.1)."""
Length = Literal["usual", "long", "short"]
FieldPart = Literal["whole", "start", "end"]
REASONS: Mapping[str, str] = SHARED["left_out"]


@dataclass(frozen=True, eq=False)
class Field:
    """A field in its page, or an end of one that is longer than the paper's attack tries.

    Attributes:
        document: document in which it stands.
        entity: what it is.
        page: the page, or the window of it, that holds the field; None where it fits into none.
        whole: positions of all its tokens, left to right.
        positions: positions of the tokens that are rebuilt.
        length: "usual" from `min_tokens` to `max_tokens` tokens, the paper's; others are reported
            apart.
        part: the field, or its first or last `max_tokens` tokens where it has more.
        left_out: why it is not tried; None: it is.
    """

    document: Document
    entity: Entity
    page: Encoding | None
    whole: tuple[int, ...]
    positions: tuple[int, ...]
    length: Length
    part: FieldPart
    left_out: str | None

    @property
    def trial(self) -> Trial:
        """Return the field as a trial: clustered by document, sampled by split.

        Fields of unusual lengths are sampled by themselves.
        """
        trial = trial_of(self.document, self.entity, self.part)
        return (
            trial
            if self.length == "usual"
            else replace(trial, stratum=f"{trial.stratum} {self.length}")
        )

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """Return positions of the tokens outside the field that spell its value.

        Hidden with it, and not attacked.

        A receipt's total stands on it several times. They are found as a removal finds an answer,
        without near matches : the next day or the price before rounding is another value, which the
        paper's adversary reads, and the words are all that is left of what an OCR misread.
        Questions are asked about images, and lose near matches too.
        """
        if self.page is None:
            return ()
        places = _places_of(
            tuple(word.text for word in self.document.words), self.document.text_of(self.entity)
        )
        return self.page.positions_of(places.difference(self.entity.words))

    def scrubbed(self) -> Encoding:
        """Return the page with the field and its copies masked as [MASK] and painted white.

        Labels stay.

        Raises:
            ValueError: the field fits into no window.
        """
        if self.page is None:
            raise ValueError("a field that fits into no window has no page to scrub")
        return self.page.scrubbed((*self.whole, *self.copies))


@lru_cache(maxsize=16_384)  # every attack on fields asks again, and again when it measures
def _places_of(words: tuple[str, ...], value: str) -> frozenset[int]:
    """Find the words that spell a value."""
    return frozenset(find_answers(words, [value], fuzzy=False))


def withheld(corpus: Corpus) -> Counter[str]:
    """Count the fields of member documents that the owner keeps out of the audit, by category.

    They may leak as others do, so a pass rests on the less of what could leak. Lines of canaries
    are made up.
    """
    planted = planted_ids(corpus)
    numbers: Counter[str] = Counter()
    for document in corpus.of("member"):
        if document.id not in planted:
            numbers.update(entity.category for entity in document.entities if not entity.attack)
    return numbers


def trial_of(document: Document, entity: Entity, part: FieldPart = "whole") -> Trial:
    """Return the trial of a field of usual length, or of an end of it."""
    names = [document.id, entity.id]
    if part != "whole":
        names.append(part)
    subject = (document.id, entity.id, part)
    return Trial(JOINT.join(names), document.id, document.split, subject)


def possible_trials(corpus: Corpus, max_tokens: int) -> list[Trial]:
    """List the trials of all fields marked for attack before any tokenizer reads them.

    One that may have over `max_tokens` tokens has two: a tokenizer makes at most one a byte, and
    one a word.
    """
    trials = []
    for document in corpus.of(*AUDITED):
        for entity in document.entities:
            if entity.attack:
                most = sum(len(document.words[index].text.encode()) + 1 for index in entity.words)
                parts: tuple[FieldPart, ...] = ("start", "end") if most > max_tokens else ("whole",)
                trials += [trial_of(document, entity, end) for end in parts]
    return trials


def all_fields(case: Case, min_tokens: int, max_tokens: int) -> Iterator[Field]:
    """Yield every field of member and held-out documents that may be attacked, in file order.

    The manifest offers them for attack.

    One of more than `max_tokens` tokens comes twice, with its start and with its end.
    """
    for document in case.corpus.of(*AUDITED):
        for entity in document.entities:
            if entity.attack:
                yield from _fields_of_entity(case, document, entity, min_tokens, max_tokens)


def field_of(case: Case, trial: Trial, min_tokens: int, max_tokens: int) -> Field:
    """Return the field, or the end of a long field, that a trial is about."""
    document_id, entity_id, part = trial.subject
    document = case.corpus.document(document_id)
    entity = next(entity for entity in document.entities if entity.id == entity_id)
    fields = _fields_of_entity(case, document, entity, min_tokens, max_tokens)
    return next(field for field in fields if field.part == part)


def _fields_of_entity(
    case: Case, document: Document, entity: Entity, min_tokens: int, max_tokens: int
) -> tuple[Field, ...]:
    """Return a field of usual or short length, or both ends of a long one, of an entity."""
    page, reason = _read(case, document, entity)
    if page is None:
        return (Field(document, entity, None, (), (), "usual", "whole", reason),)
    positions = page.positions_of(entity.words)
    length: Length = "usual"
    if len(positions) < min_tokens:
        length = "short"
    elif len(positions) > max_tokens:
        length = "long"
    parts: dict[FieldPart, tuple[int, ...]] = {"whole": positions}
    if length == "long":
        parts = {"start": positions[:max_tokens], "end": positions[-max_tokens:]}
    left_out = "unknown tokens" if (page.ids[list(positions)] == page.unknown_id).any() else None
    made = (
        Field(document, entity, page, positions, places, length, name, left_out)
        for name, places in parts.items()
    )
    return tuple(made)


def _read(case: Case, document: Document, entity: Entity) -> tuple[Encoding | None, str | None]:
    """Return the page or window that holds the field, or None and the reason why there is none.

    Without a window, the reason.

    Memory shows best in the window that training read. However training read long pages, one window
    was their beginning: a field that it holds is attacked there, unless the manifest says that
    windows slid over the page (`TrainingRecipe.window`). A field behind it was never read where the
    manifest says that pages are cut off, and is no member; where it says nothing, the field is
    attacked in a window with itself in the middle.
    """
    if AnswerLoss in case.target.answers:
        # Such a model reads a page from its beginning only.
        asked = without_telling_questions(document, entity)
        if not asked.questions:
            return None, "no question"
        page = case.token_target.encode(asked, entity.words)
        return (None, "outside the trained window") if page is None else (page, None)
    around = case.token_target.encode(document, entity.words)
    if around is None:
        return None, "no window"
    window = case.corpus.manifest.recipe.window
    fits = len(around.ids) < case.token_target.card.max_tokens
    if fits or window == "sliding":
        return around, None
    first = case.token_target.encode(document)
    if first is not None and len(first.positions_of(entity.words)) == len(
        around.positions_of(entity.words)
    ):
        return first, None
    return (None, "outside the trained window") if window == "first" else (around, None)


N_QUESTIONS = 4
"""Questions about a page whose losses are read: each costs one forward pass for every candidate."""


def without_telling_questions(document: Document, entity: Entity) -> Document:
    """Return the document with some questions, none of which gives the field away.

    There are at most `N_QUESTIONS`.
    """
    value = fold(document.text_of(entity))
    named_values = (
        question
        for question in document.questions
        if question.answers and not _reveals(question, entity, value)
    )
    return replace(document, questions=tuple(islice(named_values, N_QUESTIONS)))


def input_only(corpus: Corpus, document: Document, entity: Entity) -> bool:
    """Test whether the training target of the page never named the value.

    Then the value was an input alone.

    A tagger's target names the values with a label other than "O", that of a model asked about
    pages the values that some question gives away.
    """
    kind = corpus.manifest.task.kind
    value = fold(document.text_of(entity))
    if kind == "token-classification":
        return all(
            entity.label == OUTSIDE
            for entity in document.entities
            if fold(document.text_of(entity)) == value
        )
    return kind == "question-answering" and not any(
        _reveals(question, entity, value) for question in document.questions
    )


def _reveals(question: Question, entity: Entity, value: str) -> bool:
    """Test whether a question is about the field, holds its value, or is answered by a part.

    It is about the field, holds its value, or has an answer that holds a part of it.

    Answers and value are compared folded: case, width and spacing are no differences.
    """
    if question.entity == entity.id or value in fold(question.question):
        return True
    return any(value in answer or answer in value for answer in map(fold, question.answers))
