"""Hidden answers, for targets that answer questions about a page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats
from audit.attacks.attributes.hidden import FEW, MIN_CANDIDATES, Hidden, LaidPage, draw_others, select_plausible
from audit.attacks.attributes.measures import EXCESS, GROUPS, METHODS
from audit.attacks.fields import trial_of
from audit.attacks.interface import AUDITED, Units, ask_all, missing_split
from audit.attacks.questions import PROVEN, STATUSES, AskedQuestion, all_questions, clear, question_of
from audit.case import Case, once_per_case
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.folding import fold, occurrences
from audit.corpus.images import page_view
from audit.engine.interface import Request, Trial
from audit.targets.interface import AnswerLoss, Target

AnswerPool = Mapping[str, Mapping[str, str]]


def kind_of_answer(asked: AskedQuestion) -> str:
    """By which plausible answers are found: the category of the answer, else the question itself, folded."""
    return asked.category or fold(asked.question.question)


def pool_of(corpus: Corpus, *splits: Split) -> AnswerPool:
    """Collect answers and fields by kind of answer, then by folded value; of public documents unless told others."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for document in corpus.of(*(splits or ("public",))):
        for question in document.questions:
            asked = AskedQuestion(document, question)
            if asked.answers:
                found[kind_of_answer(asked)].setdefault(fold(asked.answers[0]), asked.answers[0])
        for entity in document.entities:
            text = document.text_of(entity)
            found[entity.category].setdefault(fold(text), text)
    return found


def trained_values(corpus: Corpus) -> Mapping[str, AbstractSet[str]]:
    """For every folded answer or field of documents trained on, the ids of the documents that have it."""
    found: dict[str, set[str]] = defaultdict(set)
    for document in corpus.of("member"):
        texts = [answer for question in document.questions for answer in question.answers]
        for text in (*texts, *map(document.text_of, document.entities)):
            found[fold(text)].add(document.id)
    return found


@once_per_case
def _pool(case: Case) -> AnswerPool:
    return pool_of(case.corpus)


@once_per_case
def _trained(case: Case) -> Mapping[str, AbstractSet[str]]:
    return trained_values(case.corpus)


@dataclass(frozen=True, eq=False)
class Questions:
    """Answers, taken off their pages and proven to be gone as for memorisation; a page's other answers stay.

    A model's loss of a candidate is its training loss with it as the answer: minus the mean log-probability of its
    tokens and of the end.
    """

    case: Case

    @property
    def reasons(self) -> Mapping[str, str]:
        """See `Values.reasons`."""
        few = f"questions with fewer than {MIN_CANDIDATES - 1} public answers of their `category` (or to the same text)"
        return {FEW: few, **{status: meaning for status, meaning in STATUSES.items() if status != PROVEN}}

    def all(self) -> Iterator[Hidden]:
        """See `Values.all`."""
        return (self._hidden(asked) for asked in all_questions(self.case.corpus))

    def of(self, trial: Trial) -> Hidden:
        """See `Values.of`."""
        return self._hidden(question_of(self.case.corpus, trial))

    def _hidden(self, asked: AskedQuestion) -> Hidden:
        others = set().union(*(_trained(self.case).get(value, frozenset()) for value in asked.values))
        return Hidden(
            asked.document,
            asked.question.id,
            kind_of_answer(asked),
            asked.answers[0],
            asked.values,
            others <= {asked.document.id},
            asked.trial,
            FEW if len(self._others(asked)) < MIN_CANDIDATES - 1 else None,
        )

    def _others(self, asked: AskedQuestion) -> list[str]:
        pool = _pool(self.case).get(kind_of_answer(asked), {})
        return select_plausible(pool, asked.values, (word.text for word in asked.document.words))

    def lay_out(self, hidden: Hidden, n_candidates: int, rng: Rng) -> Generator[Request, Any, LaidPage[str]]:
        """See `Values.lay_out`."""
        asked = question_of(self.case.corpus, hidden.trial)
        cleared = yield from clear(page_view(self.case.corpus, asked.document), asked.spellings)
        if cleared.status != PROVEN:
            return LaidPage(None, (), cleared.status)
        return LaidPage(cleared.view, (hidden.text, *draw_others(self._others(asked), n_candidates, rng)))

    def comparable(self, models: Sequence[Target]) -> list[Target]:
        """See `Values.comparable`."""
        return [*filter(self.alike, models)]

    def alike(self, model: Target) -> bool:
        """See `Values.alike`."""
        return AnswerLoss in model.answers

    def losses(self, model: Target, hidden: Hidden, lay_out: LaidPage[str]) -> Generator[Request, Any, Floats | None]:
        """See `Values.losses`."""
        question = question_of(self.case.corpus, hidden.trial).question.question
        found = yield from ask_all(model, [AnswerLoss(lay_out.page, question, answer) for answer in lay_out.candidates])
        return np.array([-own.mean() if own.size else np.inf for own in found])


def lacking(corpus: Corpus) -> str | None:
    """Return what is missing for any choice; None when nothing is, as far as the data set alone shows."""
    what = "question with an answer" if _answering(corpus) else "field to attack"
    split = missing_split(document for document, _, _ in _plausible(corpus))
    return None if split is None else f"no {what} in {split} documents whose kind public documents hold"


def most_trials(corpus: Corpus) -> list[Trial]:
    """List the values that a model may be asked about, as far as the data set tells."""
    return [trial for _, trial, _ in _plausible(corpus)]


def most_units(corpus: Corpus) -> tuple[Units, ...]:
    """Documents with such a value, at most: a tokenizer, or the proof that an answer is gone, may leave some out."""
    documents: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for document, _, unique in _plausible(corpus):
        for group in GROUPS if unique else ("all",):
            documents[group].add((document.split, document.id))
    units = []
    for group in GROUPS:
        sides = Counter(split for split, _ in documents[group])
        numbers = [sides[split] for split in AUDITED]
        units.append(Units(f"{EXCESS}.{group}", "difference", "documents", *numbers, methods=len(METHODS)))
    return tuple(units)


def _answering(corpus: Corpus) -> bool:
    return corpus.manifest.task.asks


def _plausible(corpus: Corpus) -> Iterator[tuple[Document, Trial, bool]]:
    """Yield document, trial and uniqueness of every value of a kind that public documents hold."""
    pool = pool_of(corpus)
    if _answering(corpus):
        trained = trained_values(corpus)
        for asked in all_questions(corpus):
            others = set().union(*(trained.get(value, frozenset()) for value in asked.values))
            if kind_of_answer(asked) in pool:
                yield asked.document, asked.trial, others <= {asked.document.id}
        return
    seen = occurrences(corpus)
    for document in corpus.of(*AUDITED):
        for entity in document.entities:
            if entity.attack and entity.category in pool:
                yield document, trial_of(document, entity), seen[fold(document.text_of(entity))].unique
