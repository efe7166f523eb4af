"""Canaries asked of masked language models: how likely the words around it make each word (methods.md#canaries).

The loss of a completion is minus its pseudo-log-likelihood: each of its words is masked in turn and read from all
others (Salazar, Liang, Nguyen & Kirchhoff 2020, "Masked language model scoring"; as evidence of membership
Mireshghallah, Goyal, Uniyal, Berg-Kirkpatrick & Shokri 2022). Probabilities are among the candidates, for the attacker
knows that no other word stands there (ours).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.extraction import Start
from audit.attacks.canaries.pages import Readable
from audit.attacks.canaries.search import Scorer, scored
from audit.attacks.canaries.white_box import softmax
from audit.attacks.interface import ask_all
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import CandidateLogits, Target

OPEN = -1
"""Candidate number of a place that is not filled yet."""
AT_ONCE = 512
"""Pages that an attempt asks for at once (ours): each has its own tokens, and many attempts are in flight."""


@dataclass(frozen=True)
class ByMasks:
    """How a masked language model is asked; see `audit.attacks.canaries.pages.Approach`.

    Attributes:
        n_restarts: orders in which places are filled.
    """

    n_restarts: int

    def scorer(self, target: Target, secret: Readable) -> Scorer:
        """Minus the pseudo-log-likelihood of completions, nats, summed over their places.

        A word is read once for all completions that are alike around it.
        """

        def losses(numbers: Ints) -> Generator[Request, Any, Floats]:
            total = np.zeros(len(numbers))
            for place in range(numbers.shape[1]):
                gapped = numbers.copy()
                gapped[:, place] = OPEN
                distinct, row_of = np.unique(gapped, axis=0, return_inverse=True)
                chances = yield from _chances(target, secret, distinct, np.full(len(distinct), place))
                with np.errstate(divide="ignore"):
                    total -= np.log(chances[row_of.ravel(), numbers[:, place]])
            return total

        return losses

    def start(self, target: Target, secret: Readable, rng: Rng) -> Generator[Request, Any, Start]:
        """Decode from masks alone, one word a step, each the likeliest beside those that stand (mask-predict).

        As Ghazvininejad, Levy, Liu & Zettlemoyer (2019) decode, the surest place comes first; other restarts fill the
        places in random orders (ours). No word is taken back: the search that follows does that.
        """
        found = np.full((self.n_restarts, len(secret.positions)), OPEN, np.int64)
        for _ in secret.positions:
            owners, places = np.nonzero(found == OPEN)
            chances = yield from _chances(target, secret, found[owners], places)
            for restart in range(self.n_restarts):
                own = np.flatnonzero(owners == restart)
                row = own[chances[own].max(axis=1).argmax()] if restart == 0 else rng.choice(own)
                found[restart, places[row]] = chances[row].argmax()
        return Start(found, (yield from scored(self.scorer(target, secret), found)))


def _chances(target: Target, secret: Readable, numbers: Ints, places: Ints) -> Generator[Request, Any, Floats]:
    """The probability of each candidate at one place of each of several completions: (n_rows, n_candidates).

    Args:
        target: answers `CandidateLogits`.
        secret: what is looked for.
        numbers: (n_rows, n_places) candidate numbers, `OPEN` where a mask stands.
        places: (n_rows,) the place that is read, which is open.
    """
    logits: list[Floats] = []
    for first in range(0, len(numbers), AT_ONCE):
        rows = zip(numbers[first : first + AT_ONCE], places[first : first + AT_ONCE], strict=True)
        queries = [CandidateLogits(_page(secret, row), secret.positions[place], secret.ids) for row, place in rows]
        logits += yield from ask_all(target, queries)
    return softmax(np.stack(logits))


def _page(secret: Readable, numbers: Ints) -> Encoding:
    """The page with these candidates in the unknown places, and masks where none is."""
    tokens = np.where(numbers == OPEN, secret.page.mask_id, secret.ids[numbers])
    return secret.page.with_tokens(secret.positions, tokens.tolist())
