"""What models that write answers recollect, in the rows of the reconstruction attack.

No limit is held against these numbers (methods/reconstruction.md#recollect-and-rank).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from audit.attacks import blind_baseline, measuring, people, text_of
from audit.attacks.attributes.hidden import trained_values
from audit.attacks.blind_baseline import Blind
from audit.attacks.breakdown import OTHER_KIND, MethodHits, Tried, break_down
from audit.attacks.counting import Population, Row, count_documents, count_values
from audit.attacks.interface import Evidence, Outcomes
from audit.attacks.measuring import ValueRow
from audit.attacks.memorisation.groups import holders_of, owned_value, traits_of
from audit.attacks.questions import (
    PROVEN,
    STATUSES,
    AskedQuestion,
    all_questions,
    is_unique,
    question_of,
)
from audit.attacks.reconstruction import scores
from audit.attacks.reconstruction.recollection import reference_of
from audit.attacks.reconstruction.table import (
    ALL,
    DEFAULT,
    GAIN,
    LIMITED,
    PLAYERS,
    POWER,
    FieldTable,
    named,
)
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.engine.interface import SILENT, Json, Progress, Trial
from audit.measurements import (
    Breakdown,
    Count,
    Coverage,
    Diagnostic,
    Estimate,
    Measurement,
    PeopleCount,
    Unresolved,
)
from audit.record import Result
from audit.stats.estimates import estimate
from audit.stats.intervals import proportion
from audit.stats.rates import excess_rate

RECOLLECTED = "recollected"
"""Ends the names of what other models have limits on."""
EXCESSES = {named(f"excess_pr.{group}", RECOLLECTED): group for group in ("unique", ALL)}
VALUES = named(measuring.VALUES, RECOLLECTED)
DOCUMENTS = named(measuring.DOCUMENTS, RECOLLECTED)
WORDS: Mapping[str, str] = text_of("reconstruction").labels[RECOLLECTED]


@dataclass(frozen=True, eq=False)
class Recollected:
    """The answers that were hidden and asked for.

    Attributes:
        asked: the questions, in the order of the table.
        trials: their trials.
        outcomes: their outcomes, see `recollection.recollect`.
        table: a row a question.
        population: what the counts are of.
        blind: what tells the two sides apart without the model.
    """

    asked: Sequence[AskedQuestion]
    trials: Sequence[Trial]
    outcomes: Sequence[Json]
    table: FieldTable
    population: Population
    blind: Blind


def measure_recollected(
    case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Generator, progress: Progress
) -> Result:
    """Reduce the outcomes to the shares of answers that are restored; see `recollection`.

    The scan's checks are left as they are. What the documents may explain is said beside the
    numbers.
    """
    tried = _tried(case, trials, outcomes, progress)
    table = tried.table
    has_reference = reference_of(case) is not None
    jobs = _jobs(tried, measuring.Streams(rng), has_reference=has_reference)
    measured = measuring.run_jobs("reconstruction: intervals", jobs, progress)
    returned, kinds = scores.count_back(table.where(table.unique), DEFAULT)
    breakdowns, reached = _groups_of_answers(case.corpus, tried)
    weaknesses = () if has_reference else (WORDS["no_reference"],)
    return Result(
        "reconstruction",
        measurements=(*measured, *_unlimited(), tried.blind.estimate),
        breakdowns=breakdowns,
        people=reached,
        counts=(*_counts(outcomes, table), *kinds),
        diagnostics=(*_diagnostics(tried.outcomes), *tried.blind.diagnostics),
        histograms=(returned,),
        ablations=weaknesses,
        confounded=_why_confounded(tried.blind),
        coverage=_coverage(case.corpus, table),
    )


def evidence_of_recollected(
    case: Case, trials: Sequence[Trial], outcomes: Outcomes
) -> Iterator[Evidence]:
    """Yield each answer with what was restored of it, then what each adds to the excess."""
    for trial, outcome in zip(trials, outcomes, strict=True):
        if outcome["status"] == PROVEN:
            yield _describe_answer(question_of(case.corpus, trial), outcome)
    tried = _tried(case, trials, outcomes)
    table = tried.table
    attack, baseline = (table.exact[player] for player in PLAYERS)
    for name, group in EXCESSES.items():
        rows = table.rows(group)
        gains = measuring.gains_of(attack, baseline, table, rows, by_lot=tried.blind.by_lot)
        yield name, measuring.scores_of(tried.trials, rows, table.member, gains)


def _describe_answer(asked: AskedQuestion, outcome: Json) -> dict[str, Any]:
    """Describe what was restored of one answer, as `Reconstruction.evidence` does of a field."""
    baseline = outcome["baseline"] or {"text": ""}
    return {
        "attack": "reconstruction",
        "document": asked.document.id,
        "field": asked.question.id,
        "category": asked.category or "",
        "split": asked.document.split,
        "value": asked.answers[0],
        "recovered": outcome["attack"]["text"],
        "baseline": baseline["text"],
        "exact": outcome["attack"]["exact"],
        "near": outcome["attack"]["near"],
        "exact_in_any_attempt": outcome["attack"]["among"],
    }


def _tried(
    case: Case, trials: Sequence[Trial], outcomes: Outcomes, progress: Progress = SILENT
) -> Recollected:
    """Join the questions that were asked with their outcomes; leave out those without proof."""
    corpus = case.corpus
    proven = []
    for trial, outcome in zip(trials, outcomes, strict=True):
        if outcome["status"] == PROVEN:
            proven.append((trial, question_of(corpus, trial), outcome))
    asked = [question for _, question, _ in proven]
    kept = [outcome for *_, outcome in proven]
    blind = blind_baseline.by_split(corpus, (question.document for question in asked), progress)
    trained = trained_values(corpus)
    row_of = partial(_row_of, trained=trained)
    offered = [*map(row_of, all_questions(corpus))]
    every_trial = [row_of(question_of(corpus, trial)) for trial in trials]
    measured = [*map(row_of, asked)]
    population = Population.of(offered, every_trial, by_lot=blind.by_lot, measured=measured)
    table = _build_table(asked, measured, kept)
    table = replace(table, weight=population.weights(measured))
    return Recollected(asked, [trial for trial, *_ in proven], kept, table, population, blind)


def _row_of(asked: AskedQuestion, trained: Mapping[str, AbstractSet[str]]) -> Row:
    """Return a question as a row of a count of distinct answers."""
    unique = is_unique(asked.document, asked.values, trained)
    return Row(asked.document.id, asked.trial.stratum, "\0".join(sorted(asked.values)), unique)


def _build_table(
    asked: Sequence[AskedQuestion], rows: Sequence[Row], outcomes: Sequence[Json]
) -> FieldTable:
    """Return the questions and their outcomes as a table of fields, of one method."""
    values = []
    for question, row in zip(asked, rows, strict=True):
        category = question.category or OTHER_KIND
        values.append(ValueRow(question.document, row.value, row.counted, False, category))
    exact = {}
    for player in PLAYERS:
        judged = [outcome[player] or {"exact": False} for outcome in outcomes]
        exact[player] = np.array([reply["exact"] for reply in judged], np.float64)
    planted = {DEFAULT: np.array([outcome["planted"] for outcome in outcomes], bool)}
    columns = measuring.columns_of(values)
    chance = np.zeros(len(values))
    return FieldTable(
        **columns, near={}, exact=exact, similar={}, planted=planted, best={}, chance=chance
    )


def _jobs(
    tried: Recollected, streams: measuring.Streams, *, has_reference: bool
) -> Iterator[measuring.Job]:
    """Yield every measurement as a call; without a reference what it alone would give is none."""
    table = tried.table
    by_lot = tried.blind.by_lot
    for name, group in EXCESSES.items():
        rows = table.group(group)
        yield partial(scores.excess, name, rows, DEFAULT, streams[name], by_lot=by_lot)
    unique = table.where(table.unique)
    values = unique.tried(DEFAULT)
    population = tried.population
    yield partial(count_values, VALUES, values, population, excess_rate, streams[VALUES])
    yield partial(count_documents, DOCUMENTS, values, population)
    yield partial(_detection, unique.split("heldout"))
    if has_reference:
        gain = named(GAIN, RECOLLECTED)
        heldout = unique.split("heldout")
        yield partial(scores.heldout_gain, gain, heldout, DEFAULT, streams[gain])
    for split, player in scores.SERIES:
        if player == "attack" or has_reference:
            yield partial(_share, f"pr.{split}.{player}", table.split(split), player, has_reference)
            name = f"pr.{split}.{player}.unique"
            yield partial(_share, name, unique.split(split), player, has_reference)


def _share(name: str, table: FieldTable, player: str, has_reference: bool) -> Measurement:
    """Estimate the share of answers that a player restores; null: the reference's share, or 0."""
    share = scores.exact_share(name, table, player, DEFAULT)
    if isinstance(share, Estimate) and not has_reference:
        return replace(share, null=0.0, null_kind="chance")
    return share


