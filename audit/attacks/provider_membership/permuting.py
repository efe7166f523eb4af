"""What the attacks reach when membership means nothing: labels permuted, calls judged anew.

Method: methods.md#provider-membership.

A forest of APK looks at the labels of its training share only. Whatever the labels of those providers are that none of
several forests was trained on, all of them call them what they call them; where membership was assigned at random every
order of these labels is as likely as the true one, so that judging the mean call by permuted ones is an exact test
(ours). With every forest that there is nobody would be left, so the first `JOINT` are taken. AZK, M1, M2 and their
ensemble look at no label: of them that is everybody. Given is how much is looked at of each provider (`matching`). The
whole pipeline is run with permuted labels by `benchmarks/provider_invoices.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.provider_membership.inference import MIN_JUDGED, Inference, balanced, smaller_side
from audit.engine.interface import Progress

JOINT = 5
"""Seeds that are judged jointly, at most (ours): shares of 15 % leave 44 % of the providers that none of five knows."""
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Permuted:
    """A method under permuted labels.

    Attributes:
        n: providers that all of the first `JOINT` seeds judge: no forest of theirs was trained on any.
        observed: the balanced accuracy of these seeds among them, with their own labels.
        values: the same with permuted ones, shape (n_permutations,).
    """

    n: int
    observed: float
    values: Floats

    @property
    def p_value(self) -> float:
        """One-sided: (1 + as high or higher) / (1 + permutations), in (0, 1]."""
        return float((1 + np.sum(self.values >= self.observed - _ROUNDING)) / (1 + self.values.size))


def permuted_accuracies(
    inference: Inference, member: Bools, rng: np.random.Generator, progress: Progress, *, n_permutations: int
) -> dict[str, Permuted]:
    """Every method under permuted labels; `progress` is advanced for each permutation.

    A method is left out where fewer than two providers of a side are judged by all of these seeds.

    Args:
        inference: what `infer` found.
        member: shape (n,).
        rng: the source of randomness.
        progress: told of each permutation.
        n_permutations: how many.
    """
    called: dict[str, tuple[Floats, Bools]] = {}
    for method, every in inference.calls.items():
        calls = every[:JOINT]
        judged = ~np.isnan(calls).any(axis=0)
        if smaller_side(member[judged]) >= MIN_JUDGED:
            called[method] = calls[:, judged].mean(axis=0), member[judged]
    values: dict[str, list[float]] = {method: [] for method in called}
    for _ in range(n_permutations):
        for method, (mean, own) in called.items():
            values[method].append(balanced(mean, rng.permutation(own)))
        progress.advance()
    return {
        method: Permuted(len(own), balanced(mean, own), np.array(values[method]))
        for method, (mean, own) in called.items()
    }
