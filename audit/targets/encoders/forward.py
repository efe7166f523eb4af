"""Runs an encoder over pages.

They are padded to buckets, in batches that fit into memory, in float32 or bfloat16.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from audit.arrays import Floats
from audit.targets import TABLE
from audit.targets.batching import (
    STEP,
    Batch,
    Buckets,
    batches,
    padded_rows,
    unless_out_of_memory,
)
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.compiling import COMPILED, COMPILED_STEP, compile_encoder
from audit.targets.encoders.families import Family, VisualInputs, on_device
from audit.targets.encoders.heads import running

BATCH_TOKENS = {"cpu": 2048, "mps": 16384, "cuda": 65536}
"""Padded tokens of one forward pass, by kind of device (the fastest of a few tried on two CPU
cores)."""
B = TypeVar("B")
Inputs = dict[str, torch.Tensor]
"""Arguments of a forward pass, by name."""
Judge = Callable[[torch.Tensor, Sequence[Encoding]], tuple[Floats, torch.Tensor]]
"""Gives the loss of each page and their differentiable sum, from hidden states as `Forward.hidden`
gives them."""
Change = Callable[[Sequence[Encoding], torch.Tensor], torch.Tensor]
"""Gives what stands in place of the word embeddings of some pages, (n_pages, n_padded_tokens,
n_hidden)."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number formats that a scan may be asked for, in PyTorch's words."""


@dataclass(frozen=True)
class Prepared:
    """The rows of one forward pass, ready to be run.

    Attributes:
        rows: their numbers.
        pages: their pages, and after them the first one again up to the rows of the pass.
        bucket: tokens that each row is padded to.
        inputs: tokens and boxes, in the memory of this process.
    """

    rows: Sequence[int]
    pages: Sequence[Encoding]
    bucket: int
    inputs: Inputs


Rows = deque[tuple[int, list[int]]]
"""Rows that wait for a forward pass: buckets, and numbers of rows that are padded to each."""


