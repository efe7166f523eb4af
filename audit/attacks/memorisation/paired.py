"""Memorisation question by question, so that two scans can be compared as pairs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from audit.arrays import Floats
from audit.attacks.memorisation.contexts import WHOLE
from audit.attacks.memorisation.measures import by_value, identifying
from audit.attacks.memorisation.names import IDENTIFIED
from audit.attacks.memorisation.table import QuestionTable
from audit.stats.paired import UnitScores


def paired_by_question(table: QuestionTable) -> Mapping[str, UnitScores]:
    """E - G of each member question in every context, as "net"; and of each personal value, as "identified".

    Args:
        table: of all trials.
    """
    members = table.split("member").proven
    found = {}
    for context, results in members.results.items():
        rows = members.where(results.tried)
        if context == WHOLE or not len(rows):
            continue
        own = rows.results[context]
        name = "net" if context == "exact" else f"net.{context}"
        found[name] = _scores(
            [f"{asked.document.id}/{asked.question.id}" for asked in rows.asked],
            [asked.document.id for asked in rows.asked],
            own.gained - own.lost,
        )
    return found | _identified(identifying(table))


def _identified(rows: QuestionTable) -> dict[str, UnitScores]:
    """Each personal value times their number, so that the mean is a count."""
    if not len(rows) or "exact" not in rows.results:
        return {}
    document_of = dict(zip(rows.cluster.tolist(), (asked.document.id for asked in rows.asked), strict=True))
    gained, lost, clusters = by_value(rows)
    values = list(dict.fromkeys((int(own), asked.values) for own, asked in zip(rows.cluster, rows.asked, strict=True)))
    documents = [document_of[int(cluster)] for cluster in clusters]
    names = [f"{name}/{'/'.join(sorted(own))}" for name, (_, own) in zip(documents, values, strict=True)]
    n = float(len(names))
    return {IDENTIFIED: _scores(names, documents, (gained - lost) * n, n)}


def _scores(units: list[str], documents: list[str], values: Floats, most: float = 1.0) -> UnitScores:
    return UnitScores(units, documents, np.ones(len(units), bool), values, limits=(-most, most))
