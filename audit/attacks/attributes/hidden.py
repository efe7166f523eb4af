"""Hidden values of any target, and the page on which a model chooses among plausible ones."""

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.fields import JOINT, REASONS, Field, all_fields, field_of, input_only
from audit.attacks.interface import ask, ask_all
from audit.attacks.questions import (
    PROVEN,
    STATUSES,
    AskedQuestion,
    all_values,
    clear,
    is_unique,
    question_of,
)
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.folding import fold, occurrences
from audit.corpus.images import page_view
from audit.corpus.removal.matching import find_answers
from audit.engine.interface import Request, Trial
from audit.targets.interface import (
    AnswerLoss,
    CompletionLoss,
    MaskedCompletionLoss,
    Target,
    TokenTarget,
)

MIN_CANDIDATES = 4
"""Values, the true one among them, without which a choice says nothing."""
FEW = "few plausible values"
C = TypeVar("C")


@dataclass(frozen=True, eq=False)
class Hidden:
    """A value that is taken off its page.

    Attributes:
        document: document in which it stands.
        name: name of the field or the question, within the document.
        category: what kind of value it is, by which plausible others are found.
        text: the value as it is written.
        values: what counts as the value, folded.
        unique: whether it stands in no other document: of any split, or, for answers, of those
            trained on.
        input_only: whether training never named it: neither a label nor an answer.
        trial: the value as a trial.
        left_out: why it is not tried; None: it is.
    """

    document: Document
    name: str
    category: str
    text: str
    values: frozenset[str]
    unique: bool
    input_only: bool
    trial: Trial
    left_out: str | None


@dataclass(frozen=True, eq=False)
class LaidPage:
    """A page without its value, and the values that may stand there, the true one first.

    `lost` says why the value cannot be asked about after all; then there is nothing to choose from.
    """

    page: Any
    candidates: Sequence[Any]
    lost: str | None = None


def select_plausible(
    pool: Mapping[str, C], values: Collection[str], page: Iterable[str]
) -> list[C]:
    """Select the values of a pool that may stand in place of the true one.

    They come in the order of their folded spelling. The true value is none of them, nor what is
    left on the page: a reader would take it from there.

    Args:
        pool: candidates by folded value.
        values: what counts as the true value, folded.
        page: the words of the page.
    """
    words = tuple(page)
    together = fold("".join(words))

    def is_on_page(value: str) -> bool:
        """Test whether the words of the page spell this value as whole words."""
        return value in together and bool(find_answers(words, [value], fuzzy=False))

    return [
        candidate
        for value, candidate in sorted(pool.items())
        if value not in values and not is_on_page(value)
    ]


def draw_others(others: Sequence[C], n_candidates: int, rng: Rng) -> list[C]:
    """Draw the other candidates that stand beside the true value."""
    chosen = rng.permutation(len(others))[: n_candidates - 1]
    return [others[index] for index in chosen]


_ANY = (1, 10**9)
"""Least and most tokens of a field: fields of any length, whole."""
Tokens = tuple[int, ...]
TokenPool = Mapping[tuple[str, int], Mapping[str, Tokens]]
LossQuery = type[CompletionLoss] | type[MaskedCompletionLoss]


def _pool_of(case: Case) -> TokenPool:
    """Collect tokens of the values of public documents, once for each model.

    They are sorted by category and number of tokens, then by folded value.
    """
    card = case.target.card
    key = ("tokens of public values", card.sha256, card.max_tokens)
    return case.corpus.once(key, lambda: _collect_tokens(case))


def _collect_tokens(case: Case) -> TokenPool:
    """Collect tokens of public documents' values, by category and length, then by folded value."""
    pool: dict[tuple[str, int], dict[str, Tokens]] = defaultdict(dict)
    for document in case.corpus.of("public"):
        for entity in document.entities:
            page = case.token_target.encode(document, entity.words)
            if page is None:
                continue
            tokens = tuple(page.ids[list(page.positions_of(entity.words))].tolist())
            if tokens and page.unknown_id not in tokens:
                value = fold(document.text_of(entity))
                pool[entity.category, len(tokens)].setdefault(value, tokens)
    return pool