@dataclass(eq=False)
class Forward:
    """The encoder of one checkpoint.

    Args:
        model: the transformers model, in evaluation mode, in float32.
        family: its family.
        pad_id: what pages are padded with.
        device: "cpu", "cuda" or "mps".
        batch_tokens: padded tokens a batch may hold.
        dtype: what matrix products are computed in; sums and layer norms stay in float32
            (autocast), and so do heads and losses, which run elsewhere. `COMPILED`: the encoder is
            compiled too, but for gradients and under heads that call it.
        through_head: let the model call its encoder, for heads that give it something of their own
            (the global attention of Longformer); what the head itself makes of it is thrown away.
    """

    model: Any
    family: Family
    pad_id: int
    device: str
    batch_tokens: InitVar[int]
    dtype: str = "float32"
    through_head: bool = False

    def __post_init__(self, batch_tokens: int) -> None:
        """Find the model's encoder, its word embeddings, and its way of reading page images."""
        self.batch = Batch(batch_tokens)
        # CUDA kernels depend on the number of rows, so there it is always the same.
        self.fixed_rows = self.device != "cpu"
        self._encoder = getattr(self.model, self.family.encoder)
        self._compiled: Callable[..., Any] | None = None
        self._step = STEP
        if self.dtype == COMPILED and not self.through_head:
            self._compiled = compile_encoder(self._encoder)
            self._step = COMPILED_STEP
        self._autocast = torch.bfloat16 if self.dtype == COMPILED else DTYPES[self.dtype]
        self.words = self._encoder.get_input_embeddings()
        # What a backward pass needs of a row, compared with a forward pass: the states of all
        # layers, not of one.
        self._backward_cost: int = self.model.config.num_hidden_layers
        splits_last = self.model.config.model_type in TABLE["splits_last"]
        self._last = self._encoder.encoder.layer[-1] if splits_last else None
        sight = self.family.sight_of(self.model.config)
        boxes = self.family.boxes
        self._visual: VisualInputs | None = None
        self._n_appended = 0 if sight is None else sight.n_appended
        if sight is not None and boxes is not None:
            self._visual = VisualInputs(self._encoder, sight, boxes, self.device)

    def hidden(
        self, lengths: Sequence[int], page_of: Callable[[int], Encoding]
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield per batch its row numbers, and the rows' last hidden states.

        These are float32, (n_rows or more, n_padded_tokens, n_hidden).

        When memory runs out the batch is halved and tried again, and batches stay that small. On a
        CPU no answer depends on it; on a GPU later answers may differ from earlier ones in their
        last bits, and the record says so.

        Args:
            lengths: tokens of each row.
            page_of: makes a row's page; called when its batch is run.

        Raises:
            EngineError: not even a single page fits.
        """

        def run(batch: Prepared) -> torch.Tensor:
            """Return the last hidden states of one batch of rows."""
            return self._encode(self._on_device(batch), batch.bucket)

        return self._run_batches(lengths, page_of, run)

    def hidden_at(
        self, pages: Sequence[Encoding], places: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield per batch its row numbers, and the last hidden states at each row's positions.

        These stand one row after the other.

        See `hidden`; shape (n_places_of_all_rows, n_hidden). Where the family allows it, the last
        layer computes little else; the states are the same.
        """

        def run(batch: Prepared) -> torch.Tensor:
            """Return the last hidden states of one batch at its rows' positions alone."""
            inputs = self._on_device(batch)
            indices = _indices([places[row] for row in batch.rows], len(batch.pages))
            if self._last is None or self.fixed_rows:
                rows_and_places = (index.to(self.device) for index in indices[:2])
                return self._encode(inputs, batch.bucket)[*rows_and_places]
            with only_at(self._last, indices):
                return self._encode(inputs, len(indices[0]))[0]

        lengths = [len(page.ids) for page in pages]
        for rows, states in self._run_batches(lengths, pages.__getitem__, run):
            yield rows, states[: sum(len(places[row]) for row in rows)]

    def gradients(
        self, pages: Sequence[Encoding], judge: Judge, change: Change = lambda _, embedded: embedded
    ) -> Iterator[tuple[list[int], tuple[Floats, torch.Tensor]]]:
        """Yield per batch its pages, with their losses (n_pages,) and gradients of these.

        A gradient is that of a page's own loss with respect to its word embeddings, as `change`
        left them: (n_pages, n_padded_tokens, n_hidden), float32. Batches are smaller than those of
        `hidden`, so that memory stays about the same.

        Raises:
            EngineError: not even a single page fits.
        """
        lengths = [len(page.ids) for page in pages]
        run = partial(self._differentiate, judge, change)
        return self._run_batches(lengths, pages.__getitem__, run, self._backward_cost)

    def _run_batches(
        self,
        lengths: Sequence[int],
        page_of: Callable[[int], Encoding],
        run: Callable[[Prepared], B],
        cost: int = 1,
    ) -> Iterator[tuple[list[int], B]]:
        """Yield per batch its row numbers, and what `run` returns for them.

        A GPU computes on its own: while it does, the next batch is prepared, and the one before it
        is read by whoever asked.

        Args:
            lengths: tokens of each row.
            page_of: makes a row's page; called when its batch is prepared.
            run: starts the forward pass of a batch, and returns what it computes.
            cost: how many times the memory of a plain forward pass a row takes.

        Yields:
            Each batch, once its pass is started.
        """
        n_positions = self.family.n_positions(self.model.config)
        sizes = Buckets(self._n_appended, self._step, n_positions)
        waiting: Rows = deque(batches(lengths, self.batch.size // cost, sizes))
        batch = self._prepare_next(waiting, page_of, cost)
        while batch is not None:
            outcome = unless_out_of_memory(partial(run, batch))
            if outcome is None:
                tokens = len(batch.pages) * (batch.bucket + self._n_appended) * cost
                self.batch.lower(min(self.batch.size, tokens) // 2, self.device)
                waiting.appendleft((batch.bucket, [*batch.rows]))
            following = self._prepare_next(waiting, page_of, cost)
            if outcome is not None:
                yield [*batch.rows], outcome
            batch = following

    def _prepare_next(
        self, waiting: Rows, page_of: Callable[[int], Encoding], cost: int
    ) -> Prepared | None:
        """Prepare the first rows that wait, as many as fit into memory; None where none waits.

        Args:
            waiting: rows that wait; those that are prepared are taken away.
            page_of: makes a row's page.
            cost: how many times the memory of a plain forward pass a row takes.
        """
        if not waiting:
            return None
        bucket, rows = waiting.popleft()
        n_rows = max(1, self.batch.size // cost // (bucket + self._n_appended))
        if self.family.alone:
            n_rows = 1
        if not self.fixed_rows:
            n_rows = min(len(rows), n_rows)
        if rows[n_rows:]:
            waiting.appendleft((bucket, rows[n_rows:]))
        rows = rows[:n_rows]
        pages = [page_of(row) for row in rows]
        # Rows beyond the last page repeat the first one: their results are thrown away.
        pages += [pages[0]] * (n_rows - len(pages))
        return Prepared(rows, pages, bucket, self._padded(pages, bucket))

    def _encode(self, inputs: dict[str, torch.Tensor], bucket: int) -> torch.Tensor:
        """Return the encoder's last hidden states in float32, without most appended tokens."""
        with torch.autocast(self.device, self._autocast, enabled=self.dtype != "float32"):
            states = self._last_states(inputs)
        # Of tokens that the model appended, only as many go on as fill the last block of the
        # text's.
        return states[:, : padded_rows(bucket)].float()

    def _last_states(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the last hidden states that the encoder gives, run alone or under its head."""
        if not self.through_head:
            encoder: Callable[..., Any] = self._encoder
            # Gradients are taken at a hook within the encoder, which a compiled one has not.
            if self._compiled is not None and not torch.is_grad_enabled():
                encoder = self._compiled
            states: torch.Tensor = encoder(**inputs).last_hidden_state
            return states
        with outputs_of(self._encoder) as seen:
            self.model(**inputs)
        return seen[-1].last_hidden_state  # type: ignore[no-any-return]  # whatever transformers' models return

    def _differentiate(
        self, judge: Judge, change: Change, batch: Prepared
    ) -> tuple[Floats, torch.Tensor]:
        """Return the losses of one batch's pages, and the gradients at its word embeddings.

        No gradient is left at the model's parameters.
        """
        # Tensors that are made in inference mode cannot be differentiated later.
        with torch.inference_mode(False):
            with torch.no_grad():
                inputs = self._on_device(batch)
            with torch.enable_grad(), self._embedded(batch.pages, change) as leaves:
                losses, total = judge(self._encode(inputs, batch.bucket), batch.pages)
            (gradient,) = torch.autograd.grad(total, leaves)
        return losses[: len(batch.rows)], gradient[: len(batch.rows)]

    @contextmanager
    def _embedded(self, pages: Sequence[Encoding], change: Change) -> Iterator[list[torch.Tensor]]:
        """Replace the pages' word embeddings within by `change`'s; yield these as leaves.

        Yields these.
        """
        leaves: list[torch.Tensor] = []

        def begin(_: Any, __: Any, embedded: torch.Tensor) -> torch.Tensor:
            """Return the changed embeddings in place of the layer's own, kept for gradients."""
            leaves.append(change(pages, embedded.detach()).requires_grad_())
            return leaves[-1]

        with self.words.register_forward_hook(begin):
            yield leaves

    def _padded(self, pages: Sequence[Encoding], bucket: int) -> Inputs:
        """Return tokens and boxes of pages, each padded to `bucket` tokens."""
        ids = np.full((len(pages), bucket), self.pad_id, np.int64)
        mask = np.zeros((len(pages), bucket), np.int64)
        boxes = np.zeros((len(pages), bucket, 4))
        for row, page in enumerate(pages):
            length = len(page.ids)
            ids[row, :length] = page.ids
            mask[row, :length] = 1
            boxes[row, :length] = page.boxes
        # Also read where gradients are asked for, which take no tensor of inference mode.
        with torch.inference_mode(False):
            return self.family.inputs(ids, mask, boxes, "cpu")

    def _on_device(self, batch: Prepared) -> Inputs:
        """Return the inputs of a batch, with its pages' images where the encoder sees them."""
        inputs = {name: on_device(self.device, tensor) for name, tensor in batch.inputs.items()}
        if self._visual is None:
            return inputs
        return {**inputs, **self._visual.batch(batch.pages, batch.bucket)}


def _indices(places: Sequence[Sequence[int]], n_pages: int) -> list[torch.Tensor]:
    """Return, for each position to read, tensors of its page, its place, and its slot in the page.

    And the places of each page.

    Shapes (n_read,) three times and (n_pages, n_slots), filled up to full blocks.
    """
    counts = [len(of_row) for of_row in places]
    pages = np.repeat(np.arange(len(places)), counts)
    slots = np.concatenate([*map(np.arange, counts)])
    positions = np.concatenate(places)
    of_page = np.zeros((n_pages, padded_rows(max(counts))), np.int64)
    of_page[pages, slots] = positions
    n_filled = padded_rows(len(positions)) - len(positions)
    columns = np.pad(np.stack([pages, positions, slots]), ((0, 0), (0, n_filled)))
    return [*torch.from_numpy(columns), torch.from_numpy(of_page)]


@contextmanager
def only_at(layer: Any, indices: Sequence[torch.Tensor]) -> Iterator[None]:
    """Have a layer like BERT's compute states within at some positions alone.

    Bit for bit the same.

    Keys and values are those of all tokens; queries, and all that follows from them, of these
    places.
    """
    pages, places, slots, of_page = indices
    own, rows = layer.attention.self, torch.arange(len(of_page))[:, None]

    def attend(
        hidden: torch.Tensor, attention_mask: torch.Tensor | None = None, **_: Any
    ) -> tuple[torch.Tensor, None]:
        """Return attention with queries of the read positions alone: (1, n_read, n_hidden)."""
        query, key, value = (
            part(states).unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2)
            for part, states in (
                (own.query, hidden[rows, of_page]),
                (own.key, hidden),
                (own.value, hidden),
            )
        )
        mask = None if attention_mask is None else attention_mask[:, :, : of_page.shape[1]]
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, mask, scale=own.scaling
        )
        return found.transpose(1, 2).flatten(2)[pages, slots][None], None

    cut = layer.attention.output.register_forward_pre_hook(
        lambda _, given: (given[0], given[1][pages, places][None])
    )
    with running(own, attend), cut:
        yield


@contextmanager
def outputs_of(module: torch.nn.Module) -> Iterator[list[Any]]:
    """Yield a list that collects the module's outputs within."""
    seen: list[Any] = []
    with module.register_forward_hook(lambda *given: seen.append(given[-1])):
        yield seen


@contextmanager
def frozen(model: torch.nn.Module) -> Iterator[None]:
    """Switch off gradients of all the model's parameters within."""
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)
