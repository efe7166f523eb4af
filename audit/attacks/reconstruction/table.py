"""Outcomes of the reconstruction attack as columns, one row a field, and as pairs of two scans."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.counting import Population, Row, TriedValues
from audit.attacks.fields import Field, FieldPart, Length, input_only
from audit.attacks.measuring import (
    INPUT_ONLY,
    NEAR,
    VALUES,
    ValueColumns,
    columns_of,
    gains_of,
    is_near,
    scores_of,
)
from audit.attacks.reconstruction.methods import best, read_shots
from audit.case import Case, once_per_case
from audit.corpus.documents import Split
from audit.corpus.folding import Occurrence, fold, occurrences
from audit.engine.interface import Json
from audit.stats.distances import hamming, join_near
from audit.stats.paired import UnitScores

DEFAULT, LOWEST_LOSS = "default", "lowest_loss"
METHODS = (DEFAULT, LOWEST_LOSS)
PLAYERS = ("attack", "baseline")
EXCESSES = ("excess_pr", "excess_hamming")
LIMITED = (
    *(f"excess_pr.{group}" for group in ("unique", "repeated", "all")),
    *(f"excess_hamming.{group}" for group in ("unique", "all")),
)
"""Metrics of which every method has its own number."""
WITH_NEAR = ("excess_pr.unique", f"excess_pr.{INPUT_ONLY}", VALUES)
"""Groups in which a nearly rebuilt value counts too (lowest loss). More would leave clean models
undecided."""
POWER, GAIN = "planted_detection.unique", "heldout_gain.unique"
ALL = "all"
FEWEST_ALONE = 300
"""Documents of a split with values of the input alone from which on these are under a limit: a model that leaks nothing
then passes as often as without them (benchmarks/input_only.md). Fewer are tested as any kind of
values is."""


def named(name: str, method: str) -> str:
    """Return the name of a player or a metric by a method.

    The default method's bear the bare name.
    """
    return name if method == DEFAULT else f"{name}.{method}"


def methods_of(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """Pair each metric with the methods that have a number of it."""
    return [(one, method) for one in metrics for method in METHODS + (NEAR,) * (one in WITH_NEAR)]


@dataclass(frozen=True, eq=False)
class FieldTable(ValueColumns):
    """One row a field; every column has shape (n_fields,).

    Attributes:
        near: the columns "unique", "value" and "weight" where values that are near each other are
            taken for one, see `judged_by`.
        exact, similar: by player (see `named`), of the first attempt (one-shot), in [0, 1]: whether
            all tokens are right, and the share of those that are (1 - Hamming distance); by `NEAR`
            whether the lowest loss is right or nearly so.
        planted: by method, whether it rebuilds the field with a memory planted in the target; see
            `cdmi.PlantedMemory`.
        best: by player and column of the default method's most plausible attempt: "score" (how
            plausible it is) and "exact" (whether it is right, 0 or 1).
        chance: how often uniformly drawn tokens are right.
    """

    near: dict[str, Any]
    exact: dict[str, Floats]
    similar: dict[str, Floats]
    planted: dict[str, Bools]
    best: dict[tuple[str, str], Floats]
    chance: Floats

    @property
    def limited(self) -> tuple[str, ...]:
        """Return the metrics that have a number by every method.

        Values of the input alone from enough documents on.
        """
        return (
            *LIMITED,
            *(
                f"{metric}.{INPUT_ONLY}"
                for metric in EXCESSES
                if self.holds_input_only(FEWEST_ALONE)
            ),
        )

    def judged_by(self, method: str) -> Self:
        """Return the fields with what a method takes for one value, and so for a value of one document."""
        return replace(self, **self.near) if method == NEAR else self

    def tried(self, method: str) -> TriedValues:
        """Return the fields as values that a method rebuilds exactly or not."""
        attack, baseline = (self.exact[named(player, method)] for player in PLAYERS)
        return TriedValues(self.member, self.cluster, self.value, attack, baseline, self.weight)


@once_per_case
def near_values(case: Case) -> tuple[dict[str, str], Counter[str]]:
    """Return one name for all values of fields that are near each other, and the number of documents that hold one."""
    held = {
        (fold(page.text_of(one)), page.id)
        for page in case.corpus.documents
        for one in page.entities
    }
    names = join_near({value for value, _ in held})
    return names, Counter(name for name, _ in {(names[value], page) for value, page in held})


def build_table(case: Case, attacked: Sequence[Field], outcomes: Sequence[Json]) -> FieldTable:
    """Return the fields and their outcomes (`Reconstruction.attempt`), in the same order, as a table."""
    corpus, spelled, (names, n_documents) = (
        case.corpus,
        case.token_target.token_strings,
        near_values(case),
    )
    seen, texts = (
        occurrences(corpus),
        [fold(field.document.text_of(field.entity)) for field in attacked],
    )
    said = [names[text] for text in texts]
    alone = [
        seen[text].unique and n_documents[name] == 1 for text, name in zip(texts, said, strict=True)
    ]
    truths = [outcome["truth"] for outcome in outcomes]
    exact, similar, plausible = {}, {}, {}
    for method, player in product(METHODS, PLAYERS):
        shots = [
            outcome if method == DEFAULT else outcome["methods"][method] for outcome in outcomes
        ]
        firsts = [own[player][0]["tokens"] for own in shots]
        pairs = list(zip(truths, firsts, strict=True))
        exact[named(player, method)] = np.array([float(truth == guess) for truth, guess in pairs])
        similar[named(player, method)] = np.array(
            [1 - hamming(truth, guess) for truth, guess in pairs]
        )
    for player in PLAYERS:
        lowest = [outcome["methods"][LOWEST_LOSS][player][0]["tokens"] for outcome in outcomes]
        near = [
            is_near(spelled(guess), spelled(truth))
            for truth, guess in zip(truths, lowest, strict=True)
        ]
        exact[named(player, NEAR)] = np.array(near, np.float64)
        chosen = [
            best(read_shots(outcome[player]), with_target=player == "attack")
            for outcome in outcomes
        ]
        right = [
            truth == list(shot.tokens) for truth, (shot, _) in zip(truths, chosen, strict=True)
        ]
        plausible[player, "score"] = np.array([score for _, score in chosen])
        plausible[player, "exact"] = np.array(right, np.float64)
    return FieldTable(
        **columns_of(
            (
                one.document,
                text,
                seen[text].unique,
                input_only(corpus, one.document, one.entity),
                one.entity.category,
            )
            for one, text in zip(attacked, texts, strict=True)
        ),
        near={
            "unique": np.array(alone, bool),
            "value": np.unique(said, return_inverse=True)[1],
            "weight": np.ones(len(attacked)),
        },
        exact=exact,
        similar=similar,
        planted={
            method: np.array([outcome["planted"][method] for outcome in outcomes], bool)
            for method in METHODS
        },
        best=plausible,
        chance=np.array([float(case.target.card.vocabulary) ** -len(truth) for truth in truths]),
    )


class Populations(NamedTuple):
    """What the counts are of, values taken for one where they are equal, and where they are near each other."""

    exact: Population
    near: Population

    def of(self, method: str) -> Population:
        """Return that of a method."""
        return self.near if method == NEAR else self.exact


def weigh(
    table: FieldTable,
    case: Case,
    everything: Sequence[Field],
    fields: Sequence[Field],
    *,
    by_lot: bool,
) -> tuple[FieldTable, Populations]:
    """Weigh the rows of a table by how likely each was to be tried, and describe what its counts are of.

    Args:
        table: of those of `fields` that have the usual length, in the same order.
        case: what was attacked.
        everything: all fields, tried or not.
        fields: those that were tried.
        by_lot: whether a lot chose the members.
    """
    attacked = [field for field in fields if field.length == "usual"]
    offered = [field for field in everything if field.length == "usual" and field.left_out is None]
    exact, weights = _population_of(case, offered, attacked, _exact_row, by_lot=by_lot)
    near, weights_near = _population_of(case, offered, attacked, _near_row, by_lot=by_lot)
    columns = {**table.near, "weight": weights_near}
    return replace(table, weight=weights, near=columns), Populations(exact, near)


def _population_of(
    case: Case,
    offered: Sequence[Field],
    attacked: Sequence[Field],
    row_of: Callable[[Case, Field], Row],
    *,
    by_lot: bool,
) -> tuple[Population, Floats]:
    """Describe what a count is of, values named by `row_of`, with the weight of each attacked field."""
    tried = [row_of(case, field) for field in attacked]
    population = Population.of([row_of(case, field) for field in offered], tried, by_lot=by_lot)
    return population, population.weights(tried)


def _exact_row(case: Case, field: Field) -> Row:
    text = fold(field.document.text_of(field.entity))
    return Row(field.document.id, field.trial.stratum, text, occurrences(case.corpus)[text].unique)


def _near_row(case: Case, field: Field) -> Row:
    names, n_documents = near_values(case)
    row = _exact_row(case, field)
    name = names[row.value]
    return row._replace(value=name, counted=row.counted and n_documents[name] == 1)


class FieldKind(NamedTuple):
    """What is counted of a field that the manifest offers; see `Field`.

    `unique`: no other document has its value.
    """

    split: Split
    category: str
    length: Length
    part: FieldPart
    left_out: str | None
    unique: bool

    @classmethod
    def of(cls, field: Field, seen: Mapping[str, Occurrence]) -> Self:
        """Return the kind of a field, by where the corpus' values stand."""
        unique = seen[fold(field.document.text_of(field.entity))].unique
        return cls(
            field.document.split,
            field.entity.category,
            field.length,
            field.part,
            field.left_out,
            unique,
        )


def paired_by_field(
    case: Case, fields: Sequence[Field], outcomes: Sequence[Json], *, by_lot: bool
) -> Mapping[str, UnitScores]:
    """Return what every field of usual length adds to each excess, see `measuring.gains_of`.

    Args:
        case: what was attacked.
        fields: those that were tried.
        outcomes: see `Reconstruction.attempt`, in the same order.
        by_lot: whether a lot chose the members.
    """
    pairs = [pair for pair in zip(fields, outcomes, strict=True) if pair[0].length == "usual"]
    if not pairs:
        return {}
    own, found = [field for field, _ in pairs], [outcome for _, outcome in pairs]
    table = build_table(case, own, found)
    scores = {}
    for metric, method in methods_of(table.limited):
        what, _, group = metric.partition(".")
        columns = table.exact if what == EXCESSES[0] else table.similar
        taken = table.judged_by(method).rows(group)
        attack, baseline = (columns[named(who, method)] for who in PLAYERS)
        gains = gains_of(attack, baseline, table, taken, by_lot=by_lot)
        scores[named(metric, method)] = scores_of(
            [field.trial for field in own], taken, table.member, gains
        )
    return scores
