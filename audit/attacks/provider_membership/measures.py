"""What a table of providers adds up to: balanced accuracies, areas, rates, who stands out (METHODS, sections 3, 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.random import Generator

from audit.attacks.interface import Findings
from audit.attacks.provider_membership.inference import (
    MIN_JUDGED,
    NEEDED,
    UNLABELLED,
    Inference,
    Lack,
    balanced,
    infer,
    mean_known,
    memory_calls,
    says_nothing,
    smaller_side,
)
from audit.attacks.provider_membership.intervals import accuracy, forest_area
from audit.attacks.provider_membership.permuting import JOINT, Permuted, permuted_accuracies
from audit.attacks.provider_membership.table import FEATURES, MEMORY, METHODS, Ints, Table
from audit.engine.interface import Progress
from audit.record import ALPHAS, Curve, CurvePoint, Diagnostic, Estimate, Histogram, Measurement, Unresolved
from audit.stats.clusters import Floats
from audit.stats.roc import auc_interval, nonmembers_needed, roc_points, tpr_at_fpr
from audit.targets.utility import estimate

QUESTIONS = (0, 5, 10)
"""The paper's s: providers with at least so many questions (table A6)."""
RATES = {"10": 0.1, "1": 0.01}
"""The false-positive rates that are looked at, in per cent and as shares."""
LOWER = ("loss", "memory_change")
"""Features of which less speaks for membership; of the others more does. Fixed before any data, never by labels."""
CHANGES = ("loss_change", "confidence_change")
"""Features that there are with a reference only."""
SUFFIXES = {questions: f".s{questions}" if questions else "" for questions in QUESTIONS}
METRICS = (
    "balanced_accuracy",
    *(f"balanced_accuracy.{method}{suffix}" for method, suffix in product(METHODS, SUFFIXES.values())),
    "auc",
    *(f"tpr_at_fpr_{rate}" for rate in RATES),
    "auc.apk",
    *(f"auc.{name}" for name in (*FEATURES, *MEMORY)),
)
"""What a table gives. "balanced_accuracy" is that of the primary method; "auc" and the rates are of user inference."""
N_BINS = 20
N_EXPOSED = 10
"""Providers that the report shows, at most (ours)."""
QUANTITIES = {
    "apk": "probability of being a member, mean over forests that did not know the provider",
    "user": "log probability of the answers minus that before fine-tuning, nats",
    "accuracy": "share of the provider's questions that are answered right",
}
"""The scores that may rank providers, the preferred one first, in words, as an axis has it."""
NO_NUMBER = "the model to compare with gave no finite number for any provider"
"""As where all its losses overflow."""
CHANCE = 0.5
_NOBODY = np.empty(0, np.int64)
CONSTANT = "every provider has the same value, which tells nobody from anybody"


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured on a table.

    Attributes:
        findings: measurements in the order of `METRICS`, diagnostics, curves and histogram.
        primary: the method of "balanced_accuracy".
        scores: by name, larger = more like a member, shape (n,), NaN where unknown: those of `QUANTITIES` that exist.
        score: the name of the one that ranks providers; None where there is none.
        surest: rows of the members that the primary method calls members, surest first, `N_EXPOSED` at most; none where
            it is not shown to be right more often than chance, which would name as many.
    """

    findings: Findings
    primary: str
    scores: Mapping[str, Floats]
    score: str | None
    surest: Ints


def primary_method(unreferenced: str | None) -> str:
    """APK where there is a model to compare with, else AZK; no number that a model gave decides it."""
    return "apk" if unreferenced is None else "azk"


def scores_of(table: Table, inference: Inference) -> dict[str, Floats]:
    """The scores that may rank providers, the preferred one first, each of shape (n,), NaN where unknown."""
    found = {"apk": inference.probability, "user": table.user, "accuracy": table.features.get("accuracy")}
    return {name: column for name, column in found.items() if column is not None}


def measure_table(
    table: Table,
    rng: Generator,
    progress: Progress,
    *,
    n_seeds: int,
    n_permutations: int,
    share: float,
    unreferenced: str | None = None,
) -> Measured:
    """Everything that a table of providers gives, one measurement for each of `METRICS`.

    Permutations are run on all providers (s = 0) only, and the features' importance is theirs.

    Args:
        table: of the providers.
        rng: of permutations, resamples and thresholds; the attacks' own seeds are fixed, see `infer`.
        progress: told of two stages.
        n_seeds: of APK's training shares, and of K-means (`infer`).
        n_permutations: of the labels, at least one.
        share: of the providers, whose membership APK knows.
        unreferenced: why there is no model to compare the target with (`asking.unreferenced`); None where there is.
    """
    progress.stage("provider membership: inference", n_seeds * len(QUESTIONS))
    tables = {questions: table.at_least(questions) for questions in QUESTIONS}
    inferences = {questions: infer(part, progress, n_seeds=n_seeds, share=share) for questions, part in tables.items()}
    inference, primary = inferences[0], primary_method(unreferenced)
    found: dict[str, Measurement] = {}
    for (questions, suffix), method in product(SUFFIXES.items(), METHODS):
        name = f"balanced_accuracy.{method}{suffix}"
        found[name] = _accuracy(name, tables[questions], inferences[questions], method, questions, rng)
    found["balanced_accuracy"] = replace(found[f"balanced_accuracy.{primary}"], name="balanced_accuracy")
    scores = scores_of(table, inference)
    found |= _areas(table, scores, unreferenced or NO_NUMBER)
    found["auc.apk"] = _forest_area("auc.apk", table, inference)
    for rate in RATES:
        found[f"tpr_at_fpr_{rate}"] = _tpr(table, rate, rng, unreferenced or NO_NUMBER)
    progress.stage("provider membership: permutations", n_permutations)
    null = permuted_accuracies(inference, table.member, rng, progress, n_permutations=n_permutations)
    score = next(iter(scores), None)
    findings = Findings(
        tuple(found[name] for name in METRICS),
        diagnostics=(*_against_null(table, inference, null), *_memory(table), *_importances(inference)),
        histograms=() if score is None else _histogram(table, scores[score], QUANTITIES[score]),
        curves=_curves(table, scores),
    )
    told = found["balanced_accuracy"]
    shown = isinstance(told, Estimate) and told.low > CHANCE
    surest = _surest(table, inference, primary, scores[score]) if score is not None and shown else _NOBODY
    return Measured(findings, primary, scores, score, surest)


def _accuracy(
    name: str, table: Table, inference: Inference, method: str, questions: int, rng: Generator
) -> Measurement:
    """The balanced accuracy of a method over providers; null: 0.5."""
    if questions and not len(table):
        return Unresolved(name, f"no provider has {questions} questions or more", 0)
    lack = inference.lacks.get(method)
    if lack is None and says_nothing(inference.calls[method]):
        lack = Lack(f"every provider is called the same: {method} tells nobody from anybody", len(table))
    elif lack is None:
        found = accuracy(inference.calls[method], table.member, rng, ALPHAS)
        if found is not None:
            return estimate(name, found, "providers", 0.5, "chance")
        lack = Lack(f"fewer than {MIN_JUDGED} providers of a side could be judged", len(table), 2 * NEEDED)
    assert lack is not None
    among = f", of those with at least {questions} questions" if questions and lack.n else ""
    return Unresolved(name, lack.reason + among, lack.n, lack.needed)


def _areas(table: Table, scores: Mapping[str, Floats], uncompared: str) -> dict[str, Measurement]:
    """The chance that a member scores higher than a provider that is out, by score and feature; null: 0.5."""
    columns = {"auc": scores.get("user")}
    for name in (*FEATURES, *MEMORY):
        column = table.features.get(name)
        columns[f"auc.{name}"] = -column if column is not None and name in LOWER else column
    compared = {"auc", *(f"auc.{change}" for change in CHANGES)}
    return {
        name: _area(name, table, column, uncompared if name in compared else "no provider has it")
        for name, column in columns.items()
    }


def _area(name: str, table: Table, column: Floats | None, nothing: str) -> Measurement:
    if column is None:
        return Unresolved(name, nothing, 0)
    missing = _unscored(name, table, column)
    if missing is not None:
        return missing
    interval = auc_interval(*_sides(table, column), alphas=ALPHAS, unit="provider")
    return estimate(name, interval, "providers", 0.5, "chance")


def _forest_area(name: str, table: Table, inference: Inference) -> Measurement:
    """The chance that a forest of APK finds a member likelier than a provider that is out; null: 0.5."""
    if inference.probabilities is not None:
        if says_nothing(inference.calls["apk"]):
            return Unresolved(name, "every provider is called the same: apk tells nobody from anybody", len(table))
        found = forest_area(inference.probabilities, table.member, ALPHAS)
        if found is not None:
            return estimate(name, found, "providers", 0.5, "chance")
    lack = inference.lacks.get("apk", Lack(f"fewer than {MIN_JUDGED} providers of a side could be judged", len(table)))
    return Unresolved(name, lack.reason, lack.n, lack.needed)


def _tpr(table: Table, rate: str, rng: Generator, uncompared: str) -> Measurement:
    """The share of members that user inference finds at a false-positive rate; null: the rate itself."""
    name = f"tpr_at_fpr_{rate}"
    if table.user is None:
        return Unresolved(name, uncompared, 0)
    missing = _unscored(name, table, table.user)
    if missing is not None:
        return missing
    members, others = _sides(table, table.user)
    point = tpr_at_fpr(members, others, RATES[rate], rng, alphas=ALPHAS, unit="provider")
    if point is None:
        reason = f"not resolvable with {len(others)} providers out of training, of which half set the threshold"
        return Unresolved(name, reason, len(others), nonmembers_needed(RATES[rate]))
    return estimate(name, point.tpr, "providers", RATES[rate], "chance")


def _unscored(name: str, table: Table, column: Floats) -> Unresolved | None:
    """Why a score says nothing; None when it does."""
    known = ~np.isnan(column)
    if smaller_side(table.member[known]) < MIN_JUDGED:
        reason = f"fewer than {MIN_JUDGED} providers in training, or out of it, have it"
        return Unresolved(name, reason, int(known.sum()), 2 * NEEDED)
    if (column[known] == column[known][0]).all():
        return Unresolved(name, CONSTANT, int(known.sum()))
    return None


def _sides(table: Table, column: Floats) -> tuple[Floats, Floats]:
    """The scores of members and of the others, where known."""
    known = ~np.isnan(column)
    return column[known & table.member], column[known & ~table.member]


def _against_null(table: Table, inference: Inference, null: Mapping[str, Permuted]) -> list[Diagnostic]:
    """Where each method stands among permuted labels, whom it calls members, and how its seeds differ."""
    found = []
    for method, calls in inference.calls.items():
        called = mean_known(calls)
        judged = called[~np.isnan(called)]
        spread = float(np.std([balanced(row, table.member) for row in calls], ddof=1)) if len(calls) > 1 else 0.0
        words = f"balanced accuracy of {method}"
        if method in null:
            one = null[method]
            forests = min(len(calls), JOINT)
            unknown = f" among the {one.n} providers that none of {forests} forests was trained on"
            among = "" if method in UNLABELLED else unknown
            found += [
                Diagnostic(
                    f"permutation_p.{method}",
                    one.p_value,
                    f"share of {one.values.size} permutations of the labels that reach the {words}{among}",
                ),
                Diagnostic(f"permuted.{method}", float(one.values.mean()), f"mean {words} over permuted labels{among}"),
            ]
        found += [
            Diagnostic(
                f"called.{method}",
                float(judged.mean()) if judged.size else 0.0,
                f"share of the providers judged that {method} calls members",
            ),
            Diagnostic(f"seed_spread.{method}", spread, f"standard deviation of the {words} over {len(calls)} seeds"),
        ]
    return found


def _memory(table: Table) -> list[Diagnostic]:
    """Whom the memorisation tests call members: one that calls all the same adds nothing to an ensemble."""
    calls = memory_calls(table, 0)
    if calls is None:
        return []
    return [
        Diagnostic(f"called.{name}", float(known.mean()), f"share of the providers judged that {words} calls members")
        for name, words, one in zip(MEMORY, ("M1", "M2"), calls, strict=True)
        if (known := one[~np.isnan(one)]).size
    ]


def _importances(inference: Inference) -> list[Diagnostic]:
    meaning = "part of the feature in what APK's forests go by, mean over seeds"
    return [Diagnostic(f"importance.{name}", value, meaning) for name, value in inference.importance.items()]


def _histogram(table: Table, column: Floats, quantity: str) -> tuple[Histogram, ...]:
    members, others = _sides(table, np.where(np.isfinite(column), column, np.nan))
    if not members.size + others.size:
        return ()
    edges = np.histogram_bin_edges(np.concatenate([members, others]), N_BINS)
    counts = {
        label: tuple(int(height) for height in np.histogram(side, edges)[0])
        for label, side in (("providers in", members), ("providers out", others))
    }
    return (Histogram("primary_score", quantity, tuple(float(edge) for edge in edges), counts),)


def _curves(table: Table, scores: Mapping[str, Floats]) -> tuple[Curve, ...]:
    series = {}
    for name, label in (("user", "user inference"), ("apk", "APK")):
        if name not in scores or _unscored("roc", table, scores[name]) is not None:
            continue
        members, others = _sides(table, scores[name])
        series[label] = tuple(
            CurvePoint(point.fpr, point.tpr, point.low, point.high, members.size)
            for point in roc_points(members, others)
        )
    axis, quantity = "share of providers out called members", "share of providers in called members"
    return (Curve("roc", axis, quantity, series),) if series else ()


def _surest(table: Table, inference: Inference, primary: str, score: Floats) -> Ints:
    """Rows of the members that the primary method calls members, the highest scores first.

    APK by the mean probability over forests, which is its score, AZK where most seeds do.
    """
    if primary not in inference.calls or says_nothing(inference.calls[primary]):
        return _NOBODY
    called = score if primary == "apk" else mean_known(inference.calls[primary])
    named = np.flatnonzero(table.member & (called > 0.5) & ~np.isnan(score))
    return named[np.argsort(-score[named], kind="stable")][:N_EXPOSED].astype(np.int64)
