"""Diagnostics and counts of the measurements, and the evidence for the owner's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from audit.arrays import Floats
from audit.attacks.provider_membership.absent_keys import AbsentKeyReply
from audit.attacks.provider_membership.features import IN, OUT, Matched, ProviderTable
from audit.attacks.provider_membership.inference import UNLABELLED, Inference, balanced, infer, mean_known, memory_calls
from audit.attacks.provider_membership.names import MEMORY
from audit.attacks.provider_membership.providers import REASONS, Provider, provider_of
from audit.attacks.provider_membership.scores import LOWER, collect_scores
from audit.attacks.provider_membership.uncertainty import JOINT, Permuted
from audit.attacks.score_figures import rank_scores
from audit.corpus.documents import Corpus
from audit.corpus.providers import unnamed_members
from audit.engine.interface import SILENT
from audit.measurements import Count, Diagnostic


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
