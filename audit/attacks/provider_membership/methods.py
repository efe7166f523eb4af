"""Calls of providers as members by the paper's four attacks, and how often they are right.

Tito et al. 2024, sections 5.1 and 5.2; methods/provider-membership.md. A call is 1 for "member", 0
for "not", NaN for a provider that was not judged. Seeds are 0, 1, 2, ... so that `evidence/` shows
what the measurements rest on.

Intervals resample companies through training and judging: a forest is trained on some companies and
judges the others, and what it is right about depends on whom it knows. Taken as independent given
the forests, companies of which a model does give something away have intervals that cover 0.84
where 0.95 is said (measured on simulated audits, as in
`benchmarks/calibration/provider_calibration.json`). So each group of companies is left out in turn,
as judged and as known: the forests that remain were trained on nobody of it. Nothing is fitted
anew. The draw of the remaining forests adds to the variance, so that intervals are rather too wide
than too narrow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.attacks.provider_membership.providers import FEATURES, MEMORY, ProviderTable
from audit.engine.interface import Progress
from audit.measurements import Unresolved
from audit.stats.intervals import Interval
from audit.stats.resampling import group_jackknife, widen_to
from audit.stats.roc import auc, auc_interval, balanced_accuracy

METHODS = ("azk", "apk", "azk_ensemble", "apk_ensemble")
"""The paper's four attacks: with zero and with partial knowledge, each alone and in a majority of
three with M1, M2."""
SHARE = 0.15
"""Share of the providers whose membership the attacker knows (the paper prints none)."""
N_STARTS = 10
"""Starts of K-means, of which the tightest is kept."""
CLUSTERED = 5
"""Seeds of K-means, at most: with ten starts each it hardly depends on them, as APK does on whom it
knows."""
DECIMALS = 9
"""Features are rounded to so many decimals, so that providers that differ by rounding errors are
one point."""
MIN_TRAINED = 2
"""Providers that the attacker knows of either side, at least, as cross-validation needs."""
MIN_SIDE = 2 * MIN_TRAINED
"""Providers of either side, at least, since at most half of the smaller side is trained on."""
MIN_JUDGED = 2
"""Providers of a side that a method must judge."""
NEEDED = 20
"""Providers of a side under which statistics are marked "few providers"."""
N_TREES = 50
N_CHECKED_TREES = 8
"""Trees of the forest, and of one that only compares settings (the paper prints none)."""
LEAVES: tuple[float, ...] = (0.1, 1)
"""Least providers of a leaf, as a share of those trained on or a number; cross-validation chooses
one."""
N_FOLDS = 2
"""Folds of the cross-validation."""
N_GROUPS = 20
"""Groups that providers are drawn in, at most, see `_leave_groups_out`."""


def zero_knowledge(accuracy: Floats, similarity: Floats, seed: int) -> Floats:
    """Call providers member, 1.0, or not, 0.0, by K-means on accuracy and similarity (AZK).

    The more accurate is "member".

    At equal mean accuracy it is that of higher mean similarity. Where there are fewer than two
    distinct points, nobody is called a member. Providers without a number (NaN) are not judged.
    """
    return _two_clusters(np.column_stack([accuracy, similarity]), seed)


def memory_calls(table: ProviderTable, seed: int) -> tuple[Floats, Floats] | None:
    """Call providers by the memorisation tests M1 and M2, (n,) each; None without features.

    M1: any answer without its evidence came out right (NLS_mem > 0). M2: K-means with two clusters
    on the change of the unasked answer; that of smaller mean change is "member".
    """
    if not all(name in table.features for name in MEMORY):
        return None
    similarity, change = (table.features[name] for name in MEMORY)
    remembered = np.where(np.isnan(similarity), np.nan, (similarity > 0).astype(np.float64))
    return remembered, _two_clusters(-change[:, None], seed)


def majority(*voters: Floats) -> Floats:
    """Return the call that most of an odd number of voters make: (n,).

    NaN where any of them did not judge.
    """
    share = np.stack(voters).mean(axis=0)
    return np.where(np.isnan(share), np.nan, (share > 0.5).astype(np.float64))


def _two_clusters(points: Floats, seed: int) -> Floats:
    """Call providers member, 1.0, or not, 0.0, by K-means with two clusters: (n,).

    The one whose mean is larger in the first column, then in the next, is "member".
    """
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


def groups_of(member: Bools) -> Ints:
    """Assign providers to groups, shape (n,).

    Each has as many of either side, give or take one. There are `N_GROUPS`, or as many as the
    smaller side has providers. Groups are the same in every run. Providers are shuffled before the
    sides are separated: ranks among members would let the groups say something of the labels around
    them wherever the order of the rows does.
    """
    order = np.random.default_rng(0).permutation(member.size)
    inside = order[member[order]]
    n_groups = max(1, min(N_GROUPS, inside.size, member.size - inside.size))
    groups = np.empty(member.size, np.int64)
    # The second side begins where the first one ends, so that groups differ by one provider in all.
    groups[np.concatenate([inside, order[~member[order]]])] = np.arange(member.size) % n_groups
    return groups


def training_share(member: Bools, share: float, rng: np.random.Generator) -> Ints:
    """Draw the rows of the providers that the attacker knows, ascending.

    They are as many of either side, drawn group by group. Together they are `share` of all
    providers, but two a side at least and half of the smaller side at most. Of the last group that
    is needed a part is taken, at random.

    Raises:
        ValueError: a side has fewer than `MIN_SIDE` providers.
    """
    groups = groups_of(member)
    order = rng.permutation(member.size)
    order = order[np.argsort(rng.permutation(groups.max() + 1)[groups[order]], kind="stable")]
    sides = [order[member[order]], order[~member[order]]]
    smaller = min(side.size for side in sides)
    if smaller < MIN_SIDE:
        raise ValueError(
            f"a forest needs {MIN_SIDE} providers a side: two to learn from, two to judge"
        )
    n_each = int(np.clip(round(share * member.size / 2), MIN_TRAINED, smaller // 2))
    return np.sort(np.concatenate([side[:n_each] for side in sides])).astype(np.int64)


def partial_knowledge(features: Floats, member: Bools, share: float, seed: int) -> Floats:
    """Classify by APK: a random forest trained on one share of the providers.

    How large leaves must be is chosen by cross-validation inside the training share. A provider
    without a feature gets the median of the training share; a feature that nobody there has is left
    out.

    Args:
        features: shape (n, n_features), may hold NaN.
        member: shape (n,); only the entries of the training share are looked at.
        share: share of the providers whose membership is known.
        seed: seed of the training share and of the forest.

    Returns:
        The probability of being a member, shape (n,); NaN for those that the forest was trained on.

    Raises:
        ValueError: as `training_share`.
    """
    rng = np.random.default_rng(seed)
    trained = training_share(member, share, rng)
    judged = np.setdiff1d(np.arange(member.size), trained)
    usable = ~np.isnan(features[trained]).all(axis=0)
    probability = np.full(member.size, np.nan)
    probability[judged] = 0.5
    if usable.any():
        columns = features[:, usable]
        filled = np.where(np.isnan(columns), np.nanmedian(columns[trained], axis=0), columns)
        leaf = _best_leaf(filled[trained], member[trained], rng)
        forest = _fit_forest(filled[trained], member[trained], leaf, N_TREES, rng)
        probability[judged] = forest.predict_proba(filled[judged])[:, 1]
    return probability


def _best_leaf(features: Floats, member: Bools, rng: np.random.Generator) -> float:
    """Choose the forest's `min_samples_leaf` of `LEAVES` by cross-validated accuracy.

    Both sides are equally large.
    """
    from sklearn.model_selection import StratifiedKFold

    folds = list(
        StratifiedKFold(N_FOLDS, shuffle=True, random_state=int(rng.integers(2**31))).split(
            features, member
        )
    )
    right = [0] * len(LEAVES)
    for number, leaf in enumerate(LEAVES):
        for train, test in folds:
            called = _fit_forest(
                features[train], member[train], leaf, N_CHECKED_TREES, rng
            ).predict(features[test])
            right[number] += int((called == member[test]).sum())
    return LEAVES[int(np.argmax(right))]


def _fit_forest(
    features: Floats, member: Bools, leaf: float, trees: int, rng: np.random.Generator
) -> Any:
    """Fit a random forest that tells member from other providers by their features."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        trees,
        min_samples_leaf=leaf,
        max_features="sqrt",
        n_jobs=1,
        random_state=int(rng.integers(2**31)),
    )
    return forest.fit(features, member)


