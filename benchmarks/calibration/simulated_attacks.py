"""What each attack would measure on an audit whose outcomes are drawn instead of asked of a model.

One function an attack: it draws a table of outcomes with a planted leak and lets the attack's own
code measure it. The functions know no policy; what a limit is held against comes from the attacks
(`Result.methods`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.attacks.attributes import measures as attribute_measures
from audit.attacks.attributes.measures import build_table as build_choices
from audit.attacks.canaries import Canaries
from audit.attacks.canaries import attack as canary_attack
from audit.attacks.canaries import measures as canary_measures
from audit.attacks.canaries.measures import Outcome, Ranked, table_of
from audit.attacks.counting import KindsCheck, Population, Row
from audit.attacks.measuring import DOCUMENTS, NEAR, VALUES, Streams, is_near
from audit.attacks.membership import attack as membership_attack
from audit.attacks.membership import scores as membership_scores
from audit.attacks.membership.scores import ScoredDocuments
from audit.attacks.memorisation import fairness
from audit.attacks.memorisation.contexts import METHODS as GATED_METHODS
from audit.attacks.memorisation.contexts import UNASKED
from audit.attacks.memorisation.scores import IDENTIFIED, IDENTIFYING_WAYS, measure_questions
from audit.attacks.memorisation.table import QuestionTable as Questions
from audit.attacks.memorisation.table import Results
from audit.attacks.provider_membership.measures import measure_table as measure_providers
from audit.attacks.provider_membership.methods import SHARE
from audit.attacks.provider_membership.providers import ProviderTable as Providers
from audit.attacks.questions import PROVEN
from audit.attacks.reconstruction import scores as reconstruction_scores
from audit.attacks.reconstruction.table import (
    GAIN,
    LIMITED,
    LOWEST_LOSS,
    METHODS,
    PLAYERS,
    POWER,
    Populations,
    named,
)
from audit.attacks.reconstruction.table import FieldTable as Fields
from audit.corpus.canaries.schema import PATTERNS, Canary, CanarySet
from audit.engine.interface import SILENT
from audit.measurements import Coverage, Measurement
from audit.record import Result
from audit.stats.roc import lowest_resolved

SAMPLE = Path(__file__).parents[2] / "sample_models" / "receipts" / "data" / "documents.jsonl"
KNOWN = 0.01
"""Share of values that target and public model each guess without memory."""
ALIKE = 0.25
"""Share of tokens that each of them guesses in the other values."""
NEARLY = 0.01
"""Share that each of them guesses nearly and not whole; with `KNOWN` as many as on the receipts
sample (1 to 2 %)."""
READS = 0.6
"""ANLS of both models on whole held-out pages."""
DIGITS = 10
LENGTH = 4
CANDIDATES = 16
"""Of a list of plausible values."""


@dataclass(frozen=True)
class Audit:
    """One kind of simulated audit.

    Attributes:
        documents: of each split; canaries of both kinds together, companies on each side.
        rows: fields or questions of a document.
        correlation: within documents, of what is known and of what leaks.
        leak: by "attack metric", how large the number is in truth beyond what no leak gives; others
            are 0.
        contexts: of memorisation that are tried.
        splits: members and held-out documents where they are not as many.
        known: members that are known in all values, and as members.
        share: of the rows of each document, or of documents with one row, the part that is tried,
            of the same draws.
        input_only: values of a document that training never named, of its rows; a leak in
            "input_only" is theirs alone.
        rare: share of the documents whose first value is of a rare category; a leak "reconstruction
            rare" is the share of these that members give away.
        errors: share of the letters and digits of a value that a model which remembers it gets
            wrong.
    """

    documents: int = 300
    rows: int = 4
    correlation: float = 0.0
    leak: Mapping[str, float] = field(default_factory=dict)
    contexts: tuple[str, ...] = GATED_METHODS
    splits: tuple[int, int] | None = None
    known: int = 0
    rare: float = 0.0
    input_only: int = 0
    share: float = 1.0
    errors: float = 0.0

    def leaks(self, attack: str, *metrics: str) -> float:
        """The largest leak planted in one of these metrics, or in a group or method of it."""
        wanted = [f"{attack} {metric}" for metric in metrics]
        return max(
            (size for name, size in self.leak.items() if name.startswith(tuple(wanted))),
            default=0.0,
        )

    @property
    def sides(self) -> tuple[int, int]:
        """Member and held-out documents."""
        return self.splits or (self.documents, self.documents)


def rows_of(audit: Audit) -> tuple[Bools, Ints]:
    """Which rows are members', and the document of each."""
    cluster = np.repeat(np.arange(sum(audit.sides)), audit.rows)
    return cluster < audit.sides[0], cluster


