"""Compute intervals from counts again, by published formulas and scipy alone.

Where docaudit resamples (BCa), this resamples too, with other random numbers and plain percentiles.
Both ends then agree within `RESAMPLED` of the interval's width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from scipy.stats import beta, t

TAIL = 0.025
N_RESAMPLES = 4000
RESAMPLED = 0.25
"""Share of an interval's width by which two ways of resampling may differ at an end."""
JOINED = 0.1
"""The same of two ways to join intervals of rates that may go together."""
FEW_DIFFER = 20
"""Documents that differ, under which the intervals of rates are joined and nothing is resampled."""
FEW_OVERLAP = 3
"""Units of a side placed otherwise than most, under which the variance of an area is bounded."""
Floats = npt.NDArray[np.float64]


class Ends(NamedTuple):
    """Both ends of an interval, how they were computed, and how far they may be from printed ones.

    Attributes:
        slack: as a share of the interval's width; 0 where the formula is the same.
    """

    low: float
    high: float
    how: str
    slack: float = 0.0

    def scaled(self, factor: float) -> Ends:
        """Return the ends times a factor."""
        return self._replace(low=factor * self.low, high=factor * self.high)


class Side(NamedTuple):
    """What an attack gains and loses on the values of a side, each in [0, 1], and their documents.

    Attributes:
        loses: whether something is taken off at all.
    """

    gained: Floats
    lost: Floats
    documents: Sequence[str]
    loses: bool = True

    @property
    def value(self) -> float:
        """Return the mean gain minus the mean loss."""
        return float(np.mean(self.gained) - np.mean(self.lost))

    @property
    def n_differing(self) -> int:
        """Count the documents with a value on which gain and loss differ."""
        rows = np.flatnonzero(self.gained != self.lost).tolist()
        return len({self.documents[row] for row in rows})


def side_of(
    attack: Sequence[float], baseline: Sequence[float] | None, documents: Sequence[str]
) -> Side:
    """Return a side from what was found with the model, and without it where that is taken off."""
    with_model = np.array(attack, float)
    if baseline is None:
        return Side(with_model, np.zeros_like(with_model), documents, loses=False)
    without = np.array(baseline, float)
    return Side(with_model * (1 - without), (1 - with_model) * without, documents)


def clopper_pearson(share: float, n: float) -> tuple[float, float]:
    """Return the exact interval of a share of n trials; n may be any positive number."""
    hits = share * n
    low = 0.0
    high = 1.0
    if share > 0:
        low = float(beta.ppf(TAIL, hits, n - hits + 1))
    if share < 1:
        high = float(beta.ppf(1 - TAIL, hits + 1, n - hits))
    return low, high


def korn_graubard(hits: Sequence[float], documents: Sequence[str]) -> tuple[float, float]:
    """Return the interval of a share of hits by Korn and Graubard (1998), clustered by document.

    Where documents hold unequally many rows, Kish's effective number of them counts.
    """
    rows = np.array(hits, float)
    names = sorted(set(documents))
    place = {name: index for index, name in enumerate(names)}
    labels = np.array([place[name] for name in documents])
    sizes = np.bincount(labels).astype(float)
    sums = np.bincount(labels, rows)
    n = rows.size
    share = float(rows.mean())
    effective = float(sizes.sum() ** 2 / np.sum(sizes**2))
    if n == len(names):
        return clopper_pearson(share, n)
    if len(names) == 1 or share in (0.0, 1.0):
        return clopper_pearson(share, effective)
    residuals = (sums - share * sizes) / n
    variance = len(names) / (len(names) - 1) * float(np.sum(residuals**2))
    if not np.all(sizes == sizes[0]):
        alike = float(np.sum(residuals**2 / sizes)) * n / effective
        variance = max(variance, alike * effective / max(effective - 1, 1.0))
    n_effective = float(n)
    if variance > 0:
        n_effective = min(float(n), share * (1 - share) / variance)
    students = t.ppf(TAIL, n - 1) / t.ppf(TAIL, max(effective - 1, 1.0))
    return clopper_pearson(share, n_effective * float(students) ** 2)


def difference(sides: Sequence[Side], *, of_hits: bool = True) -> Ends:
    """Return the interval of a side's mean difference, or of the first minus the second side's.

    Resampled over documents, or joined from rates (MOVER; Zou & Donner 2008) where few differ.

    Args:
        sides: one side, or training and unseen documents.
        of_hits: whether each value was found or not; else documents count as hits, whatever
            their values spread.
    """
    for side in sides:
        n_documents = len(set(side.documents))
        if side.n_differing < min(FEW_DIFFER, n_documents):
            return _joined(sides, of_hits=of_hits)
    return resampled(sides)