@dataclass(frozen=True, eq=False)
class Inference:
    """Hold the classifications of each provider by every attack.

    Attributes:
        calls: calls by method, NaN for not judged (known to the attacker, or without the features),
            shape (n_seeds, n); of methods that look at no label `CLUSTERED` seeds at most.
        probabilities: probabilities of being a member, by forest, NaN where it was trained on the
            provider, shape (n_seeds, n); None without forests.
        lacks: reasons by method why there are no calls.
    """

    calls: Mapping[str, Floats]
    probabilities: Floats | None
    lacks: Mapping[str, Unresolved]


_LAST: dict[str, Inference] = {}
"""The last inference by what it rests on: the evidence shows what was measured."""


def infer(table: ProviderTable, progress: Progress, *, n_seeds: int, share: float) -> Inference:
    """Run every method that the table allows, or return the last inference on equal input.

    The last inference is not made again.

    Args:
        table: table of the providers.
        progress: advanced for each seed.
        n_seeds: number of training shares, and of seeds of K-means up to `CLUSTERED`; at least one.
        share: share of the providers whose membership APK knows.
    """
    features = [(name, row.tobytes()) for name, row in table.features.items()]
    key = repr([n_seeds, share, table.member.tobytes(), *features])
    if key not in _LAST:
        inference = _infer_anew(table, progress, n_seeds=n_seeds, share=share)
        _LAST.clear()
        _LAST[key] = inference
    return _LAST[key]


