"""The outcomes of the reconstruction attack as columns, and field by field for pairs of scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks.fields import Field
from audit.attacks.given_away import TriedValues
from audit.attacks.measuring import DocumentColumns
from audit.attacks.reconstruction.methods import best, read_shots
from audit.attacks.reconstruction.names import DEFAULT, EXCESSES, LIMITED, PLAYERS, named
from audit.corpus.documents import Corpus
from audit.corpus.folding import Occurrence, fold, occurrences
from audit.engine.interface import Json
from audit.measurements import Unresolved
from audit.stats.distances import hamming, jaro_winkler, levenshtein
from audit.stats.paired import UnitScores

SCORES = ("pr", "hd", "ld", "jwd")
"""Word for word; Hamming, Levenshtein and Jaro-Winkler distance."""


@dataclass(frozen=True, eq=False)
class FieldTable(DocumentColumns):
    """One row a field; every column has shape (n_fields,).

    Attributes:
        member, unique, reached: whether the field is a member's, its value stands in no other document of any split,
            and all its tokens were among the candidates.
        category: names.
        cluster: the field's document.
        value: a number for what the field says, folded.
        scores: by score and player, in [0, 1], of the first attempt (one-shot); see `named` for the players.
        planted: by method, whether it rebuilds the field with a memory planted in the target; see `cdmi.PlantedMemory`.
        best: by player and column of the default method's most plausible attempt: "score" (how plausible it is) and
            "exact" (whether it is right, 0 or 1).
        chance: how often uniformly drawn tokens are right.
    """

    member: Bools
    unique: Bools
    reached: Bools
    category: NDArray[np.str_]
    cluster: Ints
    value: Ints
    scores: dict[tuple[str, str], Floats]
    planted: dict[str, Bools]
    best: dict[tuple[str, str], Floats]
    chance: Floats

    def group(self, name: str) -> FieldTable:
        """The rows whose value is "unique", "repeated", or "all"."""
        return self if name == "all" else self.where(self.unique if name == "unique" else ~self.unique)

    def tried(self, method: str) -> TriedValues:
        """The fields as values that a method rebuilds exactly or not."""
        found = (self.scores["pr", named(player, method)] for player in PLAYERS)
        return TriedValues(self.member, self.cluster, self.value, *found)

    def category_of(self, name: str) -> FieldTable:
        """The rows of a category."""
        return self.where(self.category == name)


def unresolved(name: str, tables: Sequence[FieldTable], needed: int) -> Unresolved | None:
    """Why a measurement on each of these tables, or a comparison of members and held-out, cannot be had.

    Args:
        name: of the measurement.
        tables: one table, or the members' and the held-out documents'.
        needed: how many documents would do.
    """
    documents = [table.n_documents for table in tables]
    if min(documents) >= 2:
        return None
    of = "" if len(tables) == 1 else "member " if documents[0] < 2 else "held-out "
    return Unresolved(name, f"fewer than two {of}documents with such fields", min(documents), needed)


def build_table(
    attacked: Sequence[Field],
    outcomes: Sequence[Json],
    seen: Mapping[str, Occurrence],
    methods: Sequence[str],
    vocabulary: int,
) -> FieldTable:
    """The fields and their outcomes, in the same order, as a table.

    Args:
        attacked: the fields.
        outcomes: see `Reconstruction.attempt`.
        seen: where the corpus' values stand.
        methods: of the attack.
        vocabulary: tokens that there are to guess from.
    """
    texts = [fold(field.document.text_of(field.entity)) for field in attacked]
    documents = {document: index for index, document in enumerate(sorted({field.document.id for field in attacked}))}
    truths = [outcome["truth"] for outcome in outcomes]
    scores: dict[tuple[str, str], Floats] = {}
    for method, player in product(methods, PLAYERS):
        firsts = [shots_of(outcome, method)[player][0]["tokens"] for outcome in outcomes]
        scores |= {(score, named(player, method)): column for score, column in _scores(truths, firsts).items()}
    return FieldTable(
        member=np.array([field.document.split == "member" for field in attacked], bool),
        unique=np.array([seen[text].unique for text in texts], bool),
        reached=np.array([outcome["reached"] for outcome in outcomes], bool),
        category=np.array([field.entity.category for field in attacked], np.str_),
        cluster=np.array([documents[field.document.id] for field in attacked], np.int64),
        value=np.unique(np.array(texts, np.str_), return_inverse=True)[1],
        scores=scores,
        planted={method: np.array([outcome["planted"][method] for outcome in outcomes], bool) for method in methods},
        best={key: column for player in PLAYERS for key, column in _best(player, truths, outcomes)},
        chance=np.array([float(vocabulary) ** -len(truth) for truth in truths]),
    )


def shots_of(outcome: Json, method: str) -> Json:
    """The attempts of a method at one field, by player."""
    return outcome if method == DEFAULT else outcome["methods"][method]


def _best(
    player: str, truths: Sequence[list[int]], outcomes: Sequence[Json]
) -> Iterator[tuple[tuple[str, str], Floats]]:
    """Yield the columns of each field's most plausible attempt."""
    chosen = [best(read_shots(outcome[player]), with_target=player == "attack") for outcome in outcomes]
    right = [truth == list(shot.tokens) for truth, (shot, _) in zip(truths, chosen, strict=True)]
    yield (player, "score"), np.array([plausible for _, plausible in chosen])
    yield (player, "exact"), np.array(right, np.float64)


def _scores(truths: Sequence[list[int]], guesses: Sequence[list[int]]) -> dict[str, Floats]:
    pairs = list(zip(truths, guesses, strict=True))
    return {
        "pr": np.array([float(truth == guess) for truth, guess in pairs]),
        "hd": np.array([hamming(truth, guess) for truth, guess in pairs]),
        "ld": np.array([levenshtein(truth, guess) for truth, guess in pairs]),
        "jwd": np.array([jaro_winkler(truth, guess) for truth, guess in pairs]),
    }


def paired_by_field(
    corpus: Corpus, fields: Sequence[Field], outcomes: Sequence[Json], methods: Sequence[str]
) -> Mapping[str, UnitScores]:
    """Attack minus baseline of every field of usual length: exact recovery, and similarity (1 - HD).

    Args:
        corpus: whose fields were attacked.
        fields: those that were tried.
        outcomes: see `Reconstruction.attempt`, in the same order.
        methods: of the attack, the default one first.
    """
    pairs = [pair for pair in zip(fields, outcomes, strict=True) if pair[0].length == "usual"]
    if not pairs:
        return {}
    own, found = [field for field, _ in pairs], [outcome for _, outcome in pairs]
    # What chance reaches is no part of a difference.
    table = build_table(own, found, occurrences(corpus), methods, vocabulary=2)
    rows = {"all": np.ones(len(own), bool), "unique": table.unique, "repeated": ~table.unique}
    scores = {}
    for metric, method in product(LIMITED, methods):
        what, _, group = metric.partition(".")
        attack, baseline = (table.scores["pr" if what == EXCESSES[0] else "hd", named(who, method)] for who in PLAYERS)
        values = attack - baseline if what == EXCESSES[0] else baseline - attack
        taken = rows[group]
        scores[named(metric, method)] = UnitScores(
            [field.trial.id for field, yes in zip(own, taken, strict=True) if yes],
            [field.document.id for field, yes in zip(own, taken, strict=True) if yes],
            table.member[taken],
            values[taken],
        )
    return scores
