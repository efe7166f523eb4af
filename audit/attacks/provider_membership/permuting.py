"""What the attacks reach when membership means nothing: labels permuted, calls judged anew (METHODS, section 3).

AZK, M1, M2 and their ensemble look at no label. A forest of APK looks at those of its training share only: whatever the
labels of the others are, it calls them what it calls them. Where membership was assigned at random, every order of
these labels is as likely as the true one, so that judging its calls by permuted ones is an exact test (ours). Fitting
forests to permuted labels would take two hundred times as long and tell no more, for among the providers that such a
forest calls members the members are a random draw as well; `benchmarks/provider_invoices.py` runs the whole pipeline.
"""

from __future__ import annotations

import numpy as np

from audit.attacks.provider_membership.inference import UNLABELLED, Inference, mean_known
from audit.attacks.provider_membership.table import Mask
from audit.engine.interface import Progress
from audit.stats.clusters import Floats

_ROUNDING = 1e-12


def permuted_accuracies(
    inference: Inference, member: Mask, rng: np.random.Generator, progress: Progress, *, n_permutations: int
) -> dict[str, Floats]:
    """Balanced accuracies under permuted labels, by method, shape (n_permutations,); `progress` is advanced for each.

    Methods that look at no label are judged by the mean over their seeds. The forests of APK take turns: each knows
    other providers.

    Args:
        inference: what `infer` found.
        member: shape (n,).
        rng: the source of randomness.
        progress: told of each permutation.
        n_permutations: how many.
    """
    rows = {
        method: mean_known(calls)[None] if method in UNLABELLED else calls for method, calls in inference.calls.items()
    }
    found: dict[str, list[float]] = {method: [] for method in rows}
    for turn in range(n_permutations):
        for method, called in rows.items():
            row = called[turn % len(called)]
            judged = ~np.isnan(row)
            found[method].append(balanced(row[judged], rng.permutation(member[judged])))
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

    For AZK and its ensemble it is exact. For APK the mean over training shares is compared with single shares under
    permuted labels. By chance alone a mean of exchangeable shares spreads no more than one of them, so its p is rather
    too large (ours: the false alarms are in `benchmarks/provider_calibration.json`). Labels cannot be permuted for all
    shares at once, for what one forest judges another was fitted to.

    Args:
        observed: in [0, 1].
        permuted: in [0, 1], shape (n_permutations,).

    Returns:
        In (0, 1].
    """
    return float((1 + np.sum(permuted >= observed - _ROUNDING)) / (1 + permuted.size))
