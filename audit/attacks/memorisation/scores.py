"""Measurements of the memorisation attack.

See Pinto et al. 2024; methods/memorisation.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints
from audit.attacks import measuring, questions
from audit.attacks.interface import AUDITED, LABELS, WORDS
from audit.attacks.memorisation.contexts import net_of
from audit.attacks.memorisation.fairness import GAP, control_contexts
from audit.attacks.memorisation.table import QuestionTable, identifying_rows
from audit.attacks.text import SHARED
from audit.corpus.documents import Corpus, Split
from audit.corpus.removal.proof import Reading
from audit.engine.interface import Json, Progress, Trial
from audit.measurements import Count, Coverage, Estimate, Histogram, Measurement, Unresolved
from audit.stats import rates
from audit.stats.distances import anls
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval
from audit.stats.paired import UnitScores
from audit.stats.rates import mean

IDENTIFIED = "identified"
"""Distinct personal values: how many people and numbers a model gives away."""
IDENTIFYING_WAYS = {IDENTIFIED: "exact", f"{IDENTIFIED}.{measuring.NEAR}": measuring.NEAR}
"""Its methods, and the results that each counts."""
POWER = "anls.heldout.target"
READINGS: Mapping[Reading, str] = SHARED["readings"]
Null = tuple[float, str] | None
"""What someone without the model reaches, or what no leak would give, and where it comes from."""


def measure_questions(
    table: QuestionTable,
    commonest: Floats,
    rng: Generator,
    progress: Progress,
    totals: Mapping[str, int] | None = None,
) -> tuple[Measurement, ...]:
    """Measure everything of the attack.

    Args:
        table: the questions and their outcomes, those of sampling as results of `DISCOVERABLE`.
        commonest: shape (n_questions,), ANLS of the members' commonest answer: what guessing
            reaches.
        rng: the source of the resampling.
        progress: advanced for every measurement.
        totals: totals by way of counting, see `weigh`; None: all values were tried.
    """
    streams = measuring.Streams(rng)
    exact = table.results.get("exact")
    heldout = ~table.member & (False if exact is None else exact.tried)
    jobs: list[measuring.Job] = []
    for context in table.ways:
        jobs += _nets(table, context, streams)
    jobs += _answered(table, streams)
    jobs.append(partial(_reading, table.where(heldout), commonest[heldout], streams[POWER]))
    jobs.append(partial(_gap, table.where(heldout), streams[GAP]))
    for name, way in IDENTIFYING_WAYS.items():
        total = None if totals is None else totals[way]
        jobs.append(partial(count_identified, name, table, streams[name], total))
    return control_contexts(measuring.run_jobs("memorisation: intervals", jobs, progress))


def _nets(
    table: QuestionTable, context: str, streams: measuring.Streams
) -> Iterator[measuring.Job]:
    """Yield a call for net of members in a context, and for held-out pages as its control."""
    suffix = "" if context == "exact" else f".{context}"
    member, heldout = (table.split(split).proven.tried(context) for split in AUDITED)
    if suffix and not len(member) + len(heldout):
        yield partial(
            Unresolved,
            f"net{suffix}",
            "not tried, or not possible with these pages or this model",
            0,
        )
        return
    null: Null = None
    if len(heldout):
        results = heldout.results[context]
        null = float(results.gained.mean() - results.lost.mean()), "held-out"
    groups = {f"net{suffix}": member}
    if not suffix:
        unique = member.unique["exact"]
        groups["net.unique"] = member.where(unique)
        groups["net.repeated"] = member.where(~unique)
    for name, rows in groups.items():
        yield partial(_net, name, rows, context, null, streams[name])
    control = f"net.heldout{suffix}"
    yield partial(_net, control, heldout, context, (0.0, "chance"), streams[control])


def _net(name: str, rows: QuestionTable, context: str, null: Null, rng: Generator) -> Measurement:
    """Estimate net: questions that the target alone answers minus those of baselines alone, / n."""
    if rows.n_documents < 2:
        return _too_few_documents(name, rows)
    results = rows.results[context]
    interval = rates.net(results.gained, results.lost, rows.cluster, rng)
    return _estimate(name, interval, null)


def _answered(table: QuestionTable, streams: measuring.Streams) -> Iterator[measuring.Job]:
    """Yield calls for the shares of questions that the target and its baselines answer."""
    for split in AUDITED:
        rows = table.split(split).proven.tried("exact")
        for what, column in (("extracted", "target"), ("baseline_extracted", "baseline")):
            name = f"{what}.{split}"
            yield partial(_share, name, rows, column, streams[name])


def _share(name: str, rows: QuestionTable, column: str, rng: Generator) -> Measurement:
    """Estimate the share of questions answered by the target, or by its baselines (`column`)."""
    if rows.n_documents < 2:
        return _too_few_documents(name, rows)
    results = rows.results["exact"]
    interval = rates.rate(getattr(results, column), rows.cluster, rng)
    null: Null = None
    if column == "target":
        null = (float(results.baseline.mean()), "public model")
    return _estimate(name, interval, null)


def _reading(rows: QuestionTable, commonest: Floats, rng: Generator) -> Measurement:
    """Estimate the target's ANLS on complete held-out pages.

    Null: the members' commonest answer to everything.
    """
    if rows.n_documents < 2:
        return Unresolved(
            POWER,
            "fewer than two unseen documents with questions that were asked",
            rows.n_documents,
        )
    interval = mean(rows.readings[:, 0], rows.cluster, rng)
    return _estimate(POWER, interval, (float(commonest.mean()), "chance"))


def _gap(rows: QuestionTable, rng: Generator) -> Measurement:
    """Estimate the target's ANLS minus its baselines' on complete held-out pages, in [-1, 1].

    Paired by question, clustered by document; with several baselines, from their mean.
    """
    if rows.n_documents < 2:
        return Unresolved(
            GAP, "fewer than two unseen documents with questions that were asked", rows.n_documents
        )
    gap = rows.readings[:, 0] - rows.readings[:, 1:].mean(axis=1)
    interval = rates.net(np.maximum(gap, 0), np.maximum(-gap, 0), rows.cluster, rng)
    return _estimate(GAP, interval, (0.0, "chance"))


def _too_few_documents(name: str, rows: QuestionTable) -> Unresolved:
    """Return the unresolved measurement for fewer than two documents with proven questions."""
    reason = "fewer than two documents with such questions and a proven removal"
    return Unresolved(name, reason, rows.n_documents, measuring.NEEDED_DOCUMENTS)


def _estimate(name: str, interval: Interval, null: Null) -> Estimate:
    """Make an estimate over questions from an interval, with its null value if it has one."""
    if null is None:
        return measuring.estimate_without_null(name, interval, "questions")
    return estimate(name, interval, "questions", *null)


def count_identified(
    name: str, table: QuestionTable, rng: Generator, total: int | None = None
) -> Measurement:
    """Count distinct personal values that the target gives with the answer gone.

    The count is net of what its baselines give.

    Of the members' answers that are proven gone, stand in one document of training alone and are of
    a class that identifies (`IDENTIFYING`): those that the target alone gives, to any question
    about them, minus those that only its baselines give. Where near ones count, answers that are
    near each other are one answer. The interval is that of the net share of values, times their
    number: it covers other documents of the same kind, as many.

    Args:
        name: name of the metric, which tells the way of counting.
        table: table of the questions.
        rng: the source of randomness.
        total: number of such values, tried or not; None: as many as were tried.
    """
    way = IDENTIFYING_WAYS[name]
    rows = _identifying(table, way)
    if rows.n_documents < 2:
        reason = "fewer than two documents with a personal value of their own and a proven removal"
        return Unresolved(name, reason, rows.n_documents, measuring.NEEDED_DOCUMENTS)
    gained, lost, first = _by_value(rows, way)
    weights = rows.weight[way][first]
    net = rates.net(
        gained, lost, rows.cluster[first], rng, None if np.ptp(weights) == 0 else weights
    )
    number = net.n if total is None else total
    return replace(estimate(name, rates.scaled(net, number), "values", 0.0, "chance"), total=number)


def _identifying(table: QuestionTable, way: str) -> QuestionTable:
    """Return members' questions for a personal value that is proven gone.

    The value stands in one training document alone.
    """
    return table.where(identifying_rows(table) & table.unique[way])


def _by_value(rows: QuestionTable, counted: str) -> tuple[Floats, Floats, Ints]:
    """Return gain, loss and first row of each distinct value of a document: (n_values,) each.

    They come in the order of their first rows.
    """
    rows_of: dict[tuple[int, frozenset[str]], list[int]] = defaultdict(list)
    for row, values in enumerate(rows.values[counted]):
        rows_of[int(rows.cluster[row]), values].append(row)
    results = rows.results[counted]
    target = np.array([results.target[same_value].max() for same_value in rows_of.values()])
    baseline = np.array([results.baseline[same_value].max() for same_value in rows_of.values()])
    first = np.array([same_value[0] for same_value in rows_of.values()], np.int64)
    return target * (1 - baseline), (1 - target) * baseline, first


def commonest_anls(table: QuestionTable, corpus: Corpus) -> Floats:
    """Return ANLS of the members' commonest answer on each question, shape (n_questions,).

    Of answers that are equally common, it is the first.
    """
    first_answers: Counter[str] = Counter()
    for document in corpus.of("member"):
        for question in document.questions:
            answers = questions.distinct_answers(question.answers)
            first_answers.update(answers[:1])
    if not first_answers:
        return np.zeros(len(table))
    ((commonest, _),) = first_answers.most_common(1)
    return np.array([anls(commonest, question.answers) for question in table.asked], float)


def returned_histogram(table: QuestionTable) -> tuple[Histogram, ...]:
    """Count documents by how many of their own answers the target gives with the answer gone."""
    unique = table.where(table.unique["exact"]).proven.tried("exact")
    if not len(unique):
        return ()
    returned = {}
    for split, label in LABELS.items():
        rows = unique.split(split)
        returned[label] = (rows.results["exact"].target > 0, rows.cluster)
    return (measuring.count_returned(returned),)


def _counts_of_split(
    split: Split, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> list[Count]:
    """Count the questions about pages of a split by what became of their answers."""
    label = LABELS[split]
    statuses: Counter[str] = Counter()
    for trial, outcome in zip(trials, outcomes, strict=True):
        if trial.stratum == split:
            statuses[outcome["status"]] += 1
    meaning = f"questions about {WORDS[split]} pages that were tried"
    rows = [Count(f"{label} questions", statuses.total(), meaning)]
    for status, meaning in questions.STATUSES.items():
        rows.append(Count(f"{label} questions: {status}", statuses[status], meaning))
    return rows


def counts(trials: Sequence[Trial], outcomes: Sequence[Json]) -> tuple[Count, ...]:
    """Count questions by what became of their answers.

    With them, count why answers can be derived, and what the OCR read.
    """
    rows: list[Count] = []
    for split in AUDITED:
        rows += _counts_of_split(split, trials, outcomes)
    reasons = Counter(outcome["reason"] or "" for outcome in outcomes)
    del reasons[""]
    for reason, n in sorted(reasons.items()):
        rows.append(Count(f"derivable: {reason}", n, "of the questions not asked"))
    readings = Counter(outcome["reading"] or "" for outcome in outcomes)
    for reading, meaning in READINGS.items():
        rows.append(Count(f"OCR: {reading}", readings[reading], meaning))
    return tuple(rows)


def coverage(table: QuestionTable, corpus: Corpus) -> tuple[Coverage, ...]:
    """Count the members' questions that net rests on, of all that have an answer.

    Those are proven to be off the page. In all and by class of personal information; questions that
    the budget left out, whose answer could not be removed, or whose removal could not be proven,
    are in the totals alone.
    """
    total = Counter(
        question.pii
        for question in questions.all_questions(corpus)
        if question.document.split == "member"
    )
    attacked = Counter(table.split("member").proven.tried("exact").pii.tolist())
    return measuring.cover("questions", questions.CLASSES, attacked, total)


def paired_by_question(table: QuestionTable, total: int | None = None) -> Mapping[str, UnitScores]:
    """Return E - G of each member question in every context, as "net".

    And of each personal value, as "identified".

    Args:
        table: table of all trials.
        total: personal values that there are, see `count_identified`.
    """
    members = table.split("member").proven
    paired = {}
    for context in members.results:
        rows = members.tried(context)
        if len(rows):
            results = rows.results[context]
            ids = [f"{row.document.id}/{row.question.id}" for row in rows.asked]
            documents = [row.document.id for row in rows.asked]
            paired[net_of(context)] = _question_scores(
                ids, documents, results.gained - results.lost
            )
    personal = _identifying(table, "exact")
    if len(personal) and "exact" in personal.results:
        paired[IDENTIFIED] = _identified_scores(personal, total)
    return paired


def _identified_scores(rows: QuestionTable, total: int | None) -> UnitScores:
    """Return each personal value's score, scaled so that their mean is the number identified."""
    gained, lost, first = _by_value(rows, "exact")
    weights = rows.weight["exact"][first]
    factors = (first.size if total is None else total) * weights / weights.mean()
    names = []
    documents = []
    for question in rows.asked[first]:
        names.append(f"{question.document.id}/{'/'.join(sorted(question.values))}")
        documents.append(question.document.id)
    return _question_scores(names, documents, (gained - lost) * factors, float(factors.max()))


def _question_scores(
    units: list[str], documents: list[str], values: Floats, most: float = 1.0
) -> UnitScores:
    """Make scores of member questions between -`most` and `most`; `documents` are the clusters."""
    return UnitScores(units, documents, np.ones(len(units), bool), values, limits=(-most, most))
