"""Scores of providers: areas, rates at a low false-positive rate, histogram and curves.

Method: methods.md#provider-membership and #statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.measuring import Streams
from audit.attacks.provider_membership.features import (
    CERTAIN_SCORES,
    ProviderTable,
)
from audit.attacks.provider_membership.inference import (
    MIN_JUDGED,
    NEEDED,
    Inference,
    smaller_side,
)
from audit.attacks.score_figures import LOW, TPR, ScoreComparison, TwoSides, draw_roc
from audit.measurements import Check, Curve, Diagnostic, Histogram, Measurement, Unresolved
from audit.stats.advantage import lowest_resolved

CONSTANT = "every provider has the same value, which tells nobody from anybody"
LOWER = ("loss", "memory_change")
"""Features of which less speaks for membership; of the others more does. Fixed before any data, never by labels."""
NOT_MEASURED = "no provider has it"
_PROVIDERS = ScoreComparison("provider", "providers out of training", ("providers in", "providers out"))


def collect_scores(table: ProviderTable, inference: Inference) -> dict[str, Floats]:
    """Return the scores that may rank providers, the preferred one first, each of shape (n,), NaN where unknown."""
    found = {"apk": inference.probability, "user": table.user, "accuracy": table.features.get("accuracy")}
    return {name: column for name, column in found.items() if column is not None}


def orient_feature(table: ProviderTable, name: str) -> Floats | None:
    """Return a feature so that more speaks for membership, shape (n,); None where no provider has it."""
    column = table.features.get(name)
    return -column if column is not None and name in LOWER else column


def unscored(name: str, table: ProviderTable, column: Floats | None, missing: str = NOT_MEASURED) -> Unresolved | None:
    """Return why a score says nothing; None when it does.

    Args:
        name: of the measurement.
        table: of the providers.
        column: the score, shape (n,), NaN where unknown; None where there is none.
        missing: why, where there is none.
    """
    if column is None:
        return Unresolved(name, missing, 0)
    known = ~np.isnan(column)
    if smaller_side(table.member[known]) < MIN_JUDGED:
        reason = f"fewer than {MIN_JUDGED} providers in training, or out of it, have it"
        return Unresolved(name, reason, int(known.sum()), 2 * NEEDED)
    if (column[known] == column[known][0]).all():
        return Unresolved(name, CONSTANT, int(known.sum()))
    return None


def split_scores(table: ProviderTable, column: Floats | None) -> TwoSides:
    """Return the scores of members and of the others, where known."""
    assert column is not None
    known = ~np.isnan(column)
    return column[known & table.member], column[known & ~table.member]


def measure_areas(table: ProviderTable, scores: Mapping[str, Floats], uncompared: str) -> dict[str, Measurement]:
    """Measure the chance that a member scores higher than a provider that is out, by score; null: 0.5."""
    columns = {"auc": scores.get("user")}
    columns |= {f"auc.{name}": orient_feature(table, name) for name in ("loss", "memory_similarity")}
    return {
        name: unscored(name, table, column, uncompared if name == "auc" else NOT_MEASURED)
        or _PROVIDERS.measure_auc(name, split_scores(table, column))
        for name, column in columns.items()
    }


def measure_tpr(table: ProviderTable, rng: Generator, uncompared: str) -> Measurement:
    """Measure the share of members that user inference finds at few false alarms."""
    missing = unscored(TPR, table, table.user, uncompared)
    return missing or _PROVIDERS.measure_tpr(split_scores(table, table.user), rng)


@dataclass(frozen=True)
class Certain:
    """The advantages, in the order of `CERTAIN_METRICS`; the rate at which they were taken; what speaks for a leak."""

    measurements: tuple[Measurement, ...]
    diagnostics: tuple[Diagnostic, ...]
    checks: tuple[Check, ...]


def measure_certain(table: ProviderTable, rng: Generator, uncompared: str) -> Certain:
    """Measure the advantage of each score at the lowest false-positive rate that providers out resolve; null: 0.

    Args:
        table: of the providers.
        rng: the order of providers that have the same score, such as all whom nothing is remembered of: the attacker
            tosses a coin, which reaches every false-positive rate exactly.
        uncompared: why there is no user inference, where there is none.
    """
    streams = Streams(rng)
    columns = [table.user if score == "user" else orient_feature(table, score) for score in CERTAIN_SCORES]
    named = list(zip(CERTAIN_SCORES.items(), columns, strict=True))
    found = [
        _advantage(name, table, column, streams[name], uncompared if score == "user" else NOT_MEASURED)
        for (score, name), column in named
    ]
    sides = [split_scores(table, column) for (_, name), column in named if unscored(name, table, column) is None]
    rate = lowest_resolved(int((~table.member).sum()))
    meaning = f"the false-positive rate of {LOW}: the lowest of 10 %, 1 % and 0.1 % that providers out resolve"
    checks = _PROVIDERS.check_certain(sides, found)
    return Certain(tuple(found), () if rate is None else (Diagnostic("low_fpr", rate, meaning),), checks)


def _advantage(name: str, table: ProviderTable, column: Floats | None, rng: Generator, missing: str) -> Measurement:
    nothing = unscored(name, table, column, missing)
    return nothing or _PROVIDERS.measure_advantage(name, split_scores(table, _break_ties(column, rng)))[0]


def _break_ties(column: Floats | None, rng: Generator) -> Floats:
    """Ranks, ties in random order, shape (n,); NaN where unknown."""
    assert column is not None
    ranks = np.full(column.size, np.nan)
    known = np.flatnonzero(~np.isnan(column))
    ranks[known[np.lexsort((rng.random(known.size), column[known]))]] = np.arange(known.size)
    return ranks


def draw_histogram(table: ProviderTable, column: Floats, quantity: str) -> tuple[Histogram, ...]:
    """The distribution of a score on either side; none where no number of it is finite."""
    scores = split_scores(table, np.where(np.isfinite(column), column, np.nan))
    return _PROVIDERS.histogram(quantity, scores) if scores[0].size + scores[1].size else ()


def draw_curves(table: ProviderTable, scores: Mapping[str, Floats]) -> tuple[Curve, ...]:
    """The ROC curves of user inference and of APK, as far as they say anything."""
    series = {
        label: draw_roc(split_scores(table, scores[name]))
        for name, label in (("user", "user inference"), ("apk", "APK"))
        if name in scores and unscored("roc", table, scores[name]) is None
    }
    axis, quantity = "share of providers out called members", "share of providers in called members"
    return (Curve("roc", axis, quantity, series),) if series else ()
