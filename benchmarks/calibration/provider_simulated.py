"""What models say of providers, simulated: the input of `provider_calibration`.

Every provider has an ease of its own, every document and question one on top, and with few
documents and questions a provider's means scatter more. Membership is the toss of a coin. A leak
raises the ease of members.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from statistics import NormalDist
from typing import Any

import numpy as np

from audit.arrays import Floats
from audit.attacks.provider_membership.providers import (
    IN,
    OUT,
    ProviderTable,
    match_sides,
    table_of,
)
from audit.attacks.score_figures import LOW as CERTAIN
from audit.engine.interface import Trial

N_SEEDS = 25
"""Of APK's training shares, as in a scan."""


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        providers: half of them in training, on average.
        spread: of the providers' ease, in units of a document's.
        documents: kept-aside documents of a provider that is in, and of one that is out, on
            average; where they differ a provider has one and a Poisson number besides, else evenly
            one to six.
        seeds: of APK's training shares.
        leak: by how much training on a provider raises the ease of its documents, in units of a
            document's spread.
    """

    providers: int = 600
    spread: float = 1.0
    documents: tuple[float, float] = (3.5, 3.5)
    seeds: int = N_SEEDS
    leak: float = 0.0


def simulated(setting: Setting, rng: np.random.Generator) -> ProviderTable:
    """What an attack compares.

    Without a leak, training on some providers taught the model nothing of these.
    """
    return table_of(match_sides(*answered(setting, rng)))


def answered(setting: Setting, rng: np.random.Generator) -> tuple[list[Trial], list[Any]]:
    """What such a model says of each provider: trials and outcomes."""
    n = setting.providers
    member = rng.random(n) < 0.5
    ease = rng.normal(1, setting.spread, n) + setting.leak * member
    n_documents = rng.integers(1, 7, n)
    if len(set(setting.documents)) > 1:
        n_documents = 1 + rng.poisson(np.where(member, *setting.documents) - 1)
    owner = np.repeat(np.arange(n), n_documents)
    per_document = rng.integers(1, 5, owner.size)
    of_document = ease[owner] + rng.normal(0, 1, owner.size)
    document = np.arange(owner.size).repeat(per_document)
    logit = of_document[document] + rng.normal(0, 1, document.size)
    before = logit - 1 + rng.normal(0, 0.7, document.size)
    right = (rng.random(document.size) < _confidence(logit)).astype(float)
    partly = np.where(rng.random(document.size) < 0.3, rng.uniform(0.5, 1, document.size), 0.0)
    remembered = rng.random(document.size) < 0.06 * _confidence(logit)
    rows = {
        "loss": np.log1p(np.exp(-logit)),
        "confidence": _confidence(logit),
        "accuracy": right,
        "similarity": np.maximum(right, partly),
        "memory_similarity": remembered * rng.uniform(0.5, 1, document.size),
    }
    known = {"loss": np.log1p(np.exp(-before)), "confidence": _confidence(before)}
    changes = np.clip(rng.normal(0.5, 0.3, owner.size), 0, 1)
    said = [
        {**one, "pretrained": past}
        for one, past in zip(_records(rows), _records(known), strict=True)
    ]
    asked = iter(said)
    outcomes: list[Any] = [{"documents": []} for _ in range(n)]
    for number, (provider, n_questions, change) in enumerate(
        zip(owner, per_document, changes.tolist(), strict=True)
    ):
        questions = list(islice(asked, int(n_questions)))
        found = {"id": f"document {number}", "questions": questions, "memory_change": change}
        outcomes[provider]["documents"].append(found)
    names = [f"provider {number:04d}" for number in range(n)]
    trials = [
        Trial(name, name, IN if inside else OUT) for name, inside in zip(names, member, strict=True)
    ]
    return trials, outcomes


def leaking(
    table: ProviderTable, metric: str, truth: float, rng: np.random.Generator
) -> ProviderTable:
    """A leak-free table with something planted: what it would reach with providers without number is `truth`."""
    n = len(table.names)
    normal = NormalDist()
    assert table.user is not None
    if metric == CERTAIN:
        # At 10 % false alarms: of the others, who are no better known, a tenth are found as well.
        share = truth / 0.9
        known = table.member & (rng.random(n) < share)
        return replace(table, user=np.where(known, table.user.max() + 1, table.user))
    moved = (
        2 * normal.inv_cdf(truth)
        if metric == "balanced_accuracy"
        else math.sqrt(2) * normal.inv_cdf(truth)
    )
    column = rng.normal(0, 1, n) + moved * table.member
    if metric == "auc":
        return replace(table, user=column)
    return replace(
        table, features={**table.features, "accuracy": column, "similarity": np.zeros(n)}
    )


def planted(providers: int, leak: float, rng: np.random.Generator) -> ProviderTable:
    """Providers of whom training on them moves accuracy and user inference by `leak` deviations.

    Half are members.
    """
    member = rng.permutation(np.arange(providers) < providers // 2)
    moved, user = (rng.normal(0, 1, providers) + leak * member for _ in range(2))
    ones = np.ones(providers, np.int64)
    names = tuple(f"provider {number:04d}" for number in range(providers))
    return ProviderTable(
        names, member, 5 * ones, ones, {"accuracy": moved, "similarity": np.zeros(providers)}, user
    )


def _records(columns: dict[str, Floats]) -> list[dict[str, float]]:
    """Return the rows of a table of columns, each by name."""
    return [
        dict(zip(columns, row, strict=True))
        for row in np.column_stack([*columns.values()]).tolist()
    ]


def _confidence(logit: Floats) -> Floats:
    """Return the probabilities of logits."""
    return np.asarray(1 / (1 + np.exp(-logit)), np.float64)
