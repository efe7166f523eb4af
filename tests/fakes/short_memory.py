"""An encoder that runs out of memory."""

from typing import Any

import torch


class ShortOfMemory(torch.nn.Module):
    """An encoder on a machine that holds so many padded tokens at once.

    `sizes` are those of all batches tried.
    """

    def __init__(
        self, encoder: Any, holds: int, error: type[RuntimeError] = torch.OutOfMemoryError
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.holds = holds
        self.error = error
        self.largest = self.failures = 0
        self.sizes: list[int] = []

    def forward(self, input_ids: torch.Tensor, **rest: Any) -> Any:
        self.sizes.append(input_ids.numel())
        if input_ids.numel() > self.holds:
            self.failures += 1
            raise self.error("DefaultCPUAllocator: can't allocate memory")
        self.largest = max(self.largest, input_ids.numel())
        return self.encoder(input_ids=input_ids, **rest)