@dataclass(frozen=True)
class _Calls:
    """Calls of every method that can run, by method, a row a seed.

    Attributes:
        rows: calls by method.
        memory: calls of the memorisation tests, by seed of K-means; None where there are none.
    """

    rows: Mapping[str, list[Floats]]
    memory: Sequence[tuple[Floats, Floats] | None]

    def record(self, method: str, calls: Floats, seed: int) -> None:
        """Store the calls of one seed, and the majority of these and the memorisation tests."""
        self.rows[method].append(calls)
        tests = self.memory[seed % len(self.memory)]
        if tests is not None:
            self.rows[f"{method}_ensemble"].append(majority(calls, *tests))


def _infer_anew(
    table: ProviderTable, progress: Progress, *, n_seeds: int, share: float
) -> Inference:
    """Run every method that the table allows, and return all calls and the reasons for none."""
    lacks: dict[str, Unresolved] = {}
    rows: dict[str, list[Floats]] = {}
    for method in METHODS:
        lack = _cannot_run(table, method)
        if lack is None:
            rows[method] = []
        else:
            lacks[method] = lack
    columns = forest_features(table)
    clustered = min(n_seeds, CLUSTERED)
    calls = _Calls(rows, [memory_calls(table, seed) for seed in range(clustered)])
    probabilities: list[Floats] = []
    for seed in range(n_seeds):
        if "azk" in rows and seed < clustered:
            called = zero_knowledge(table.features["accuracy"], table.features["similarity"], seed)
            calls.record("azk", called, seed)
        if "apk" in rows:
            probability = partial_knowledge(columns, table.member, share, seed)
            probabilities.append(probability)
            called = np.where(np.isnan(probability), np.nan, probability > 0.5)
            calls.record("apk", called, seed)
        progress.advance()
    stacked = {method: np.stack(seeds) for method, seeds in rows.items()}
    forests = np.stack(probabilities) if probabilities else None
    return Inference(stacked, forests, lacks)


def _cannot_run(table: ProviderTable, method: str) -> Unresolved | None:
    """Return why a method cannot run on the table; None when it can."""
    needed = MIN_SIDE if method.startswith("apk") else MIN_JUDGED
    if smaller_side(table.member) < needed:
        reason = f"fewer than {needed} providers in training, or out of it"
        return Unresolved(method, reason, len(table.names), 2 * NEEDED)
    absent = _absent_feature(table, method)
    if absent is not None:
        return Unresolved(method, f"no {absent} of any provider", 0)
    if method.endswith("_ensemble") and not table.features.keys() >= {*MEMORY}:
        return Unresolved(
            method, "no memorisation tests: only models that answer questions allow them", 0
        )
    return None


def _absent_feature(table: ProviderTable, method: str) -> str | None:
    """Name the first feature that a method takes and no provider has; None when it has all.

    APK can do with any feature, AZK takes the first two.
    """
    if method.startswith("azk"):
        for name in FEATURES[:2]:
            if name not in table.features:
                return name
    if table.features.keys().isdisjoint(FEATURES):
        return "feature"
    return None


def forest_features(table: ProviderTable) -> Floats:
    """Return the features of APK, shape (n, n_features)."""
    columns = [table.features[name] for name in FEATURES if name in table.features]
    return np.column_stack(columns) if columns else np.empty((len(table.names), 0))


def smaller_side(member: Bools) -> int:
    """Count the providers of the smaller side."""
    return int(min(member.sum(), (~member).sum()))


def calls_all_alike(calls: Floats) -> bool:
    """Test whether every seed puts all providers in the same class.

    Calls have shape (n_seeds, n).
    """
    return all(np.unique(row[~np.isnan(row)]).size < 2 for row in calls)


