"""What stands on an encoder: which questions a head answers, and its training loss of each page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from audit.targets.batching import padded_rows
from audit.targets.interface import (
    NOT_READ,
    BestTokens,
    CandidateLogits,
    Encoding,
    FillMask,
    Floats,
    Query,
    TagProbabilities,
    TrainingLoss,
)

HeadName = Literal["mlm", "token-classification", "spade-extraction", "spade-linking"]
Losses = Callable[[Any, torch.Tensor, Sequence[Encoding]], Floats]


@dataclass(frozen=True)
class Head:
    """One kind of head.

    Attributes:
        words: as the record and people name it.
        answers: the query types it can answer.
        losses: the training loss of each page, shape (n_pages,), from the model and the encoder's hidden states
            (n_pages, n_padded_tokens, n_hidden) in float32; None where no attack asks for one.
        tags: gives the log-probability of each tag for each token, (n_pages, n_padded_tokens, n_labels).
    """

    words: str
    answers: frozenset[type[Query[Any]]]
    losses: Losses | None = None
    tags: Callable[[Any, torch.Tensor], torch.Tensor] | None = None


def read_rows(hidden: torch.Tensor, read: torch.Tensor, head: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What `head` gives for the tokens that `read` marks: shape (n_read, n_outputs).

    Args:
        hidden: (n_pages, n_tokens, n_hidden).
        read: (n_pages, n_tokens), boolean.
        head: takes (n_rows, n_hidden); it is given a multiple of `batching.STEP` rows, see there.
    """
    rows = hidden[read]
    filled = torch.nn.functional.pad(rows, (0, 0, 0, padded_rows(len(rows)) - len(rows)))
    return head(filled)[: len(rows)]


def bio_losses(model: Any, hidden: torch.Tensor, pages: Sequence[Encoding]) -> Floats:
    """Mean cross-entropy over the tokens that have a tag to read."""
    labels = [_labels_of(page) for page in pages]
    return mean_cross_entropy(model.classifier, hidden, labels)


def mean_cross_entropy(
    head: Callable[[torch.Tensor], torch.Tensor], hidden: torch.Tensor, labels: Sequence[np.ndarray[Any, Any]]
) -> Floats:
    """Each page's mean cross-entropy of `labels`, (n_tokens,) each, over those that are read; shape (n_pages,)."""
    padded = np.full(hidden.shape[:2], NOT_READ, np.int64)
    for row, own in enumerate(labels):
        padded[row, : len(own)] = own
    read = padded != NOT_READ
    logits = read_rows(hidden, torch.from_numpy(read).to(hidden.device), head)
    log_probabilities = torch.log_softmax(logits, dim=-1).cpu().double().numpy()
    costs = -log_probabilities[np.arange(len(log_probabilities)), padded[read]]
    # A page's own costs are summed on their own, so that the sum does not depend on the pages beside it.
    ends = np.cumsum(read.sum(axis=1))
    return np.array([part.mean() for part in np.split(costs, ends[:-1])])


def bio_tags(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of BIO tags."""
    return torch.log_softmax(model.classifier(hidden), dim=-1)


def _labels_of(page: Encoding) -> np.ndarray[Any, Any]:
    assert page.labels is not None
    return page.labels


HEADS: dict[HeadName, Head] = {
    "mlm": Head("masked language model", frozenset({FillMask, BestTokens, CandidateLogits})),
    "token-classification": Head(
        "token classification (BIO)", frozenset({TrainingLoss, TagProbabilities}), bio_losses, bio_tags
    ),
}
