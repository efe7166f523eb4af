"""Measurements of the reconstruction attack (Dentan et al. 2024, section 5.2; methods.md#reconstruction)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks import blind_baseline
from audit.attacks.controls import blind_controls
from audit.attacks.fields import REASONS, Field, Length, withheld
from audit.attacks.given_away import NEEDED_DOCUMENTS, KindsCheck
from audit.attacks.interface import Findings
from audit.attacks.measuring import Job, Streams, run_jobs
from audit.attacks.reconstruction import gated, multishot
from audit.attacks.reconstruction.names import DEFAULT, EPSILONS, EXCESSES, GROUPS, PLAYERS, RECALL, SCORES, TUNED
from audit.attacks.reconstruction.offered import FieldKind, coverage
from audit.attacks.reconstruction.table import FieldTable, Uniform, build_table, unresolved
from audit.attacks.splits import AUDITED, LABELS
from audit.case import Case
from audit.corpus.folding import occurrences
from audit.engine.interface import Json, Progress
from audit.measurements import ALPHAS, Count, Diagnostic, Histogram, Measurement, Unresolved
from audit.stats.clusters import cluster_sums
from audit.stats.distances import Distances, improvement_factor
from audit.stats.intervals import proportion
from audit.stats.means import mean
from audit.stats.resampling import MIN_CLUSTERS, bootstrap
from audit.targets.utility import estimate, masked_token_accuracy

HAMMING_EDGES = tuple(round(edge / 10, 1) for edge in range(11))


def measure_fields(
    case: Case,
    everything: Iterable[Field],
    fields: Sequence[Field],
    outcomes: Sequence[Json],
    methods: Sequence[str],
    n_candidates: int,
    rng: Generator,
    progress: Progress,
) -> Findings:
    """All that the attack measures.

    Args:
        case: what was attacked.
        everything: all fields of member and held-out documents, tried or not.
        fields: those that were tried, and `outcomes` theirs, in the same order.
        outcomes: see `Reconstruction.attempt`.
        methods: of the attack, the default one first.
        n_candidates: N_c.
        rng: the source of randomness.
        progress: advanced for every measurement.
    """

    def table_of(length: Length) -> FieldTable:
        rows = [index for index, field in enumerate(fields) if field.length == length]
        own, found = [fields[row] for row in rows], [outcomes[row] for row in rows]
        return build_table(own, found, seen, methods, uniform)

    streams = Streams(rng)
    seen = occurrences(case.corpus)
    offered = Counter(FieldKind.of(field, seen) for field in everything)
    uniform = Uniform(case.target.card.vocabulary, n_candidates, streams["uniform candidates"])
    table = table_of("usual")
    usual = [outcome for field, outcome in zip(fields, outcomes, strict=True) if field.length == "usual"]
    categories = tuple(sorted(set(table.category.tolist())))
    jobs: list[Job] = [*_jobs(table, categories, streams), *multishot.jobs(table, streams)]
    jobs.append(partial(_public_accuracy, case, streams["public_accuracy"]))
    kinds = KindsCheck(gated.APART)
    jobs += gated.jobs(table, {"long": table_of("long"), "short": table_of("short")}, methods, streams, kinds)
    if TUNED in methods:
        jobs += multishot.jobs(table, streams, tuned=True)
    measurements = run_jobs("reconstruction: intervals", jobs, progress)
    blind = blind_baseline.by_split(case.corpus, (field.document for field in fields), progress)
    return Findings(
        (*measurements, blind.estimate),
        (*_attacked(offered, fields), *_counts(table)),
        (*_diagnostics(usual, table), *blind.diagnostics),
        (_hamming_histogram(table),),
        multishot.curves(table, streams),
        categories,
        confounded=blind.confounded,
        methods=gated.gated_methods(methods) | gated.counted_methods(methods),
        coverage=coverage(offered, fields, seen, withheld(case.corpus)),
        checks=(*blind.checks, *gated.check_heldout(measurements), *kinds.check()),
        controls=gated.reference_controls(table, methods, blind, streams)
        + blind_controls(blind, (), chain(*gated.gated_methods(methods).values())),
    )


def _jobs(table: FieldTable, categories: Sequence[str], streams: Streams) -> Iterator[Job]:
    """Every measurement of the paper's as a call, so that progress can be shown between them."""
    for group, what in product(GROUPS, EXCESSES):
        name = f"{what}.{group}"
        yield partial(gated.excess, name, table.group(group), DEFAULT, streams[name])
    members = table.split("member")
    yield partial(_recall, RECALL, members)
    yield partial(_recall, f"{RECALL}.unique", members.group("unique"))
    for split, player in product(AUDITED, PLAYERS):
        rows = table.split(split)
        name = f"pr.{split}.{player}.unique"
        yield partial(_score, name, rows.group("unique"), "pr", player, streams[name])
        for score in SCORES:
            name = f"{score}.{split}.{player}"
            yield partial(_score, name, rows, score, player, streams[name])
            for category in categories:
                own = f"{name}.{category}"
                yield partial(_score, own, rows.category_of(category), score, player, streams[own])
    for split in AUDITED:
        rows = table.split(split)
        for suffix, epsilon in EPSILONS.items():
            name = f"ipf.{split}{suffix}"
            yield partial(_ipf, name, rows, epsilon, streams[name])
        for category in categories:
            name = f"ipf.{split}.{category}"
            yield partial(_ipf, name, rows.category_of(category), EPSILONS[""], streams[name])


