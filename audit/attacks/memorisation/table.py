"""Outcomes of the memorisation attack as columns, one row a question.

See Pinto et al. 2024; methods/memorisation.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks import measuring, questions
from audit.attacks.counting import Population, Row
from audit.attacks.memorisation.contexts import METHODS, UNASKED, WHOLE
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.engine.interface import Json, Trial
from audit.stats.distances import join_near


@dataclass(frozen=True, eq=False)
class Results(measuring.Columns):
    """Answers given in one context; every column has shape (n_questions,).

    Attributes:
        tried: whether the question could be asked in it; elsewhere the other columns hold 0.
        target: 1 where the target gave the answer (E), 0 where not.
        baseline: the share of baselines that gave it (G), in [0, 1].
    """

    tried: Bools
    target: Floats
    baseline: Floats

    @property
    def gained(self) -> Floats:
        """Return E - G, averaged over the baselines."""
        return self.target * (1 - self.baseline)

    @property
    def lost(self) -> Floats:
        """Return G - E, averaged over the baselines."""
        return (1 - self.target) * self.baseline


@dataclass(frozen=True, eq=False)
class QuestionTable(measuring.DocumentColumns):
    """One row a question.

    Every column has shape (n_questions,) or (n_questions, 1 + n_baselines), the target first.

    Attributes:
        asked: the questions.
        status: what became of the answer on the page.
        member: whether the page is a member's.
        values: values by way of counting, the accepted answers, folded; by `NEAR`, one name for all
            that are near each other.
        unique: by way of counting, whether training saw these on this page alone.
        weight: weight by way of counting, of how many values each is one
            (`counting.Population.weights`); 1 where all were tried.
        pii: classes of personal information.
        cluster: the page.
        results: results by context.
        readings: ANLS of the replies about the complete page, in [0, 1].
        odds: probability that one sample gives the answer; NaN: unknown.
    """

    asked: NDArray[np.object_]
    status: NDArray[np.str_]
    member: Bools
    values: dict[str, NDArray[np.object_]]
    unique: dict[str, Bools]
    weight: dict[str, Floats]
    pii: NDArray[np.str_]
    cluster: Ints
    results: dict[str, Results]
    readings: Floats
    odds: Floats

    @property
    def proven(self) -> QuestionTable:
        """Return the questions whose answer is proven to be off the page."""
        return self.where(self.status == questions.PROVEN)

    @property
    def attempted(self) -> QuestionTable:
        """Return the questions that were asked, proven or not."""
        return self.where(np.isin(self.status, list(questions.ATTEMPTED)))

    @property
    def ways(self) -> tuple[str, ...]:
        """Return the contexts in which questions are measured by themselves.

        Values that nobody asks for need enough documents.
        """
        enough = (
            self.tried(UNASKED).split("member").proven.n_documents >= measuring.NEEDED_DOCUMENTS
        )
        return (*METHODS, UNASKED) if enough else METHODS

    def tried(self, context: str) -> QuestionTable:
        """Return the rows that were asked in this context."""
        results = self.results.get(context)
        return self.where(np.zeros(len(self), bool) if results is None else results.tried)


def build_table(case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> QuestionTable:
    """Return the trials and their outcomes, in the same order, as a table."""
    rows = [questions.question_of(case.corpus, trial) for trial in trials]
    values: dict[str, NDArray[np.object_]] = {}
    unique: dict[str, Bools] = {}
    for way, names in names_of_values(case.corpus).items():
        trained = questions.trained_on(case.corpus, names)
        answers = [_counted_values(question, names) for question in rows]
        alone = [
            questions.is_unique(question.document, counted, trained)
            for question, counted in zip(rows, answers, strict=True)
        ]
        values[way] = np.array(answers, object)
        unique[way] = np.array(alone, bool)
    n_models = 1 + len(case.references.baselines)
    no_odds = [np.nan] * n_models
    odds = [outcome.get("odds", no_odds) for outcome in outcomes]
    asked_questions = np.empty(len(rows), object)
    asked_questions[:] = rows
    return QuestionTable(
        asked=asked_questions,
        status=np.array([outcome["status"] for outcome in outcomes], np.str_),
        member=np.array([question.document.split == "member" for question in rows], bool),
        values=values,
        unique=unique,
        weight=dict.fromkeys(values, np.ones(len(trials))),
        pii=np.array([question.pii for question in rows], np.str_),
        cluster=np.unique([trial.cluster for trial in trials], return_inverse=True)[1],
        results=_results_by_context(outcomes, n_models),
        readings=_replies(outcomes, WHOLE, "anls", n_models),
        odds=np.array(odds, float).reshape(-1, n_models),
    )


def _counted_values(question: questions.AskedQuestion, names: Mapping[str, str]) -> frozenset[str]:
    """Return the accepted answers of a question; those in `names` by their common name."""
    return frozenset(names.get(value, value) for value in question.values)


def _results_by_context(outcomes: Sequence[Json], n_models: int) -> dict[str, Results]:
    """Return what was answered in each context, and as `NEAR` what was nearly right in "exact"."""
    contexts: dict[str, None] = {}
    for outcome in outcomes:
        contexts |= dict.fromkeys(outcome.get("replies", {}))
    contexts.pop(WHOLE, None)
    results = {
        context: _results(_replies(outcomes, context, "exact", n_models)) for context in contexts
    }
    results[measuring.NEAR] = _results(_replies(outcomes, "exact", "near", n_models))
    return results


def names_of_values(corpus: Corpus) -> dict[str, dict[str, str]]:
    """Return, by way of counting values, the common name of answers that count as one value.

    An answer without is its own.
    """
    near = corpus.once("near answers", lambda: join_near(questions.trained_on(corpus)))
    return {"exact": {}, measuring.NEAR: near}


def weigh(table: QuestionTable, case: Case) -> tuple[QuestionTable, dict[str, int]]:
    """Weigh the rows of a table by how likely each was to be tried.

    The values that nobody could ask about, or whose removal could not be proven, are left out of
    these numbers: of those that were not tried, as large a share as of those that were.

    Args:
        table: table of all trials.
        case: what was attacked.

    Returns:
        The table, and by way of counting what there is to identify.
    """
    weights: dict[str, Floats] = {}
    totals: dict[str, int] = {}
    offered = [
        question
        for question in questions.all_questions(case.corpus)
        if question.document.split == "member"
    ]
    asked_of_members = [
        question for question in table.split("member").asked if not question.unasked
    ]
    measured = identifying_rows(table)
    for way, names in names_of_values(case.corpus).items():
        row_of = partial(
            _population_row, names=names, trained=questions.trained_on(case.corpus, names)
        )
        tried = [*map(row_of, asked_of_members)]
        there = [*map(row_of, offered)]
        proven = [*map(row_of, table.asked[measured])]
        population = Population.of(there, tried, by_lot=False, measured=proven)
        weights[way] = np.ones(len(table))
        weights[way][measured] = population.weights(proven)
        totals[way] = population.values
    return replace(table, weight=weights), totals


def _population_row(
    question: questions.AskedQuestion,
    names: Mapping[str, str],
    trained: Mapping[str, AbstractSet[str]],
) -> Row:
    """Return a question as a row of a population.

    Args:
        question: the question.
        names: common names of answers that are taken for one.
        trained: documents of training that have each answer, by its name.
    """
    values = _counted_values(question, names)
    alone = questions.is_unique(question.document, values, trained)
    personal = question.pii in questions.IDENTIFYING
    name = "\0".join(sorted(values))
    return Row(question.document.id, question.trial.stratum, name, alone and personal)


def identifying_rows(table: QuestionTable) -> Bools:
    """Mark members' questions for a personal value that is proven gone: shape (n_questions,)."""
    results = table.results.get("exact")
    tried = np.zeros(len(table), bool) if results is None else results.tried
    proven = table.status == questions.PROVEN
    return np.asarray(
        table.member & proven & tried & np.isin(table.pii, questions.IDENTIFYING), bool
    )