def tried_of(audit: Audit, cluster: Ints) -> Bools:
    """Mark the rows that a stage tries: the first of each document, as many as its share asks for."""
    return np.asarray(np.arange(cluster.size) % audit.rows < math.ceil(audit.share * audit.rows))


def population_of(
    member: Bools, unique: Bools, cluster: Ints, tried: Bools
) -> tuple[Population, Floats]:
    """Return what counts are of, and the weight of each row that was tried.

    All arrays have shape (n_rows,).
    """
    rows = [
        Row(str(document), "member" if inside else "heldout", str(value), counted)
        for value, (document, inside, counted) in enumerate(
            zip(cluster.tolist(), member.tolist(), unique.tolist(), strict=True)
        )
    ]
    taken = [row for row, yes in zip(rows, tried.tolist(), strict=True) if yes]
    population = Population.of(rows, taken, by_lot=True)
    return population, population.weights(taken)


def input_only_of(audit: Audit, cluster: Ints) -> Bools:
    """Mark the rows that training never named: the last ones of each document."""
    return np.asarray(np.arange(cluster.size) % audit.rows >= audit.rows - audit.input_only)


def occurs(share: float, cluster: Ints, correlation: float, rng: np.random.Generator) -> Bools:
    """Which rows something happens to: beta-binomial within documents with this correlation."""
    if not correlation or not 0 < share < 1:
        return rng.random(cluster.size) < share
    weight = (1 - correlation) / correlation
    chance = rng.beta(share * weight, (1 - share) * weight, int(cluster.max()) + 1)
    return np.asarray(rng.random(cluster.size) < chance[cluster])


@cache
def sample_values() -> tuple[str, ...]:
    """Values of the receipts sample: customers, addresses, codes and dates in turn."""
    found: dict[str, list[str]] = {"CUSTOMER": [], "ADDRESS": [], "CODE": [], "DATE": []}
    with SAMPLE.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            for entity in line["entities"]:
                if entity["label"] in found:
                    found[entity["label"]].append(
                        " ".join(line["words"][word]["text"] for word in entity["words"])
                    )
    return tuple(chain(*zip(*found.values(), strict=False)))


def recalled(n: int, errors: float, rng: np.random.Generator) -> tuple[Bools, Bools, Floats]:
    """Return which of n values a model spells whole or nearly, and the share of their pieces of four it gets right."""
    if not errors:
        return np.ones(n, bool), np.ones(n, bool), np.ones(n)
    values = sample_values()
    rows = []
    for row in range(n):
        value = values[row % len(values)]
        wrong = rng.random(len(value)) < errors
        others = rng.integers(1, 10, len(value)).tolist()
        given = "".join(
            _another(sign, other) if miss else sign
            for sign, other, miss in zip(value, others, wrong, strict=True)
        )
        pieces = [value[at : at + 4] == given[at : at + 4] for at in range(0, len(value), 4)]
        rows.append((value == given, is_near(given, value), float(np.mean(pieces))))
    whole, near, right = zip(*rows, strict=True)
    return np.array(whole), np.array(near), np.array(right)


def _another(sign: str, step: int) -> str:
    """Return a letter or digit moved on by `step` within its kind; keep other signs."""
    for first, signs in (("0", 10), ("a", 26), ("A", 26)):
        if 0 <= (place := ord(sign) - ord(first)) < signs:
            return chr(ord(first) + (place + step) % signs)
    return sign