def _recall(name: str, table: FieldTable) -> Measurement:
    """Share of fields all of whose tokens were among the candidates given the true prefix: the ceiling of PR.

    Null: as many candidates drawn uniformly.
    """
    if not len(table):
        return Unresolved(name, "no such field was attacked", 0, NEEDED_DOCUMENTS)
    interval = proportion(table.reached, table.cluster, alphas=ALPHAS)
    return estimate(name, interval, "fields", float(table.chance["recall"].mean()), "chance")


def _score(name: str, table: FieldTable, score: str, player: str, rng: Generator) -> Measurement:
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


def _ipf(name: str, table: FieldTable, epsilon: float, rng: Generator) -> Measurement:
    """The improvement factor over the baseline (equation 6); 1 = no better than the public model."""
    few = unresolved(name, [table], MIN_CLUSTERS)
    if few is not None:
        return few
    columns = [table.scores[score, player] for player in PLAYERS for score in SCORES]
    strata = [cluster_sums([*columns, np.ones(len(table))], table.cluster)]

    def statistic(totals: Floats) -> Floats:
        means = totals[:, 0, :-1] / totals[:, 0, -1:]
        return improvement_factor(Distances(*means.T[:4]), Distances(*means.T[4:]), epsilon)

    interval = bootstrap(strata, statistic, rng, alphas=ALPHAS, n=len(table), limits=(0.0, np.inf))
    if interval is None:
        return Unresolved(name, "all documents give the same factor", table.n_documents)
    return estimate(name, interval, "fields", 1.0, "public model")


def _public_accuracy(case: Case, rng: Generator) -> Measurement:
    auxiliary = case.references.auxiliary
    assert auxiliary is not None
    seed = int(rng.integers(2**32))
    return masked_token_accuracy("public_accuracy", auxiliary, case.corpus.of("heldout"), seed)


def _attacked(offered: Mapping[FieldKind, int], fields: Sequence[Field]) -> tuple[Count, ...]:
    """What the attack could try and did, long and short fields apart; a long field counts once."""
    reach = sum(n for kind, n in offered.items() if kind.left_out is None and kind.length == "usual")
    tried = Counter(length for length, *_ in {(one.length, one.document.id, one.entity.id) for one in fields})
    left_out = Counter[str | None]()
    for kind, n in offered.items():
        left_out[kind.left_out] += n * (kind.part != "end")
    copies = sum(bool(field.copies) for field in fields if field.length == "usual")
    return (
        Count("fields within reach", reach, "fields of usual length that the attack can try"),
        Count("fields attacked", tried["usual"], "fields of usual length that this budget tried"),
        Count("long fields attacked", tried["long"], "longer fields of which this budget tried an end"),
        Count("short fields attacked", tried["short"], "shorter fields that this budget tried"),
        Count(
            "fields with copies",
            copies,
            "fields tried whose value stands elsewhere on their page too, and is hidden there as well",
        ),
        *(Count(f"left out: {name}", left_out[name], meaning) for name, meaning in REASONS.items()),
    )


def _counts(table: FieldTable) -> tuple[Count, ...]:
    counts = []
    for split, label in LABELS.items():
        rows = table.split(split)
        unique = int(rows.unique.sum())
        counts += [
            Count(f"{label} fields", len(rows), f"fields of {label} documents that were attacked"),
            Count(f"{label} documents", rows.n_documents, f"{label} documents they come from"),
            Count(f"{label} fields, unique", unique, "of these, with a value that stands in no other document"),
            Count(f"{label} fields, repeated", len(rows) - unique, "of these, with a value that other documents share"),
        ]
    return tuple(counts)


def _diagnostics(outcomes: Sequence[Json], table: FieldTable) -> tuple[Diagnostic, ...]:
    """Of the default method on fields of usual length."""
    if not outcomes:
        return ()
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


def _hamming_histogram(table: FieldTable) -> Histogram:
    counts = {}
    for (split, label), player in product(LABELS.items(), PLAYERS):
        column = table.split(split).scores["hd", player]
        heights = np.histogram(np.round(column, 9), bins=HAMMING_EDGES)[0]
        counts[f"{label}, {player}"] = tuple(int(height) for height in heights)
    return Histogram("hamming", "normalised Hamming distance", HAMMING_EDGES, counts)
