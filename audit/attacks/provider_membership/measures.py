"""Measurements on a table of providers: balanced accuracies, areas, rates, and the surest members.

Method: methods.md#provider-membership and #statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints
from audit.attacks.interface import Findings
from audit.attacks.measuring import Streams, estimate_without_null
from audit.attacks.provider_membership.absent_keys import AbsentKeyReply
from audit.attacks.provider_membership.features import (
    CERTAIN_METRICS,
    IN,
    MEMORY,
    METHODS,
    OUT,
    POWER,
    Matched,
    ProviderTable,
)
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
)
from audit.attacks.provider_membership.providers import REASONS, Provider, provider_of
from audit.attacks.provider_membership.scores import (
    LOWER,
    collect_scores,
    draw_curves,
    draw_histogram,
    measure_areas,
    measure_certain,
    measure_tpr,
)
from audit.attacks.provider_membership.uncertainty import (
    JOINT,
    Permuted,
    measure_accuracy,
    measure_forest_area,
    permute_labels,
)
from audit.attacks.score_figures import LOW, TPR, rank_scores
from audit.corpus.documents import Corpus
from audit.corpus.providers import unnamed_members
from audit.engine.interface import SILENT, Progress
from audit.measurements import ALPHAS, Count, Diagnostic, Estimate, Measurement, Unresolved
from audit.stats.intervals import median_interval
from audit.targets.utility import estimate

STRONGEST = {
    "balanced_accuracy": tuple(f"balanced_accuracy.{method}" for method in METHODS),
    "auc": ("auc", "auc.apk", "auc.loss", "auc.memory_similarity"),
    LOW: CERTAIN_METRICS,
}
"""What limits are held against: by metric, each way to attack that stands on its own. The other features are parts of
what APK sees, each of them further noise that a model without a leak would have to pass (ours)."""
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


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured on a table.

    Attributes:
        findings: measurements, diagnostics, curves and histogram.
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


def primary_method(missing_reference: str | None) -> str:
    """APK where there is a model to compare with, else AZK; no number that a model gave decides it."""
    return "apk" if missing_reference is None else "azk"


def measure_table(
    table: ProviderTable,
    rng: Generator,
    progress: Progress,
    *,
    n_seeds: int,
    n_permutations: int,
    share: float,
    missing_reference: str | None = None,
) -> Measured:
    """Measure everything that a table of providers gives.

    Args:
        table: of the providers.
        rng: of permutations, resamples and thresholds; the attacks' own seeds are fixed, see `infer`.
        progress: shows two stages.
        n_seeds: of APK's training shares, and of K-means (`infer`).
        n_permutations: of the labels, at least one.
        share: of the providers, whose membership APK knows.
        missing_reference: why there is no model to compare the target with (`asking.missing_reference`); None where
            there is.
    """
    progress.stage("provider membership: inference", n_seeds)
    inference, primary = infer(table, progress, n_seeds=n_seeds, share=share), primary_method(missing_reference)
    streams = Streams(rng)
    found: dict[str, Measurement] = {}
    for method in METHODS:
        name = f"balanced_accuracy.{method}"
        found[name] = _accuracy(name, table, inference, method, streams[name])
    found["balanced_accuracy"] = replace(found[f"balanced_accuracy.{primary}"], name="balanced_accuracy")
    scores = collect_scores(table, inference)
    found |= measure_areas(table, scores, missing_reference or NO_NUMBER)
    found["auc.apk"] = _forest_area("auc.apk", table, inference)
    found[TPR] = measure_tpr(table, streams[TPR], missing_reference or NO_NUMBER)
    sure = measure_certain(table, streams["certain providers"], missing_reference or NO_NUMBER)
    found |= {item.name: item for item in sure.measurements} | {POWER: _power(table)}
    progress.stage("provider membership: permutations", n_permutations)
    null = permute_labels(inference, table.member, streams["permutations"], progress, n_permutations=n_permutations)
    score = next(iter(scores), None)
    findings = Findings(
        tuple(found.values()),
        diagnostics=(
            *compare_with_null(table, inference, null),
            *describe_memory_tests(table),
            *sure.diagnostics,
        ),
        histograms=() if score is None else draw_histogram(table, scores[score], QUANTITIES[score]),
        curves=draw_curves(table, scores),
        methods=STRONGEST,
        checks=sure.checks,
    )
    told = found["balanced_accuracy"]
    shown = isinstance(told, Estimate) and told.low > CHANCE
    surest = _surest(table, inference, primary, scores[score]) if score is not None and shown else _NOBODY
    return Measured(findings, primary, scores, score, surest)


def _accuracy(name: str, table: ProviderTable, inference: Inference, method: str, rng: Generator) -> Measurement:
    """Measure the balanced accuracy of a method over providers; null: 0.5."""
    lack = inference.lacks.get(method)
    if lack is None and says_nothing(inference.calls[method]):
        lack = Lack(f"every provider is called the same: {method} tells nobody from anybody", len(table))
    elif lack is None:
        found = measure_accuracy(inference.calls[method], table.member, rng, ALPHAS)
        if found is not None:
            return estimate(name, found, "providers", 0.5, "chance")
        lack = Lack(f"fewer than {MIN_JUDGED} providers of a side could be judged", len(table), 2 * NEEDED)
    assert lack is not None
    return Unresolved(name, lack.reason, lack.n, lack.needed)


def _forest_area(name: str, table: ProviderTable, inference: Inference) -> Measurement:
    """The chance that a forest of APK finds a member likelier than a provider that is out; null: 0.5."""
    if inference.probabilities is not None:
        if says_nothing(inference.calls["apk"]):
            return Unresolved(name, "every provider is called the same: apk tells nobody from anybody", len(table))
        found = measure_forest_area(inference.probabilities, table.member, ALPHAS)
        if found is not None:
            return estimate(name, found, "providers", 0.5, "chance")
    lack = inference.lacks.get("apk", Lack(f"fewer than {MIN_JUDGED} providers of a side could be judged", len(table)))
    return Unresolved(name, lack.reason, lack.n, lack.needed)


def _power(table: ProviderTable) -> Measurement:
    """The median number of questions compared of a provider; it has no null."""
    if not len(table):
        return Unresolved(POWER, "no provider is compared", 0)
    found = median_interval(table.n_questions, alphas=ALPHAS, unit="provider")
    return estimate_without_null(POWER, found, "providers")


def _surest(table: ProviderTable, inference: Inference, primary: str, score: Floats) -> Ints:
    """Rows of the members that the primary method calls members, the highest scores first.

    APK by the mean probability over forests, which is its score, AZK where most seeds do.
    """
    if primary not in inference.calls or says_nothing(inference.calls[primary]):
        return _NOBODY
    called = score if primary == "apk" else mean_known(inference.calls[primary])
    named = np.flatnonzero(table.member & (called > 0.5) & ~np.isnan(score))
    return named[np.argsort(-score[named], kind="stable")][:N_EXPOSED].astype(np.int64)


def compare_with_null(table: ProviderTable, inference: Inference, null: Mapping[str, Permuted]) -> list[Diagnostic]:
    """Compare each method with permuted labels, and describe its calls and how its seeds differ."""
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


def describe_memory_tests(table: ProviderTable) -> list[Diagnostic]:
    """Describe the calls of the memorisation tests: one that calls all the same adds nothing to an ensemble."""
    calls = memory_calls(table, 0)
    if calls is None:
        return []
    return [
        Diagnostic(f"called.{name}", float(known.mean()), f"share of the providers judged that {words} calls members")
        for name, words, one in zip(MEMORY, ("M1", "M2"), calls, strict=True)
        if (known := one[~np.isnan(one)]).size
    ]


def entries(
    table: ProviderTable,
    providers: Sequence[Provider],
    replies: Sequence[AbsentKeyReply],
    *,
    n_seeds: int,
    share: float,
) -> Iterator[dict[str, Any]]:
    """One object a provider: number, name, in or out, features, scores, ranks (1 = most like a member).

    Args:
        table: of the providers that were asked about.
        providers: all of the data set.
        replies: to questions about missing keys; the values of training among them are given.
        n_seeds: as in the measurement, so that scores are the same.
        share: likewise.
    """
    known = {provider.name: provider for provider in providers}
    scores = collect_scores(table, infer(table, SILENT, n_seeds=n_seeds, share=share))
    ranks = {name: rank_scores(-column if name in LOWER else column) for name, column in table.features.items()}
    ranks |= {_score(name): rank_scores(column) for name, column in scores.items()}
    for row, name in enumerate(table.names):
        provider = known[name]
        yield {
            "provider": provider.number,
            "name": provider.spellings[0],
            "spellings": [*provider.spellings],
            "training": IN if provider.member else OUT,
            "documents": int(table.n_documents[row]),
            "questions": int(table.n_questions[row]),
            "features": _known(table.features, row),
            "scores": _known({_score(score): column for score, column in scores.items()}, row),
            "ranks": {score: int(rank) for score, rank in _known(ranks, row).items()},
            "absent_key": [
                {"document": reply.document, "key": reply.key, "answer": reply.text}
                for reply in replies
                if reply.trained and reply.provider == name
            ],
        }


def _score(name: str) -> str:
    return f"score.{name}"


def _known(columns: Mapping[str, Floats], row: int) -> dict[str, float]:
    return {name: float(column[row]) for name, column in columns.items() if np.isfinite(column[row])}


def count_providers(corpus: Corpus, providers: Sequence[Provider], compared: Matched) -> tuple[Count, ...]:
    """Count providers, documents and questions that are compared, and those left out, by reason."""
    members, others = (sum(trial.stratum == side for trial in compared.trials) for side in (IN, OUT))
    documents = [document for outcome in compared.outcomes for document in outcome["documents"]]
    losses = [question["loss"] for document in documents for question in document["questions"]]
    nameless = sum(not provider_of(document) for document in corpus.of("heldout"))
    merged = sum(len(provider.spellings) - 1 for provider in providers)
    return (
        Count("providers in", members, "providers that training saw, and that were asked about"),
        Count(
            "providers out",
            others,
            "providers that training never saw, and that were asked about",
        ),
        Count("documents", len(documents), "kept-aside documents of these providers"),
        Count("questions", len(losses), "questions about these documents; a page of a token classifier is one"),
        Count("cut to match", compared.cut, "other questions about them: of both sides as many are looked at"),
        *(
            Count(f"left out: {reason}", sum(one.left_out == reason for one in providers), meaning)
            for reason, meaning in REASONS.items()
        ),
        Count("left out: nothing asked", compared.dropped, "providers of whom nothing was asked"),
        Count("in training: no provider", unnamed_members(corpus), "documents of training that name no provider"),
        Count("left out: no provider", nameless, "kept-aside documents that name no provider"),
        Count("no finite loss", losses.count(None), "questions whose loss is no finite number: without that feature"),
        Count("merged spellings", merged, "names that differ from another by case or spacing only: one provider"),
    )