def _detection(table: FieldTable) -> Measurement:
    """Estimate the share of held-out answers that only a planted memory restores."""
    if not len(table):
        return Unresolved(POWER, "no such answer was attacked", 0, measuring.NEEDED_DOCUMENTS)
    detected = table.planted[DEFAULT] & (table.exact["attack"] == 0)
    return estimate(POWER, proportion(detected, table.cluster), "fields", 0.0, "chance")


def _unlimited() -> Iterator[Measurement]:
    """Yield what policies limit of other models, as numbers that do not apply to this one."""
    for name in (*LIMITED, measuring.VALUES, measuring.DOCUMENTS):
        yield Unresolved(name, WORDS["no_limit"], 0, inapplicable=True)


def _why_confounded(blind: Blind) -> str | None:
    """Return what the documents may explain; None where nothing speaks for it."""
    if blind.told_apart:
        return blind.checks[0].reason
    return blind.confounded


def _groups_of_answers(
    corpus: Corpus, tried: Recollected
) -> tuple[tuple[Breakdown, ...], tuple[PeopleCount, ...]]:
    """Divide the answers by kind, copies, length and place, and count people."""
    table = tried.table
    hits = [MethodHits("", table.exact["attack"], table.rows("unique"), np.ones(len(table), bool))]
    holders = holders_of(corpus)
    traits = [traits_of(question, holders) for question in tried.asked]
    owned = []
    for question, alone in zip(tried.asked, table.unique, strict=True):
        owned.append(owned_value(corpus, question, bool(alone)))
    rows = Tried(traits, table.member, table.cluster, "fields")
    return break_down(rows, hits), people.count_returned(corpus, owned, hits)


