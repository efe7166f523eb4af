"""Standard errors and cluster-t bounds from what each cluster does to a number (jackknife; methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.arrays import Floats
from audit.stats.clusters import effective_number


@dataclass(frozen=True)
class Jackknife:
    """Leave-one-cluster-out.

    Attributes:
        standard_error: square root of the variance, summed over strata.
        degrees_of_freedom: Satterthwaite's, over strata.
        acceleration: Efron's, for BCa.
    """

    standard_error: float
    degrees_of_freedom: float
    acceleration: float

    def reach(self, tails: Floats) -> Floats:
        """Distance of the cluster-t bound at each tail from the value, shape (n_tails,)."""
        from scipy.special import stdtrit

        return np.asarray(-stdtrit(self.degrees_of_freedom, tails) * self.standard_error, np.float64)


def from_influences(influences: Sequence[Floats]) -> Jackknife:
    """The jackknife of clusters that count alike (multi-sample form of Efron & Tibshirani 1993, section 14.3).

    Args:
        influences: one array of shape (n_clusters_s,) a stratum, n_clusters_s at least 2:
            (n - 1) / n * (mean of the values without one cluster - value without this one).
    """
    variances = [float(np.sum(influence**2)) for influence in influences]
    degrees = [influence.size - 1 for influence in influences]
    acceleration = sum(float(np.sum(influence**3)) for influence in influences) / (6 * sum(variances) ** 1.5)
    # The usual jackknife variance has (n - 1) / n where the sum of squared influences / n^2 has ((n - 1) / n)^2.
    unbiased = [term * (degree + 1) / degree for term, degree in zip(variances, degrees, strict=True)]
    return Jackknife(sum(unbiased) ** 0.5, _satterthwaite(unbiased, degrees), acceleration)


def from_unequal(influences: Sequence[Floats], sizes: Sequence[Floats]) -> Jackknife:
    """The jackknife of clusters that hold unequal numbers of rows: variance at least s^2 / K, and K - 1 degrees.

    K = (sum m)^2 / sum m^2 is Kish's effective number; s^2 is the mean over rows of the squared influence that a
    cluster has for each of its rows. That is the variance when this does not depend on a cluster's size, as with rows
    that go together; where the largest few clusters happen to agree, the plain variance misses it.

    Args:
        influences: as `from_influences` takes them.
        sizes: rows of each cluster, the same shapes, positive.
    """
    plain = from_influences(influences)
    variances, degrees = [], []
    for influence, rows in zip(influences, sizes, strict=True):
        effective, n = effective_number(rows), influence.size
        alike = float(np.sum(influence**2 / rows)) * float(rows.sum()) / effective
        degrees.append(max(effective - 1, 1.0))
        variances.append(
            max(float(np.sum(influence**2)) * n / (n - 1), alike * effective / degrees[-1] if effective < n else 0.0)
        )
    return Jackknife(sum(variances) ** 0.5, _satterthwaite(variances, degrees), plain.acceleration)


def _satterthwaite(variances: Sequence[float], degrees: Sequence[float]) -> float:
    spread = sum(variances)
    return spread**2 / sum(term**2 / degree for term, degree in zip(variances, degrees, strict=True))
