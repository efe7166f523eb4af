"""The whole pipeline of provider membership, run again with the labels of providers permuted.

Everything that looks at a label is done again: both sides are cut to match, training shares drawn,
settings chosen, forests fitted and every provider called, with all seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.provider_membership.methods import balanced, infer, mean_known
from audit.attacks.provider_membership.providers import match_sides, table_of
from audit.engine.interface import SILENT, Json, Trial

ROUNDING = 1e-12


def rerun(
    attack: ProviderMembership,
    trials: Sequence[Trial],
    outcomes: Sequence[Json],
    n_runs: int,
    seed: int,
) -> dict[str, Any]:
    """By method: the mean and the spread of the balanced accuracy over runs with permuted labels, and its p."""
    rng = np.random.default_rng(seed)
    sides = [trial.stratum for trial in trials]
    observed = accuracies(attack, trials, outcomes)
    runs = []
    for _ in range(n_runs):
        turned = [
            replace(trial, stratum=str(side))
            for trial, side in zip(trials, rng.permutation(sides), strict=True)
        ]
        runs.append(accuracies(attack, turned, outcomes))
    found = {method: np.array([run[method] for run in runs]) for method in observed}
    return {
        "runs": n_runs,
        "seeds": attack.n_seeds,
        "methods": {
            method: {
                "observed": observed[method],
                "mean": float(values.mean()),
                "standard deviation": float(values.std(ddof=1)),
                "p": float((1 + np.sum(values >= observed[method] - ROUNDING)) / (1 + n_runs)),
            }
            for method, values in found.items()
        },
    }


def accuracies(
    attack: ProviderMembership, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> dict[str, float]:
    """Balanced accuracy over seeds, by method, of the providers as the trials say they are in or out."""
    table = table_of(match_sides(trials, outcomes))
    calls = infer(table, SILENT, n_seeds=attack.n_seeds, share=attack.share).calls
    return {method: balanced(mean_known(rows), table.member) for method, rows in calls.items()}
