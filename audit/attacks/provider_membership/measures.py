"""Measurements on a table of providers: balanced accuracies, areas, advantages at few false alarms.

Method: methods/provider-membership.md and methods/index.md#intervals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks import text_of
from audit.attacks.measuring import Streams, estimate_without_null
from audit.attacks.provider_membership import methods
from audit.attacks.provider_membership.providers import (
    IN,
    OUT,
    Matched,
    Provider,
    ProviderTable,
    provider_of,
)
from audit.attacks.score_figures import LOW, ScoreComparison, TwoSides, draw_roc, rank_scores
from audit.corpus.documents import Corpus
from audit.corpus.summary import unnamed_members
from audit.engine.interface import SILENT, Progress
from audit.measurements import Count, Curve, Diagnostic, Histogram, Measurement, Unresolved
from audit.record import Result
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, median_interval
from audit.stats.roc import lowest_resolved

POWER = "questions_a_provider"
"""The median number of questions that are compared of a provider.

What the paper finds lives where there are five, or ten, and both sides are cut to match."""
CERTAIN_SCORES = {
    "user": LOW,
    "loss": f"{LOW}.loss",
    "memory_similarity": f"{LOW}.memory_similarity",
}
"""The scores that rank providers alone. Forests know some providers that set the threshold, and are
left out."""
RANKED = {"auc": "user", "auc.loss": "loss", "auc.memory_similarity": "memory_similarity"}
"""By area, the score that ranks providers alone."""
STRONGEST = {
    "balanced_accuracy": tuple(f"balanced_accuracy.{method}" for method in methods.METHODS),
    "auc": ("auc", "auc.apk", "auc.loss", "auc.memory_similarity"),
    LOW: tuple(CERTAIN_SCORES.values()),
}
"""By limited metric, each way to attack that is complete by itself. APK sees the other features."""
QUANTITIES = text_of("provider_membership").labels["quantities"]
"""The scores that may rank providers, the preferred one first, in words, as an axis has it."""
LOWER = ("loss", "memory_change")
"""Features of which less speaks for membership; of the others more does. Fixed before any data,
never by labels."""
NO_NUMBER = "the comparison model gave no finite number for any provider"
"""As where all its losses overflow."""
NOT_KNOWN = Unresolved("", "no provider has it", 0)
"""Of a score, under any name."""
CONSTANT = "every provider has the same value"
_PROVIDERS = ScoreComparison("provider", "unused providers", ("providers in", "providers out"))


def measure_table(
    table: ProviderTable,
    rng: Generator,
    progress: Progress,
    *,
    n_seeds: int,
    share: float,
    missing_reference: str | None = None,
) -> Result:
    """Measure all metrics of a table of providers.

    Args:
        table: table of the providers.
        rng: the source of resamples and ties; the attacks' own seeds are fixed, see `infer`.
        progress: shows a stage.
        n_seeds: number of APK's training shares, and of seeds of K-means (`infer`).
        share: share of the providers whose membership APK knows.
        missing_reference: why there is no model to compare the target with
            (`attack.missing_reference`).
    """
    progress.stage("provider membership: inference", n_seeds)
    inference = methods.infer(table, progress, n_seeds=n_seeds, share=share)
    uncompared = Unresolved("", NO_NUMBER, 0)
    if missing_reference is not None:
        uncompared = Unresolved("", missing_reference, 0, lacks="baselines")
    streams = Streams(rng)
    measured: dict[str, Measurement] = {}
    for method in methods.METHODS:
        name = f"balanced_accuracy.{method}"
        measured[name] = _accuracy(name, table, inference, method, streams[name])
    primary = "apk" if missing_reference is None else "azk"  # whatever number a model gave
    measured["balanced_accuracy"] = replace(
        measured[f"balanced_accuracy.{primary}"], name="balanced_accuracy"
    )
    for name, score in RANKED.items():
        measured[name] = _area(name, table, score, uncompared)
    measured["auc.apk"] = _forest_area("auc.apk", table, inference)
    certain = measure_certain(table, streams["certain providers"], uncompared)
    scores = collect_scores(table, inference)
    return Result(
        "provider_membership",
        measurements=(*measured.values(), *certain, _power(table)),
        diagnostics=_low_rate(table),
        histograms=_draw_histogram(table, scores),
        curves=_draw_curves(table, scores),
        methods=STRONGEST,
        checks=_PROVIDERS.check_certain(_ranked_sides(table), certain),
    )


def _area(name: str, table: ProviderTable, score: str, uncompared: Unresolved) -> Measurement:
    """Measure the AUC of a score over providers; null: 0.5.

    Args:
        name: name of the measurement.
        table: table of the providers.
        score: user inference ("user"), or a feature.
        uncompared: why there is no user inference, where there is none.
    """
    column = _oriented(table, score)
    gap = _unscored(name, table, column, uncompared if score == "user" else NOT_KNOWN)
    return gap or _PROVIDERS.measure_auc(name, _sides(table, column))


def _power(table: ProviderTable) -> Measurement:
    """Estimate the median number of questions that are compared of a provider."""
    if not table.names:
        return Unresolved(POWER, "no provider is compared", 0)
    return estimate_without_null(POWER, median_interval(table.n_questions), "providers")


def _low_rate(table: ProviderTable) -> tuple[Diagnostic, ...]:
    """State the false-positive rate of `LOW`; nothing where unused providers allow none."""
    rate = lowest_resolved(int((~table.member).sum()))
    if rate is None:
        return ()
    meaning = (
        f"the false-positive rate of {LOW}: the lowest of 10 %, 1 % and 0.1 %"
        " that unused providers allow"
    )
    return (Diagnostic("low_fpr", rate, meaning),)


def _ranked_sides(table: ProviderTable) -> list[TwoSides]:
    """Return the scores of members and others by each score that can rank single providers."""
    columns = [_oriented(table, score) for score in CERTAIN_SCORES]
    return [_sides(table, column) for column in columns if _unscored(LOW, table, column) is None]


def _draw_histogram(table: ProviderTable, scores: Mapping[str, Floats]) -> tuple[Histogram, ...]:
    """Draw the histogram of the preferred score; nothing without any."""
    if not scores:
        return ()
    name, column = next(iter(scores.items()))
    sides = _sides(table, np.where(np.isfinite(column), column, np.nan))
    if not sides[0].size + sides[1].size:
        return ()
    return _PROVIDERS.histogram(QUANTITIES[name], sides)


def _draw_curves(table: ProviderTable, scores: Mapping[str, Floats]) -> tuple[Curve, ...]:
    """Draw the ROC curves of user inference and of APK, where these rank providers."""
    series = {}
    for name, label in (("user", "user inference"), ("apk", "APK")):
        if name in scores and _unscored("roc", table, scores[name]) is None:
            series[label] = draw_roc(_sides(table, scores[name]))
    if not series:
        return ()
    x = "share of unused providers recognised"
    y = "share of used providers recognised"
    return (Curve("roc", x, y, series),)


def collect_scores(table: ProviderTable, inference: methods.Inference) -> dict[str, Floats]:
    """Return the scores that may rank providers, the preferred one first.

    Each has shape (n,), NaN where unknown.
    """
    scores: dict[str, Floats] = {}
    if inference.probabilities is not None:
        scores["apk"] = methods.mean_known(inference.probabilities)
    if table.user is not None:
        scores["user"] = table.user
    if "accuracy" in table.features:
        scores["accuracy"] = table.features["accuracy"]
    return scores


def measure_certain(
    table: ProviderTable, rng: Generator, uncompared: Unresolved
) -> tuple[Measurement, ...]:
    """Measure the advantage of each score at a low false-positive rate; null: 0.

    That is the lowest rate that providers out resolve.

    Args:
        table: table of the providers.
        rng: draws the order of providers that have the same score, such as all whom nothing is
            remembered of: the attacker tosses a coin, which reaches every false-positive rate
            exactly.
        uncompared: why there is no user inference, where there is none.

    Returns:
        By score, in the order of `CERTAIN_SCORES`.
    """
    streams = Streams(rng)
    measured: list[Measurement] = []
    for score, name in CERTAIN_SCORES.items():
        column = _oriented(table, score)
        gap = _unscored(name, table, column, uncompared if score == "user" else NOT_KNOWN)
        ranks = _break_ties(column, streams[name])
        measured.append(gap or _PROVIDERS.measure_advantage(name, _sides(table, ranks))[0])
    return tuple(measured)


def _oriented(table: ProviderTable, score: str) -> Floats:
    """Return user inference or a feature, oriented so that higher means member, shape (n,).

    NaN where unknown.
    """
    column = table.user if score == "user" else table.features.get(score)
    if column is None:
        return np.full(len(table.names), np.nan)
    return -column if score in LOWER else column


def _unscored(
    name: str, table: ProviderTable, column: Floats, missing: Unresolved = NOT_KNOWN
) -> Unresolved | None:
    """Return why a score cannot rank providers; None when it can.

    Args:
        name: name of the measurement.
        table: table of the providers.
        column: the score, shape (n,), NaN where unknown.
        missing: what says so where no provider has it, under any name.
    """
    is_known = ~np.isnan(column)
    if not is_known.any():
        return replace(missing, name=name)
    if methods.smaller_side(table.member[is_known]) < methods.MIN_JUDGED:
        reason = f"fewer than {methods.MIN_JUDGED} providers in training, or out of it, have it"
        return Unresolved(name, reason, int(is_known.sum()), 2 * methods.NEEDED)
    if (column[is_known] == column[is_known][0]).all():
        return Unresolved(name, CONSTANT, int(is_known.sum()))
    return None


def _sides(table: ProviderTable, column: Floats) -> TwoSides:
    """Return the scores of members and of the others, where known."""
    is_known = ~np.isnan(column)
    return column[is_known & table.member], column[is_known & ~table.member]


def _break_ties(column: Floats, rng: Generator) -> Floats:
    """Rank the scores, ties in random order, shape (n,); NaN where unknown."""
    ranks = np.full(column.size, np.nan)
    scored = np.flatnonzero(~np.isnan(column))
    ranks[scored[np.lexsort((rng.random(scored.size), column[scored]))]] = np.arange(scored.size)
    return ranks


def _accuracy(
    name: str, table: ProviderTable, made: methods.Inference, method: str, rng: Generator
) -> Measurement:
    """Measure the balanced accuracy of a method over providers; null: 0.5."""
    calls = made.calls.get(method)
    interval = None
    if calls is not None and not methods.calls_all_alike(calls):
        interval = methods.measure_accuracy(calls, table.member, rng)
    return _estimate(name, table, made, method, interval)


def _forest_area(name: str, table: ProviderTable, inference: methods.Inference) -> Measurement:
    """Measure the AUC of APK's forests over providers; null: 0.5."""
    forests = inference.probabilities
    interval = None
    if forests is not None and not methods.calls_all_alike(inference.calls["apk"]):
        interval = methods.measure_forest_area(forests, table.member)
    return _estimate(name, table, inference, "apk", interval)


