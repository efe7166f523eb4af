"""Whether the reference of the calibrated score knows the documents that it is said never to have seen."""

from __future__ import annotations

import numpy as np

from audit.arrays import Floats
from audit.attacks.membership.scores import ScoredDocuments
from audit.stats.roc import auc_interval

ALPHA = 0.005
"""One-sided (ours): a reference that saw neither is taken for one that did in one audit of 200."""


def reference_knows_members(scored: ScoredDocuments) -> str | None:
    """Why the reference looks trained on the audited documents; None when it does not, or there is none.

    Its own loss must tell member from held-out documents no better than chance. One that knows the members takes away
    from the model's score what the model knows.

    Args:
        scored: the documents with their scores.
    """
    if not {"loss", "calibrated"} <= scored.columns.keys():
        return None
    members, heldout = (_reference(scored, member=side) for side in (True, False))
    if not (len(members) and len(heldout)):
        return None
    found = auc_interval(members, heldout, alphas=(ALPHA,))
    if found.bounds[0][1] <= 0.5:
        return None
    return (
        "the reference looks trained on the audited documents, or these differ in themselves: its own loss tells member"
        f" from held-out ones, AUC {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    )


def _reference(scored: ScoredDocuments, *, member: bool) -> Floats:
    """Minus the reference's loss of each document of one side: the score by loss without the calibrated one."""
    values: Floats = (scored.columns["loss"] - scored.columns["calibrated"])[scored.member == member]
    return values[np.isfinite(values)]
