"""Sums by cluster: rows of one document are not independent, so everything else starts from these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats


def cluster_sums(columns: Sequence[npt.ArrayLike], clusters: npt.ArrayLike) -> Floats:
    """Sum each column within each cluster.

    Args:
        columns: n_columns arrays of shape (n_rows,).
        clusters: the cluster (document or provider) of each row, shape (n_rows,), integers.

    Returns:
        Shape (n_clusters, n_columns), clusters in ascending order of their label.

    Raises:
        ValueError: there are no rows, or the lengths differ.
    """
    labels = np.asarray(clusters)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError("clusters must be a non-empty array of one dimension")
    values = [np.asarray(column, dtype=np.float64) for column in columns]
    if any(column.shape != labels.shape for column in values):
        raise ValueError("every column needs one value for each entry of clusters")
    distinct, position = np.unique(labels, return_inverse=True)
    return np.stack([np.bincount(position, column, minlength=distinct.size) for column in values], axis=1)


def effective_number(sizes: npt.ArrayLike) -> float:
    """Number of clusters of one size that are worth as much as clusters of these sizes (Kish 1965).

    (sum m)^2 / sum m^2, for rows of a cluster that go together: the number of clusters where all hold equally many
    rows, else fewer. Hits that come by whole clusters, the likelier the more rows a cluster holds, leave no trace among
    all of them as often as among so many equal ones.

    Args:
        sizes: rows of each cluster, shape (n_clusters,), at least one positive.

    Returns:
        In [1, n_clusters]; exactly n_clusters where all sizes are equal.

    Raises:
        ValueError: there are no sizes, or one is negative, or none is positive.
    """
    rows = np.asarray(sizes, dtype=np.float64)
    if rows.ndim != 1 or rows.size == 0 or not (rows >= 0).all() or not rows.any():
        raise ValueError("sizes must be a non-empty array of one dimension, none negative and one positive")
    if np.ptp(rows) == 0:
        return float(rows.size)
    return float(rows.sum() ** 2 / np.sum(rows**2))


def join_groups(groups: Iterable[Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Unite groups that share a member, directly or through others; members and groups are sorted."""
    owner: dict[str, set[str]] = {}
    for group in groups:
        whole = set(group).union(*(owner[name] for name in group if name in owner))
        owner.update(dict.fromkeys(whole, whole))
    return tuple(sorted({tuple(sorted(whole)) for whole in owner.values()}))
