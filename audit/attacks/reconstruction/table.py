"""The outcomes of the reconstruction attack as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks.columns import DocumentColumns
from audit.attacks.fields import Field
from audit.attacks.given_away import TriedValues
from audit.attacks.reconstruction.methods import MEMBERSHIP_SCORES, PRIMARY, baseline_score, best, read_shots
from audit.attacks.reconstruction.names import DEFAULT, PLAYERS, TUNED, named
from audit.corpus.folding import Occurrence, fold
from audit.engine.interface import Json
from audit.measurements import Unresolved
from audit.stats.distances import hamming, jaro_winkler, levenshtein

BASELINE, TUNED_BASELINE = "baseline", "tuned_baseline"
"""In `FieldTable.rankings`: the attempts without the model, ranked by their public perplexity, by method."""


@dataclass(frozen=True, eq=False)
class FieldTable(DocumentColumns):
    """One row a field; every column has shape (n_fields,).

    Attributes:
        member, unique, reached: whether the field is a member's, its value stands in no other document of any split,
            and all its tokens were among the candidates.
        category: names.
        cluster: the field's document.
        value: a number for what the field says, folded.
        in_member, in_public: documents of these splits in which the value stands.
        scores: by score and player, in [0, 1], of the first attempt (one-shot); see `named` for the players.
        planted: by method, whether it rebuilds the field with a memory planted in the target; see `cdmi.PlantedMemory`.
        rankings: by membership score, or "baseline", and column: "score" (how plausible the field's best attempt is),
            "pr" and "hd" (how right it is, in [0, 1]).
        chance: by score, what a guess of uniformly drawn tokens gets; "recall": what uniformly drawn candidates reach.
    """

    member: Bools
    unique: Bools
    reached: Bools
    category: NDArray[np.str_]
    cluster: Ints
    value: Ints
    in_member: Ints
    in_public: Ints
    scores: dict[tuple[str, str], Floats]
    planted: dict[str, Bools]
    rankings: dict[tuple[str, str], Floats]
    chance: dict[str, Floats]

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


@dataclass(frozen=True, eq=False)
class Uniform:
    """Someone who guesses tokens, and candidates, uniformly over the vocabulary."""

    vocabulary: int
    n_candidates: int
    rng: Generator

    def chance(self, truths: Sequence[list[int]]) -> dict[str, Floats]:
        """See `FieldTable.chance`: one draw a field for LD and JWD, the others exact."""
        guesses = [self.rng.integers(self.vocabulary, size=len(truth)).tolist() for truth in truths]
        reach = min(1.0, self.n_candidates / self.vocabulary)
        return {
            **_scores(truths, guesses),
            "pr": np.array([float(self.vocabulary) ** -len(truth) for truth in truths]),
            "hd": np.full(len(truths), 1 - 1 / self.vocabulary),
            "recall": np.array([reach ** len(truth) for truth in truths]),
        }


def build_table(
    attacked: Sequence[Field],
    outcomes: Sequence[Json],
    seen: Mapping[str, Occurrence],
    methods: Sequence[str],
    uniform: Uniform,
) -> FieldTable:
    """The fields and their outcomes, in the same order, as a table.

    Args:
        attacked: the fields.
        outcomes: see `Reconstruction.attempt`.
        seen: where the corpus' values stand.
        methods: of the attack.
        uniform: who guesses for `FieldTable.chance`.
    """
    texts = [fold(field.document.text_of(field.entity)) for field in attacked]
    values = [seen[text] for text in texts]
    documents = {document: index for index, document in enumerate(sorted({field.document.id for field in attacked}))}
    truths = [outcome["truth"] for outcome in outcomes]
    scores: dict[tuple[str, str], Floats] = {}
    for method, player in product(methods, PLAYERS):
        firsts = [shots_of(outcome, method)[player][0]["tokens"] for outcome in outcomes]
        scores |= {(score, named(player, method)): column for score, column in _scores(truths, firsts).items()}
    return FieldTable(
        member=np.array([field.document.split == "member" for field in attacked], bool),
        unique=np.array([value.unique for value in values], bool),
        reached=np.array([outcome["reached"] for outcome in outcomes], bool),
        category=np.array([field.entity.category for field in attacked], np.str_),
        cluster=np.array([documents[field.document.id] for field in attacked], np.int64),
        value=np.unique(np.array(texts, np.str_), return_inverse=True)[1],
        in_member=np.array([value.anywhere["member"] for value in values], np.int64),
        in_public=np.array([value.anywhere["public"] for value in values], np.int64),
        scores=scores,
        planted={method: np.array([outcome["planted"][method] for outcome in outcomes], bool) for method in methods},
        rankings=_rankings(truths, outcomes, methods),
        chance=uniform.chance(truths),
    )


def shots_of(outcome: Json, method: str) -> Json:
    """The attempts of a method at one field, by player."""
    return outcome if method == DEFAULT else outcome["methods"][method]


def _rankings(
    truths: Sequence[list[int]], outcomes: Sequence[Json], methods: Sequence[str]
) -> dict[tuple[str, str], Floats]:
    """Each field's most plausible attempt by each membership score, and the baseline's by its own perplexity.

    The tuned method's attempts are ranked by the primary score alone.
    """
    ranked = [(name, DEFAULT, "attack", score) for name, score in MEMBERSHIP_SCORES.items()]
    ranked += [(BASELINE, DEFAULT, "baseline", baseline_score)]
    if TUNED in methods:
        ranked += [(TUNED, TUNED, "attack", MEMBERSHIP_SCORES[PRIMARY])]
        ranked += [(TUNED_BASELINE, TUNED, "baseline", baseline_score)]
    columns: dict[tuple[str, str], Floats] = {}
    for ranking, method, player, score in ranked:
        chosen = [best(read_shots(shots_of(outcome, method)[player]), score) for outcome in outcomes]
        found = _scores(truths, [list(shot.tokens) for shot, _ in chosen])
        columns |= {(ranking, "score"): np.array([plausible for _, plausible in chosen])}
        columns |= {(ranking, name): found[name] for name in ("pr", "hd")}
    return columns


def _scores(truths: Sequence[list[int]], guesses: Sequence[list[int]]) -> dict[str, Floats]:
    pairs = list(zip(truths, guesses, strict=True))
    return {
        "pr": np.array([float(truth == guess) for truth, guess in pairs]),
        "hd": np.array([hamming(truth, guess) for truth, guess in pairs]),
        "ld": np.array([levenshtein(truth, guess) for truth, guess in pairs]),
        "jwd": np.array([jaro_winkler(truth, guess) for truth, guess in pairs]),
    }
