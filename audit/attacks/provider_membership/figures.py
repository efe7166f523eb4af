"""The figures: how scores are distributed, and the ROC curves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from audit.arrays import Floats
from audit.attacks.provider_membership.columns import sides, unscored
from audit.attacks.provider_membership.table import ProviderTable
from audit.measurements import Curve, Histogram
from audit.stats.roc import roc_points

N_BINS = 20


def histogram(table: ProviderTable, column: Floats, quantity: str) -> tuple[Histogram, ...]:
    """How a score, in words `quantity`, is distributed on either side; nothing where no number of it is finite."""
    members, others = sides(table, np.where(np.isfinite(column), column, np.nan))
    if not members.size + others.size:
        return ()
    edges = np.histogram_bin_edges(np.concatenate([members, others]), N_BINS)
    counts = {
        label: tuple(int(height) for height in np.histogram(side, edges)[0])
        for label, side in (("providers in", members), ("providers out", others))
    }
    return (Histogram("primary_score", quantity, tuple(float(edge) for edge in edges), counts),)


def curves(table: ProviderTable, scores: Mapping[str, Floats]) -> tuple[Curve, ...]:
    """The ROC curves of user inference and of APK, as far as they say anything."""
    series = {}
    for name, label in (("user", "user inference"), ("apk", "APK")):
        if name not in scores or unscored("roc", table, scores[name]) is not None:
            continue
        members, others = sides(table, scores[name])
        series[label] = tuple(roc_points(members, others))
    axis, quantity = "share of providers out called members", "share of providers in called members"
    return (Curve("roc", axis, quantity, series),) if series else ()
