"""Hidden values of any target, and the page on which a model chooses between the true one and plausible others."""

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
from audit.case import Case, once_per_case
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
        document: where it stands.
        name: of the field or the question, within the document.
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
    """Select the values of a pool that may stand in place of the true one, in the order of their folded spelling.

    The true value is none of them, nor what is left on the page: a reader would take it from there.

    Args:
        pool: by folded value.
        values: what counts as the true value, folded.
        page: the words of the page.
    """
    words = tuple(page)
    together = fold("".join(words))
    return [
        own
        for value, own in sorted(pool.items())
        if value not in values
        and not (value in together and find_answers(words, [value], fuzzy=False))
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


@once_per_case
def _pool_of(case: Case) -> TokenPool:
    """Collect tokens of the values of public documents, by category and number of tokens, then by folded value."""
    found: dict[tuple[str, int], dict[str, Tokens]] = defaultdict(dict)
    for document in case.corpus.of("public"):
        for entity in document.entities:
            page = case.token_target.encode(document, entity.words)
            if page is None:
                continue
            tokens = tuple(page.ids[list(page.positions_of(entity.words))].tolist())
            if tokens and page.unknown_id not in tokens:
                found[entity.category, len(tokens)].setdefault(
                    fold(document.text_of(entity)), tokens
                )
    return found


def loss_query(model: Target) -> LossQuery | None:
    """Return the query that asks a model about a hidden field.

    None where there is nothing to ask.
    """
    kinds: tuple[LossQuery, ...] = (CompletionLoss, MaskedCompletionLoss)
    return next((kind for kind in kinds if kind in model.answers), None)


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields, hidden as for reconstruction: label and number of tokens are known, copies on the page are hidden too.

    A tagger's loss is that of the page's labels, a masked language model's the mean over the
    value's tokens.
    """

    case: Case

    @property
    def reasons(self) -> Mapping[str, str]:
        """Describe each reason for which a value may be left out."""
        few = f"fields with fewer than {MIN_CANDIDATES - 1} public values of their category and number of tokens"
        return {**REASONS, FEW: few}

    def all(self) -> Iterator[Hidden]:
        """Yield every value of member and held-out documents, tried or not, in file order."""
        return (self._hidden(field) for field in all_fields(self.case, *_ANY))

    def of(self, trial: Trial) -> Hidden:
        """Return the value of a trial."""
        return self._hidden(field_of(self.case, trial, *_ANY))

    def _hidden(self, field: Field) -> Hidden:
        document, entity, left_out = field.document, field.entity, field.left_out
        text = document.text_of(entity)
        values, unique = frozenset({fold(text)}), occurrences(self.case.corpus)[fold(text)].unique
        if left_out is None and len(self._others(field)) < MIN_CANDIDATES - 1:
            left_out = FEW
        unnamed = input_only(self.case.corpus, document, entity)
        return Hidden(
            document,
            entity.id,
            entity.category,
            text,
            values,
            unique,
            unnamed,
            field.trial,
            left_out,
        )

    def _others(self, field: Field) -> list[Tokens]:
        pool = _pool_of(self.case).get((field.entity.category, len(field.positions)), {})
        page = (word.text for word in field.document.words)
        return select_plausible(pool, {fold(field.document.text_of(field.entity))}, page)

    def lay_out(
        self, hidden: Hidden, n_candidates: int, rng: Rng
    ) -> Generator[Request, Any, LaidPage]:
        """Lay out `n_candidates` values, the true one first, the others drawn, and the field without a page.

        The page is laid before each model as that one reads it.
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
        """Return whether a model is asked what the target is asked, so that their losses compare."""
        return loss_query(model) is loss_query(self.case.target)

    def losses(
        self, model: Target, hidden: Hidden, lay_out: LaidPage
    ) -> Generator[Request, Any, Floats | None]:
        """Ask for the loss with each candidate: (n_candidates,), nats.

        None where the model cannot read the page.
        """
        kind, field = loss_query(model), self._read_by(model, hidden, lay_out.page)
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
        own = field_of(replace(self.case, target=cast("TokenTarget", model)), hidden.trial, *_ANY)
        if (
            own.page is None
            or field.page is None
            or not np.array_equal(own.page.ids, field.page.ids)
        ):
            return None
        return own


AnswerPool = Mapping[str, Mapping[str, str]]


def kind_of_answer(asked: AskedQuestion) -> str:
    """Return the kind by which plausible answers are grouped: the answer's category, else the folded question."""
    return asked.category or fold(asked.question.question)


def pool_of(corpus: Corpus, *splits: Split) -> AnswerPool:
    """Collect answers and fields of documents of some splits, once: by kind of answer, then by folded value."""
    key = f"answers of {splits}"
    if key not in corpus.known:
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for document in corpus.of(*splits):
            for question in document.questions:
                asked = AskedQuestion(document, question)
                if asked.answers:
                    found[kind_of_answer(asked)].setdefault(
                        fold(asked.answers[0]), asked.answers[0]
                    )
            for entity in document.entities:
                text = document.text_of(entity)
                found[entity.category].setdefault(fold(text), text)
        corpus.known[key] = found
    pool: AnswerPool = corpus.known[key]
    return pool


def trained_values(corpus: Corpus) -> Mapping[str, AbstractSet[str]]:
    """Collect, once, for every folded answer or field of members the ids of the documents that have it."""
    if "trained values" not in corpus.known:
        found: dict[str, set[str]] = defaultdict(set)
        for document in corpus.of("member"):
            texts = [answer for question in document.questions for answer in question.answers]
            for text in (*texts, *map(document.text_of, document.entities)):
                found[fold(text)].add(document.id)
        corpus.known["trained values"] = found
    values: Mapping[str, AbstractSet[str]] = corpus.known["trained values"]
    return values


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
        """See `Fields.reasons`."""
        few = f"questions with fewer than {MIN_CANDIDATES - 1} public answers of their `category` (or to the same text)"
        return {
            FEW: few,
            **{status: meaning for status, meaning in STATUSES.items() if status != PROVEN},
        }

    def all(self) -> Iterator[Hidden]:
        """See `Fields.all`."""
        return map(self._hidden, all_values(self.case.corpus))

    def of(self, trial: Trial) -> Hidden:
        """See `Fields.of`."""
        return self._hidden(question_of(self.case.corpus, trial))

    def _hidden(self, asked: AskedQuestion) -> Hidden:
        left_out = FEW if len(self._others(asked)) < MIN_CANDIDATES - 1 else None
        kind, text = kind_of_answer(asked), asked.answers[0]
        unique = is_unique(asked.document, asked.values, trained_values(self.case.corpus))
        name = asked.question.id.removeprefix(JOINT)
        return Hidden(
            asked.document,
            name,
            kind,
            text,
            asked.values,
            unique,
            asked.unasked,
            asked.trial,
            left_out,
        )

    def _others(self, asked: AskedQuestion) -> list[str]:
        pool = pool_of(self.case.corpus, "public").get(kind_of_answer(asked), {})
        return select_plausible(pool, asked.values, (word.text for word in asked.document.words))

    def lay_out(
        self, hidden: Hidden, n_candidates: int, rng: Rng
    ) -> Generator[Request, Any, LaidPage]:
        """See `Fields.lay_out`."""
        asked = question_of(self.case.corpus, hidden.trial)
        cleared = yield from clear(page_view(self.case.corpus, asked.document), asked.spellings)
        if cleared.status != PROVEN:
            return LaidPage(None, (), cleared.status)
        return LaidPage(
            cleared.view, (hidden.text, *draw_others(self._others(asked), n_candidates, rng))
        )

    def comparable(self, models: Sequence[Target]) -> list[Target]:
        """Keep the models that give the loss of an answer, in the order given."""
        return [*filter(self.alike, models)]

    def alike(self, model: Target) -> bool:
        """See `Fields.alike`."""
        return AnswerLoss in model.answers

    def losses(
        self, model: Target, hidden: Hidden, lay_out: LaidPage
    ) -> Generator[Request, Any, Floats | None]:
        """See `Fields.losses`."""
        question = question_of(self.case.corpus, hidden.trial).question.question
        found = yield from ask_all(
            model, [AnswerLoss(lay_out.page, question, answer) for answer in lay_out.candidates]
        )
        return np.array([-own.mean() if own.size else np.inf for own in found])


HiddenValues = Fields | Questions
