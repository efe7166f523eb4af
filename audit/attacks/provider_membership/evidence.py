"""Who the providers are, and what the attack made of each. For the owner's `evidence/` folder only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from audit.arrays import Floats
from audit.attacks.provider_membership.absent_keys import AbsentKeyReply
from audit.attacks.provider_membership.columns import LOWER
from audit.attacks.provider_membership.inference import infer
from audit.attacks.provider_membership.matching import IN, OUT
from audit.attacks.provider_membership.measures import scores_of
from audit.attacks.provider_membership.providers import Provider
from audit.attacks.provider_membership.table import ProviderTable
from audit.engine.interface import SILENT


def entries(
    table: ProviderTable,
    providers: Sequence[Provider],
    replies: Sequence[AbsentKeyReply],
    *,
    n_seeds: int,
    share: float,
) -> Iterator[dict[str, Any]]:
    """One object a provider: number, name, in or out, features, scores, ranks (1 = most like a member).

    Args:
        table: of the providers that were asked about.
        providers: all of the data set.
        replies: to questions about missing keys; the values of training among them are given.
        n_seeds: as in the measurement, so that scores are the same.
        share: likewise.
    """
    known = {provider.name: provider for provider in providers}
    scores = scores_of(table, infer(table, SILENT, n_seeds=n_seeds, share=share))
    ranks = {name: _ranks(column, -1 if name in LOWER else 1) for name, column in table.features.items()}
    ranks |= {_score(name): _ranks(column, 1) for name, column in scores.items()}
    for row, name in enumerate(table.names):
        provider = known[name]
        yield {
            "provider": provider.number,
            "name": provider.spellings[0],
            "spellings": [*provider.spellings],
            "training": IN if provider.member else OUT,
            "documents": int(table.n_documents[row]),
            "questions": int(table.n_questions[row]),
            "features": _known(table.features, row),
            "scores": _known({_score(score): column for score, column in scores.items()}, row),
            "ranks": {score: int(rank) for score, rank in _known(ranks, row).items()},
            "absent_key": [
                {"document": reply.document, "key": reply.key, "answer": reply.text}
                for reply in replies
                if reply.trained and reply.provider == name
            ],
        }


def _score(name: str) -> str:
    return f"score.{name}"


def _known(columns: Mapping[str, Floats], row: int) -> dict[str, float]:
    return {name: float(column[row]) for name, column in columns.items() if np.isfinite(column[row])}


def _ranks(column: Floats, sign: int) -> Floats:
    """The place of each provider from the most to the least like a member; ties share the best place, NaN stays."""
    places = np.array([1.0 + np.sum(sign * column > sign * value) for value in column])
    return np.where(np.isfinite(column), places, np.nan)
