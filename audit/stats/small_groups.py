"""An exact test of two shares in groups too small for an interval (methods.md#statistics)."""

from __future__ import annotations

import numpy as np

_GRID = 401
"""Values of the unknown share that the largest p-value is sought among (ours)."""
_ROUNDING = 1e-9


def excess_p(found: int, n: int, found_others: int, n_others: int, allowed: float) -> float:
    """Test whether a share exceeds another one by more than `allowed`, without conditioning (Santner and Snell 1980).

    The p-value is the chance of as large a difference, at the unknown share of the others that makes it largest.

    Args:
        found: of `n` units.
        n: at least one.
        found_others: of `n_others` other units.
        n_others: at least one.
        allowed: the largest excess that is no finding, in [0, 1).

    Raises:
        ValueError: counts out of range.
    """
    from scipy.stats import binom

    if not (0 <= found <= n and 0 <= found_others <= n_others and n and n_others):
        raise ValueError("both groups need units, and no more may be found than there are")
    share = np.linspace(0, 1, _GRID)[:, None]
    each = np.arange(n + 1)
    # With so many found, at most this many of the others leave as large a difference.
    most = np.floor(n_others * (each / n - (found / n - found_others / n_others)) + _ROUNDING)
    chances = binom.pmf(each, n, np.minimum(1.0, share + allowed)) * binom.cdf(most, n_others, share)
    return float(min(1.0, chances.sum(axis=1).max()))
