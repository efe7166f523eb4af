"""Runs an encoder over pages: padded to buckets, in batches that fit into memory, in float32 or bfloat16."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from audit.arrays import Floats
from audit.targets.batching import Batch, batches, bucket_of, padded_rows, unless_out_of_memory
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.families import Family, VisualInputs

BATCH_TOKENS = {"cpu": 2048, "mps": 16384, "cuda": 65536}
"""Padded tokens of one forward pass, by kind of device (the fastest of a few tried on two CPU cores)."""
B = TypeVar("B")
Judge = Callable[[torch.Tensor, Sequence[Encoding]], tuple[Floats, torch.Tensor]]
"""Gives the loss of each page and their differentiable sum, from hidden states as `Forward.hidden` gives them."""
Change = Callable[[Sequence[Encoding], torch.Tensor], torch.Tensor]
"""Gives what stands in place of the word embeddings of some pages, (n_pages, n_padded_tokens, n_hidden)."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Forward:
    """The encoder of one checkpoint.

    Args:
        model: the transformers model, in evaluation mode, in float32.
        family: its family.
        pad_id: what pages are padded with.
        device: "cpu", "cuda" or "mps".
        batch_tokens: padded tokens a batch may hold.
        dtype: what matrix products are computed in; sums and layer norms stay in float32 (autocast), and so do heads
            and losses, which run elsewhere.
        through_head: let the model call its encoder, for heads that give it something of their own (the global
            attention of Longformer); what the head itself makes of it is thrown away.
    """

    def __init__(
        self,
        model: Any,
        family: Family,
        pad_id: int,
        device: str,
        batch_tokens: int,
        dtype: str = "float32",
        *,
        through_head: bool = False,
    ) -> None:
        self.family = family
        self.device = device
        self.batch = Batch(batch_tokens)
        self.dtype = dtype
        # CUDA kernels depend on the number of rows, so there it is always the same.
        self.fixed_rows = device != "cpu"
        self._encoder = getattr(model, family.encoder)
        self._model = model if through_head else None
        self._words = self._encoder.get_input_embeddings()
        # What a backward pass needs of a row, compared with a forward pass: the states of all layers, not of one.
        self._backward_cost: int = model.config.num_hidden_layers
        self._pad_id = pad_id
        sight = family.sight_of(model.config)
        self._n_appended = 0 if sight is None else sight.n_appended
        self._visual = None
        if sight is not None and family.boxes is not None:
            self._visual = VisualInputs(self._encoder, sight, family.boxes, device)

    def hidden(
        self, lengths: Sequence[int], page_of: Callable[[int], Encoding]
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield per batch: its rows, and the last hidden states, float32, (n_rows or more, n_padded_tokens, n_hidden).

        When memory runs out the batch is halved and tried again, and batches stay that small. On a CPU no answer
        depends on it; on a GPU later answers may differ from earlier ones in their last bits, and the record says so.

        Args:
            lengths: tokens of each row.
            page_of: makes a row's page; called when its batch is run.

        Raises:
            EngineError: not even a single page fits.
        """

        def run(rows: Sequence[int], bucket: int, n_rows: int) -> torch.Tensor:
            return self._encode(self._padded([page_of(row) for row in rows], bucket, n_rows), bucket)

        return self._run_batches(lengths, run)

    def exact(self, page: Encoding) -> torch.Tensor:
        """Return the last hidden states of one page, (1, n_padded_tokens, n_hidden), float32; differentiable."""
        bucket = bucket_of(len(page.ids), self._n_appended)
        with torch.no_grad():
            inputs = self._padded([page], bucket, 1)
        states: torch.Tensor = self._last_states(inputs)[:, : padded_rows(bucket)]
        return states

    def gradients(
        self, pages: Sequence[Encoding], judge: Judge, change: Change = lambda _, embedded: embedded
    ) -> Iterator[tuple[list[int], tuple[Floats, torch.Tensor]]]:
        """Yield per batch: its pages, and their losses (n_pages,) with the gradients of these.

        A gradient is that of a page's own loss with respect to its word embeddings, as `change` left them: (n_pages,
        n_padded_tokens, n_hidden), float32. Batches are smaller than those of `hidden`, so that memory stays about the
        same.

        Raises:
            EngineError: not even a single page fits.
        """
        lengths = [len(page.ids) for page in pages]
        run = partial(self._differentiate, judge, change)
        return self._run_batches(
            lengths, lambda rows, *size: run([pages[row] for row in rows], *size), self._backward_cost
        )

    def _run_batches(
        self, lengths: Sequence[int], run: Callable[[Sequence[int], int, int], B], cost: int = 1
    ) -> Iterator[tuple[list[int], B]]:
        """Yield per batch: its rows, and what `run` gives for them, a bucket, and a number of rows.

        `cost` is how many times the memory of a plain forward pass a row takes.
        """
        waiting = deque(batches(lengths, self.batch.size // cost, self._n_appended))
        while waiting:
            bucket, rows = waiting.popleft()
            fitting = max(1, self.batch.size // cost // (bucket + self._n_appended))
            n_rows = 1 if self.family.alone else fitting
            n_rows = n_rows if self.fixed_rows else min(len(rows), n_rows)
            for start in range(0, len(rows), n_rows):
                part = rows[start : start + n_rows]
                outcome = unless_out_of_memory(partial(run, part, bucket, n_rows))
                if outcome is None:
                    tokens = n_rows * (bucket + self._n_appended) * cost
                    self.batch.lower(min(self.batch.size, tokens) // 2, self.device)
                    rest = rows[start:]
                    size = max(1, n_rows // 2)
                    waiting.extendleft((bucket, rest[at : at + size]) for at in reversed(range(0, len(rest), size)))
                    break
                yield part, outcome

    @property
    def word_embeddings(self) -> torch.Tensor:
        """The embedding of every token: shape (n_vocabulary, n_hidden)."""
        table: torch.Tensor = self._words.weight
        return table

    def _encode(self, inputs: dict[str, torch.Tensor], bucket: int) -> torch.Tensor:
        with torch.autocast(self.device, DTYPES[self.dtype], enabled=self.dtype != "float32"):
            states = self._last_states(inputs)
        # Of tokens that the model appended, only as many go on as fill the last block of the text's.
        kept: torch.Tensor = states[:, : padded_rows(bucket)].float()
        return kept

    def _last_states(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        if self._model is None:
            states: torch.Tensor = self._encoder(**inputs).last_hidden_state
            return states
        with outputs_of(self._encoder) as seen:
            self._model(**inputs)
        return seen[-1].last_hidden_state  # type: ignore[no-any-return]  # whatever transformers' models return

    def _differentiate(
        self, judge: Judge, change: Change, pages: Sequence[Encoding], bucket: int, n_rows: int
    ) -> tuple[Floats, torch.Tensor]:
        """Return the losses of one batch and their gradients; no gradient is left at the model's parameters."""
        filled = [*pages, *[pages[0]] * (n_rows - len(pages))]
        # Tensors that are made in inference mode cannot be differentiated later.
        with torch.inference_mode(False):
            with torch.no_grad():
                inputs = self._padded(pages, bucket, n_rows)
            with torch.enable_grad(), self._embedded(filled, change) as leaves:
                losses, total = judge(self._encode(inputs, bucket), filled)
            (gradient,) = torch.autograd.grad(total, leaves)
        return losses[: len(pages)], gradient[: len(pages)]

    @contextmanager
    def _embedded(self, pages: Sequence[Encoding], change: Change) -> Iterator[list[torch.Tensor]]:
        """Replace word embeddings within by `change(pages, embeddings)` as leaves of autograd, and yield these."""
        leaves: list[torch.Tensor] = []

        def begin(_: Any, __: Any, embedded: torch.Tensor) -> torch.Tensor:
            leaves.append(change(pages, embedded.detach()).requires_grad_())
            return leaves[-1]

        with self._words.register_forward_hook(begin):
            yield leaves

    def _padded(self, pages: Sequence[Encoding], bucket: int, n_rows: int) -> dict[str, torch.Tensor]:
        ids = np.full((n_rows, bucket), self._pad_id, np.int64)
        mask = np.zeros((n_rows, bucket), np.int64)
        boxes = np.zeros((n_rows, bucket, 4))
        # Rows beyond the last page repeat the first one: their results are thrown away.
        pages = [*pages, *[pages[0]] * (n_rows - len(pages))]
        for row, page in enumerate(pages):
            length = len(page.ids)
            ids[row, :length], mask[row, :length], boxes[row, :length] = page.ids, 1, page.boxes
        inputs = self.family.inputs(ids, mask, boxes, self.device)
        return inputs if self._visual is None else {**inputs, **self._visual.batch(pages, bucket)}


@contextmanager
def outputs_of(module: torch.nn.Module) -> Iterator[list[Any]]:
    """Within, collects what the module gives."""
    seen: list[Any] = []
    with module.register_forward_hook(lambda *given: seen.append(given[-1])):
        yield seen
