"""What the attacks reach when membership means nothing: labels permuted through the pipeline (METHODS, section 3).

AZK, M1, M2 and their ensemble look at no label, so their calls stay what they are and are only judged anew. APK learns
from labels: each permutation draws its training share anew, chooses its settings by cross-validation, fits its forest,
and judges the rest. That is one training share a permutation, while the attack itself has several.
"""

from __future__ import annotations

import numpy as np

from audit.attacks.provider_membership.clustering import majority
from audit.attacks.provider_membership.forest import partial_knowledge
from audit.attacks.provider_membership.inference import (
    UNLABELLED,
    Inference,
    forest_features,
    mean_known,
    memory_calls,
)
from audit.attacks.provider_membership.table import Mask, Table
from audit.engine.interface import Progress
from audit.stats.clusters import Floats

_ROUNDING = 1e-12


def permuted_accuracies(
    table: Table,
    inference: Inference,
    rng: np.random.Generator,
    progress: Progress,
    *,
    n_permutations: int,
    share: float,
) -> dict[str, Floats]:
    """Balanced accuracies under permuted labels, by method, shape (n_permutations,); `progress` is advanced for each.

    Args:
        table: of the providers.
        inference: what `infer` found on it.
        rng: the source of randomness.
        progress: told of each permutation.
        n_permutations: how many.
        share: of the providers, whose membership APK knows.
    """
    called = {method: mean_known(calls) for method, calls in inference.calls.items() if method in UNLABELLED}
    found: dict[str, list[float]] = {method: [] for method in inference.calls}
    _, columns = forest_features(table)
    memory = memory_calls(table, 0)
    for _ in range(n_permutations):
        member = rng.permutation(table.member)
        if "apk" in inference.calls:
            called["apk"] = partial_knowledge(columns, member, share, int(rng.integers(2**31))).calls
            if memory is not None:
                called["apk_ensemble"] = majority(called["apk"], *memory)
        for method, values in found.items():
            values.append(balanced(called[method], member))
        progress.advance()
    return {method: np.array(values) for method, values in found.items()}


def balanced(called: Floats, member: Mask) -> float:
    """Balanced accuracy of calls, over the providers that were judged; 0.5 where a side has none.

    Args:
        called: 1 for member, 0 for not, a share of seeds that say so, NaN for not judged, shape (n,).
        member: shape (n,).
    """
    inside, outside = (called[side & ~np.isnan(called)] for side in (member, ~member))
    if not inside.size or not outside.size:
        return 0.5
    return float(0.5 + (inside.mean() - outside.mean()) / 2)


def p_value(observed: float, permuted: Floats) -> float:
    """The permutation p of a balanced accuracy, one-sided: (1 + as high or higher) / (1 + permutations).

    For AZK and its ensemble it is exact. For APK the mean over training shares is compared with single shares of
    permuted runs. By chance alone a mean of exchangeable shares spreads no more than one of them, so its p is rather
    too large (ours: the false alarms are in `benchmarks/provider_calibration.json`); the other way, one of the observed
    shares against permuted ones, is exact but hangs on which share is taken, and has less power.

    Args:
        observed: in [0, 1].
        permuted: in [0, 1], shape (n_permutations,).

    Returns:
        In (0, 1].
    """
    return float((1 + np.sum(permuted >= observed - _ROUNDING)) / (1 + permuted.size))