def _estimate(
    name: str,
    table: ProviderTable,
    inference: methods.Inference,
    method: str,
    interval: Interval | None,
) -> Measurement:
    """Make the estimate of a method's accuracy or AUC, or return why it gives no number."""
    if interval is not None:
        return estimate(name, interval, "providers", 0.5, "chance")
    if method in inference.lacks:
        return replace(inference.lacks[method], name=name)
    n = len(table.names)
    if methods.calls_all_alike(inference.calls[method]):
        return Unresolved(name, f"{method} gives every provider the same answer", n)
    reason = f"fewer than {methods.MIN_JUDGED} providers of a side could be judged"
    return Unresolved(name, reason, n, 2 * methods.NEEDED)


def entries(
    table: ProviderTable, providers: Sequence[Provider], *, n_seeds: int, share: float
) -> Iterator[Any]:
    """Yield one evidence entry for each provider: name, side, features, scores and ranks.

    Rank 1 is most like a member.

    Args:
        table: table of the providers that were asked about.
        providers: all providers of the data set.
        n_seeds: number of seeds as in the measurement, so that scores are the same.
        share: likewise.
    """
    by_name = {provider.name: provider for provider in providers}
    inference = methods.infer(table, SILENT, n_seeds=n_seeds, share=share)
    scores = {f"score.{name}": column for name, column in collect_scores(table, inference).items()}
    ranks = {name: rank_scores(_oriented(table, name)) for name in table.features}
    ranks |= {name: rank_scores(column) for name, column in scores.items()}
    for row, name in enumerate(table.names):
        provider = by_name[name]
        yield {
            "name": provider.spellings[0],
            "spellings": [*provider.spellings],
            "training": IN if provider.member else OUT,
            "documents": int(table.n_documents[row]),
            "questions": int(table.n_questions[row]),
            "features": _finite_values(table.features, row),
            "scores": _finite_values(scores, row),
            "ranks": {score: int(rank) for score, rank in _finite_values(ranks, row).items()},
        }


def _finite_values(columns: Mapping[str, Floats], row: int) -> dict[str, float]:
    """Return the finite numbers of one row, by column."""
    return {
        name: float(column[row]) for name, column in columns.items() if np.isfinite(column[row])
    }


def count_providers(
    corpus: Corpus, providers: Sequence[Provider], compared: Matched
) -> tuple[Count, ...]:
    """Count providers, documents and questions that are compared, and those left out, by reason."""
    documents = list(chain.from_iterable(outcome["documents"] for outcome in compared.outcomes))
    sides = [trial.stratum for trial in compared.trials]
    nameless = sum(not provider_of(document) for document in corpus.of("heldout"))
    with_heldout = [provider for provider in providers if provider.heldout]
    counts = {
        "providers in": sides.count(IN),
        "providers out": sides.count(OUT),
        "documents": len(documents),
        "questions": sum(len(document["questions"]) for document in documents),
        "left out: no kept-aside document": len(providers) - len(with_heldout),
        "left out: nothing to ask": sum(not provider.asked for provider in with_heldout),
        "left out: nothing asked": compared.dropped,
        "left out: no provider": nameless,
        "in training: no provider": unnamed_members(corpus),
    }
    return text_of("provider_membership").count(counts)