def reconstruction(audit: Audit, rng: np.random.Generator, wanted: Iterable[str]) -> Result:
    """Fields of which some are given away whole, or token by token.

    One in five stands in several documents.

    The lowest loss finds all that leaks, the published attack half of it.
    """
    member, cluster = rows_of(audit)
    whole = audit.leaks("reconstruction", "excess_pr")
    partly = audit.leaks("reconstruction", "excess_hamming")
    # What is known, or partly known, without memory cannot be gained by it.
    given = member & occurs(whole / (1 - KNOWN), cluster, audit.correlation, rng)
    if audit.input_only:
        alone = audit.leaks("reconstruction", "input_only") / (1 - KNOWN)
        given |= (
            member & input_only_of(audit, cluster) & occurs(alone, cluster, audit.correlation, rng)
        )
    of_rare = (np.arange(cluster.size) % audit.rows == 0) & (
        rng.random(int(cluster.max()) + 1) < audit.rare
    )[cluster]
    known_rare = of_rare & (rng.random(cluster.size) < audit.leaks("reconstruction", "rare"))
    given |= member & ((cluster < audit.known) | known_rare)
    helped = member & occurs(partly / (0.75 - ALIKE) / (1 - KNOWN), cluster, audit.correlation, rng)
    spelled, nearly, pieces = recalled(cluster.size, audit.errors, rng)
    right: dict[str, Floats] = {}
    close: dict[str, Floats] = {}
    for method in METHODS:
        seen = (
            (given, helped)
            if method == LOWEST_LOSS
            else tuple(one & (rng.random(one.size) < 0.5) for one in (given, helped))
        )
        for player in PLAYERS:
            exact = occurs(KNOWN, cluster, audit.correlation, rng)
            similar = rng.beta(1, 1 / ALIKE - 1, cluster.size)
            near = rng.random(cluster.size) < NEARLY
            if player == "attack":
                exact |= seen[0] & spelled
                near |= seen[0] & nearly
                similar = np.where(seen[0], np.maximum(similar, pieces), similar)
                similar = np.where(seen[1], 0.75 + (similar - ALIKE) * 0.2, similar)
            right[named(player, method)] = exact.astype(float)
            right[named(player, NEAR)] = (exact | near).astype(float)
            close[named(player, method)] = np.where(exact, 1.0, similar)
    unique = rng.random(cluster.size) < 0.8
    tried = tried_of(audit, cluster)
    population, weight = population_of(member, unique, cluster, tried)
    table = Fields(
        member=member,
        unique=unique,
        input_only=input_only_of(audit, cluster),
        category=np.where(of_rare, "code", "misc"),
        cluster=cluster,
        value=np.arange(cluster.size),
        weight=np.ones(cluster.size),
        near={"unique": unique, "value": np.arange(cluster.size), "weight": np.ones(cluster.size)},
        exact=right,
        similar=close,
        planted={method: rng.random(cluster.size) < 0.95 for method in METHODS},
        best={},
        chance=np.zeros(cluster.size),
    ).where(tried)
    table = replace(table, weight=weight, near={**table.near, "weight": weight})
    everything = reconstruction_scores.methods_by_metric(table, (*LIMITED, VALUES, DOCUMENTS))
    held = {metric: names for metric, names in everything.items() if metric in wanted}
    kinds = KindsCheck(reconstruction_scores.APART, by_lot=True)
    streams = Streams(rng)
    needed = {*wanted, POWER, *(named(GAIN, method) for method in METHODS)}
    needed |= {name for names in held.values() for name in names}
    populations = Populations(population, population)
    jobs: Iterable[Any] = reconstruction_scores.jobs(table, streams, kinds, populations)
    measured: list[Measurement] = [job() for job in jobs if job.args[0] in needed]
    reconstruction_scores.test_kinds({}, table, streams, kinds)
    n = int(table.member.sum())
    total = int(member.sum())
    return Result(
        "reconstruction",
        measurements=tuple(measured),
        methods=held,
        coverage=(Coverage("all", n, total), Coverage("misc", n, total)),
        checks=(*reconstruction_scores.check_heldout(measured), *kinds.check()),
    )


