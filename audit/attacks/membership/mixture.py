"""A check of forgetting: some listed documents that the model treats otherwise than the unseen ones, none for certain.

The count of certain documents sees those that stand above all unseen ones but one, and the area
sees a shift of all. Between them lies a tenth of the list that the model knows a little better
(methods/document-membership.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.attacks.membership import scores
from audit.attacks.score_figures import TwoSides
from audit.attacks.text import SENTENCES
from audit.measurements import Check
from audit.stats.mixture import mixture_p

NAME = "partly forgotten documents"
Direction = Literal["better", "worse"]
WEIGHTS: Mapping[Direction, float] = {"better": 0.8, "worse": 0.2}
"""Shares of the check's level for documents that are known better than unseen ones, and for those
known worse."""


@dataclass(frozen=True)
class _Finding:
    """The test of one score in one direction; `p_value` pays for all scores of its direction."""

    p_value: float
    direction: Direction


def check_mixture(sides: Mapping[str, TwoSides]) -> tuple[Check, ...]:
    """Test whether the model knows some of the listed documents better, or worse, than unseen ones.

    Args:
        sides: sides by score, the finite scores of listed and of unseen documents, each of
            independent units.

    Returns:
        One alarm; empty where no score has documents on both sides.
    """
    usable = {score: pair for score, pair in sides.items() if min(map(len, pair)) > 0}
    if not usable:
        return ()
    findings = [*_test_scores(usable.values(), "better"), *_test_scores(usable.values(), "worse")]
    strongest = min(findings, key=lambda finding: finding.p_value)
    reason = SENTENCES[f"mixture_{strongest.direction}"].format(n_scores=len(usable))
    return (Check(NAME, strongest.p_value, "alarm", reason, SENTENCES["forget_again"]),)


def sides_of(scored: scores.ScoredDocuments, counted_by: Iterable[str]) -> dict[str, TwoSides]:
    """Return the scores that this audit has, of listed and unseen documents without copies."""
    return {score: scored.single(score) for score in counted_by if score in scored.columns}


def _test_scores(sides: Iterable[TwoSides], direction: Direction) -> list[_Finding]:
    """Test by each score whether some listed documents stand out in one direction.

    Bonferroni's rule holds over the scores, and for the direction's share.
    """
    pairs = list(sides)
    findings = []
    for listed, unseen in pairs:
        if direction == "worse":
            p_value = mixture_p(np.negative(listed), np.negative(unseen))
        else:
            p_value = mixture_p(listed, unseen)
        findings.append(_Finding(min(1.0, len(pairs) * p_value / WEIGHTS[direction]), direction))
    return findings
