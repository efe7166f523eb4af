"""Sums by cluster: rows of one document are not independent, so everything else starts from these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
