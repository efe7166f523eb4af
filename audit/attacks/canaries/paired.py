"""Canaries one by one, so that two scans can be compared as pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from audit.attacks.canaries.measures import DECOY
from audit.attacks.canaries.outcomes import Outcome, table_of
from audit.corpus.canaries.schema import Canary
from audit.stats.paired import UnitScores


def paired_by_canary(canaries: Sequence[Canary], outcomes: Sequence[Outcome]) -> Mapping[str, UnitScores]:
    """Extraction, rank among the first and exposure of each canary; those left out by their coin are the others.

    Args:
        canaries: those that were tried.
        outcomes: of each, in the same order.
    """
    asked = [canary.id for canary, outcome in zip(canaries, outcomes, strict=True) if outcome.left_out is None]
    if not asked:
        return {}
    table = table_of(canaries, outcomes)
    names, ranked = np.array(asked, object), np.isfinite(table.bits)
    columns = {"excess": (np.ones(len(asked), bool), table.hits.astype(float), 1.0)}
    if table.tried_decoys.any():
        columns[f"excess.{DECOY}"] = table.tried_decoys, table.decoy_hits.astype(float), 1.0
    if ranked.any():
        columns["excess_top3"] = ranked, table.early.astype(float), 1.0
        columns["excess_exposure"] = ranked, table.bits, float(table.most_bits[ranked].max()) or 1.0
    return {
        metric: UnitScores(
            names[rows].tolist(), names[rows].tolist(), table.included[rows], values[rows], limits=(0.0, most)
        )
        for metric, (rows, values, most) in columns.items()
    }
