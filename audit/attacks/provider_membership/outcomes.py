"""From what was asked about the providers' documents to a table of providers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from audit.arrays import Floats
from audit.attacks.provider_membership.matching import IN, Matched, matched
from audit.attacks.provider_membership.table import FEATURES, MEMORY, ProviderTable
from audit.engine.interface import Json, Trial

_CHANGES = {"loss_change": "loss", "confidence_change": "confidence"}


def table_of(trials: Sequence[Trial], outcomes: Sequence[Json]) -> ProviderTable:
    """One row a provider of whom anything was asked, in trial order, both sides cut to match (see `matching`).

    A feature is the mean over those of the provider's questions that have it; `memory_change`, which is asked once a
    document, the mean over its documents. User inference is the mean over documents of the mean over their questions of
    the log-probability a token of the true answer, minus that of the reference.
    """
    return tabulated(matched(trials, outcomes))


def tabulated(compared: Matched) -> ProviderTable:
    """The same of what was cut to match already."""
    trials, outcomes = compared.trials, compared.outcomes
    columns = {name: _column([_values(outcome, name) for outcome in outcomes]) for name in (*FEATURES, *MEMORY)}
    user = _column([_gains(outcome) for outcome in outcomes])
    return ProviderTable(
        tuple(trial.unit for trial in trials),
        np.array([trial.stratum == IN for trial in trials], bool),
        np.array([len(_questions(outcome)) for outcome in outcomes], np.int64),
        np.array([len(outcome["documents"]) for outcome in outcomes], np.int64),
        {name: column for name, column in columns.items() if np.isfinite(column).any()},
        user if np.isfinite(user).any() else None,
    )


def _questions(outcome: Json) -> list[Json]:
    return [question for document in outcome["documents"] for question in document["questions"]]


def _values(outcome: Json, name: str) -> list[float | None]:
    """One feature of a provider, by question, or by document where it is asked once."""
    if name == "memory_change":
        return [document["memory_change"] for document in outcome["documents"]]
    if name not in _CHANGES:
        return [question[name] for question in _questions(outcome)]
    changes = [_difference(question, _CHANGES[name]) for question in _questions(outcome)]
    return [None if change is None else abs(change) for change in changes]


def _gains(outcome: Json) -> list[float | None]:
    """By document: how much likelier the true answers became, nats a token."""
    documents = [[_difference(question, "loss") for question in own["questions"]] for own in outcome["documents"]]
    means = [_mean(losses) for losses in documents]
    return [None if mean is None else -mean for mean in means]


def _difference(question: Json, name: str) -> float | None:
    """What the target has more of than the pretrained model."""
    before = question["pretrained"]
    if before is None or before[name] is None or question[name] is None:
        return None
    return float(question[name] - before[name])


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _column(rows: Sequence[Sequence[float | None]]) -> Floats:
    """The mean of each row, NaN where it has no number: shape (n_rows,)."""
    return np.array([np.nan if (mean := _mean(row)) is None else mean for row in rows], np.float64)
