"""The paper's four attacks on a table of providers, with several seeds (methods.md#provider-membership).

Nothing here is random between two runs: seeds are 0, 1, 2, ... so that `evidence/` shows what the measurements rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.provider_membership.features import FEATURES, MEMORY, METHODS, ProviderTable
from audit.attacks.provider_membership.methods import (
    MIN_SIDE,
    call_remembered,
    call_unmoved,
    majority,
    partial_knowledge,
    zero_knowledge,
)
from audit.engine.interface import Progress

MIN_JUDGED = 2
"""Providers of a side that a method must judge (ours)."""
NEEDED = 20
"""Providers of a side under which statistics are marked "few providers"."""
CLUSTERED = 5
"""Seeds of K-means, at most (ours): with ten starts each it hardly hangs on them, as APK does on whom it knows."""
UNLABELLED = ("azk", "azk_ensemble")
"""The methods that look at no label."""


@dataclass(frozen=True)
class Lack:
    """Why a method cannot be used: the reason, how many providers there are, and how many a side it would need."""

    reason: str
    n: int
    needed: int | None = None


@dataclass(frozen=True, eq=False)
class Inference:
    """What the attacks call each provider.

    Attributes:
        calls: by method, 1 for member, 0 for not, NaN for not judged (known to the attacker, or without the features),
            shape (n_seeds, n); of methods that look at no label `CLUSTERED` seeds at most.
        probabilities: of being a member, by forest, NaN where it was trained on the provider, shape (n_seeds, n); None
            without forests.
        lacks: by method, why there are no calls.
    """

    calls: Mapping[str, Floats]
    probabilities: Floats | None
    lacks: Mapping[str, Lack]

    @property
    def probability(self) -> Floats | None:
        """The mean over the forests that were not trained on the provider, shape (n,), NaN where all were."""
        return None if self.probabilities is None else mean_known(self.probabilities)


def infer(table: ProviderTable, progress: Progress, *, n_seeds: int, share: float) -> Inference:
    """Run every method that the table allows; `progress` is advanced once a seed.

    Args:
        table: of the providers.
        progress: advanced for each seed.
        n_seeds: of training shares, and of K-means up to `CLUSTERED`; at least one.
        share: of the providers, whose membership APK knows.
    """
    lacks = {method: lack for method in METHODS if (lack := lacking(table, method)) is not None}
    calls: dict[str, list[Floats]] = {method: [] for method in METHODS if method not in lacks}
    probabilities: list[Floats] = []
    columns = forest_features(table)
    clustered = min(n_seeds, CLUSTERED)
    memory = [memory_calls(table, seed) for seed in range(clustered)]

    def add(method: str, called: Floats, seed: int) -> None:
        calls[method].append(called)
        tests = memory[seed % clustered]
        if tests is not None:
            calls[f"{method}_ensemble"].append(majority(called, *tests))

    for seed in range(n_seeds):
        if "azk" in calls and seed < clustered:
            add("azk", zero_knowledge(table.features["accuracy"], table.features["similarity"], seed), seed)
        if "apk" in calls:
            probability = partial_knowledge(columns, table.member, share, seed)
            probabilities.append(probability)
            add("apk", np.where(np.isnan(probability), np.nan, probability > 0.5), seed)
        progress.advance()
    forests = np.stack(probabilities) if probabilities else None
    return Inference({method: np.stack(rows) for method, rows in calls.items()}, forests, lacks)


def lacking(table: ProviderTable, method: str) -> Lack | None:
    """Return what the table lacks for a method; None when nothing."""
    smaller, n = smaller_side(table.member), len(table)
    needed = MIN_SIDE if method.startswith("apk") else MIN_JUDGED
    if smaller < needed:
        return Lack(f"fewer than {needed} providers in training, or out of it", n, 2 * NEEDED)
    wanted = {"azk": FEATURES[:2]}.get(method.removesuffix("_ensemble"), ())
    absent = [name for name in wanted if name not in table.features]
    if absent or not any(name in table.features for name in FEATURES):
        return Lack(f"no {absent[0] if absent else 'feature'} of any provider", 0)
    if method.endswith("_ensemble") and not all(name in table.features for name in MEMORY):
        return Lack("no memorisation tests: only models that answer questions are put to them", 0)
    return None


def forest_features(table: ProviderTable) -> Floats:
    """Return the features of APK, shape (n, n_features)."""
    columns = [table.features[name] for name in FEATURES if name in table.features]
    return np.column_stack(columns) if columns else np.empty((len(table), 0))


def memory_calls(table: ProviderTable, seed: int) -> tuple[Floats, Floats] | None:
    """Return the calls of M1 and M2, shape (n,) each; None without the memorisation tests."""
    if not all(name in table.features for name in MEMORY):
        return None
    similarity, change = (table.features[name] for name in MEMORY)
    return call_remembered(similarity), call_unmoved(change, seed)


def says_nothing(calls: Floats) -> bool:
    """Return whether every seed calls all providers that it judges the same, which separates nobody.

    Args:
        calls: shape (n_seeds, n), NaN for not judged.
    """
    return all(np.unique(row[~np.isnan(row)]).size < 2 for row in calls)


def right_shares(calls: Floats, member: Bools) -> Floats:
    """For each provider the share of seeds that call it right, of those that judge it, shape (n,); NaN: none does.

    Args:
        calls: shape (n_seeds, n).
        member: shape (n,).
    """
    called = mean_known(calls)
    return np.where(member, called, 1 - called)


def balanced(called: Floats, member: Bools) -> float:
    """Balanced accuracy of calls, over the providers that were judged; 0.5 where a side has none.

    Args:
        called: 1 for member, 0 for not, a share of seeds that say so, NaN for not judged, shape (n,).
        member: shape (n,).
    """
    inside, outside = (called[side & ~np.isnan(called)] for side in (member, ~member))
    if not inside.size or not outside.size:
        return 0.5
    return float(0.5 + (inside.mean() - outside.mean()) / 2)


def mean_known(rows: Floats) -> Floats:
    """The mean of each column over entries that are not NaN, shape (n,); NaN where there is none."""
    known = ~np.isnan(rows)
    counts = known.sum(axis=0)
    means: Floats = np.where(counts > 0, np.where(known, rows, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
    return means


def smaller_side(member: Bools) -> int:
    """Return the number of providers of the smaller side."""
    return int(min(member.sum(), (~member).sum()))
