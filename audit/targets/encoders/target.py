"""Encoder checkpoints of every family, with any of their heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np
import torch

from audit.arrays import Floats, Ints
from audit.cards import TargetCard
from audit.corpus.documents import Document
from audit.targets import interface
from audit.targets.batching import in_blocks
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.encoding import Encoder, unknown_labels
from audit.targets.encoders.families import Family, OpenImage, PageImageReader
from audit.targets.encoders.forward import BATCH_TOKENS, Forward
from audit.targets.encoders.heads import HEADS, HeadName, own_scores, page_losses, sum_of_losses
from audit.targets.reference_rules import PublicKind, ReferenceRules

A = TypeVar("A")
HEAD_ROWS = 128
"""About how many positions the head of a masked language model scores at once."""


class EncoderTarget(ReferenceRules):
    """Answers queries about pages with one encoder checkpoint.

    Implements `audit.targets.interface.Target`.

    Args:
        model: the transformers model, loaded; put into evaluation mode here.
        family: its family.
        encoder: its tokenisation.
        card: what it is.
        batch_tokens: padded tokens a forward pass may hold; None: `BATCH_TOKENS` of the device.
            Memory depends on it, answers do not.
    """

    starts_as_other_kind = True
    takes_denoiser = False

    def __init__(
        self,
        model: Any,
        family: Family,
        encoder: Encoder,
        card: TargetCard,
        batch_tokens: int | None = None,
    ) -> None:
        """Set the model to evaluation, and prepare its forward pass and head's queries."""
        self.model = model.eval()
        self.family = family
        self.encoder = encoder
        self.card = card
        self.labels = encoder.labels
        self.head: Any = HEADS[cast("HeadName", card.task)]
        self.answers: frozenset[type[interface.Query[Any]]] = self.head.answers
        tokenizer = encoder.tokenizer
        # Where positions follow from it, padding is what the model takes for it.
        pad_id = model.config.pad_token_id if family.counts_from_padding else tokenizer.pad_token_id
        self.forward = Forward(
            model,
            family,
            pad_id,
            card.device,
            batch_tokens or BATCH_TOKENS[card.device],
            card.dtype,
            through_head=self.head.classes is not None,
        )
        losses = TokenLosses(model, self.forward, self.head.costs)
        self._methods: dict[type[interface.Query[Any]], Any] = {
            interface.TrainingLoss: lambda asked: enumerate(losses.training(asked)),
            interface.CompletionLoss: lambda asked: enumerate(losses.completions(asked)),
            interface.RelaxedLoss: lambda asked: enumerate(losses.relaxed(asked)),
            interface.FillMask: self._fill_mask,
            interface.BestTokens: lambda asked: (
                (n, own.argmax(axis=1)) for n, own in self._logits_of(asked)
            ),
            interface.CandidateLogits: lambda asked: (
                (n, own[0, asked[n].candidates]) for n, own in self._logits_of(asked)
            ),
            interface.MaskedLoss: self._masked_losses,
            interface.MaskedCompletionLoss: self._masked_completion_losses,
            interface.TagProbabilities: self._tag_probabilities,
            interface.BestLinks: self._best_links,
            interface.BestClass: self._best_classes,
        }
        # Vocabularies are often padded: the model's last outputs may stand for no token at all.
        padding = range(len(tokenizer), model.config.vocab_size)
        unknown = () if tokenizer.unk_token_id is None else (tokenizer.unk_token_id,)
        self._never_candidates = sorted({*tokenizer.all_special_ids, *unknown, *padding})

    @property
    def batch_tokens(self) -> int:
        """Return the present number of padded tokens of one forward pass.

        It is what was asked for, or lowered since.
        """
        return self.forward.batch.size

    @property
    def batch_options(self) -> dict[str, Any]:
        """Return the tokens of a batch as keyword arguments of `target_of`."""
        return {"batch_tokens": self.batch_tokens}

    @property
    def public_kind(self) -> PublicKind:
        """Return the kind of public model to advise.

        A public model of its own family can be trained, if that has such a head.
        """
        return "masked" if "mlm" in self.family.heads else "text_model"

    @property
    def public_tokenizer(self) -> Any:
        """Return the tokenizer that a public model must share."""
        return self.encoder.tokenizer

    @property
    def longest_public_page(self) -> int:
        """Return the most tokens of a page, which a public model must read too."""
        return self.card.max_tokens

    @property
    def page_images(self) -> PageImageReader | None:
        """Return the reader of page images that a public model must match; None without images."""
        return self.encoder.page_images

    @property
    def public_images(self) -> OpenImage | None:
        """Return the function that opens pages' images; None where the encoder sees none."""
        return getattr(self.encoder.page_images, "open_image", None)

    def accepts(self, reference: ReferenceRules) -> str | None:
        """Return why a loaded checkpoint is of another kind; None where it is of this kind.

        Losses compare only over the same tags, or for masked language models the same tokens.
        """
        reason = super().accepts(reference)
        if reason is not None or not isinstance(reference, EncoderTarget):
            return reason
        if sorted(reference.labels) != sorted(self.labels):
            return self._other_outputs()
        if self.card.task != "mlm":
            return None
        tokens = self.encoder.tokenizer.get_vocab()
        return None if reference.encoder.tokenizer.get_vocab() == tokens else self._other_outputs()

    def _other_outputs(self) -> str:
        """Return words for a reference whose outputs differ from the target's."""
        outputs = "tokens" if self.card.task == "mlm" else "labels"
        return f"has other {outputs} than the target"

    def rounded(self, dtype: str) -> EncoderTarget:
        """Return this checkpoint with its encoder computing in `dtype`; weights are shared."""
        card = replace(self.card, dtype=dtype)
        other = EncoderTarget(self.model, self.family, self.encoder, card, self.batch_tokens)
        other.forward.batch = self.forward.batch
        return other

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Return the document's tokens as the model reads them; None where it reads none."""
        return self.encoder.encode(document, around)

    def token_strings(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, as the tokenizer decodes them."""
        return str(self.encoder.tokenizer.decode(list(ids))).strip()

    def unknown_names(self, documents: Sequence[Document]) -> Mapping[str, frozenset[str]]:
        """Return, by document id, the labels that the model lacks."""
        return unknown_labels(self.encoder.task, self.labels, documents)

    def ask(self, queries: Sequence[interface.Query[A]]) -> list[A]:
        """Return one answer for each query about pages; all queries are of one type.

        Raises:
            ValueError: a query of a type this target cannot answer, or queries of several types.
        """
        kind = interface.type_asked(self, queries)
        if kind is None:
            return []
        with torch.inference_mode():
            answers = dict(self._methods[kind](queries))
        return [answers[row] for row in range(len(queries))]

    def _fill_mask(
        self, queries: Sequence[interface.FillMask]
    ) -> Iterator[tuple[int, interface.Candidates]]:
        """Yield each query's index and the likeliest tokens at its hidden position."""
        for row, (scores,) in self._logits_of(queries):
            scores[self._never_candidates] = -np.inf
            best = best_first(scores, queries[row].n_candidates)
            yield row, interface.Candidates(best, scores[best])

    def _masked_losses(
        self, queries: Sequence[interface.MaskedLoss]
    ) -> Iterator[tuple[int, Floats]]:
        """Yield each query's index and the losses of its page's hidden tokens."""
        tokens = [query.page.ids[None, list(query.positions)] for query in queries]
        return ((row, found[0]) for row, found in self._surprisals(queries, tokens))

    def _masked_completion_losses(self, queries: Sequence[Any]) -> Iterator[tuple[int, Floats]]:
        """Yield each query's index and the mean loss of each completion."""
        found = self._surprisals(queries, [query.completions for query in queries])
        return ((row, surprisals.mean(axis=1)) for row, surprisals in found)

    def _surprisals(
        self, queries: Sequence[Any], tokens: Sequence[Ints]
    ) -> Iterator[tuple[int, Floats]]:
        """Yield each query's index and minus the log-probabilities of `tokens`.

        They stand at its positions, all of them hidden.

        Shape (n_completions, n_positions), nats, as that of a query's tokens.
        """
        for row, logits in self._logits_of(
            [replace(own, page=own.page.masked(own.positions)) for own in queries]
        ):
            best = logits.max(axis=1)
            total = best + np.log(np.exp(logits - best[:, None]).sum(axis=1))
            yield row, total - logits[np.arange(len(logits)), tokens[row]]

    def _logits_of(self, queries: Sequence[Any]) -> Iterator[tuple[int, Floats]]:
        """Yield each query's index and the logits at its positions.

        Shape (n_positions, n_vocabulary).
        """
        positions = [
            (own.position,) if hasattr(own, "position") else own.positions for own in queries
        ]
        for rows, states in self.forward.hidden_at([own.page for own in queries], positions):
            ends = np.cumsum([0, *(len(positions[row]) for row in rows)])
            # The head scores many pages at once, in parts that bound memory.
            for part in np.split(
                np.arange(len(rows)), np.flatnonzero(np.diff(ends[:-1] // HEAD_ROWS)) + 1
            ):
                first = ends[part[0]]
                logits = in_blocks(
                    states[first : ends[part[-1] + 1]], partial(own_scores, self.model)
                ).cpu()
                for number in part:
                    yield (
                        rows[number],
                        logits[ends[number] - first : ends[number + 1] - first].double().numpy(),
                    )

    def _tag_probabilities(
        self, queries: Sequence[interface.TagProbabilities]
    ) -> Iterator[tuple[int, Floats]]:
        """Yield each query's index and the probabilities of its tokens' tags."""
        for rows, hidden, pages in self._read(queries):
            tags = self.head.tags(self.model, hidden).cpu().double().numpy()
            for row, table, page in zip(rows, tags, pages, strict=False):
                yield row, np.exp(table[: len(page.ids)])

    def _best_links(self, queries: Sequence[interface.BestLinks]) -> Iterator[tuple[int, Ints]]:
        """Yield each query's index and the position that each of its tokens links to."""
        for rows, hidden, pages in self._read(queries):
            yield from zip(rows, self.head.links(self.model, hidden, pages), strict=False)

    def _best_classes(self, queries: Sequence[interface.BestClass]) -> Iterator[tuple[int, int]]:
        """Yield each query's index and the number of its page's likeliest class."""
        for rows, hidden, pages in self._read(queries):
            scores = self.head.classes(self.model, hidden, pages).cpu().double().numpy()
            yield from zip(rows, scores.argmax(axis=1).tolist(), strict=False)

    def _read(
        self, queries: Sequence[Any]
    ) -> Iterator[tuple[list[int], torch.Tensor, list[Encoding]]]:
        """Yield per batch its queries' indices, the last hidden states, and the pages.

        Shape of the states: (n_rows or more, n_padded_tokens, n_hidden).

        Rows beyond the last page repeat the first.
        """
        pages = [query.page for query in queries]
        for rows, hidden in self.forward.hidden(
            [len(page.ids) for page in pages], pages.__getitem__
        ):
            own = [pages[row] for row in rows]
            yield rows, hidden, own + own[:1] * (len(hidden) - len(rows))


def best_first(scores: Floats, n: int) -> Ints:
    """Return indices of the `n` largest finite scores, largest first, ties to the lower index."""
    n = min(n, int(np.isfinite(scores).sum()))
    threshold = np.partition(scores, -n)[-n]
    above = np.flatnonzero(scores >= threshold)
    return above[np.argsort(-scores[above], kind="stable")][:n]


@dataclass(frozen=True)
class TokenLosses:
    """The losses of one checkpoint.

    Its methods answer queries in order, under `torch.inference_mode`.

    Attributes:
        model: the transformers model.
        forward: runs its encoder.
        costs_of: the terms of its head's training loss.
    """

    model: Any
    forward: Forward
    costs_of: Any

    def training(self, queries: Sequence[interface.TrainingLoss]) -> list[Floats]:
        """Return the training loss of each page with each candidate token in place."""
        return self.completions(
            [
                interface.CompletionLoss(query.page, (query.position,), query.candidates[:, None])
                for query in queries
            ]
        )

    def completions(self, queries: Sequence[interface.CompletionLoss]) -> list[Floats]:
        """Return the training loss of each page with each of its completions in place.

        Rows of all queries make one stream of length buckets; a row's page is made when its batch
        is.
        """
        owners = [(query, tokens) for query in queries for tokens in query.completions.tolist()]

        def page_of(row: int) -> Encoding:
            """Return the page of a row, with the row's completion in place."""
            query, tokens = owners[row]
            return query.page.with_tokens(query.positions, tokens)

        losses = np.empty(len(owners))
        for rows, hidden in self.forward.hidden(
            [len(query.page.ids) for query, _ in owners], page_of
        ):
            pages = [owners[row][0].page for row in rows]
            pages += pages[:1] * (len(hidden) - len(rows))
            losses[rows] = page_losses(self.costs_of(self.model, hidden.float(), pages))[
                : len(rows)
            ]
        return np.split(losses, [*accumulate(len(query.completions) for query in queries)][:-1])

    def relaxed(self, queries: Sequence[interface.RelaxedLoss]) -> list[interface.Relaxed]:
        """Return the training loss of mixtures of candidate tokens, and its gradient.

        Mixtures take the place of the word embeddings, and what the encoder adds stays.

        The gradient with respect to a weight is that with respect to the mixture, times the
        candidate's embedding.
        """
        pages = [replace(query.page) for query in queries]
        # Pages that queries share were copied, so that each one tells its query.
        query_of = dict(zip(pages, queries, strict=True))
        table, shown = self.forward.words.weight, dict[bytes, torch.Tensor]()

        def embeddings(query: interface.RelaxedLoss) -> torch.Tensor:
            """Return the word embeddings of a query's candidates.

            Once for all queries that have them.
            """
            key = query.candidates.tobytes()
            if key not in shown:
                shown[key] = table[torch.from_numpy(query.candidates).to(table.device)]
            return shown[key]

        def mixed(batch: Sequence[Encoding], embedded: torch.Tensor) -> torch.Tensor:
            """Return word embeddings with each query's mixture at its hidden positions."""
            mixtures, device = embedded.clone(), embedded.device
            # Inputs are exact in every number format: what is mixed is not rounded before the
            # encoder rounds it.
            with torch.autocast(device.type, enabled=False):
                for row, query in enumerate(query_of[page] for page in batch):
                    weights = torch.from_numpy(query.weights.astype(np.float32)).to(device)
                    mixtures[row, list(query.positions)] = _product(weights, embeddings(query))
            return mixtures

        answers: list[interface.Relaxed | None] = [None] * len(queries)
        for rows, (losses, gradients) in self.forward.gradients(pages, self._judge, mixed):
            for row, loss, gradient in zip(rows, losses, gradients, strict=True):
                slopes = _product(
                    gradient[list(queries[row].positions)], embeddings(queries[row]).T
                )
                answers[row] = interface.Relaxed(float(loss), slopes.cpu().double().numpy())
        return cast("list[interface.Relaxed]", answers)

    def _judge(
        self, hidden: torch.Tensor, pages: Sequence[Encoding]
    ) -> tuple[Floats, torch.Tensor]:
        """Return each page's training loss, and their sum to be differentiated."""
        costs = self.costs_of(self.model, hidden, pages)
        return page_losses(costs), sum_of_losses(costs)


def _product(rows: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the product of matrices; no row of it depends on the number of rows."""
    return in_blocks(rows, lambda filled: filled @ right)
