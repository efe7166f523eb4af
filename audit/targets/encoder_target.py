"""Encoder checkpoints (LayoutLM, BROS, BERT) with a masked-language-model or token-classification head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch

from audit.corpus.documents import Document
from audit.record import TargetCard
from audit.targets.batching import batches, padded_rows
from audit.targets.encoding import Encoder
from audit.targets.families import Family
from audit.targets.interface import (
    NOT_READ,
    BestTokens,
    Candidates,
    Encoding,
    FillMask,
    Floats,
    Ints,
    Query,
    TagProbabilities,
    TrainingLoss,
)

A = TypeVar("A")
BATCH_TOKENS = {"cpu": 4096, "mps": 16384, "cuda": 65536}
"""Padded tokens of one forward pass, by kind of device (ours; the fastest of a few tried on two CPU cores)."""


class EncoderTarget:
    """Answers queries about pages with one encoder checkpoint; implements `audit.targets.interface.Target`.

    Args:
        model: the transformers model, loaded; put into evaluation mode here.
        family: its family.
        encoder: its tokenisation.
        card: what it is.
        batch_tokens: padded tokens a forward pass may hold; None: `BATCH_TOKENS` of the device. Memory depends on it,
            answers do not.
    """

    def __init__(
        self, model: Any, family: Family, encoder: Encoder, card: TargetCard, batch_tokens: int | None = None
    ) -> None:
        self.model = model.eval()
        self.family = family
        self.encoder = encoder
        self.card = card
        self.labels = encoder.labels
        self.batch_tokens = batch_tokens or BATCH_TOKENS[card.device]
        self.answers: frozenset[type[Query[Any]]] = (
            frozenset({FillMask, BestTokens}) if card.task == "mlm" else frozenset({TrainingLoss, TagProbabilities})
        )
        tokenizer = encoder.tokenizer
        # Vocabularies are often padded: the model's last outputs may stand for no token at all.
        padding = range(len(tokenizer), model.config.vocab_size)
        self._never_candidates = sorted({*tokenizer.all_special_ids, tokenizer.unk_token_id, *padding})

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """See `Target.encode`."""
        return self.encoder.encode(document, around)

    def token_strings(self, ids: Sequence[int]) -> str:
        """See `Target.token_strings`."""
        return str(self.encoder.tokenizer.decode(list(ids)))

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """See `Target.ask`.

        Raises:
            ValueError: a query of a type this target cannot answer, or queries of several types.
        """
        kinds = {type(query) for query in queries}
        if not kinds:
            return []
        kind = kinds.pop()
        if kinds or kind not in self.answers:
            raise ValueError(f"{self.card.architecture} cannot answer this mix of queries")
        answer: Any = {
            FillMask: self._fill_mask,
            BestTokens: self._best_tokens,
            TrainingLoss: self._training_loss,
            TagProbabilities: self._tag_probabilities,
        }[kind]
        with torch.inference_mode():
            return cast("list[A]", answer(queries))

    def _fill_mask(self, queries: Sequence[FillMask]) -> list[Candidates]:
        answers: list[Candidates | None] = [None] * len(queries)
        pages = [query.page for query in queries]
        for rows, hidden in self._hidden(pages):
            # Rows beyond the batch's own repeat the first one, as in `_padded`.
            places = [queries[row].position for row in rows]
            places += places[:1] * (len(hidden) - len(rows))
            logits = self._vocabulary_logits(hidden[torch.arange(len(hidden)), torch.tensor(places)])[: len(rows)]
            logits[:, self._never_candidates] = -np.inf
            for row, scores in zip(rows, logits, strict=True):
                best = best_first(scores, queries[row].n_candidates)
                answers[row] = Candidates(best, scores[best])
        return cast("list[Candidates]", answers)

    def _best_tokens(self, queries: Sequence[BestTokens]) -> list[Ints]:
        answers: list[Ints] = [np.empty(0, np.int64)] * len(queries)
        for rows, hidden in self._hidden([query.page for query in queries]):
            for place, row in enumerate(rows):
                logits = self._vocabulary_logits(hidden[place, list(queries[row].positions)])
                answers[row] = logits.argmax(axis=1)
        return answers

    def _training_loss(self, queries: Sequence[TrainingLoss]) -> list[Floats]:
        """Mean cross-entropy over the tokens that the loss reads, one row a candidate (papers/cdmi.txt, step 2)."""
        owners = [(index, place) for index, query in enumerate(queries) for place in range(len(query.candidates))]
        rows = [
            queries[index].page.with_tokens([queries[index].position], [int(queries[index].candidates[place])])
            for index, place in owners
        ]
        answers = [np.empty(len(query.candidates)) for query in queries]
        for batch, log_probabilities in self._tag_log_probabilities(rows):
            for row, table in zip(batch, log_probabilities, strict=True):
                index, place = owners[row]
                answers[index][place] = _mean_cross_entropy(table, rows[row].labels)
        return answers

    def _tag_probabilities(self, queries: Sequence[TagProbabilities]) -> list[Floats]:
        pages = [query.page for query in queries]
        answers: list[Floats] = [np.empty(0)] * len(queries)
        for batch, log_probabilities in self._tag_log_probabilities(pages):
            for row, table in zip(batch, log_probabilities, strict=True):
                answers[row] = np.exp(table[: len(pages[row].ids)])
        return answers

    def _tag_log_probabilities(self, pages: Sequence[Encoding]) -> Iterator[tuple[list[int], Floats]]:
        """Per batch: its rows, and log-probabilities (n_rows, n_padded_tokens, n_labels); head, softmax in float32."""
        for rows, hidden in self._hidden(pages):
            logits = self.model.classifier(hidden.float())
            yield rows, torch.log_softmax(logits, dim=-1)[: len(rows)].cpu().double().numpy()

    def _vocabulary_logits(self, hidden: torch.Tensor) -> Floats:
        """Logits (n_rows, n_vocabulary) of gathered hidden states (n_rows, n_hidden), head in float32."""
        n_rows = len(hidden)
        filled = torch.nn.functional.pad(hidden.float(), (0, 0, 0, padded_rows(n_rows) - n_rows))
        return cast("Floats", self.model.cls(filled)[:n_rows].cpu().double().numpy())

    def _hidden(self, pages: Sequence[Encoding]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Per batch: its rows, and the encoder's last hidden states (n_rows or more, n_padded_tokens, n_hidden)."""
        encoder = getattr(self.model, self.family.encoder)
        on_cpu = self.card.device == "cpu"
        for bucket, rows in batches([len(page.ids) for page in pages], self.batch_tokens):
            # CUDA kernels depend on the number of rows, so there it is always the same.
            n_rows = len(rows) if on_cpu else max(1, self.batch_tokens // bucket)
            inputs = self._padded([pages[row] for row in rows], bucket, n_rows)
            yield rows, encoder(**inputs).last_hidden_state

    def _padded(self, pages: Sequence[Encoding], bucket: int, n_rows: int) -> dict[str, torch.Tensor]:
        ids = np.full((n_rows, bucket), self.encoder.tokenizer.pad_token_id, np.int64)
        mask = np.zeros((n_rows, bucket), np.int64)
        boxes = np.zeros((n_rows, bucket, 4))
        for row in range(n_rows):
            # Rows beyond the last page repeat the first one: their results are thrown away.
            page = pages[row] if row < len(pages) else pages[0]
            length = len(page.ids)
            ids[row, :length], mask[row, :length], boxes[row, :length] = page.ids, 1, page.boxes
        return self.family.inputs(ids, mask, boxes, self.card.device)


def best_first(scores: Floats, n: int) -> Ints:
    """Indices of the `n` largest finite scores, largest first, ties to the lower index."""
    n = min(n, int(np.isfinite(scores).sum()))
    threshold = np.partition(scores, -n)[-n]
    above = np.flatnonzero(scores >= threshold)
    return above[np.argsort(-scores[above], kind="stable")][:n]


def _mean_cross_entropy(log_probabilities: Floats, labels: Ints | None) -> float:
    assert labels is not None
    read = np.flatnonzero(labels != NOT_READ)
    return float(-log_probabilities[read, labels[read]].mean())
