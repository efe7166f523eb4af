"""Measurements of the memorisation attack (Pinto et al. 2024, section 3; methods.md#memorisation)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints
from audit.attacks.measuring import Job, Streams, estimate_without_null, run_jobs
from audit.attacks.memorisation.contexts import (
    CONTEXTS_SHOWN,
    DISCOVERABLE,
    EXTRACTABLE,
    GAP,
    IDENTIFIED,
    METHODS,
    PLAYERS,
    WHOLE,
)
from audit.attacks.memorisation.fairness import control_contexts
from audit.attacks.memorisation.table import QuestionTable
from audit.attacks.questions import IDENTIFYING
from audit.attacks.removal import ATTEMPTED
from audit.attacks.splits import AUDITED
from audit.engine.interface import Progress
from audit.measurements import ALPHAS, Estimate, Measurement, Unresolved
from audit.stats import rates
from audit.stats.intervals import Interval
from audit.stats.means import mean
from audit.targets.utility import estimate

Null = tuple[float, str] | None
"""What someone without the model reaches, or what no leak would give, and where it comes from."""
NEEDED_DOCUMENTS = 72
"""From so many documents on, no hit at all shows a rate under 0.05 (methods.md#statistics)."""


def measure_questions(
    table: QuestionTable, commonest: Floats, rng: Generator, progress: Progress
) -> tuple[Measurement, ...]:
    """All measurements of the attack.

    Args:
        table: the questions and their outcomes, those of sampling as results of `DISCOVERABLE`.
        commonest: shape (n_questions,), ANLS of the members' commonest answer: what guessing reaches.
        rng: of the resampling.
        progress: advanced for every measurement.
    """
    streams = Streams(rng)
    jobs: list[Job] = [
        *_exact(table, streams),
        *(job for context in CONTEXTS_SHOWN for job in _in_context(table, context, streams)),
        *_discoverable(table, streams),
        *_readings(table, commonest, streams),
        _extractable(table.split("member").proven, streams),
        partial(_gap, table.split("heldout").attempted, streams[GAP]),
        partial(count_identified, table, streams[IDENTIFIED]),
    ]
    return control_contexts(run_jobs("memorisation: intervals", jobs, progress))


def _exact(table: QuestionTable, streams: Streams) -> Iterator[Job]:
    """Return E, G, what one gives and the other does not, and net, with page and question as in training."""
    tried = {split: _tried(table.split(split).proven, "exact") for split in AUDITED}
    null = _heldout_null(tried["heldout"], "exact")
    member = tried["member"]
    groups = {"net": member, "net.unique": member.where(member.unique), "net.repeated": member.where(~member.unique)}
    for name, rows in groups.items():
        yield partial(_net, name, rows, "exact", null, streams[name])
    yield partial(_net, "net.heldout", tried["heldout"], "exact", (0.0, "chance"), streams["net.heldout"])
    columns = {"baseline_extracted": "baseline", "memorised": "gained", "forgotten": "lost"}
    for split, rows in tried.items():
        yield partial(_extracted, f"extracted.{split}", rows, streams[f"extracted.{split}"])
        for what, column in columns.items():
            name = f"{what}.{split}"
            yield partial(_share, name, rows, column, streams[name])


def _in_context(table: QuestionTable, context: str, streams: Streams) -> Iterator[Job]:
    """Return net on members in another context, and on held-out pages where a limit is held against it."""
    tried = {split: _tried(table.split(split).proven, context) for split in AUDITED}
    net, control = f"net.{context}", f"net.heldout.{context}"
    if not any(map(len, tried.values())):
        yield partial(Unresolved, net, "this context was not tried, or no page allows it", 0)
        return
    yield partial(_net, net, tried["member"], context, _heldout_null(tried["heldout"], context), streams[net])
    if context in METHODS:
        yield partial(_net, control, tried["heldout"], context, (0.0, "chance"), streams[control])


def _discoverable(table: QuestionTable, streams: Streams) -> Iterator[Job]:
    """Return net of target and baselines of the answers that sampling gives."""
    control = _tried(table.split("heldout").proven, DISCOVERABLE)
    nulls = {"member": _heldout_null(control, DISCOVERABLE), "heldout": (0.0, "chance")}
    for split, name in zip(AUDITED, (f"net.{DISCOVERABLE}", f"net.heldout.{DISCOVERABLE}"), strict=True):
        rows = _tried(table.split(split).proven, DISCOVERABLE)
        if not len(rows) and len(table.split(split).proven):
            yield partial(Unresolved, name, "the model or a baseline gives no losses of answers", 0)
        else:
            yield partial(_net, name, rows, DISCOVERABLE, nulls[split], streams[name])


def _readings(table: QuestionTable, commonest: Floats, streams: Streams) -> Iterator[Job]:
    """How well target and baselines read whole held-out pages; null: the members' commonest answer to everything."""
    taken = ~table.member & np.isin(table.status, list(ATTEMPTED))
    rows = table.where(taken)
    for player in PLAYERS:
        name = f"anls.heldout.{player}"
        if rows.n_documents < 2:
            reason = "fewer than two held-out documents with questions that were asked"
            yield partial(Unresolved, name, reason, rows.n_documents)
            continue
        values = getattr(rows.results[WHOLE], f"{player}_anls")
        yield partial(_mean, name, values, rows, float(commonest[taken].mean()), streams[name])


def _gap(rows: QuestionTable, rng: Generator) -> Measurement:
    """How much better the target reads whole held-out pages than its baselines: a difference of ANLS in [-1, 1].

    Paired by question, clustered by document; with several baselines, from their mean.
    """
    if rows.n_documents < 2:
        reason = "fewer than two held-out documents with questions that were asked"
        return Unresolved(GAP, reason, rows.n_documents)
    results = rows.results[WHOLE]
    gap = results.target_anls - results.baseline_anls
    interval = rates.net(np.maximum(gap, 0), np.maximum(-gap, 0), rows.cluster, rng, alphas=ALPHAS)
    return _estimate(GAP, interval, (0.0, "chance"))


def _extractable(members: QuestionTable, streams: Streams) -> Job:
    """Return M_E, averaged over the member questions that some split models saw and others did not (appendix C)."""
    rows = members.where(~np.isnan(members.inside))
    if len(members) and not len(rows):
        reason = "no models of K splits, some trained with and some without each document, were given"
        return partial(Unresolved, EXTRACTABLE, reason, 0)
    return partial(_extractable_memorisation, EXTRACTABLE, rows, streams[EXTRACTABLE])


def _tried(rows: QuestionTable, context: str) -> QuestionTable:
    """The rows that were asked in this context."""
    found = rows.results.get(context)
    return rows.where(np.zeros(len(rows), bool) if found is None else found.tried)


def _heldout_null(rows: QuestionTable, context: str) -> Null:
    if not len(rows):
        return None
    results = rows.results[context]
    return float(results.gained.mean() - results.lost.mean()), "held-out"


def _net(name: str, rows: QuestionTable, context: str, null: Null, rng: Generator) -> Measurement:
    """(|E - G| - |G - E|) / n."""
    if rows.n_documents < 2:
        return _few(name, rows)
    results = rows.results[context]
    return _estimate(name, rates.net(results.gained, results.lost, rows.cluster, rng, alphas=ALPHAS), null)


def _extracted(name: str, rows: QuestionTable, rng: Generator) -> Measurement:
    """|E| / n; null: |G| / n."""
    if rows.n_documents < 2:
        return _few(name, rows)
    results = rows.results["exact"]
    found = rates.rate(results.target, rows.cluster, rng, alphas=ALPHAS)
    return estimate(name, found, "questions", float(results.baseline.mean()), "public model")


def _share(name: str, rows: QuestionTable, column: str, rng: Generator) -> Measurement:
    if rows.n_documents < 2:
        return _few(name, rows)
    found = rates.rate(getattr(rows.results["exact"], column), rows.cluster, rng, alphas=ALPHAS)
    return estimate_without_null(name, found, "questions")


def _mean(name: str, values: Floats, rows: QuestionTable, null: float, rng: Generator) -> Measurement:
    return estimate(name, mean(values, rows.cluster, rng, alphas=ALPHAS), "questions", null, "chance")


def _extractable_memorisation(name: str, rows: QuestionTable, rng: Generator) -> Measurement:
    """In-sample minus out-sample extractability (equation 2), in [-1, 1]."""
    if rows.n_documents < 2:
        return _few(name, rows)
    return _estimate(name, rates.net(rows.inside, rows.outside, rows.cluster, rng, alphas=ALPHAS), (0.0, "chance"))


def _few(name: str, rows: QuestionTable) -> Unresolved:
    reason = "fewer than two documents with such questions and a proven removal"
    return Unresolved(name, reason, rows.n_documents, NEEDED_DOCUMENTS)


def _estimate(name: str, interval: Interval, null: Null) -> Estimate:
    if null is None:
        return estimate_without_null(name, interval, "questions")
    return estimate(name, interval, "questions", *null)


def count_identified(table: QuestionTable, rng: Generator) -> Measurement:
    """Distinct personal values that the target gives with the answer gone, net of what its baselines give: a count.

    Of the members' answers that are proven gone, stand in one document of training alone and are of a class that
    identifies (`IDENTIFYING`): those that the target alone gives, to any question about them, minus those that only its
    baselines give. The interval is that of the net share of values, times their number: it covers other documents of
    the same kind, as many.
    """
    rows = identifying(table)
    if rows.n_documents < 2:
        reason = "fewer than two documents with a personal value of their own and a proven removal"
        return Unresolved(IDENTIFIED, reason, rows.n_documents)
    gained, lost, documents = by_value(rows)
    net = rates.net(gained, lost, documents, rng, alphas=ALPHAS)
    return estimate(IDENTIFIED, rates.scaled(net, net.n), "values", 0.0, "chance")


def identifying(table: QuestionTable) -> QuestionTable:
    """Members' questions for a personal value that is proven gone and stands in one document of training alone."""
    members = table.split("member").proven
    return members.where(members.unique & np.isin(members.pii, IDENTIFYING))


def by_value(rows: QuestionTable) -> tuple[Floats, Floats, Ints]:
    """The gain and the loss of each distinct value, and its document; each of shape (n_values,).

    Values are in the order of their first question.
    """
    rows_of: dict[tuple[int, frozenset[str]], list[int]] = defaultdict(list)
    for row, asked in enumerate(rows.asked):
        rows_of[int(rows.cluster[row]), asked.values].append(row)
    results = rows.results["exact"]
    target = np.array([results.target[own].max() for own in rows_of.values()])
    baseline = np.array([results.baseline[own].max() for own in rows_of.values()])
    documents = np.array([document for document, _ in rows_of], np.int64)
    return target * (1 - baseline), (1 - target) * baseline, documents
