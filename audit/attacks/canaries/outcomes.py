"""Outcomes of canaries: one as the journal holds it, and all of them in columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from audit.arrays import Bools, Floats
from audit.attacks.measuring import Columns
from audit.corpus.canaries.schema import PATTERNS, Canary
from audit.engine.interface import Json
from audit.measurements import STRICT
from audit.stats.likelihood_ratio import chance_exposure

TRIES = 3
"""Ranks that count as early: what a keypad allows before it locks."""
REASONS = {
    "split": "canaries whose completion holds a word that is not one token of the model, the same in every place",
    "unknown": "canaries whose completion holds a word that the model's vocabulary lacks",
    "unread": (
        "canaries that the model cannot read in one piece: a page too long, words without tokens, or a page without a "
        "loss, for the model lacks its intent or tags"
    ),
    "alike": "canaries whose completion holds two words that are one token of the model",
    "single": "canaries for which the model knows fewer than two candidates: there is nothing to guess",
    "no finite loss": "canaries for whose true completion the model's loss is no finite number",
}
"""Why a canary cannot be asked for, in words."""


@dataclass(frozen=True)
class Ranked:
    """Where the true completion stands among the references behind the same prefix.

    Attributes:
        rank: 1 + the references that are at least as likely.
        ties: references that are exactly as likely.
        n_references: without the completions of the other canaries of the set, whichever were inserted.
        bits: of exposure (`audit.stats.likelihood_ratio`).
        p_value: of no memory.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    rank: int
    ties: int
    n_references: int
    bits: float
    p_value: float


@dataclass(frozen=True)
class Outcome:
    """What came of one canary.

    Attributes:
        left_out: why it could not be asked for, a key of `REASONS`; None when it was. Then all below is empty.
        n_candidates: |V0|, of those that the model reads as one token each.
        n_unnamed: words of the prefix that the model does not know.
        strongest: the completion with the lowest loss of all that were scored, numbers of the pattern's candidates.
        strongest_loss: its loss, nats; None where it is not finite.
        true_loss: of the true completion.
        enumerated: whether every completion was scored.
        ranked: None where no reference is left, or another canary has the same completion.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    left_out: str | None = None
    n_candidates: int = 0
    n_unnamed: int = 0
    strongest: tuple[int, ...] = ()
    strongest_loss: float | None = None
    true_loss: float | None = None
    enumerated: bool = False
    ranked: Ranked | None = None

    @property
    def missed(self) -> bool:
        """Return whether the search missed: the true completion is likelier than what it found."""
        return self.true_loss is not None and (self.strongest_loss is None or self.true_loss < self.strongest_loss)

    def as_json(self) -> Json:
        """For the journal."""
        return asdict(self)

    @property
    def coherent(self) -> bool:
        """Return whether an attempt gives this: a canary that was left out for a known reason, or one that was not."""
        if self.left_out is not None:
            found = self.strongest or self.ranked is not None or self.true_loss is not None
            return self.left_out in REASONS and not found
        return self.n_candidates >= 2 and bool(self.strongest) and self.true_loss is not None


_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


def read_outcome(content: Json) -> Outcome:
    """The outcome that a journal holds.

    Raises:
        ValueError: it is no outcome of a canary: what is missing or damaged must never be read as left out.
    """
    text = json.dumps(content)
    outcome = _OUTCOME.validate_json(text, strict=True)
    if not outcome.coherent or json.loads(json.dumps(outcome.as_json())) != json.loads(text):
        raise ValueError("the outcome of a canary is damaged")
    return outcome


@dataclass(frozen=True, eq=False)
class CanaryTable(Columns):
    """One row for each canary that could be asked for; all arrays of shape (n_canaries,).

    Attributes:
        included: whether its coin put it in.
        hits: whether the strongest attack returned the whole completion.
        chance: that guessing returns the completion, |V0| ** -n.
        early: whether the true completion is among the first `TRIES`; False where there is no reference.
        bits: of exposure; NaN where there is no reference.
        most_bits: the exposure of the first rank.
        chance_bits: the mean exposure of a canary the model knows nothing of.
        chance_early: that a canary the model knows nothing of is `early`.
    """

    included: Bools
    hits: Bools
    chance: Floats
    early: Bools
    bits: Floats
    most_bits: Floats
    chance_bits: Floats
    chance_early: Floats

    def __len__(self) -> int:
        return len(self.included)

    @property
    def ranked(self) -> CanaryTable:
        """The rows that have an exposure."""
        return self.where(np.isfinite(self.bits))


def table_of(canaries: Sequence[Canary], outcomes: Sequence[Outcome]) -> CanaryTable:
    """The canaries that could be asked for.

    Args:
        canaries: those that were tried.
        outcomes: of each, in the same order.
    """
    asked = [pair for pair in zip(canaries, outcomes, strict=True) if pair[1].left_out is None]
    n_candidates = np.array([outcome.n_candidates for _, outcome in asked], float)
    lengths = np.array([len(canary.completion) for canary, _ in asked], float)
    ranks = [_exposure(outcome.ranked, outcome.enumerated) for _, outcome in asked]
    bits, most_bits, chance_bits, chance_early = np.array(ranks, float).reshape(-1, 4).T
    return CanaryTable(
        np.array([canary.included for canary, _ in asked], bool),
        np.array([outcome.strongest == truth_of(canary) for canary, outcome in asked], bool),
        n_candidates**-lengths,
        np.array([outcome.ranked is not None and outcome.ranked.rank <= TRIES for _, outcome in asked], bool),
        bits,
        most_bits,
        chance_bits,
        chance_early,
    )


def truth_of(canary: Canary) -> tuple[int, ...]:
    """The completion in numbers of the pattern's candidates."""
    candidates = PATTERNS[canary.pattern].candidates
    return tuple(candidates.index(word) for word in canary.completion)


def _exposure(ranked: Ranked | None, enumerated: bool) -> tuple[float, float, float, float]:
    """Bits, the most of them, and what a canary that the model knows nothing of has: bits, and a chance to be early."""
    if ranked is None:
        return np.nan, np.nan, np.nan, np.nan
    n = ranked.n_references
    # Drawn or enumerated, every one of n + 1 ranks is equally likely.
    early = min(1.0, TRIES / (n + 1))
    return ranked.bits, float(np.log2(n + enumerated)), chance_exposure(n, enumerated=enumerated), early