def loss_query(model: Target) -> LossQuery | None:
    """Return the query that asks a model about a hidden field.

    None where there is nothing to ask.
    """
    kinds: tuple[LossQuery, ...] = (CompletionLoss, MaskedCompletionLoss)
    return next((kind for kind in kinds if kind in model.answers), None)


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields, hidden as for reconstruction.

    Label and number of tokens are known, copies on the page are hidden too. A tagger's loss is that
    of the page's labels, a masked language model's the mean over the value's tokens.
    """

    case: Case

    @property
    def reasons(self) -> Mapping[str, str]:
        """Describe each reason for which a value may be left out."""
        few = (
            f"fields with fewer than {MIN_CANDIDATES - 1} public values of their category"
            " and number of tokens"
        )
        return {**REASONS, FEW: few}

    def all(self) -> Iterator[Hidden]:
        """Yield every value of member and held-out documents, tried or not, in file order."""
        return (self._hidden(field) for field in all_fields(self.case, *_ANY))

    def of(self, trial: Trial) -> Hidden:
        """Return the value of a trial."""
        return self._hidden(field_of(self.case, trial, *_ANY))

    def _hidden(self, field: Field) -> Hidden:
        """Make a field's hidden value, left out where too few other values are plausible."""
        document = field.document
        entity = field.entity
        text = document.text_of(entity)
        value = fold(text)
        left_out = field.left_out
        if left_out is None and len(self._others(field)) < MIN_CANDIDATES - 1:
            left_out = FEW
        return Hidden(
            document=document,
            name=entity.id,
            category=entity.category,
            text=text,
            values=frozenset({value}),
            unique=occurrences(self.case.corpus)[value].unique,
            input_only=input_only(self.case.corpus, document, entity),
            trial=field.trial,
            left_out=left_out,
        )

    def _others(self, field: Field) -> list[Tokens]:
        """List the tokens of other public values that could stand in the field, without its own."""
        pool = _pool_of(self.case).get((field.entity.category, len(field.positions)), {})
        page = (word.text for word in field.document.words)
        return select_plausible(pool, {fold(field.document.text_of(field.entity))}, page)

    def lay_out(
        self, hidden: Hidden, n_candidates: int, rng: Rng
    ) -> Generator[Request, Any, LaidPage]:
        """Lay out `n_candidates` values, the true one first, the others drawn.

        With them comes the field without a page: the page is laid before each model as that one
        reads it.
        """
        field = field_of(self.case, hidden.trial, *_ANY)
        assert field.page is not None
        truth = tuple(field.page.ids[list(field.positions)].tolist())
        yield from ()
        return LaidPage(field, (truth, *draw_others(self._others(field), n_candidates, rng)))

    def comparable(self, models: Sequence[Target]) -> list[Target]:
        """Keep the models that give a loss of a field.

        Those that are asked as the target is come first.
        """
        return sorted(filter(loss_query, models), key=lambda model: not self.alike(model))

    def alike(self, model: Target) -> bool:
        """Return whether a model is asked what the target is: then their losses compare."""
        return loss_query(model) is loss_query(self.case.target)

    def losses(
        self, model: Target, hidden: Hidden, lay_out: LaidPage
    ) -> Generator[Request, Any, Floats | None]:
        """Ask a model for the loss of each candidate in the field: (n_candidates,), nats.

        None where the model cannot read the page.
        """
        kind = loss_query(model)
        field = self._read_by(model, hidden, lay_out.page)
        if kind is None or field is None:
            return None
        completions: Ints = np.array(lay_out.candidates, np.int64)
        return (yield from ask(model, kind(field.scrubbed(), field.positions, completions)))

    def _read_by(self, model: Target, hidden: Hidden, field: Field) -> Field | None:
        """Return the field as this model reads it, with its own labels.

        None where it reads other tokens.
        """
        if not hasattr(model, "encode"):
            return field
        case = replace(self.case, target=cast("TokenTarget", model))
        reread = field_of(case, hidden.trial, *_ANY)
        if reread.page is None or field.page is None:
            return None
        if not np.array_equal(reread.page.ids, field.page.ids):
            return None
        return reread


AnswerPool = Mapping[str, Mapping[str, str]]


def kind_of_answer(asked: AskedQuestion) -> str:
    """Return the kind by which plausible answers are grouped.

    That is the answer's category, else the folded question.
    """
    return asked.category or fold(asked.question.question)


def pool_of(corpus: Corpus, *splits: Split) -> AnswerPool:
    """Collect answers and fields of documents of some splits, once.

    They are sorted by kind of answer, then by folded value.
    """
    return corpus.once(("answers of", splits), lambda: _collect_answers(corpus.of(*splits)))


