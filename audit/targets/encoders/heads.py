"""Heads of an encoder: the questions that each answers, and the terms of its training loss.

A head is run as the model without its encoder: while the model runs, its encoder answers with the
given states, so that no part of a head (a dense layer before the classifier, a pooler, a mean over
the page) need be known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from audit.arrays import Floats, Ints
from audit.targets import interface as asked
from audit.targets.batching import in_blocks, padded_rows
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.models import masked_relations


def own_scores(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the head's scores (n_rows, n_outputs) of hidden states (n_rows, n_hidden)."""
    ids = torch.zeros(1, len(rows), dtype=torch.int64, device=rows.device)
    with answering(model.base_model, _Encoded(last_hidden_state=rows[None])):
        scores: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return scores[0]


def own_page_scores(model: Any, hidden: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Return scores (n_pages, n_outputs) of a head that reads whole pages.

    Args:
        model: the model.
        hidden: (n_pages, n_padded_tokens, n_hidden).
        lengths: tokens of each page, padding left out.
    """
    n_pages = len(hidden)
    # The head is given a full block of pages, see `audit.targets.batching`.
    filled = nn.functional.pad(hidden, (0, 0, 0, 0, 0, padded_rows(n_pages) - n_pages))
    n_own = torch.tensor([*lengths, *[1] * (len(filled) - n_pages)], device=hidden.device)
    mask = (torch.arange(hidden.shape[1], device=hidden.device) < n_own[:, None]).long()
    encoder = model.base_model
    # What its pooler, where it has one, makes of each page; ALBERT's is a linear layer alone.
    pooler, activation = (
        getattr(encoder, "pooler", None),
        getattr(encoder, "pooler_activation", None),
    )
    pooled = None
    if pooler is not None:
        pooled = pooler(filled) if activation is None else activation(pooler(filled[:, 0]))
    with answering(encoder, _Encoded(last_hidden_state=filled, pooler_output=pooled)):
        scores: torch.Tensor = model(input_ids=torch.zeros_like(mask), attention_mask=mask).logits
    return scores[:n_pages]


class _Encoded(BaseModelOutputWithPooling):  # type: ignore[misc]  # transformers is untyped here
    """What an encoder gives.

    None for all that families add to it and no head reads (Longformer's attention).
    """

    def __getattr__(self, name: str) -> None:
        """Return None for any output that the encoder did not give."""
        if name.startswith("_"):
            raise AttributeError(name)


@contextmanager
def running(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Run `forward` within in place of the module's own function."""
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del (
            module.forward
        )  # the class has the true one, or a model that is spread over GPUs one of its own
        if own is not None:
            module.forward = own


def answering(module: nn.Module, output: Any) -> AbstractContextManager[None]:
    """Return a context in which the module returns `output` without running."""
    return running(module, lambda *_, **__: output)


HeadName = Literal[
    "mlm", "token-classification", "document-classification", "spade-extraction", "spade-linking"
]
LOSSES: frozenset[Any] = frozenset({asked.TrainingLoss, asked.CompletionLoss, asked.RelaxedLoss})
"""What every head with a training loss over tokens answers."""


@dataclass(frozen=True, eq=False)
class Costs:
    """Cross-entropies of some pages; the mean of a page's own is its loss, or a term of it.

    Attributes:
        values: (n_read_of_all_pages,) on the model's device, page after page; differentiable
            outside inference mode.
        n_read: (n_pages,) how many are each page's.
    """

    values: torch.Tensor
    n_read: Ints

    def means(self) -> Floats:
        """Return the mean cross-entropy of each page: (n_pages,), in double precision."""
        values = self.values.detach().cpu().double().numpy()
        # A page's own costs are summed on their own, so that the sum does not depend on the pages
        # beside it.
        return np.array([part.mean() for part in np.split(values, np.cumsum(self.n_read)[:-1])])

    def sum_of_means(self) -> torch.Tensor:
        """Return the sum of the pages' mean cross-entropies, to be differentiated.

        The gradient at a page's inputs is that of its mean.
        """
        weights = 1 / np.repeat(self.n_read, self.n_read)
        return (
            self.values * torch.from_numpy(weights.astype(np.float32)).to(self.values.device)
        ).sum()


CostsOf = Callable[[Any, torch.Tensor, Sequence[Encoding]], tuple[Costs, ...]]


@dataclass(frozen=True)
class Head:
    """One kind of head.

    Attributes:
        words: words as the record and people name it.
        answers: the query types it can answer.
        costs: the terms of the training loss of each page, from the model and the encoder's hidden
            states (n_pages, n_padded_tokens, n_hidden) in float32; None where no attack asks for
            one.
        tags: gives the log-probability of each tag for each token, (n_pages, n_padded_tokens,
            n_labels).
        links: gives the best predecessor or parent of each token of each page, see `BestLinks`.
        classes: gives the log-probability of each class for each page, (n_pages, n_labels).
    """

    words: str
    answers: frozenset[type[asked.Query[Any]]]
    costs: CostsOf | None = None
    tags: Callable[[Any, torch.Tensor], torch.Tensor] | None = None
    links: Callable[[Any, torch.Tensor, Sequence[Encoding]], list[Ints]] | None = None
    classes: Callable[[Any, torch.Tensor, Sequence[Encoding]], torch.Tensor] | None = None


def page_losses(terms: Sequence[Costs]) -> Floats:
    """Return each page's training loss, the sum of its terms: (n_pages,), nats."""
    losses: Floats = np.sum([term.means() for term in terms], axis=0)
    return losses


def sum_of_losses(terms: Sequence[Costs]) -> torch.Tensor:
    """Return the sum of all pages' training losses, to be differentiated."""
    return torch.stack([term.sum_of_means() for term in terms]).sum()


def bio_costs(model: Any, hidden: torch.Tensor, pages: Sequence[Encoding]) -> tuple[Costs, ...]:
    """Return the cross-entropies of BIO tags of the tokens whose tag the loss reads."""
    return (label_costs(partial(own_scores, model), hidden, [page.labels for page in pages]),)


def label_costs(
    head: Callable[[torch.Tensor], torch.Tensor],
    hidden: torch.Tensor,
    labels: Sequence[Ints | None],
) -> Costs:
    """Return the cross-entropies of each page's `labels` (n_tokens,) where the loss reads them."""
    padded = padded_labels(labels, hidden.shape[1])
    read = padded != NOT_READ
    logits = in_blocks(hidden[torch.from_numpy(read).to(hidden.device)], head)
    chosen = torch.log_softmax(logits, dim=-1).gather(
        -1, torch.from_numpy(padded[read]).to(hidden.device)[:, None]
    )
    return Costs(-chosen[:, 0], read.sum(axis=1))


def bio_tags(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of BIO tags (n_pages, n_tokens, n_tags)."""
    scores = own_scores(model, hidden.flatten(0, 1)).reshape(*hidden.shape[:2], -1)
    return torch.log_softmax(scores, dim=-1)


def class_costs(model: Any, hidden: torch.Tensor, pages: Sequence[Encoding]) -> tuple[Costs, ...]:
    """Return the cross-entropy of each page's class."""
    true = torch.tensor([page.page_class for page in pages], device=hidden.device)
    chosen = class_scores(model, hidden, pages).gather(-1, true[:, None])[:, 0]
    return (Costs(-chosen, np.ones(len(pages), np.int64)),)


def class_scores(model: Any, hidden: torch.Tensor, pages: Sequence[Encoding]) -> torch.Tensor:
    """Return the log-probabilities of page classes (n_pages, n_labels)."""
    scores = own_page_scores(model, hidden, [len(page.ids) for page in pages])
    return torch.log_softmax(scores, dim=-1)


def spade_extraction_costs(
    model: Any, hidden: torch.Tensor, pages: Sequence[Encoding]
) -> tuple[Costs, ...]:
    """Return the cross-entropies of SPADE's classes, and those of its predecessors.

    Classes are of first tokens of words, predecessors of all tokens.
    """
    classes = label_costs(model.initial_token_classifier, hidden, [page.labels for page in pages])
    return classes, relation_costs(model.subsequent_token_classifier, hidden, pages)


def relation_costs(extractor: Any, hidden: torch.Tensor, pages: Sequence[Encoding]) -> Costs:
    """Return the cross-entropies of each page's `links` where the loss reads them."""
    links = padded_labels([page.links for page in pages], hidden.shape[1])
    read = links != NOT_READ
    log_probabilities = torch.log_softmax(_relation_scores(extractor, hidden, read), dim=-1)
    true = np.where(links >= 0, links, hidden.shape[1])
    chosen = log_probabilities.gather(-1, torch.from_numpy(true).to(hidden.device)[..., None])[
        ..., 0
    ]
    return Costs(-chosen[torch.from_numpy(read).to(hidden.device)], read.sum(axis=1))


def best_links(extractor: Any, hidden: torch.Tensor, pages: Sequence[Encoding]) -> list[Ints]:
    """Return, for each page, the position that each token links to by the highest score.

    Ties go to the lower position, and to a token before "none".
    """
    links = padded_labels([page.links for page in pages], hidden.shape[1])
    read = links != NOT_READ
    best = _relation_scores(extractor, hidden, read).cpu().numpy().argmax(axis=-1)
    best[best == hidden.shape[1]] = NO_LINK
    best[~read] = NOT_READ
    return [row[: len(page.ids)] for row, page in zip(best, pages, strict=True)]


def _relation_scores(
    extractor: Any, hidden: torch.Tensor, read: np.ndarray[Any, Any]
) -> torch.Tensor:
    """Return a relation head's scores of token pairs, masked where no link may be.

    Shape (n_pages, n_tokens, n_tokens + 1).

    Rows of tokens that are not read mean nothing. `extractor` is ours or transformers' BROS's.
    """
    readable = torch.from_numpy(read).to(hidden.device)

    def projected(layer: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return the layer's output at readable tokens, zeros at all others."""
        rows = in_blocks(hidden[readable], layer)
        spread = rows.new_zeros(*readable.shape, rows.shape[-1])
        spread[readable] = rows
        return spread

    none = extractor.key(extractor.dummy_node).expand(len(hidden), 1, -1)
    keys = torch.cat([projected(extractor.key), none], dim=1)
    return masked_relations(torch.bmm(projected(extractor.query), keys.transpose(1, 2)), readable)


def padded_labels(values: Sequence[Ints | None], length: int) -> Ints:
    """Return labels or links of pages as (n_pages, length), padded with `NOT_READ`."""
    padded = np.full((len(values), length), NOT_READ, np.int64)
    for row, own in enumerate(values):
        assert own is not None
        padded[row, : len(own)] = own
    return padded


_MASKED = {
    asked.FillMask,
    asked.BestTokens,
    asked.CandidateLogits,
    asked.MaskedLoss,
    asked.MaskedCompletionLoss,
}
HEADS: dict[HeadName, Head] = {
    "mlm": Head("masked language model", frozenset(_MASKED)),
    "token-classification": Head(
        "token classification (BIO)", LOSSES | {asked.TagProbabilities}, bio_costs, bio_tags
    ),
    "document-classification": Head(
        "document classification", LOSSES | {asked.BestClass}, class_costs, classes=class_scores
    ),
    "spade-extraction": Head(
        "entity extraction (SPADE)",
        LOSSES | {asked.TagProbabilities, asked.BestLinks},
        spade_extraction_costs,
        lambda model, hidden: torch.log_softmax(model.initial_token_classifier(hidden), dim=-1),
        lambda model, hidden, pages: best_links(model.subsequent_token_classifier, hidden, pages),
    ),
    "spade-linking": Head(
        "entity linking (SPADE)",
        LOSSES | {asked.BestLinks},
        lambda model, hidden, pages: (relation_costs(model.entity_linker, hidden, pages),),
        links=lambda model, hidden, pages: best_links(model.entity_linker, hidden, pages),
    ),
}
