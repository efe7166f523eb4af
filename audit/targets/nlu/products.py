"""Matrix products whose rows do not depend on how many rows stand beside them, bit for bit.

Matrix kernels add up what is left over after their last full block in another order, and which numbers are left over
depends on the number of rows, when the other sides are no full blocks (see `audit.targets.batching`). Here these sides
are filled up with zeros.
"""

from __future__ import annotations

import torch
from torch import nn

from audit.targets.batching import STEP


def steady_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right` for (..., k) and (k, m), with k and m filled up to multiples of `STEP`; rows are the caller's."""
    k, m = right.shape
    if k % STEP or m % STEP:
        left = nn.functional.pad(left, (0, -k % STEP))
        right = nn.functional.pad(right, (0, -m % STEP, 0, -k % STEP))
    return (left @ right)[..., :m]


class SteadyLinear(nn.Linear):
    """A dense layer that computes as `steady_product` does, once it is trained."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """See `nn.Linear`."""
        if self.training:
            return super().forward(input)
        return steady_product(input, self.weight.T) + self.bias