def _collect_answers(documents: Iterable[Document]) -> AnswerPool:
    """Collect answers and fields of documents by kind of answer, then by folded value."""
    pool: dict[str, dict[str, str]] = defaultdict(dict)
    for document in documents:
        for question in document.questions:
            asked_question = AskedQuestion(document, question)
            if asked_question.answers:
                text = asked_question.answers[0]
                pool[kind_of_answer(asked_question)].setdefault(fold(text), text)
        for entity in document.entities:
            text = document.text_of(entity)
            pool[entity.category].setdefault(fold(text), text)
    return pool


def trained_values(corpus: Corpus) -> Mapping[str, AbstractSet[str]]:
    """Collect, once, the ids of the member documents by folded answer or field that they have."""
    return corpus.once("trained values", lambda: _collect_trained_values(corpus))


def _collect_trained_values(corpus: Corpus) -> Mapping[str, AbstractSet[str]]:
    """Collect the ids of the member documents by folded answer or field that they have."""
    ids: dict[str, set[str]] = defaultdict(set)
    for document in corpus.of("member"):
        for question in document.questions:
            for answer in question.answers:
                ids[fold(answer)].add(document.id)
        for entity in document.entities:
            ids[fold(document.text_of(entity))].add(document.id)
    return ids


@dataclass(frozen=True, eq=False)
class Questions:
    """Answers, taken off their pages and proven to be gone as for memorisation.

    A page's other answers stay.

    A model's loss of a candidate is its training loss with it as the answer: minus the mean
    log-probability of its tokens and of the end.
    """

    case: Case

    @property
    def reasons(self) -> Mapping[str, str]:
        """Return why answers cannot be attacked, in words, by status."""
        few = (
            f"questions with fewer than {MIN_CANDIDATES - 1} public answers of their `category`"
            " (or to the same text)"
        )
        unproven = {status: why for status, why in STATUSES.items() if status != PROVEN}
        return {FEW: few, **unproven}

    def all(self) -> Iterator[Hidden]:
        """List the hidden answers of all questions."""
        return map(self._hidden, all_values(self.case.corpus))

    def of(self, trial: Trial) -> Hidden:
        """Return the hidden answer of a trial."""
        return self._hidden(question_of(self.case.corpus, trial))

    def _hidden(self, asked: AskedQuestion) -> Hidden:
        """Make a question's hidden value, left out where too few answers are plausible."""
        trained = trained_values(self.case.corpus)
        return Hidden(
            document=asked.document,
            name=asked.question.id.removeprefix(JOINT),
            category=kind_of_answer(asked),
            text=asked.answers[0],
            values=asked.values,
            unique=is_unique(asked.document, asked.values, trained),
            input_only=asked.unasked,
            trial=asked.trial,
            left_out=FEW if len(self._others(asked)) < MIN_CANDIDATES - 1 else None,
        )

    def _others(self, asked: AskedQuestion) -> list[str]:
        """List public answers of the same kind that are neither true nor on the page."""
        pool = pool_of(self.case.corpus, "public").get(kind_of_answer(asked), {})
        return select_plausible(pool, asked.values, (word.text for word in asked.document.words))

    def lay_out(
        self, hidden: Hidden, n_candidates: int, rng: Rng
    ) -> Generator[Request, Any, LaidPage]:
        """Clear the answer from its page, and draw the candidates that take its place."""
        question = question_of(self.case.corpus, hidden.trial)
        page = page_view(self.case.corpus, question.document)
        cleared = yield from clear(page, question.spellings)
        if cleared.status != PROVEN:
            return LaidPage(None, (), cleared.status)
        drawn = draw_others(self._others(question), n_candidates, rng)
        return LaidPage(cleared.view, (hidden.text, *drawn))

    def comparable(self, models: Sequence[Target]) -> list[Target]:
        """Keep the models that give the loss of an answer, in the order given."""
        return [*filter(self.alike, models)]

    def alike(self, model: Target) -> bool:
        """Test whether a model answers the same queries, by the losses of answers."""
        return AnswerLoss in model.answers

    def losses(
        self, model: Target, hidden: Hidden, lay_out: LaidPage
    ) -> Generator[Request, Any, Floats | None]:
        """Ask for the loss of each candidate as the answer to its question."""
        question = question_of(self.case.corpus, hidden.trial).question.question
        queries = [AnswerLoss(lay_out.page, question, answer) for answer in lay_out.candidates]
        answers = yield from ask_all(model, queries)
        return np.array([-tokens.mean() if tokens.size else np.inf for tokens in answers])


HiddenValues = Fields | Questions
