"""The outcomes of the reconstruction attack as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from audit.attacks.reconstruction.fields import Field
from audit.attacks.reconstruction.shots import MEMBERSHIP_SCORES, baseline_score, best, read_shots
from audit.case import Case
from audit.corpus.folding import fold, occurrences
from audit.engine.interface import Json
from audit.record import Unresolved
from audit.stats.distances import hamming, jaro_winkler, levenshtein

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
SCORES = ("pr", "hd", "ld", "jwd")
PLAYERS = ("attack", "baseline")
SPLIT_NAMES = ("member", "heldout")
GROUPS = ("unique", "repeated", "all")
BASELINE = "baseline"
"""In `Table.rankings`: the attempts without the model, ranked by their public perplexity."""


@dataclass(frozen=True, eq=False)
class Table:
    """One row a field; every column has shape (n_fields,).

    Attributes:
        member, unique, reached: whether the field is a member's, its value stands in no other document of any split,
            and all its tokens were among the candidates.
        category: names.
        cluster: the field's document.
        in_member, in_public: documents of these splits in which the value stands.
        scores: by score and player, in [0, 1], of the first attempt (one-shot).
        rankings: by membership score, or "baseline", and column: "score" (how plausible the field's best attempt is),
            "pr" and "hd" (how right it is, in [0, 1]).
        chance: by score, what a guess of uniformly drawn tokens gets; "recall": what uniformly drawn candidates reach.
    """

    member: Mask
    unique: Mask
    reached: Mask
    category: NDArray[np.str_]
    cluster: Ints
    in_member: Ints
    in_public: Ints
    scores: dict[tuple[str, str], Floats]
    rankings: dict[tuple[str, str], Floats]
    chance: dict[str, Floats]

    def where(self, mask: Mask) -> Table:
        """The rows that `mask` takes."""
        taken: dict[str, Any] = {}
        for column in fields(self):
            value = getattr(self, column.name)
            taken[column.name] = {k: v[mask] for k, v in value.items()} if isinstance(value, dict) else value[mask]
        return Table(**taken)

    def split(self, name: str) -> Table:
        """The rows of "member" or "heldout" documents."""
        return self.where(self.member if name == "member" else ~self.member)

    def group(self, name: str) -> Table:
        """The rows whose value is "unique", "repeated", or "all"."""
        return self if name == "all" else self.where(self.unique if name == "unique" else ~self.unique)

    def category_of(self, name: str) -> Table:
        """The rows of a category."""
        return self.where(self.category == name)

    def __len__(self) -> int:
        return len(self.cluster)


def unresolved(name: str, tables: Sequence[Table], needed: int) -> Unresolved | None:
    """Why a measurement on each of these tables, or a comparison of members and held-out, cannot be had.

    Args:
        name: of the measurement.
        tables: one table, or the members' and the held-out documents'.
        needed: how many documents would do.
    """
    documents = [len(np.unique(table.cluster)) for table in tables]
    if min(documents) >= 2:
        return None
    of = "" if len(tables) == 1 else "member " if documents[0] < 2 else "held-out "
    return Unresolved(name, f"fewer than two {of}documents with such fields", min(documents), needed)


def build_table(
    case: Case, attacked: Sequence[Field], outcomes: Sequence[Json], n_candidates: int, rng: Generator
) -> Table:
    """The fields and their outcomes, in the same order, as a table."""
    seen = occurrences(case.corpus)
    places = [seen[fold(field.document.text_of(field.entity))] for field in attacked]
    documents = {document: place for place, document in enumerate(sorted({field.document.id for field in attacked}))}
    truths = [outcome["truth"] for outcome in outcomes]
    scores = {
        (score, player): column
        for player in PLAYERS
        for score, column in _scores(truths, [outcome[player][0]["tokens"] for outcome in outcomes]).items()
    }
    return Table(
        member=np.array([field.document.split == "member" for field in attacked]),
        unique=np.array([place.unique for place in places]),
        reached=np.array([outcome["reached"] for outcome in outcomes]),
        category=np.array([field.entity.category for field in attacked]),
        cluster=np.array([documents[field.document.id] for field in attacked]),
        in_member=np.array([place.anywhere["member"] for place in places]),
        in_public=np.array([place.anywhere["public"] for place in places]),
        scores=scores,
        rankings=_rankings(truths, outcomes),
        chance=_chance(truths, case.target.card.vocabulary, n_candidates, rng),
    )


def _rankings(truths: Sequence[list[int]], outcomes: Sequence[Json]) -> dict[tuple[str, str], Floats]:
    """Each field's most plausible attempt by each membership score, and the baseline's by its own perplexity."""
    columns: dict[tuple[str, str], Floats] = {}
    for ranking, score in {**MEMBERSHIP_SCORES, BASELINE: baseline_score}.items():
        player = "baseline" if ranking == BASELINE else "attack"
        chosen = [best(read_shots(outcome[player]), score) for outcome in outcomes]
        found = _scores(truths, [list(shot.tokens) for shot, _ in chosen])
        columns |= {(ranking, "score"): np.array([plausible for _, plausible in chosen])}
        columns |= {(ranking, name): found[name] for name in ("pr", "hd")}
    return columns


def _chance(truths: Sequence[list[int]], vocabulary: int, n_candidates: int, rng: Generator) -> dict[str, Floats]:
    """What a guess of uniformly drawn tokens gets: one draw a field for LD and JWD, the others exact."""
    guesses = [rng.integers(vocabulary, size=len(truth)).tolist() for truth in truths]
    return {
        **_scores(truths, guesses),
        "pr": np.array([float(vocabulary) ** -len(truth) for truth in truths]),
        "hd": np.full(len(truths), 1 - 1 / vocabulary),
        "recall": np.array([min(1.0, n_candidates / vocabulary) ** len(truth) for truth in truths]),
    }


def _scores(truths: Sequence[list[int]], guesses: Sequence[list[int]]) -> dict[str, Floats]:
    pairs = list(zip(truths, guesses, strict=True))
    return {
        "pr": np.array([float(truth == guess) for truth, guess in pairs]),
        "hd": np.array([hamming(truth, guess) for truth, guess in pairs]),
        "ld": np.array([levenshtein(truth, guess) for truth, guess in pairs]),
        "jwd": np.array([jaro_winkler(truth, guess) for truth, guess in pairs]),
    }
