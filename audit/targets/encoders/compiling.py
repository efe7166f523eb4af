"""Encoders through torch.compile, for GPUs: half of the time of a plain pass on an H100.

A GPU reads and writes its memory for each small step of a layer. A compiler joins such steps
(benchmarks/gpu/h100/tables.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

COMPILED = "compiled bfloat16"
"""The number format of a compiled encoder: bfloat16, joined steps rounding otherwise."""
COMPILED_STEP = 64
"""Buckets of a compiled encoder are multiples of it: each of them is compiled by itself."""
MOST_BUCKETS = 64
"""Buckets that are compiled; over the compiler's usual limit a bucket would silently run as
before."""
WORTH_TOKENS = 100_000_000
"""Padded tokens from which compiling pays: a bucket takes about 14 seconds, which 25 million tokens
give back, and pages fall into about four buckets (benchmarks/gpu/h100/tables.md)."""


def compile_encoder(encoder: Any, **options: Any) -> Callable[..., Any]:
    """Return a function that runs an encoder compiled, each shape of inputs by itself.

    Args:
        encoder: the encoder, in evaluation mode. It is compiled when a shape is first run.
        options: further options of `torch.compile`.
    """
    compiled: Any = torch.compile(encoder, dynamic=False, **options)
    limit = "recompile_limit"
    if not hasattr(torch._dynamo.config, limit):
        limit = "cache_size_limit"  # of PyTorch before 2.7

    def run(**inputs: torch.Tensor) -> Any:
        """Run the compiled encoder on a batch."""
        with torch._dynamo.config.patch({limit: MOST_BUCKETS}):
            return compiled(**inputs)

    return run
