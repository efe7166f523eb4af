"""Measurements of the memorisation attack (Pinto et al. 2024, section 3; methods.md#memorisation)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints
from audit.attacks.measuring import Job, Streams, estimate_without_null, run_jobs
from audit.attacks.memorisation.contexts import WHOLE
from audit.attacks.memorisation.fairness import control_contexts
from audit.attacks.memorisation.names import (
    DISCOVERABLE,
    EXTRACTABLE,
    GAP,
    GROUPS,
    IDENTIFIED,
    MORE_CONTEXTS,
    PLAYERS,
)
from audit.attacks.memorisation.table import QuestionTable
from audit.attacks.pii import CLASSES, IDENTIFYING
from audit.attacks.removal import ATTEMPTED, UNPROVEN
from audit.attacks.splits import AUDITED
from audit.engine.interface import Progress
from audit.measurements import ALPHAS, Estimate, Measurement, Unresolved
from audit.stats import shares
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
        *_in_context(table, "exact", streams),
        *_groups(table, streams),
        *_discoverable(table, streams),
        *(job for context in MORE_CONTEXTS for job in _in_context(table, context, streams)),
        *_readings(table, commonest, streams),
        *_extractable(table.split("member").proven, streams),
        partial(_gap, table.split("heldout").attempted, streams[GAP]),
        partial(count_identified, table, streams[IDENTIFIED]),
    ]
    return control_contexts(run_jobs("memorisation: intervals", jobs, progress))


def _in_context(table: QuestionTable, context: str, streams: Streams) -> Iterator[Job]:
    """E, G and what one gives and the other does not, on members and on held-out pages, in one context."""
    exact = context == "exact"
    suffix = "" if exact else f".{context}"
    tried = {split: _tried(table.split(split).proven, context) for split in AUDITED}
    if not exact and not any(map(len, tried.values())):
        yield partial(Unresolved, f"net{suffix}", "this context was not tried, or no page allows it", 0)
        return
    null = _heldout_null(tried["heldout"], context)
    net, control = f"net{suffix}", f"net.heldout{suffix}"
    yield partial(_net, net, tried["member"], context, null, streams[net])
    yield partial(_net, control, tried["heldout"], context, (0.0, "chance"), streams[control])
    for split, rows in tried.items():
        name = f"extracted.{split}{suffix}"
        yield partial(_extracted, name, rows, context, streams[name])
        columns = {"memorised": "gained"} | ({"forgotten": "lost", "baseline_extracted": "baseline"} if exact else {})
        for what, column in columns.items():
            name = f"{what}.{split}{suffix}"
            yield partial(_share, name, rows, context, column, streams[name])


def _groups(table: QuestionTable, streams: Streams) -> Iterator[Job]:
    """Net by how often training saw the answer and by what it is; and of questions whose proof is not complete."""
    members = _tried(table.split("member").attempted, "exact")
    null = _heldout_null(_tried(table.split("heldout").proven, "exact"), "exact")
    proven = members.proven
    for group in GROUPS:
        rows = proven.where(proven.unique if group == "unique" else ~proven.unique)
        yield partial(_net, f"net.{group}", rows, "exact", null, streams[f"net.{group}"])
    for name in sorted(set(proven.pii.tolist()), key=CLASSES.index):
        yield partial(_net, f"net.{name}", proven.where(proven.pii == name), "exact", null, streams[f"net.{name}"])
    unproven = members.where(members.status == UNPROVEN)
    if len(unproven):
        heldout = _tried(table.split("heldout").attempted, "exact")
        null = _heldout_null(heldout.where(heldout.status == UNPROVEN), "exact")
        yield partial(_net, "net.unproven", unproven, "exact", null, streams["net.unproven"])
    if len(proven):
        yield partial(_near, "extracted_anls.member", proven, streams["extracted_anls.member"])


def _discoverable(table: QuestionTable, streams: Streams) -> Iterator[Job]:
    """The shares of answers that sampling gives, null: with the baselines; and net of target and baselines."""
    control = _tried(table.split("heldout").proven, DISCOVERABLE)
    nulls = {"member": _heldout_null(control, DISCOVERABLE), "heldout": (0.0, "chance")}
    for split, net in zip(AUDITED, (f"net.{DISCOVERABLE}", f"net.heldout.{DISCOVERABLE}"), strict=True):
        name, rows = f"{DISCOVERABLE}.{split}", _tried(table.split(split).proven, DISCOVERABLE)
        if not len(rows) and len(table.split(split).proven):
            reason = "the model or a baseline gives no losses of answers"
            yield from (partial(Unresolved, item, reason, 0) for item in (name, net))
            continue
        results = rows.results[DISCOVERABLE]
        null = (float(results.baseline.mean()), "public model") if len(rows) else None
        yield partial(_rate, name, results.target, rows, null, streams[name])
        yield partial(_net, net, rows, DISCOVERABLE, nulls[split], streams[net])


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
        null = (float(commonest[taken].mean()), "chance")
        yield partial(_mean, name, values, rows, null, streams[name])


def _gap(rows: QuestionTable, rng: Generator) -> Measurement:
    """How much better the target reads whole held-out pages than its baselines: a difference of ANLS in [-1, 1].

    Paired by question, clustered by document; with several baselines, from their mean.
    """
    if rows.n_documents < 2:
        reason = "fewer than two held-out documents with questions that were asked"
        return Unresolved(GAP, reason, rows.n_documents)
    results = rows.results[WHOLE]
    gap = results.target_anls - results.baseline_anls
    interval = shares.net(np.maximum(gap, 0), np.maximum(-gap, 0), rows.cluster, rng, alphas=ALPHAS)
    return _estimate(GAP, interval, (0.0, "chance"))


def _extractable(members: QuestionTable, streams: Streams) -> Iterator[Job]:
    """M_E and S_E, averaged over the member questions that some split models saw and others did not (appendix C)."""
    rows = members.where(~np.isnan(members.inside))
    if len(members) and not len(rows):
        reason = "no models of K splits, some trained with and some without each document, were given"
        yield from (partial(Unresolved, name, reason, 0) for name in EXTRACTABLE)
        return
    yield partial(_extractable_memorisation, EXTRACTABLE[0], rows, streams[EXTRACTABLE[0]])
    yield partial(_extractable_simplicity, EXTRACTABLE[1], rows, streams[EXTRACTABLE[1]])


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
    return _estimate(name, shares.net(results.gained, results.lost, rows.cluster, rng, alphas=ALPHAS), null)


def _extracted(name: str, rows: QuestionTable, context: str, rng: Generator) -> Measurement:
    """|E| / n; null: |G| / n."""
    if rows.n_documents < 2:
        return _few(name, rows)
    results = rows.results[context]
    return _rate(name, results.target, rows, (float(results.baseline.mean()), "public model"), rng)


def _near(name: str, rows: QuestionTable, rng: Generator) -> Measurement:
    """Answers at a similarity over the threshold."""
    results = rows.results["exact"]
    return _rate(name, results.target_near, rows, (float(results.baseline_near.mean()), "public model"), rng)


def _share(name: str, rows: QuestionTable, context: str, column: str, rng: Generator) -> Measurement:
    if rows.n_documents < 2:
        return _few(name, rows)
    return _rate(name, getattr(rows.results[context], column), rows, None, rng)


def _rate(name: str, values: Floats, rows: QuestionTable, null: Null, rng: Generator) -> Measurement:
    if rows.n_documents < 2:
        return _few(name, rows)
    return _estimate(name, shares.rate(values, rows.cluster, rng, alphas=ALPHAS), null)


def _mean(name: str, values: Floats, rows: QuestionTable, null: Null, rng: Generator) -> Measurement:
    return _estimate(name, mean(values, rows.cluster, rng, alphas=ALPHAS), null)


def _extractable_memorisation(name: str, rows: QuestionTable, rng: Generator) -> Measurement:
    """In-sample minus out-sample extractability (equation 2), in [-1, 1]."""
    if rows.n_documents < 2:
        return _few(name, rows)
    return _estimate(name, shares.net(rows.inside, rows.outside, rows.cluster, rng, alphas=ALPHAS), (0.0, "chance"))


def _extractable_simplicity(name: str, rows: QuestionTable, rng: Generator) -> Measurement:
    """Their sum, in [0, 2]."""
    if rows.n_documents < 2:
        return _few(name, rows)
    half = shares.rate((rows.inside + rows.outside) / 2, rows.cluster, rng, alphas=ALPHAS)
    return _estimate(name, shares.scaled(half, 2.0), None)


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
    net = shares.net(gained, lost, documents, rng, alphas=ALPHAS)
    return estimate(IDENTIFIED, shares.scaled(net, net.n), "values", 0.0, "chance")


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
