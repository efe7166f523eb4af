"""Separation of members from others without the model (methods/checks.md#blind-baseline).

Where somebody who never saw the model can separate them, what an attacker finds may be that
difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.stats.intervals import Interval
from audit.stats.roc import auc_interval

N_PERMUTATIONS = 1000
SIGNIFICANT = 0.01
"""p at or under which the splits differ: about the check's share of the 5 % of a scan
(methods/checks.md#blind-baseline)."""
ADVERSARY = 0.65
"""The AUC of somebody without the model that the check must be able to find
(methods/checks.md#blind-baseline)."""
N_FOLDS = 10
"""Of the cross-validation."""
PENALTY = 0.3
"""Of the ridge regressions, in units of a unit's mean squared norm."""
# 0.1 to 1 found planted differences between synthetic receipts about equally well, 3 and 10 less.
SPREAD = "spread"
"""Name of the block of squares."""
TOGETHER = "together"
"""Name of the classifier of all blocks together."""
MIN_UNITS = 5
"""Units a side under which no check is made: ten units have 252 arrangements, and no power."""
ROUNDING = 1e-9
"""A column that varies less, as a share of its largest value or of 1, is alike in all units."""
DECIMALS = 9
"""Predictions that agree to so many decimals are ties: equal documents differ by rounding alone."""


@dataclass(frozen=True)
class BlindCheck:
    """How well members and others can be separated without the model.

    Attributes:
        auc: how well the best of the classifiers separates units that it was not trained on. It is
            the best of several, so that without any difference it lies above 0.5: at `chance`.
        chance: the mean of that AUC over permuted labels.
        p_value: p-value of it, one-sided; in (0, 1].
        power: the chance that a difference which these classifiers see as an AUC of `ADVERSARY`
            gives p <= `SIGNIFICANT`, in [0, 1]; 0 where no feature varies. It says nothing of
            differences that they do not see.
        n_permutations: number of permutations.
        by_block: the AUC of the classifier of each block that is not alike in all units, and of
            that of all together; empty where no feature varies.
    """

    auc: Interval
    chance: float
    p_value: float
    power: float
    n_permutations: int
    by_block: Mapping[str, float]


def blind_check(
    features: Mapping[str, Any],
    member: npt.ArrayLike,
    units: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    strata: npt.ArrayLike | None = None,
    n_permutations: int = N_PERMUTATIONS,
) -> BlindCheck | None:
    """Test whether features distinguish member units from others.

    One ridge regression on the labels for each block and one for all together, cross-validated; the
    statistic is the largest AUC of them, for permuted labels as for the true ones, so that the
    choice is paid for (a difference in one block, such as the year in the words, is lost among all
    columns; one regression on all found an AUC of 0.60 as 0.56). A unit has the mean of its rows'
    features, and so the mean of their predictions. Columns of dense blocks are standardised, sparse
    ones centred, and each block is scaled to the same mean squared norm, so that none drowns the
    others. Folds are drawn from the units, never looking at labels; penalty, scaling and folds are
    the same for all permutations of the labels over units, so that p is exact when labels were
    assigned at random.

    The classifiers are linear: they take all permutations at once; the mean over a unit's rows is
    expected the same however many there are (a bent function of it would show how many documents a
    provider has, which follows from the split); and what splits differ in, times, scanners, layouts
    and vendors, shows as terms, greys and positions that are commoner on one side. A difference in
    the spread alone has a further block, `SPREAD`: the squares of the standardised columns of all
    dense blocks, of one row of each unit, drawn by lot, so that the number of rows does not show.
    Of simulated data sets with a column in 80 three times as spread on one side it found 9 of 12
    instead of 2, at 110 units a side, for a power of 0.78 instead of 0.81.

    Args:
        features: features by block, (n_rows, n_features), numpy arrays or scipy sparse matrices;
            finite.
        member: (n_rows,) bool, constant within a unit.
        units: (n_rows,) integers.
        rng: random generator of folds and permutations.
        strata: (n_rows,) integers, constant within a unit: labels were assigned within each of
            these and are permuted within them; folds are drawn from them, for within a stratum of
            fixed size a document's label implies the opposite about the others. None: labels were
            assigned over all units.
        n_permutations: number of permutations.

    Returns:
        None with fewer than `MIN_UNITS` units on a side.

    Raises:
        ValueError: lengths differ, or labels or strata are not constant within a unit.
    """
    names, first, unit_of = np.unique(np.asarray(units), return_index=True, return_inverse=True)
    labels = _of_units(np.asarray(member, bool), first, unit_of)
    if min(labels.sum(), (~labels).sum()) < MIN_UNITS:
        return None
    groups = (
        np.arange(len(names)) if strata is None else _of_units(np.asarray(strata), first, unit_of)
    )
    folds = _folds(groups, rng)
    arrangements = np.column_stack(
        [labels, _permuted(labels, None if strata is None else groups, n_permutations, rng)]
    )
    squares = _squares(features, unit_of, rng.spawn(1)[0])
    kernels = _kernels({**features, **squares}, unit_of, len(names))
    scores = {name: _predictions(kernel, arrangements, folds) for name, kernel in kernels.items()}
    areas = {name: _areas(columns, arrangements) for name, columns in scores.items()}
    varying = any(kernel.any() for kernel in kernels.values())
    best = max(areas, key=lambda name: float(areas[name][0]))
    largest = np.max([*areas.values()], axis=0)
    auc = auc_interval(scores[best][labels, 0], scores[best][~labels, 0])
    auc = replace(auc, method=f"{auc.method}, best of {len(areas)} cross-validated classifiers")
    p_value = float((1 + np.sum(largest[1:] >= largest[0])) / (1 + n_permutations))
    power = _power(largest[1:], int(labels.sum()), int((~labels).sum())) if varying else 0.0
    by_block = {name: float(column[0]) for name, column in areas.items() if varying}
    return BlindCheck(auc, float(largest[1:].mean()), p_value, power, n_permutations, by_block)


def auc_error(area: float, members: int, others: int) -> float:
    """Compute the standard error of an AUC (Hanley & McNeil 1982, exponential scores).

    Args:
        area: the true AUC, in (0, 1).
        members: units of one side, at least one.
        others: units of the other side, at least one.
    """
    two_members = area / (2 - area) - area**2
    two_others = 2 * area**2 / (1 + area) - area**2
    variance = area * (1 - area) + (members - 1) * two_members + (others - 1) * two_others
    return float((variance / (members * others)) ** 0.5)


def _of_units(values: npt.NDArray[Any], first: Ints, unit_of: Ints) -> npt.NDArray[Any]:
    """Return the label or stratum of each unit, (n_units,), from those of its rows.

    They must be constant within a unit.
    """
    if values.shape != unit_of.shape:
        raise ValueError("every row needs one unit, one label and one stratum")
    if not np.array_equal(values[first][unit_of], values):
        raise ValueError("labels and strata must be constant within a unit")
    return values[first]


def _folds(groups: npt.NDArray[Any], rng: np.random.Generator) -> Ints:
    """Draw the fold of each unit: nearly equal numbers of whole groups a fold.

    A single group is divided.
    """
    names, group_of = np.unique(groups, return_inverse=True)
    if len(names) == 1:
        names = np.arange(len(groups))
        group_of = np.arange(len(groups))
    order: Ints = rng.permutation(len(names)) % min(N_FOLDS, len(names))
    return order[group_of]


def _permuted(
    labels: Bools, strata: npt.NDArray[Any] | None, n_permutations: int, rng: np.random.Generator
) -> Bools:
    """Permute labels as they might have been assigned: (n_units, n_permutations)."""
    groups = np.zeros(len(labels), int) if strata is None else strata
    arrangements = np.tile(labels[:, None], n_permutations)
    for group in np.unique(groups):
        within = groups == group
        arrangements[within] = rng.permuted(arrangements[within], axis=0)
    return arrangements


def _squares(
    features: Mapping[str, Any], unit_of: Ints, rng: np.random.Generator
) -> dict[str, Floats]:
    """Compute squared distances from the mean of rows that represent each row's unit, by column."""
    from scipy.sparse import issparse

    order = rng.permutation(len(unit_of))
    drawn = order[np.unique(unit_of[order], return_index=True)[1]][unit_of]
    dense = [
        np.asarray(block, np.float64)[drawn] for block in features.values() if not issparse(block)
    ]
    if not dense:
        return {}
    columns = np.hstack(dense)
    units = columns[np.unique(drawn)]
    spread = units.std(axis=0)
    largest = np.abs(units).max(axis=0)
    varying = spread > ROUNDING * np.maximum(1.0, largest)
    return (
        {SPREAD: ((columns - units.mean(axis=0))[:, varying] / spread[varying]) ** 2}
        if varying.any()
        else {}
    )


def _kernels(features: Mapping[str, Any], unit_of: Ints, n_units: int) -> dict[str, Floats]:
    """Compute inner products of the units, by block that differs between them.

    Their mean over such blocks comes with them.
    """
    kernels = {name: _kernel(block, unit_of, n_units) for name, block in features.items()}
    differing = {name: kernel for name, kernel in kernels.items() if kernel.any()}
    if len(differing) == 1:
        return differing
    return {
        **differing,
        TOGETHER: sum(differing.values(), np.zeros((n_units, n_units))) / max(1, len(differing)),
    }


def _kernel(block: Any, unit_of: Ints, n_units: int) -> Floats:
    """Compute inner products of the units' centred features, mean squared norm 1.

    Zeros where all are alike.
    """
    from scipy.sparse import csr_array, issparse

    rows = np.arange(len(unit_of))
    shares = csr_array(
        (1 / np.bincount(unit_of)[unit_of], (unit_of, rows)), shape=(n_units, len(unit_of))
    )
    means = shares @ block
    if issparse(means):
        products = np.asarray((means @ means.T).todense(), np.float64)
        products -= products.mean(axis=0)
        kernel = products - products.mean(axis=1, keepdims=True)
        largest = float(means.max()) ** 2 if means.nnz else 0.0
    else:
        spread = means.std(axis=0)
        varying = spread > ROUNDING * np.maximum(1.0, np.abs(means).max(axis=0))
        columns = (means[:, varying] - means[:, varying].mean(axis=0)) / spread[varying]
        kernel = columns @ columns.T
        largest = 1.0
    norm = float(np.trace(kernel)) / n_units
    return kernel / norm if norm > 1e-12 * largest and norm > 0 else np.zeros_like(kernel)


def _predictions(kernel: Floats, arrangements: Bools, folds: Ints) -> Floats:
    """Predict each unit by ridge regression on the other folds, for each arrangement of the labels.

    Same shape. Without fitting a fold: with G the inverse of kernel + penalty, the residuals of the
    units S of a fold, left out, are G_SS^-1 (G y)_S (An, Liu & Venkatesh 2007, equation 14; as
    scikit-learn's `KernelRidge` does one by one, tested). Labels are taken from their mean over all
    units, which no permutation changes, so that a fold's own share of members does not follow from
    the others'.
    """
    targets = arrangements - arrangements.mean(axis=0)
    inverse = np.linalg.inv(kernel + PENALTY * np.eye(len(kernel)))
    weights = inverse @ targets
    predictions = np.empty(targets.shape)
    for fold in np.unique(folds):
        left = folds == fold
        residuals = np.linalg.solve(inverse[np.ix_(left, left)], weights[left])
        predictions[left] = targets[left] - residuals
    return predictions.round(DECIMALS)


def _areas(scores: Floats, arrangements: Bools) -> Floats:
    """Compute the AUC of each column of scores for its arrangement of labels.

    The shape is (n_arrangements,).
    """
    from scipy.stats import rankdata

    members = arrangements.sum(axis=0)
    sums = (rankdata(scores, axis=0) * arrangements).sum(axis=0)
    return np.asarray(
        (sums - members * (members + 1) / 2) / (members * (len(scores) - members)), np.float64
    )


def _power(permuted: Floats, members: int, others: int) -> float:
    """Compute the chance that a classifier whose true AUC is `ADVERSARY` gets p <= `SIGNIFICANT`.

    It does when its AUC is above the permuted ones that p allows to be as large; around `ADVERSARY`
    the AUC is taken as Gaussian with `auc_error`. 0 where so few permutations allow no such p.
    """
    from scipy.stats import norm

    allowed = int(SIGNIFICANT * (1 + len(permuted)) + 1e-9)
    if not allowed:
        return 0.0
    return float(
        norm.sf(np.sort(permuted)[-allowed], ADVERSARY, auc_error(ADVERSARY, members, others))
    )