def _joined(sides: Sequence[Side], *, of_hits: bool) -> Ends:
    """Join the intervals of gains and losses of each side as independent rates."""
    value = 0.0
    down = 0.0
    up = 0.0
    for sign, side in zip((1, -1), sides, strict=False):
        for direction, rows in ((sign, side.gained), (-sign, side.lost)):
            if direction != sign and not side.loses:
                continue
            share = float(np.mean(rows))
            low, high = rate_of(rows, side.documents, of_hits=of_hits)
            below = share - low if direction > 0 else high - share
            above = high - share if direction > 0 else share - low
            value += direction * share
            down += below**2
            up += above**2
    return Ends(value - down**0.5, value + up**0.5, "joined rates (MOVER)", JOINED)


def rate_of(rows: Floats, documents: Sequence[str], *, of_hits: bool) -> tuple[float, float]:
    """Return the interval of a mean of rows in [0, 1]; of shares, as if documents were hits."""
    if of_hits and np.isin(rows, (0.0, 1.0)).all():
        return korn_graubard(list(rows), documents)
    sizes = np.unique(list(documents), return_counts=True)[1].astype(float)
    return clopper_pearson(float(rows.mean()), float(sizes.sum() ** 2 / np.sum(sizes**2)))


def resampled(sides: Sequence[Side]) -> Ends:
    """Return percentiles of the difference over documents that are drawn again, side by side."""
    rng = np.random.default_rng(20261129)
    draws = np.zeros(N_RESAMPLES)
    for sign, side in zip((1, -1), sides, strict=False):
        draws += sign * _drawn_means(side.gained - side.lost, side.documents, rng)
    low, high = np.quantile(draws, (TAIL, 1 - TAIL))
    return Ends(float(low), float(high), "resampled documents", RESAMPLED)


def _drawn_means(rows: Floats, documents: Sequence[str], rng: np.random.Generator) -> Floats:
    """Return the mean of rows for each draw of documents."""
    labels = np.unique(list(documents), return_inverse=True)[1]
    sums = np.bincount(labels, rows)
    sizes = np.bincount(labels).astype(float)
    drawn = rng.integers(sums.size, size=(N_RESAMPLES, sums.size))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return np.asarray(means, np.float64)


def ratio(numerators: Floats, denominators: Floats) -> Ends:
    """Return the interval of a ratio of sums over documents, one entry each, by resampling."""
    rng = np.random.default_rng(20261129)
    drawn = rng.integers(numerators.size, size=(N_RESAMPLES, numerators.size))
    shares = numerators[drawn].sum(axis=1) / np.maximum(denominators[drawn].sum(axis=1), 1e-12)
    low, high = np.quantile(shares, (TAIL, 1 - TAIL))
    return Ends(float(low), float(high), "resampled documents", RESAMPLED)


def area(members: Sequence[float], strangers: Sequence[float]) -> tuple[float, Ends]:
    """Return the share of pairs whose member has the lower loss, ties as halves, and its interval.

    DeLong et al. (1988) on the logit scale with Student's t. Where hardly any unit overlaps,
    Clopper and Pearson's with the units of the smaller side.
    """
    inside = np.array(members, float)
    outside = np.array(strangers, float)
    wins = (inside[:, None] < outside) + 0.5 * (inside[:, None] == outside)
    placed = (wins.mean(axis=1), wins.mean(axis=0))
    value = float(wins.mean())
    if min(map(_n_unusual, placed)) < FEW_OVERLAP or not 0 < value < 1:
        low, high = clopper_pearson(value, min(inside.size, outside.size))
        return value, Ends(low, high, "Clopper-Pearson, units of the smaller side")
    parts = [float(side.var(ddof=1)) / side.size for side in placed]
    degrees = sum(parts) ** 2 / sum(
        term**2 / (side.size - 1) for term, side in zip(parts, placed, strict=True)
    )
    reach = float(t.isf(TAIL, degrees)) * sum(parts) ** 0.5 / (value * (1 - value))
    low = float(expit(logit(value) - reach))
    high = float(expit(logit(value) + reach))
    return value, Ends(low, high, "DeLong on the logit scale")


def _n_unusual(placements: Floats) -> int:
    """Count the units that are placed otherwise than the commonest of their side."""
    return placements.size - int(np.unique(placements, return_counts=True)[1].max())