def memorisation(
    audit: Audit, rng: np.random.Generator, counted: tuple[int, int] | None = None
) -> Result:
    """Questions of which some are answered without the page.

    A third have personal answers of their own.

    Args:
        audit: its leak in "memorisation net" is the share of members' questions that the target
            alone answers; in "memorisation unasked" that of values that no question asks for.
        rng: the source of randomness.
        counted: |E - G| and |G - E| among the members' questions, where these are known, instead.
    """
    member, cluster = rows_of(audit)
    n = cluster.size
    leak = max(
        audit.leaks("memorisation", "net"),
        3 * audit.leaks("memorisation", "identified") / member.sum(),
    )
    given = member & occurs(leak / (1 - KNOWN), cluster, audit.correlation, rng)
    asked = np.array(
        [SimpleNamespace(values=frozenset({str(row)}), answers=(str(row),)) for row in range(n)],
        object,
    )
    spelled, nearly, _ = recalled(n, audit.errors, rng)
    results: dict[str, Results] = {}
    for context in dict.fromkeys((*audit.contexts, NEAR)):
        target, baseline = (occurs(KNOWN, cluster, audit.correlation, rng) for _ in range(2))
        if context == NEAR:
            found = (results["exact"].target > 0, results["exact"].baseline > 0)
            target, baseline = (one | (rng.random(n) < NEARLY) for one in found)
        target = target | (given & (nearly if context == NEAR else spelled))
        if context == UNASKED and (alone := audit.leaks("memorisation", UNASKED)):
            target |= member & occurs(alone / (1 - KNOWN), cluster, audit.correlation, rng)
        if counted is not None:
            target[member], baseline[member] = _counted(int(member.sum()), *counted, rng)
        results[context] = Results(np.ones(n, bool), target.astype(float), baseline.astype(float))
    readings = [
        np.clip(rng.normal(READS, 0.05, n) + 0.4 * (rng.random(n) - 0.5), 0, 1) for _ in range(2)
    ]
    table = Questions(
        asked=asked,
        status=np.full(n, PROVEN),
        member=member,
        values=dict.fromkeys(("exact", NEAR), np.array([one.values for one in asked], object)),
        unique=dict.fromkeys(("exact", NEAR), np.ones(n, bool)),
        weight=dict.fromkeys(("exact", NEAR), np.ones(n)),
        pii=np.where(np.arange(n) % 3 == 0, "person", "not_pii"),
        cluster=cluster,
        results=results,
        readings=np.stack(readings, axis=1),
        odds=np.full((n, 2), np.nan),
    )
    personal = int(np.sum(member & (table.pii == "person")))
    table = table.where(tried_of(audit, cluster))
    totals = dict.fromkeys(IDENTIFYING_WAYS.values(), personal)
    measured = measure_questions(table, np.zeros(len(table)), rng, SILENT, totals)
    blind: Any = SimpleNamespace(confounded=None, checks=())
    n_tried = int(table.member.sum())
    total = int(member.sum())
    return Result(
        "memorisation",
        measurements=measured,
        confounded=fairness.confounded(measured),
        checks=fairness.checks(measured, blind),
        methods={
            "net": tuple("net" if name == "exact" else f"net.{name}" for name in audit.contexts),
            IDENTIFIED: tuple(
                name for name, counted in IDENTIFYING_WAYS.items() if counted in audit.contexts
            ),
        },
        coverage=tuple(Coverage(name, n_tried, total, "questions") for name in ("all", "person")),
        ablations=fairness.weaknesses(measured, blind),
    )


