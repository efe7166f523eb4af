"""The attacks that look at no label: AZK, and the two memorisation tests M1 and M2.

Tito et al. 2024, sections 5.1 and 5.2; methods.md#provider-membership. A call is 1 for "member", 0 for
"not", NaN for a provider that was not judged.
"""

from __future__ import annotations

import numpy as np

from audit.arrays import Floats

N_STARTS = 10
"""Starts of K-means, of which the tightest is kept (methods.md#provider-membership)."""
DECIMALS = 9
"""Features are rounded to so many decimals, so that providers that differ by rounding errors are one point (ours)."""


def zero_knowledge(accuracy: Floats, similarity: Floats, seed: int) -> Floats:
    """AZK: K-means with two clusters on unscaled accuracy and similarity; that of higher mean accuracy is "member".

    At equal mean accuracy it is that of higher mean similarity. Where there are fewer than two distinct points, nobody
    is called a member.

    Args:
        accuracy: in [0, 1], shape (n,), may hold NaN: such providers are not judged.
        similarity: in [0, 1], shape (n,), likewise.
        seed: of K-means.

    Returns:
        Calls, shape (n,).
    """
    return _two_clusters(np.column_stack([accuracy, similarity]), seed)


def remembers(similarity: Floats) -> Floats:
    """M1: a member where any answer without its evidence came out right (NLS_mem > 0).

    Args:
        similarity: `memory_similarity`, shape (n,), may hold NaN: such providers are not judged.

    Returns:
        Calls, shape (n,).
    """
    return np.where(np.isnan(similarity), np.nan, (similarity > 0).astype(np.float64))


def unmoved(change: Floats, seed: int) -> Floats:
    """M2: K-means with two clusters on the change of the unasked answer; that of smaller mean change is "member".

    Args:
        change: `memory_change`, in [0, 1], shape (n,), may hold NaN: such providers are not judged.
        seed: of K-means.

    Returns:
        Calls, shape (n,).
    """
    return _two_clusters(-change[:, None], seed)


def majority(*voters: Floats) -> Floats:
    """What most of an odd number of voters call; NaN where any of them did not judge.

    Args:
        voters: calls, each of shape (n,) or (n_seeds, n).

    Returns:
        Calls, of the voters' common shape.
    """
    votes = np.stack(np.broadcast_arrays(*voters))
    share = votes.mean(axis=0)
    return np.where(np.isnan(share), np.nan, (share > 0.5).astype(np.float64))


def _two_clusters(points: Floats, seed: int) -> Floats:
    """Calls from K-means: the cluster whose mean is larger in the first column, then in the next, is "member"."""
    from sklearn.cluster import KMeans

    calls = np.full(len(points), np.nan)
    judged = np.flatnonzero(~np.isnan(points).any(axis=1))
    rounded = np.round(points[judged], DECIMALS)
    calls[judged] = 0.0
    if len(np.unique(rounded, axis=0)) < 2:
        return calls
    labels = KMeans(2, n_init=N_STARTS, random_state=seed).fit_predict(rounded)
    means = [tuple(np.round(rounded[labels == label].mean(axis=0), DECIMALS)) for label in (0, 1)]
    calls[judged] = labels == int(means[1] > means[0])
    return calls
