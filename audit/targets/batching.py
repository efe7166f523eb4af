"""Batching: rows of many queries share a forward pass without changing each other's results.

A row is padded to a bucket fixed by its own length and only rows of one bucket share a batch.
Buckets are multiples of `STEP` tokens and gathered rows are padded to multiples of `STEP`, because
matrix kernels treat the rows left over after their last full block in another order of summation;
with full blocks only, a row's result does not depend on how many rows stand beside it (checked bit
for bit by the contract tests). Wide layers need a setting for that, too: see `audit/__init__.py`.
A bucket is always longer than its row, so that a batch never loses
its attention mask and with it takes another kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from audit.errors import EngineError

B = TypeVar("B")
STEP = 16


@dataclass
class Batch:
    """The tokens or samples that a forward pass may hold; one checkpoint's number formats share it.

    Attributes:
        size: the number.
        lowered: number of times that it was lowered because memory ran out.
    """

    size: int
    lowered: int = 0

    def lower(self, size: int, device: str) -> None:
        """Lower the number to `size` after memory ran out.

        Raises:
            EngineError: the size is 0: not even one page fits.
        """
        if device == "cuda":
            torch.cuda.empty_cache()
        if size < 1:
            raise EngineError(
                "not enough memory for a single page", "free some, or run on a device that has more"
            )
        self.size = size
        self.lowered += 1


def bucket_of(n_tokens: int, n_appended: int = 0) -> int:
    """Return the padded length of a row of `n_tokens` tokens.

    It is the next above `n_tokens` that fills a block with what is appended.

    Args:
        n_tokens: number of tokens of the row.
        n_appended: tokens that the model itself puts after the row's, such as patches of the page's
            image.
    """
    return Buckets(n_appended).of(n_tokens)


@dataclass(frozen=True)
class Buckets:
    """The lengths that rows of a model are padded to.

    Attributes:
        n_appended: tokens that the model itself puts after a row's.
        step: buckets are multiples of it, with what is appended: of `STEP`, or of a multiple.
        n_positions: tokens that the model has a place for; a bucket of `STEP` always fits.
    """

    n_appended: int = 0
    step: int = STEP
    n_positions: int = 0

    def of(self, n_tokens: int) -> int:
        """Return the padded length of a row of `n_tokens` tokens."""
        n_all = n_tokens + self.n_appended
        bucket = n_all // self.step * self.step + self.step - self.n_appended
        if self.step > STEP and bucket > self.n_positions:
            return bucket_of(n_tokens, self.n_appended)
        return bucket


def longest_row(max_positions: int, n_appended: int = 0) -> int:
    """Return the most tokens of a row whose padded length still fits the model's positions.

    See `bucket_of`.
    """
    return (max_positions + n_appended) // STEP * STEP - n_appended - 1


def padded_rows(n_rows: int) -> int:
    """Return the number of rows that a head is given for `n_rows`: the next multiple of `STEP`."""
    return -(-n_rows // STEP) * STEP


def in_blocks(rows: torch.Tensor, head: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return what `head` returns for the rows (n_rows, n_columns), computed in full blocks."""
    filled = torch.nn.functional.pad(rows, (0, 0, 0, padded_rows(len(rows)) - len(rows)))
    return head(filled)[: len(rows)]


def batches(
    lengths: Sequence[int], batch_tokens: int, sizes: Buckets
) -> Iterator[tuple[int, list[int]]]:
    """Yield batches of rows of one padded length each.

    Args:
        lengths: the number of tokens of each row.
        batch_tokens: padded and appended tokens a batch may hold; at least one row is always taken.
        sizes: the lengths that rows are padded to.

    Yields:
        The bucket and the indices of the rows in the batch, each index once, in order within its
        bucket.
    """
    buckets: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        buckets[sizes.of(length)].append(index)
    for bucket, rows in sorted(buckets.items()):
        size = max(1, batch_tokens // (bucket + sizes.n_appended))
        for start in range(0, len(rows), size):
            yield bucket, rows[start : start + size]


def unless_out_of_memory(run: Callable[[], B]) -> B | None:
    """Return what `run` returns; None when memory ran out."""
    try:
        return run()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return None


def out_of_memory(error: RuntimeError) -> bool:
    """Test whether an error says that the device's memory ran out.

    CUDA has a class for it; the allocators of the CPU and of Apple name it in their message.
    """
    message = str(error)
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "can't allocate memory" in message
        or "out of memory" in message
    )