def _diagnostics(outcomes: Sequence[Json]) -> tuple[Diagnostic, ...]:
    """Summarise how many different values the target proposed."""
    if not outcomes:
        return ()
    many = float(np.median([outcome["proposed"] for outcome in outcomes]))
    return (Diagnostic("distinct attempts", many, "median number of values proposed for a place"),)


def _counts(outcomes: Outcomes, table: FieldTable) -> tuple[Count, ...]:
    """Count documents and answers by split, and answers that were left out, by why."""
    statuses = Counter(outcome["status"] for outcome in outcomes)
    numbers = text_of("reconstruction").count(scores.numbers_by_split(table))
    left_out = []
    for status, meaning in STATUSES.items():
        if status != PROVEN:
            left_out.append(Count(f"left out: {status}", statuses[status], meaning))
    return (*numbers, *left_out)


def _coverage(corpus: Corpus, table: FieldTable) -> tuple[Coverage, ...]:
    """Count the member answers that the numbers rest on, of all that there are."""
    total = Counter[str]()
    for question in all_questions(corpus):
        if question.document.split == "member":
            total[question.category or OTHER_KIND] += 1
    members = table.split("member")
    attacked = Counter(members.category.tolist())
    unique = Counter(members.where(members.unique).category.tolist())
    return measuring.cover("fields", sorted(total), attacked, total, unique)
