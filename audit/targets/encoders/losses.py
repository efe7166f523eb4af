"""The training loss of pages as a function of their tokens: exact, and with mixtures of tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
import torch

from audit.arrays import Floats, Ints
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.forward import Forward
from audit.targets.encoders.heads import CostsOf, page_losses, sum_of_losses
from audit.targets.interface import CompletionLoss, Relaxed, RelaxedLoss, TrainingLoss


@dataclass(frozen=True)
class TokenLosses:
    """The losses of one checkpoint; its methods answer queries in order, under `torch.inference_mode`.

    Attributes:
        model: the transformers model.
        forward: runs its encoder.
        costs_of: the terms of its head's training loss.
    """

    model: Any
    forward: Forward
    costs_of: CostsOf

    def training(self, queries: Sequence[TrainingLoss]) -> list[Floats]:
        """The loss of each page with each candidate in place (step 2 of CDMI)."""
        return self.completions(
            [CompletionLoss(query.page, (query.position,), query.candidates[:, None]) for query in queries]
        )

    def completions(self, queries: Sequence[CompletionLoss]) -> list[Floats]:
        """The loss of each page with each completion in place, one row a completion.

        Rows of all queries make one stream of length buckets; a row's page is made when its batch is.
        """
        owners = [(query, tokens) for query in queries for tokens in query.completions.tolist()]

        def page_of(row: int) -> Encoding:
            query, tokens = owners[row]
            return query.page.with_tokens(query.positions, tokens)

        losses = np.empty(len(owners))
        for rows, hidden in self.forward.hidden([len(query.page.ids) for query, _ in owners], page_of):
            pages = [owners[row][0].page for row in rows]
            pages += pages[:1] * (len(hidden) - len(rows))
            losses[rows] = page_losses(self.costs_of(self.model, hidden.float(), pages))[: len(rows)]
        return np.split(losses, [*accumulate(len(query.completions) for query in queries)][:-1])

    def relaxed(self, queries: Sequence[RelaxedLoss]) -> list[Relaxed]:
        """See `RelaxedLoss`; mixtures take the place of the word embeddings, and what the encoder adds stays.

        The gradient with respect to a weight is that with respect to the mixture, times the candidate's embedding.
        """
        pages = [replace(query.page) for query in queries]
        # Pages that queries share were copied, so that each one tells its query.
        query_of = dict(zip(pages, queries, strict=True))
        tables = _Candidates(self.forward.word_embeddings)

        def mixed(batch: Sequence[Encoding], embedded: torch.Tensor) -> torch.Tensor:
            mixtures, device = embedded.clone(), embedded.device
            # Inputs are exact in every number format: what is mixed is not rounded before the encoder rounds it.
            with torch.autocast(device.type, enabled=False):
                for group in tables.groups([query_of[page] for page in batch]):
                    weights = torch.from_numpy(group.weights.astype(np.float32)).to(device)
                    mixtures[group.owners, group.positions] = weights @ group.embeddings
            return mixtures

        answers: list[Relaxed | None] = [None] * len(queries)
        for rows, (losses, gradients) in self.forward.gradients(pages, self._judge, mixed):
            own = [queries[row] for row in rows]
            for group in tables.groups(own):
                slopes = gradients[group.owners, group.positions] @ group.embeddings.T
                parts = np.split(slopes.cpu().double().numpy(), group.ends)
                for index, slope in zip(group.indices, parts, strict=True):
                    answers[rows[index]] = Relaxed(float(losses[index]), slope)
        return cast("list[Relaxed]", answers)

    def _judge(self, hidden: torch.Tensor, pages: Sequence[Encoding]) -> tuple[Floats, torch.Tensor]:
        costs = self.costs_of(self.model, hidden, pages)
        return page_losses(costs), sum_of_losses(costs)


@dataclass(frozen=True, eq=False)
class _Group:
    """Queries of one batch with the same candidates; m is how many unknown positions they have together.

    Attributes:
        indices: of the queries in the batch.
        ends: of each query's positions among all, without the last.
        owners: (m,) the index of each position's query.
        positions: (m,) in their pages.
        weights: (m, n_candidates).
        embeddings: (n_candidates, n_hidden) of the candidates.
    """

    indices: list[int]
    ends: list[int]
    owners: torch.Tensor
    positions: torch.Tensor
    weights: Floats
    embeddings: torch.Tensor


class _Candidates:
    """The embeddings of the candidates that some queries have, looked up once for all batches."""

    def __init__(self, table: torch.Tensor) -> None:
        self._table = table
        self._known: dict[bytes, torch.Tensor] = {}

    def groups(self, queries: Sequence[RelaxedLoss]) -> Iterator[_Group]:
        """The queries of a batch, those with the same candidates together."""
        alike: dict[bytes, list[int]] = defaultdict(list)
        for index, query in enumerate(queries):
            alike[query.candidates.tobytes()].append(index)
        for key, indices in alike.items():
            own = [queries[index] for index in indices]
            counts = [len(query.positions) for query in own]
            yield _Group(
                indices,
                [*accumulate(counts)][:-1],
                torch.from_numpy(np.repeat(indices, counts)),
                torch.tensor([position for query in own for position in query.positions]),
                np.concatenate([query.weights for query in own]),
                self._embeddings(key, own[0].candidates),
            )

    def _embeddings(self, key: bytes, candidates: Ints) -> torch.Tensor:
        if key not in self._known:
            self._known[key] = self._table[torch.from_numpy(candidates).to(self._table.device)]
        return self._known[key]
