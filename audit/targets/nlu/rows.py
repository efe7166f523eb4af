"""Batches of utterances from many queries, and the inputs of their loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.arrays import Ints
from audit.targets.interface import CompletionLoss, RelaxedLoss


@dataclass(frozen=True)
class UtteranceBatch:
    """Utterances of one length, with what the loss reads.

    Attributes:
        ids: (n, n_tokens).
        labels: (n, n_tokens).
        intents: (n,).
    """

    ids: Ints
    labels: Ints
    intents: Ints


def alike(keys: Sequence[Any]) -> Iterator[list[int]]:
    """The indices of equal keys, group by group, in order of their first one."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        groups[key].append(index)
    yield from groups.values()


def truth_of(query: CompletionLoss | RelaxedLoss) -> tuple[Ints, int]:
    """The tags and the intent of a query's utterance.

    Raises:
        ValueError: it has none.
    """
    page = query.page
    if page.labels is None or page.intent is None:
        raise ValueError("the training loss reads tags and an intent, and this utterance has none")
    return page.labels, page.intent


def completed(query: CompletionLoss) -> tuple[Ints, Ints, Ints]:
    """Ids (n, n_tokens), labels (n, n_tokens) and intents (n,) of a query's utterance with each completion."""
    labels, intent = truth_of(query)
    n = len(query.completions)
    ids = np.tile(query.page.ids, (n, 1))
    ids[:, list(query.positions)] = query.completions
    return ids, np.tile(labels, (n, 1)), np.full(n, intent)
