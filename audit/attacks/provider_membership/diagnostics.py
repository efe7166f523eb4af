"""What stands beside the measurements: permuted labels, whom each method calls members, what forests go by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from audit.attacks.provider_membership.inference import UNLABELLED, Inference, balanced, mean_known, memory_calls
from audit.attacks.provider_membership.permuting import JOINT, Permuted
from audit.attacks.provider_membership.table import MEMORY, ProviderTable
from audit.measurements import Diagnostic


def against_null(table: ProviderTable, inference: Inference, null: Mapping[str, Permuted]) -> list[Diagnostic]:
    """Where each method stands among permuted labels, whom it calls members, and how its seeds differ."""
    found = []
    for method, calls in inference.calls.items():
        called = mean_known(calls)
        judged = called[~np.isnan(called)]
        spread = float(np.std([balanced(row, table.member) for row in calls], ddof=1)) if len(calls) > 1 else 0.0
        words = f"balanced accuracy of {method}"
        if method in null:
            one = null[method]
            forests = min(len(calls), JOINT)
            unknown = f" among the {one.n} providers that none of {forests} forests was trained on"
            among = "" if method in UNLABELLED else unknown
            found += [
                Diagnostic(
                    f"permutation_p.{method}",
                    one.p_value,
                    f"share of {one.values.size} permutations of the labels that reach the {words}{among}",
                ),
                Diagnostic(f"permuted.{method}", float(one.values.mean()), f"mean {words} over permuted labels{among}"),
            ]
        found += [
            Diagnostic(
                f"called.{method}",
                float(judged.mean()) if judged.size else 0.0,
                f"share of the providers judged that {method} calls members",
            ),
            Diagnostic(f"seed_spread.{method}", spread, f"standard deviation of the {words} over {len(calls)} seeds"),
        ]
    return found


def memory_tests(table: ProviderTable) -> list[Diagnostic]:
    """Whom the memorisation tests call members: one that calls all the same adds nothing to an ensemble."""
    calls = memory_calls(table, 0)
    if calls is None:
        return []
    return [
        Diagnostic(f"called.{name}", float(known.mean()), f"share of the providers judged that {words} calls members")
        for name, words, one in zip(MEMORY, ("M1", "M2"), calls, strict=True)
        if (known := one[~np.isnan(one)]).size
    ]


def importances(inference: Inference) -> list[Diagnostic]:
    """What APK's forests go by."""
    meaning = "part of the feature in what APK's forests go by, mean over seeds"
    return [Diagnostic(f"importance.{name}", value, meaning) for name, value in inference.importance.items()]
