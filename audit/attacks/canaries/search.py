"""Search for the completion that a model holds likeliest, whatever kind of model it is: exhaustive, or by descent.

Completions are rows of candidate numbers, 0 to |V0| - 1, one for each unknown place. A scorer says how well the model
takes each of them; the two kinds of models differ in it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from audit.arrays import Floats, Ints
from audit.engine.interface import Request

Scorer = Callable[[Ints], Generator[Request, Any, Floats]]
"""The loss of completions, (n_completions, n_places) candidate numbers -> (n_completions,) nats, lower is likelier."""

CHUNK = 4096
"""Completions that are asked for at once (ours): what many attempts hold in memory at a time stays small."""


def completion_numbers(start: int, stop: int, n_candidates: int, n_places: int) -> Ints:
    """The completions of these places in lexicographic order: (stop - start, n_places) candidate numbers."""
    places = np.unravel_index(np.arange(start, stop), (n_candidates,) * n_places)
    return np.stack(places, axis=1).astype(np.int64)


def place_of(completion: Ints, n_candidates: int) -> int:
    """Where a completion stands in lexicographic order, from 0."""
    return int(np.ravel_multi_index(tuple(completion), (n_candidates,) * len(completion)))


def losses_of_all(scorer: Scorer, n_candidates: int, n_places: int) -> Generator[Request, Any, Floats]:
    """The loss of every completion: (n_candidates ** n_places,), in lexicographic order."""
    n_completions = n_candidates**n_places
    found = []
    for start in range(0, n_completions, CHUNK):
        numbers = completion_numbers(start, min(start + CHUNK, n_completions), n_candidates, n_places)
        found.append((yield from scored(scorer, numbers)))
    return np.concatenate(found)


def descended(scorer: Scorer, n_candidates: int, start: Ints) -> Generator[Request, Any, tuple[Ints, float]]:
    """Coordinate descent: place by place the best candidate, until no single change lowers the loss.

    Args:
        scorer: of the model.
        n_candidates: |V0|.
        start: (n_places,) candidate numbers.

    Returns:
        The completion, (n_places,) candidate numbers, and its loss.
    """
    best = start.copy()
    (lowest,) = yield from scored(scorer, best[None])
    unchanged, place = 0, 0
    # A loss may differ in its last bits between batches: no completion is ever taken up a second time.
    seen = {tuple(best)}
    while unchanged < len(best):
        changes = np.repeat(best[None], n_candidates, axis=0)
        changes[:, place] = np.arange(n_candidates)
        losses = yield from scored(scorer, changes)
        choice = int(losses.argmin())
        if losses[choice] < losses[best[place]] and tuple(changes[choice]) not in seen:
            best, lowest, unchanged = changes[choice], losses[choice], 0
            seen.add(tuple(best))
        else:
            unchanged += 1
        place = (place + 1) % len(best)
    return best, float(lowest)


def scored(scorer: Scorer, numbers: Ints) -> Generator[Request, Any, Floats]:
    """The losses of completions; one that is no number is infinite, so that no search ever chooses it."""
    losses = yield from scorer(numbers)
    return np.where(np.isfinite(losses), losses, np.inf)
