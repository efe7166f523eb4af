"""The paper's ways to call providers: AZK, the memorisation tests M1 and M2, and the forest of APK.

Tito et al. 2024, sections 5.1 and 5.2; methods.md#provider-membership. A call is 1 for "member", 0 for "not", NaN for a
provider that was not judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.arrays import Bools, Floats, Ints

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


def call_remembered(similarity: Floats) -> Floats:
    """M1: a member where any answer without its evidence came out right (NLS_mem > 0).

    Args:
        similarity: `memory_similarity`, shape (n,), may hold NaN: such providers are not judged.

    Returns:
        Calls, shape (n,).
    """
    return np.where(np.isnan(similarity), np.nan, (similarity > 0).astype(np.float64))


def call_unmoved(change: Floats, seed: int) -> Floats:
    """M2: K-means with two clusters on the change of the unasked answer; that of smaller mean change is "member".

    Args:
        change: `memory_change`, in [0, 1], shape (n,), may hold NaN: such providers are not judged.
        seed: of K-means.

    Returns:
        Calls, shape (n,).
    """
    return _two_clusters(-change[:, None], seed)


def majority(*voters: Floats) -> Floats:
    """Return the call of most of an odd number of voters; NaN where any of them did not judge.

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


SHARE = 0.15
"""Share of the providers whose membership the attacker knows, r (ours, methods.md#provider-membership; the paper
prints none)."""
MIN_TRAINED = 2
"""Of either side the attacker knows so many at least, as cross-validation needs."""
MIN_SIDE = 2 * MIN_TRAINED
"""So many providers a side there must be, since at most half of the smaller side is trained on (ours)."""
N_TREES = 50
N_CHECKED_TREES = 8
"""Trees of the forest, and of one that only compares settings (ours; the paper prints none)."""
LEAVES: tuple[float, ...] = (0.1, 1)
"""Providers that a leaf holds at least, as a share of those trained on or as a number: the setting that
cross-validation chooses (chosen here). At equal accuracy the first."""
N_FOLDS = 2
"""Folds of the cross-validation (ours)."""
N_GROUPS = 20
"""Groups that providers are drawn in, at most (ours): what the attack reaches without a group is what the forests reach
that were trained on nobody of it (`jackknife`), so that intervals cost no further forest."""


def groups_of(member: Bools) -> Ints:
    """The group of each provider, shape (n,): of either side as many in each, give or take one.

    There are `N_GROUPS`, or as many as the smaller side has providers. Groups are the same in every run. Providers are
    shuffled before sides are told apart: ranks among members would let the groups say something of the labels around
    them wherever the order of the rows does.

    Args:
        member: shape (n,).
    """
    order = np.random.default_rng(0).permutation(member.size)
    inside = order[member[order]]
    n_groups = max(1, min(N_GROUPS, inside.size, member.size - inside.size))
    groups = np.empty(member.size, np.int64)
    # The second side begins where the first one ends, so that groups differ by one provider in all.
    groups[np.concatenate([inside, order[~member[order]]])] = np.arange(member.size) % n_groups
    return groups


def training_share(member: Bools, share: float, rng: np.random.Generator) -> Ints:
    """The providers whose membership the attacker knows: as many of either side, group by group, groups at random.

    Together they are `share` of all providers, but two a side at least and half of the smaller side at most. Of the
    last group that is needed a part is taken, at random.

    Args:
        member: shape (n,).
        share: in (0, 1).
        rng: the source of randomness.

    Returns:
        Rows, ascending.

    Raises:
        ValueError: a side has fewer than `MIN_SIDE` providers.
    """
    groups = groups_of(member)
    order = rng.permutation(member.size)
    order = order[np.argsort(rng.permutation(groups.max() + 1)[groups[order]], kind="stable")]
    sides = [order[member[order]], order[~member[order]]]
    smaller = min(side.size for side in sides)
    if smaller < MIN_SIDE:
        raise ValueError(f"a forest needs {MIN_SIDE} providers a side: two to learn from, two to judge")
    n_each = int(np.clip(round(share * member.size / 2), MIN_TRAINED, smaller // 2))
    return np.sort(np.concatenate([side[:n_each] for side in sides])).astype(np.int64)


def partial_knowledge(features: Floats, member: Bools, share: float, seed: int) -> Floats:
    """Run APK with one training share.

    How large leaves must be is chosen by cross-validation inside the training share. A provider without a feature gets
    the median of the training share; a feature that nobody there has is left out.

    Args:
        features: shape (n, n_features), may hold NaN.
        member: shape (n,); only the entries of the training share are looked at.
        share: of the providers, whose membership is known.
        seed: of the training share and of the forest.

    Returns:
        The probability of being a member, shape (n,); NaN for those that the forest was trained on.

    Raises:
        ValueError: as `training_share`.
    """
    rng = np.random.default_rng(seed)
    known = training_share(member, share, rng)
    rest = np.setdiff1d(np.arange(member.size), known)
    usable = ~np.isnan(features[known]).all(axis=0)
    probability = np.full(member.size, np.nan)
    probability[rest] = 0.5
    if usable.any():
        columns = features[:, usable]
        filled = np.where(np.isnan(columns), np.nanmedian(columns[known], axis=0), columns)
        leaf = _best_leaf(filled[known], member[known], rng)
        probability[rest] = _fit(filled[known], member[known], leaf, N_TREES, rng).predict_proba(filled[rest])[:, 1]
    return probability


def _best_leaf(features: Floats, member: Bools, rng: np.random.Generator) -> float:
    """Return the smallest leaf of the highest accuracy in cross-validation; both sides are equally large here."""
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=_state(rng)).split(features, member))
    right = [
        sum(
            int(
                (
                    _fit(features[train], member[train], leaf, N_CHECKED_TREES, rng).predict(features[test])
                    == member[test]
                ).sum()
            )
            for train, test in folds
        )
        for leaf in LEAVES
    ]
    return LEAVES[int(np.argmax(right))]


def _fit(features: Floats, member: Bools, leaf: float, trees: int, rng: np.random.Generator) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        trees, min_samples_leaf=leaf, max_features="sqrt", n_jobs=1, random_state=_state(rng)
    )
    return forest.fit(features, member)


def _state(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