def _replies(outcomes: Sequence[Json], context: str, quantity: str, n_models: int) -> Floats:
    """Return one number of each model's reply in a context, (n_questions, n_models).

    NaN where it was not tried.
    """
    quantities = np.full((len(outcomes), n_models), np.nan)
    for row, outcome in enumerate(outcomes):
        replies = outcome.get("replies", {}).get(context)
        if replies is not None:
            quantities[row] = [reply[quantity] for reply in replies]
    return quantities


def _results(given: Floats) -> Results:
    """Split columns of given answers, (n_questions, 1 + n_baselines), into target and baselines.

    NaN where a question was not tried.
    """
    tried = ~np.isnan(given[:, 0])
    answers = np.nan_to_num(given)
    baseline = np.zeros(len(answers))
    if answers.shape[1] > 1:
        baseline = answers[:, 1:].mean(axis=1)
    return Results(tried, answers[:, 0], baseline)


def discoverable(odds: Floats, n_samples: int, min_probability: float) -> Results:
    """Return the answers that are (n, p)-discoverable (Hayes et al. 2025), as results of a context.

    Args:
        odds: probability that one sample gives the answer, (n_questions, 1 + n_baselines), target
            first; NaN: not tried.
        n_samples: n.
        min_probability: p: n samples give the answer with this probability or more.
    """
    at_least_once = 1 - (1 - np.nan_to_num(odds)) ** n_samples
    discovered = (at_least_once >= min_probability).astype(float)
    return _results(np.where(np.isnan(odds[:, :1]), np.nan, discovered))