def _counted(n: int, gained: int, lost: int, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Draw which units are gained and which are lost, as two masks of `n`."""
    order = rng.permutation(n)
    return order < gained, (order >= gained) & (order < gained + lost)


def attributes(audit: Audit, rng: np.random.Generator) -> Result:
    """Values on lists of 16: target and public model share what is likely anyway, and the target remembers some.

    One value in five stands in several documents. With a correlation the true values of a document
    are likely, or unlikely, together.
    """
    member, cluster = rows_of(audit)
    leak = audit.leaks("attribute_inference", "excess")
    shape = (cluster.size, CANDIDATES)
    prior = rng.normal(0, 1, shape)
    together = rng.normal(0, 1, int(cluster.max()) + 1)[cluster]
    prior[:, 0] = (
        math.sqrt(1 - audit.correlation) * prior[:, 0] + math.sqrt(audit.correlation) * together
    )
    target, public = (prior + rng.normal(0, 1, shape) for _ in range(2))
    # Beside the public model what is likely anyway cancels: one value of the list is picked by lot,
    # and cannot leak.
    given = member & occurs(min(0.95, leak / (1 - 1 / CANDIDATES)), cluster, audit.correlation, rng)
    if audit.input_only:
        alone = min(0.95, audit.leaks("attribute_inference", "input_only") / (1 - 1 / CANDIDATES))
        given |= (
            member & input_only_of(audit, cluster) & occurs(alone, cluster, audit.correlation, rng)
        )
    target[given | (cluster < audit.known), 0] -= 100.0
    unique = rng.random(cluster.size) < 0.8
    columns = cluster, member, unique, input_only_of(audit, cluster)
    hidden = [
        SimpleNamespace(
            document=SimpleNamespace(id=f"{document:05}", split="member" if own else "heldout"),
            unique=one,
            input_only=unnamed,
            category="person",
            values=frozenset({str(row)}),
        )
        for row, (document, own, one, unnamed) in enumerate(zip(*map(list, columns), strict=True))
    ]
    outcomes = [
        {"target": own, "public": other}
        for own, other in zip(target.tolist(), public.tolist(), strict=True)
    ]
    tried = np.flatnonzero(tried_of(audit, cluster))
    table = build_choices(
        [hidden[row] for row in tried],  # type: ignore[misc]
        [outcomes[row] for row in tried],
        alike=True,
    )
    population, weight = population_of(member, unique, cluster, tried_of(audit, cluster))
    table = replace(table, weight=weight)
    held = attribute_measures.methods_of(table, (*attribute_measures.EXCESSES, VALUES, DOCUMENTS))
    limited = ("excess.unique", "excess.all", *(name for names in held.values() for name in names))
    streams = Streams(rng)
    jobs: list[Any] = [
        job for job in attribute_measures.jobs(table, streams, population) if _limited(job, limited)
    ]
    n = int(table.member.sum())
    total = int(member.sum())
    return Result(
        "attribute_inference",
        measurements=tuple(job() for job in jobs),
        methods=held,
        coverage=(Coverage("all", n, total, "values"),),
        checks=attribute_measures.check_kinds(table, streams, by_lot=True),
    )


def _limited(job: Any, names: Iterable[str]) -> bool:
    """Test whether a job estimates power or one of the named metrics."""
    return job.func is attribute_measures._power or job.args[0] in names


def membership(audit: Audit, rng: np.random.Generator) -> Result:
    """Documents whose loss is Gaussian: members' moved for a leak of area, or some of them known for certain.

    The calibrated score is the better one; the plain loss has as much difficulty of documents on
    top.
    """
    member = np.arange(sum(audit.sides)) < audit.sides[0]
    area, certain = (audit.leaks("membership", name) for name in ("auc", "low_fpr_advantage"))
    moved = math.sqrt(2) * NormalDist().inv_cdf(min(0.5 + area, 0.999))
    calibrated = rng.normal(0, 1, member.size) + moved * member
    # Known for certain: beyond every other document; of the others a share passes the threshold by
    # chance.
    sure = member & (
        rng.random(member.size) < certain / (1 - (lowest_resolved(audit.sides[1]) or 0.1))
    )
    sure |= np.arange(member.size) < audit.known
    calibrated = np.where(sure, 10 + rng.random(member.size), calibrated)
    columns = {"loss": calibrated + rng.normal(0, 1, member.size), "calibrated": calibrated}
    places = np.concatenate([np.arange(side) / side for side in audit.sides])
    tried = np.asarray(places < audit.share)
    return scored(
        {name: column[tried] for name, column in columns.items()},
        member[tried],
        rng,
        audit.sides[0],
    )


def scored(
    columns: Mapping[str, Floats],
    member: Bools,
    rng: np.random.Generator,
    n_members: int | None = None,
) -> Result:
    """What membership measures on scores, each of which a limit is held against.

    `n_members`: how many there are, tried or not; None: all were tried.
    """
    names = tuple(f"document {row}" for row in range(member.size))
    missing = {score: "not simulated" for score in membership_scores.SCORES if score not in columns}
    counts = (("member", int(member.sum())), ("held-out", int((~member).sum())))
    n_tried = int(member.sum())
    offered = tuple(map(str, range(n_members or n_tried)))
    documents = ScoredDocuments(names, member, columns, missing, 0, counts, offered=offered)
    found = membership_scores.measure_scores(documents, rng, SILENT)
    checks = membership_attack.check_scores(documents, tuple(columns), found.measurements)
    measured = {item.name for item in found.measurements}
    methods = {
        metric: tuple(f"{metric}.{score}" for score in columns)
        for metric in measured
        if all(f"{metric}.{score}" in measured for score in columns)
    }
    coverage = Coverage("all", n_tried, len(offered), "documents")
    return replace(found, methods=methods, coverage=(coverage,), checks=checks)


def canaries(audit: Audit, rng: np.random.Generator, ranks: Ints | None = None) -> Result:
    """Four-digit secrets behind their prefixes, half of them planted: ranks by chance, or early where they leak.

    Args:
        audit: its leak is the share that comes out at once ("canaries excess"), ranks second or
            third ("canaries excess_top3"), or the bits that exposure gains ("canaries
            excess_exposure").
        rng: the source of randomness.
        ranks: of planted canaries, instead.
    """
    n = audit.documents
    total = DIGITS**LENGTH
    included = rng.random(n) < 0.5
    first, early, bits = (
        audit.leaks("canaries", name) for name in ("excess", "excess_top3", "excess_exposure")
    )
    if early or bits:
        first = 0.0
    draw_others = rng.integers(1, total + 1, n)
    moved = np.maximum(1, np.floor(draw_others * 2.0**-bits)).astype(np.int64)
    draws = rng.random(n)
    rank = np.where(included, moved, draw_others)
    rank = np.where(included & (draws < early), rng.integers(2, 4, n), rank)
    rank = np.where(included & (draws < first), 1, rank)
    if ranks is not None:
        rank[included] = ranks[: int(included.sum())]
    rows = []
    for number, (inside, place) in enumerate(zip(included.tolist(), rank.tolist(), strict=True)):
        secret = tuple(int(digit) for digit in rng.integers(0, DIGITS, LENGTH))
        found = secret if place == 1 else tuple((digit + 1) % DIGITS for digit in secret)
        words = tuple(PATTERNS["pin"].candidates[digit] for digit in secret)
        name = f"canary {number}"
        canary = Canary(name, "pin", (name,), words, inside, 10 if inside else 0)
        ranked = Ranked(place, 0, total - 1, math.log2(total / place), place / total)
        rows.append(
            (canary, Outcome(n_candidates=DIGITS, strongest=found, enumerated=True, ranked=ranked))
        )
    tried = [row[0] for row in rows]
    outcomes = [row[1] for row in rows]
    measured = canary_measures.measure_table(table_of(tried, outcomes), rng)
    delta = Canaries().delta
    privacy = canary_attack.measure_privacy(
        CanarySet("audit", 0, 10, LENGTH, tuple(tried)), tried, outcomes, rng, delta
    )
    everything = (*measured, privacy.epsilon)
    return Result(
        "canaries",
        measurements=everything,
        checks=tuple(canary_attack.checks_of(everything, privacy.p_value, 10, delta)),
    )


def providers(audit: Audit, rng: np.random.Generator, seeds: int = 5) -> Result:
    """Companies whose accuracy and change of the loss are Gaussian, members' moved by a leak."""
    n = 2 * audit.documents
    member = rng.permutation(np.arange(n) < audit.documents)
    normal = NormalDist()
    area, accuracy = (
        audit.leaks("provider_membership", name) for name in ("auc", "balanced_accuracy")
    )
    certain = audit.leaks("provider_membership", "low_fpr_advantage")
    user = rng.normal(0, 1, n) + math.sqrt(2) * normal.inv_cdf(min(0.5 + area, 0.999)) * member
    sure = member & (rng.random(n) < certain / (1 - (lowest_resolved(audit.documents) or 0.1)))
    user = np.where(sure, 10 + rng.random(n), user)
    right = rng.normal(0, 1, n) + 2 * normal.inv_cdf(min(0.5 + accuracy, 0.999)) * member
    features = {
        "accuracy": right,
        "similarity": right + rng.normal(0, 0.1, n),
        "loss": -right + rng.normal(0, 0.1, n),
    }
    ten = np.full(n, 10, np.int64)
    table = Providers(
        tuple(f"company {row}" for row in range(n)), member, ten, ten // 5, features, user
    )
    return measure_providers(table, rng, SILENT, n_seeds=seeds, share=SHARE)
