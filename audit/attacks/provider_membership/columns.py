"""A score of providers, as a column of the table: whether it says anything, and what each side has."""

from __future__ import annotations

import numpy as np

from audit.arrays import Floats
from audit.attacks.provider_membership.inference import MIN_JUDGED, NEEDED, smaller_side
from audit.attacks.provider_membership.table import ProviderTable
from audit.measurements import Unresolved

CONSTANT = "every provider has the same value, which tells nobody from anybody"
LOWER = ("loss", "memory_change")
"""Features of which less speaks for membership; of the others more does. Fixed before any data, never by labels."""
CHANGES = ("loss_change", "confidence_change")
"""Features that there are with a reference only."""


def directed(table: ProviderTable, name: str) -> Floats | None:
    """A feature so that more speaks for membership, shape (n,); None where no provider has it."""
    column = table.features.get(name)
    return -column if column is not None and name in LOWER else column


def unscored(name: str, table: ProviderTable, column: Floats) -> Unresolved | None:
    """Why a score says nothing; None when it does."""
    known = ~np.isnan(column)
    if smaller_side(table.member[known]) < MIN_JUDGED:
        reason = f"fewer than {MIN_JUDGED} providers in training, or out of it, have it"
        return Unresolved(name, reason, int(known.sum()), 2 * NEEDED)
    if (column[known] == column[known][0]).all():
        return Unresolved(name, CONSTANT, int(known.sum()))
    return None


def sides(table: ProviderTable, column: Floats) -> tuple[Floats, Floats]:
    """The scores of members and of the others, where known."""
    known = ~np.isnan(column)
    return column[known & table.member], column[known & ~table.member]