def balanced(called: Floats, member: Bools) -> float:
    """Compute the balanced accuracy over the providers that were judged (not NaN).

    0.5 where a side has none.
    """
    judged = ~np.isnan(called)
    inside = called[member & judged]
    outside = called[~member & judged]
    if not inside.size or not outside.size:
        return 0.5
    return float(0.5 + (inside.mean() - outside.mean()) / 2)


def mean_known(rows: Floats) -> Floats:
    """Average each column over entries that are not NaN, shape (n,); NaN where there is none."""
    is_known = ~np.isnan(rows)
    counts = is_known.sum(axis=0)
    sums = np.where(is_known, rows, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def measure_accuracy(calls: Floats, member: Bools, rng: np.random.Generator) -> Interval | None:
    """Measure the balanced accuracy over providers.

    None where fewer than two of a side were judged.

    Args:
        calls: shape (n_seeds, n).
        member: shape (n,).
        rng: the source of randomness.
    """
    called = mean_known(calls)
    right = np.where(member, called, 1 - called)
    judged = ~np.isnan(called)
    if smaller_side(member[judged]) < MIN_JUDGED:
        return None
    interval = balanced_accuracy(right[judged & member], right[judged & ~member], rng)
    return _resample(_balanced_mean, calls, member, interval)


def _balanced_mean(votes: Floats, member: Bools) -> float:
    """Compute the balanced accuracy of the mean call over seeds."""
    return balanced(mean_known(votes), member)


def measure_forest_area(probabilities: Floats, member: Bools) -> Interval | None:
    """Measure the mean AUC of the single forests, over the providers each judges.

    None where too few are judged.

    An attacker knows some companies, and has one forest. Given that forest, whoever it judges
    without a leak is as likely a member as not, so that chance is 0.5; the mean probability over
    forests, by which a member is judged by those that may know its neighbours that are out rather
    than itself, would lie under it (0.47 of 80 companies).

    Args:
        probabilities: probabilities of being a member, by forest, shape (n_seeds, n), NaN for not
            judged.
        member: shape (n,).
    """
    mean = mean_known(probabilities)
    judged = ~np.isnan(mean)
    if smaller_side(member[judged]) < MIN_JUDGED:
        return None
    interval = auc_interval(mean[judged & member], mean[judged & ~member])
    return _resample(mean_area, probabilities, member, interval)


def mean_area(probabilities: Floats, member: Bools) -> float:
    """Average the AUC of each forest over those that judge both sides, see `measure_forest_area`.

    Else 0.5.
    """
    areas = []
    for forest in probabilities:
        judged = ~np.isnan(forest)
        inside = forest[judged & member]
        outside = forest[judged & ~member]
        if inside.size and outside.size:
            areas.append(auc(inside, outside))
    return float(np.mean(areas)) if areas else 0.5


Statistic = Callable[[Floats, Bools], float]
"""A number in [0, 1] from what seeds say, shape (n_seeds, n), NaN for not judged, and who is a
member, shape (n,)."""


def _resample(statistic: Statistic, votes: Floats, member: Bools, given: Interval) -> Interval:
    """Compute the interval of a statistic of forests, over providers trained on and judged.

    Args:
        statistic: what forests say of providers, as one number.
        votes: shape (n_seeds, n), NaN for not judged. A row of the table that no seed judges is
            passed over.
        member: shape (n,).
        given: the interval when the forests are taken as given: bounds reach at least as far from
            the value. It is the interval where no group can be left out, as with one forest.
    """
    judged = ~np.isnan(mean_known(votes))
    trained = np.isnan(votes) & judged
    left: list[tuple[float, int]] = []
    if trained.any():
        left = list(_leave_groups_out(statistic, votes, member, trained, judged))
    if len(left) < 2:
        return given
    without, sizes = zip(*left, strict=True)
    value = statistic(votes[:, judged], member[judged])
    n = int(judged.sum())
    return widen_to(group_jackknife(value, without, sizes, n=n), given)


def _leave_groups_out(
    statistic: Statistic, votes: Floats, member: Bools, trained: Bools, judged: Bools
) -> Iterator[tuple[float, int]]:
    """Yield the statistic without each group of providers, and how many of the group are judged.

    Without a group remain the forests that were trained on nobody of it; groups that every forest
    knows are left out.
    """
    groups = groups_of(member)
    for group in np.unique(groups[judged]):
        inside = groups == group
        spared = ~trained[:, inside].any(axis=1)
        if not spared.any():
            continue
        remaining = judged & ~inside
        remaining &= ~np.isnan(votes[spared]).all(axis=0)
        if member[remaining].any() and not member[remaining].all():
            number = statistic(votes[spared][:, remaining], member[remaining])
            yield number, int((judged & inside).sum())
