"""Exhaustive search and descent over the token ids of one page: references for the white-box attack."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from audit.arrays import Floats, Ints
from audit.attacks.canaries.pages import completion_scorer
from audit.attacks.canaries.search import descend_from, losses_of_all
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import Target


def enumerate_all(
    target: Target, page: Encoding, positions: tuple[int, ...], candidates: Ints
) -> Generator[Request, Any, Floats]:
    """The loss of every completion of a page: (n_candidates ** n_positions,), in lexicographic order of candidates.

    Infinite where the model's loss is no finite number. Arguments are those of `invert`.
    """
    scorer = completion_scorer(target, page, positions, candidates)
    return (yield from losses_of_all(scorer, len(candidates), len(positions)))


def descend(
    target: Target, page: Encoding, positions: tuple[int, ...], candidates: Ints, start: Ints
) -> Generator[Request, Any, tuple[Ints, float]]:
    """Coordinate descent from the token ids `start`, (n_positions,), until no single change lowers the loss.

    The other arguments are those of `invert`.

    Returns:
        Token ids, (n_positions,), and their loss in nats.
    """
    numbers = np.array([candidates.tolist().index(token) for token in start], np.int64)
    scorer = completion_scorer(target, page, positions, candidates)
    best, loss = yield from descend_from(scorer, len(candidates), numbers)
    return candidates[best], loss
