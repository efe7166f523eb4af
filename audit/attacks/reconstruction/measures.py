"""What the outcomes of the reconstruction attack add up to (papers/cdmi, section 5.2; METHODS.md, section 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
from numpy.random import Generator

from audit.attacks.interface import Findings
from audit.attacks.reconstruction import multishot
from audit.attacks.reconstruction.fields import Field
from audit.attacks.reconstruction.table import (
    GROUPS,
    PLAYERS,
    SCORES,
    SPLIT_NAMES,
    Floats,
    Table,
    build_table,
    unresolved,
)
from audit.case import Case
from audit.corpus.documents import CATEGORIES
from audit.engine.interface import Json, Progress
from audit.record import ALPHAS, Count, Diagnostic, Histogram, Measurement, Unresolved
from audit.stats.clusters import cluster_sums
from audit.stats.distances import Distances, improvement_factor
from audit.stats.intervals import Interval, proportion
from audit.stats.means import mean
from audit.stats.rates import excess_mean, excess_rate
from audit.stats.resampling import MIN_CLUSTERS, NoSpreadError, bootstrap
from audit.targets.utility import estimate, masked_token_accuracy

Job = Callable[[], Measurement]
EPSILONS = {"": 0.01, ".e0.001": 0.001, ".e0.1": 0.1}
"""The epsilon of IpF (equation 6) is not in the paper: 0.01, with 0.001 and 0.1 beside it (METHODS.md)."""
POWER = "candidate_recall.unique"
METRICS = (
    *(f"excess_{what}.{group}" for what, group in product(("pr", "hamming"), GROUPS)),
    "candidate_recall",
    POWER,
    "public_accuracy",
    *(f"{score}.{split}.{player}" for score, split, player in product(SCORES, SPLIT_NAMES, PLAYERS)),
    *(f"pr.{split}.{player}.unique" for split, player in product(SPLIT_NAMES, PLAYERS)),
    *(f"ipf.{split}{suffix}" for split, suffix in product(SPLIT_NAMES, EPSILONS)),
    *(
        f"{score}.{split}.{player}.{name}"
        for score, split, player, name in product(SCORES, SPLIT_NAMES, PLAYERS, CATEGORIES)
    ),
    *(f"ipf.{split}.{name}" for split, name in product(SPLIT_NAMES, CATEGORIES)),
    *multishot.METRICS,
)
NEEDED_DOCUMENTS = 72
"""From so many documents on, no hit at all shows a rate under 0.05 (METHODS.md, section 6)."""
HAMMING_EDGES = tuple(round(edge / 10, 1) for edge in range(11))


def measure_fields(
    case: Case,
    fields: Sequence[Field],
    outcomes: Sequence[Json],
    n_candidates: int,
    rng: Generator,
    progress: Progress,
) -> Findings:
    """All measurements of the attack, from the fields and their outcomes, in the same order."""
    table = build_table(case, fields, outcomes, n_candidates, rng)
    categories = tuple(sorted(set(table.category.tolist())))
    measurements: list[Measurement] = []
    jobs = [*_jobs(table, categories, rng), *multishot.jobs(table, rng)]
    progress.stage("reconstruction: intervals", len(jobs) + 1)
    for job in jobs:
        measurements.append(job())
        progress.advance()
    measurements.append(_public_accuracy(case, rng))
    progress.advance()
    return Findings(
        tuple(measurements),
        _counts(table),
        _diagnostics(outcomes, table),
        (_hamming_histogram(table),),
        multishot.curves(table, rng),
        categories,
    )


def _jobs(table: Table, categories: Sequence[str], rng: Generator) -> Iterator[Job]:
    """Every measurement as a call, so that progress can be shown between them."""
    for group in GROUPS:
        rows = table.group(group)
        yield partial(_excess, f"excess_pr.{group}", rows, "pr", excess_rate, rng)
        yield partial(_excess, f"excess_hamming.{group}", rows, "hd", excess_mean, rng)
    members = table.split("member")
    yield partial(_recall, "candidate_recall", members)
    yield partial(_recall, POWER, members.group("unique"))
    for split, player in product(SPLIT_NAMES, PLAYERS):
        rows = table.split(split)
        yield partial(_score, f"pr.{split}.{player}.unique", rows.group("unique"), "pr", player, rng)
        for score in SCORES:
            name = f"{score}.{split}.{player}"
            yield partial(_score, name, rows, score, player, rng)
            for category in categories:
                yield partial(_score, f"{name}.{category}", rows.category_of(category), score, player, rng)
    for split in SPLIT_NAMES:
        rows = table.split(split)
        for suffix, epsilon in EPSILONS.items():
            yield partial(_ipf, f"ipf.{split}{suffix}", rows, epsilon, rng)
        for category in categories:
            yield partial(_ipf, f"ipf.{split}.{category}", rows.category_of(category), EPSILONS[""], rng)


def _excess(name: str, table: Table, score: str, excess: Callable[..., Interval], rng: Generator) -> Measurement:
    """(attack - baseline) on member fields minus the same on held-out fields (METHODS.md, held-out control).

    Distances are turned into similarities (1 - HD), so that more is worse.
    """
    splits = [table.split(name) for name in SPLIT_NAMES]
    few = unresolved(name, splits, NEEDED_DOCUMENTS)
    if few is not None:
        return few
    columns = []
    for rows in splits:
        values = [rows.scores[score, player] for player in PLAYERS]
        columns += [*(values if score == "pr" else [1 - value for value in values]), rows.cluster]
    return estimate(name, excess(*columns, rng, alphas=ALPHAS), "fields", 0.0, "held-out")


def _recall(name: str, table: Table) -> Measurement:
    """Share of fields all of whose tokens were among the candidates given the true prefix: the ceiling of PR.

    Null: as many candidates drawn uniformly.
    """
    if not len(table):
        return Unresolved(name, "no such field was attacked", 0, NEEDED_DOCUMENTS)
    interval = proportion(table.reached, table.cluster, alphas=ALPHAS)
    return estimate(name, interval, "fields", float(table.chance["recall"].mean()), "chance")


def _score(name: str, table: Table, score: str, player: str, rng: Generator) -> Measurement:
    """One of PR, HD, LD, JWD; the attack's null is the public model, the public model's is chance."""
    few = unresolved(name, [table], MIN_CLUSTERS)
    if few is not None:
        return few
    values = table.scores[score, player]
    if score == "pr":
        interval = proportion(values > 0, table.cluster, alphas=ALPHAS)
    else:
        interval = mean(values, table.cluster, rng, alphas=ALPHAS)
    if player == "attack":
        return estimate(name, interval, "fields", float(table.scores[score, "baseline"].mean()), "public model")
    return estimate(name, interval, "fields", float(table.chance[score].mean()), "chance")


def _ipf(name: str, table: Table, epsilon: float, rng: Generator) -> Measurement:
    """The improvement factor over the baseline (equation 6); 1 = no better than the public model."""
    few = unresolved(name, [table], MIN_CLUSTERS)
    if few is not None:
        return few
    columns = [table.scores[score, player] for player in PLAYERS for score in SCORES]
    strata = [cluster_sums([*columns, np.ones(len(table))], table.cluster)]

    def statistic(totals: Floats) -> Floats:
        means = totals[:, 0, :-1] / totals[:, 0, -1:]
        return improvement_factor(Distances(*means.T[:4]), Distances(*means.T[4:]), epsilon)

    try:
        interval = bootstrap(strata, statistic, rng, alphas=ALPHAS, n=len(table), limits=(0.0, np.inf))
    except NoSpreadError:
        return Unresolved(name, "all documents give the same factor", len(np.unique(table.cluster)))
    return estimate(name, interval, "fields", 1.0, "public model")


def _public_accuracy(case: Case, rng: Generator) -> Measurement:
    auxiliary = case.references.auxiliary
    assert auxiliary is not None
    seed = int(rng.integers(2**32))
    return masked_token_accuracy("public_accuracy", auxiliary, case.corpus.of("heldout"), seed)


def _counts(table: Table) -> tuple[Count, ...]:
    counts = []
    for split, label in (("member", "member"), ("heldout", "held-out")):
        rows = table.split(split)
        unique = int(rows.unique.sum())
        counts += [
            Count(f"{label} fields", len(rows), f"fields of {label} documents that were attacked"),
            Count(f"{label} documents", len(np.unique(rows.cluster)), f"{label} documents they come from"),
            Count(f"{label} fields, unique", unique, "of these, with a value that stands in no other document"),
            Count(f"{label} fields, repeated", len(rows) - unique, "of these, with a value that other documents share"),
        ]
    return tuple(counts)


def _diagnostics(outcomes: Sequence[Json], table: Table) -> tuple[Diagnostic, ...]:
    steps = sum(len(outcome["truth"]) * len(outcome["attack"]) for outcome in outcomes)
    repeated = table.split("member").group("repeated")
    diagnostics = [
        *multishot.diagnostics(outcomes),
        Diagnostic(
            "single-token nuclei",
            sum(outcome["single"] for outcome in outcomes) / steps,
            "share of the attack's steps at which only one token was left to sample from",
        ),
        Diagnostic(
            "unusable losses",
            sum(outcome["unusable"] for outcome in outcomes) / steps,
            "share of the attack's steps at which the target's losses said nothing (median 0 or not finite)",
        ),
    ]
    if len(repeated):
        diagnostics += [
            Diagnostic(
                f"{split} documents a repeated value",
                float(documents.mean()),
                f"mean number of {split} documents in which a repeated member value stands",
            )
            for split, documents in (("member", repeated.in_member), ("public", repeated.in_public))
        ]
    return tuple(diagnostics)


def _hamming_histogram(table: Table) -> Histogram:
    counts = {}
    for (split, label), player in product((("member", "member"), ("heldout", "held-out")), PLAYERS):
        column = table.split(split).scores["hd", player]
        heights = np.histogram(np.round(column, 9), bins=HAMMING_EDGES)[0]
        counts[f"{label}, {player}"] = tuple(int(height) for height in heights)
    return Histogram("hamming", "normalised Hamming distance", HAMMING_EDGES, counts)
