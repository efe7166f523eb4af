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
    ValueRow,
    columns_of,
    gains_of,
    is_near,
    scores_of,
)
from audit.attacks.reconstruction.methods import Shot, best, read_shots
from audit.case import Case
from audit.corpus.documents import Corpus, Split
from audit.corpus.folding import Occurrence, fold, occurrences
from audit.engine.interface import Json
from audit.stats.distances import hamming, join_near
from audit.stats.paired import UnitScores

DEFAULT = "default"
LOWEST_LOSS = "lowest_loss"
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
POWER = "planted_detection.unique"
GAIN = "heldout_gain.unique"
ALL = "all"
FEWEST_ALONE = 300
"""Documents of a split with values of the input alone from which on these are under a limit.

A model that leaks nothing then passes as often as without them
(benchmarks/calibration/input_only.md). Fewer are tested as any kind of values is."""


def named(name: str, method: str) -> str:
    """Return the full name of a player or metric by a method: "NAME", or "NAME.METHOD".

    The default method's bear the bare name.
    """
    return name if method == DEFAULT else f"{name}.{method}"


def methods_of(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """Pair each metric with the methods that have a number of it."""
    pairs: list[tuple[str, str]] = []
    for metric in metrics:
        pairs += [(metric, method) for method in METHODS]
        if metric in WITH_NEAR:
            pairs.append((metric, NEAR))
    return pairs


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
        """Return the names of the metrics that have a number by every method.

        Values of the input alone from enough documents on.
        """
        if not self.holds_input_only(FEWEST_ALONE):
            return LIMITED
        return (*LIMITED, *(f"{metric}.{INPUT_ONLY}" for metric in EXCESSES))

    def judged_by(self, method: str) -> Self:
        """Return the fields with values joined as a method counts them: equal, or near ones."""
        return replace(self, **self.near) if method == NEAR else self

    def tried(self, method: str) -> TriedValues:
        """Return the fields as values that a method rebuilds exactly or not."""
        attack, baseline = (self.exact[named(player, method)] for player in PLAYERS)
        return TriedValues(self.member, self.cluster, self.value, attack, baseline, self.weight)


def near_values(corpus: Corpus) -> tuple[dict[str, str], Counter[str]]:
    """Return one name for all values of fields that are near each other.

    With it comes the number of documents that hold one, by name.
    """
    return corpus.once("near values", lambda: _near_values(corpus))


def _near_values(corpus: Corpus) -> tuple[dict[str, str], Counter[str]]:
    """Name each value by the first of those near it, and count documents by name."""
    places: set[tuple[str, str]] = set()
    for page in corpus.documents:
        for entity in page.entities:
            places.add((fold(page.text_of(entity)), page.id))
    names = join_near({value for value, _ in places})
    named_places = {(names[value], page_id) for value, page_id in places}
    return names, Counter(name for name, _ in named_places)


@dataclass(frozen=True, eq=False)
class _TriedField:
    """A field that was tried, with its value and its outcome.

    Attributes:
        row: the field as a value of the table.
        name: one name for all values that are near its value.
        alone: whether one document alone holds a value that is near.
        outcome: outcome, see `Reconstruction.attempt`.
    """

    row: ValueRow
    name: str
    alone: bool
    outcome: Json

    @property
    def truth(self) -> list[int]:
        """Return the tokens of the value."""
        tokens: list[int] = self.outcome["truth"]
        return tokens

    def first_guess(self, method: str, player: str) -> list[int]:
        """Return the tokens of a player's first attempt by a method."""
        shots = self.outcome if method == DEFAULT else self.outcome["methods"][method]
        tokens: list[int] = shots[player][0]["tokens"]
        return tokens

    def most_plausible(self, player: str) -> tuple[Shot, float]:
        """Return a player's most plausible attempt by the default method, and its score."""
        return best(read_shots(self.outcome[player]), with_target=player == "attack")


def _tried_fields(
    case: Case, attacked: Sequence[Field], outcomes: Sequence[Json]
) -> list[_TriedField]:
    """Join the fields that were tried with their outcomes."""
    seen = occurrences(case.corpus)
    names, n_documents = near_values(case.corpus)
    tried = []
    for field, outcome in zip(attacked, outcomes, strict=True):
        text = fold(field.document.text_of(field.entity))
        unique = seen[text].unique
        unnamed = input_only(case.corpus, field.document, field.entity)
        row = ValueRow(field.document, text, unique, unnamed, field.entity.category)
        name = names[text]
        alone = unique and n_documents[name] == 1
        tried.append(_TriedField(row, name, alone, outcome))
    return tried


def build_table(case: Case, attacked: Sequence[Field], outcomes: Sequence[Json]) -> FieldTable:
    """Return the fields and their outcomes as a table.

    Args:
        case: what was attacked.
        attacked: the fields.
        outcomes: outcomes, see `Reconstruction.attempt`, in the same order.
    """
    tried = _tried_fields(case, attacked, outcomes)
    near = {
        "unique": np.array([field.alone for field in tried], bool),
        "value": np.unique([field.name for field in tried], return_inverse=True)[1],
        "weight": np.ones(len(tried)),
    }
    planted = {}
    for method in METHODS:
        planted[method] = np.array([field.outcome["planted"][method] for field in tried], bool)
    vocabulary = float(case.target.card.vocabulary)
    return FieldTable(
        **columns_of(field.row for field in tried),
        near=near,
        exact=_exact_guesses(tried, case.token_target.token_strings),
        similar=_similarities(tried),
        planted=planted,
        best=_most_plausible(tried),
        chance=np.array([vocabulary ** -len(field.truth) for field in tried]),
    )


def _exact_guesses(
    tried: Sequence[_TriedField], spelled: Callable[[Sequence[int]], str]
) -> dict[str, Floats]:
    """Mark by player and method the fields whose first attempt is right: (n_fields,) each.

    Args:
        tried: the fields.
        spelled: the text of tokens.
    """
    exact: dict[str, Floats] = {}
    for method, player in product(METHODS, PLAYERS):
        hits = [float(field.truth == field.first_guess(method, player)) for field in tried]
        exact[named(player, method)] = np.array(hits)
    for player in PLAYERS:
        near = [
            is_near(spelled(field.first_guess(LOWEST_LOSS, player)), spelled(field.truth))
            for field in tried
        ]
        exact[named(player, NEAR)] = np.array(near, np.float64)
    return exact


def _similarities(tried: Sequence[_TriedField]) -> dict[str, Floats]:
    """Return by player and method 1 - Hamming distance of the first attempt: (n_fields,) each."""
    similar: dict[str, Floats] = {}
    for method, player in product(METHODS, PLAYERS):
        shares = [1 - hamming(field.truth, field.first_guess(method, player)) for field in tried]
        similar[named(player, method)] = np.array(shares)
    return similar


def _most_plausible(tried: Sequence[_TriedField]) -> dict[tuple[str, str], Floats]:
    """Return by player the score of the most plausible attempt, and whether it is right."""
    columns: dict[tuple[str, str], Floats] = {}
    for player in PLAYERS:
        scores = []
        hits = []
        for field in tried:
            shot, score = field.most_plausible(player)
            scores.append(score)
            hits.append(field.truth == list(shot.tokens))
        columns[player, "score"] = np.array(scores)
        columns[player, "exact"] = np.array(hits, np.float64)
    return columns


class Populations(NamedTuple):
    """What the counts are of.

    Values are taken for one where they are equal (`exact`), or near each other (`near`).
    """

    exact: Population
    near: Population

    def of(self, method: str) -> Population:
        """Return the population of distinct values as a method counts them: equal, or near ones."""
        return self.near if method == NEAR else self.exact


def weigh(
    table: FieldTable,
    case: Case,
    everything: Sequence[Field],
    fields: Sequence[Field],
    *,
    by_lot: bool,
) -> tuple[FieldTable, Populations]:
    """Weigh the rows of a table by how likely each was to be tried.

    Args:
        table: table of those of `fields` that have the usual length, in the same order.
        case: what was attacked.
        everything: all fields, tried or not.
        fields: fields that were tried.
        by_lot: whether a lot chose the members.

    Returns:
        The table, and what its counts are of.
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
    """Describe what a count is of, with the weight of each attacked field.

    Values are named by `row_of`.
    """
    tried = [row_of(case, field) for field in attacked]
    population = Population.of([row_of(case, field) for field in offered], tried, by_lot=by_lot)
    return population, population.weights(tried)


def _exact_row(case: Case, field: Field) -> Row:
    """Convert a field to a row of a count in which equal folded values are one."""
    text = fold(field.document.text_of(field.entity))
    return Row(field.document.id, field.trial.stratum, text, occurrences(case.corpus)[text].unique)


def _near_row(case: Case, field: Field) -> Row:
    """Convert a field to a row of a count in which values that are near each other are one."""
    names, n_documents = near_values(case.corpus)
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
        """Return the kind of a field: its split, category, length, end and uniqueness."""
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
        fields: fields that were tried.
        outcomes: outcomes, see `Reconstruction.attempt`, in the same order.
        by_lot: whether a lot chose the members.
    """
    pairs = [pair for pair in zip(fields, outcomes, strict=True) if pair[0].length == "usual"]
    if not pairs:
        return {}
    trials = [field.trial for field, _ in pairs]
    usual_fields = [field for field, _ in pairs]
    table = build_table(case, usual_fields, [outcome for _, outcome in pairs])
    scores = {}
    for metric, method in methods_of(table.limited):
        excess, _, group = metric.partition(".")
        columns = table.exact if excess == EXCESSES[0] else table.similar
        rows = table.judged_by(method).rows(group)
        attack, baseline = (columns[named(player, method)] for player in PLAYERS)
        gains = gains_of(attack, baseline, table, rows, by_lot=by_lot)
        scores[named(metric, method)] = scores_of(trials, rows, table.member, gains)
    return scores
