"""What came of all canaries, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats
from audit.attacks.canaries.extraction import Outcome, Ranked
from audit.corpus.canaries.schema import PATTERNS, Canary
from audit.stats.distances import hamming
from audit.stats.exposure import chance_exposure

TRIES = 3
"""Ranks that count as early (ours): what a keypad allows before it locks."""


@dataclass(frozen=True, eq=False)
class CanaryTable:
    """One row for each canary that could be asked for; all arrays of shape (n_canaries,).

    Attributes:
        patterns: str.
        included: whether its coin put it in.
        hits, optimiser_hits: whether the strongest attack, or the optimiser alone, returned the whole completion.
        hdt, optimiser_hdt: their Hamming distance per token, in [0, 1].
        chance: that guessing returns the completion, |V0| ** -n.
        chance_hdt: 1 - 1 / |V0|.
        early: whether the true completion is among the first `TRIES`; False where there is no reference.
        bits: of exposure; NaN where there is no reference.
        most_bits: the exposure of the first rank.
        chance_bits: the mean exposure of a canary the model knows nothing of.
        chance_early: that a canary the model knows nothing of is `early`.
    """

    patterns: npt.NDArray[np.str_]
    included: Bools
    hits: Bools
    optimiser_hits: Bools
    hdt: Floats
    optimiser_hdt: Floats
    chance: Floats
    chance_hdt: Floats
    early: Bools
    bits: Floats
    most_bits: Floats
    chance_bits: Floats
    chance_early: Floats

    def __len__(self) -> int:
        return len(self.included)

    def where(self, rows: npt.ArrayLike) -> CanaryTable:
        """These rows, by a mask."""
        chosen = np.asarray(rows, bool)
        return CanaryTable(**{name: column[chosen] for name, column in vars(self).items()})

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
    strongest = [hamming(truth_of(canary), outcome.strongest) for canary, outcome in asked]
    optimiser = [hamming(truth_of(canary), outcome.optimiser) for canary, outcome in asked]
    n_candidates = np.array([outcome.n_candidates for _, outcome in asked], float)
    lengths = np.array([len(canary.completion) for canary, _ in asked], float)
    ranks = [_exposure(outcome.ranked, outcome.enumerated) for _, outcome in asked]
    bits, most_bits, chance_bits, chance_early = np.array(ranks, float).reshape(-1, 4).T
    return CanaryTable(
        np.array([canary.pattern for canary, _ in asked], str),
        np.array([canary.included for canary, _ in asked], bool),
        np.array(strongest, float) == 0,
        np.array(optimiser, float) == 0,
        np.array(strongest, float),
        np.array(optimiser, float),
        n_candidates**-lengths,
        1 - 1 / n_candidates,
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
