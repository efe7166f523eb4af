"""Reconstruction field by field, so that two scans can be compared as pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from audit.attacks.fields import Field
from audit.attacks.reconstruction.names import EXCESSES, LIMITED, PLAYERS, named
from audit.attacks.reconstruction.table import build_table
from audit.corpus.documents import Corpus
from audit.corpus.folding import occurrences
from audit.engine.interface import Json
from audit.stats.paired import UnitScores


def paired_by_field(
    corpus: Corpus, fields: Sequence[Field], outcomes: Sequence[Json], methods: Sequence[str]
) -> Mapping[str, UnitScores]:
    """Attack minus baseline of every field of usual length: exact recovery, and similarity (1 - HD).

    Args:
        corpus: whose fields were attacked.
        fields: those that were tried.
        outcomes: see `Reconstruction.attempt`, in the same order.
        methods: of the attack, the default one first.
    """
    pairs = [pair for pair in zip(fields, outcomes, strict=True) if pair[0].length == "usual"]
    if not pairs:
        return {}
    own, found = [field for field, _ in pairs], [outcome for _, outcome in pairs]
    # What chance reaches is no part of a difference.
    table = build_table(own, found, occurrences(corpus), methods, vocabulary=2)
    rows = {"all": np.ones(len(own), bool), "unique": table.unique, "repeated": ~table.unique}
    scores = {}
    for metric, method in product(LIMITED, methods):
        what, _, group = metric.partition(".")
        attack, baseline = (table.scores["pr" if what == EXCESSES[0] else "hd", named(who, method)] for who in PLAYERS)
        values = attack - baseline if what == EXCESSES[0] else baseline - attack
        taken = rows[group]
        scores[named(metric, method)] = UnitScores(
            [field.trial.id for field, yes in zip(own, taken, strict=True) if yes],
            [field.document.id for field, yes in zip(own, taken, strict=True) if yes],
            table.member[taken],
            values[taken],
        )
    return scores
