"""Attacks whose numbers copies between splits (`audit.corpus.near_copies`) confound."""

from __future__ import annotations

from audit.attacks.interface import Attack
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import Copies

COMPARED = ("documents", "providers")
"""Units that lie in held-out documents where they are not members'."""


def confounded_by_copies(copies: Copies, attack: Attack, corpus: Corpus) -> str | None:
    """Why nothing can be decided on what this attack measures, whatever it is; None when it can.

    Args:
        copies: what was found in the data set.
        attack: one that compares members with held-out documents, or the model with others, or neither.
        corpus: the data set.
    """
    compares = any(unit.others and unit.unit in COMPARED for unit in attack.units(corpus))
    if compares and copies.heldout_confounded is not None:
        return copies.heldout_confounded
    return copies.public_confounded if attack.needs or attack.uses else None
