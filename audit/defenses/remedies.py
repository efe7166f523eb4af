"""Remedies: actions that a report recommends to the owner, and the findings that each answers."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass as strict_dataclass

from audit.measurements import STRICT

FindingState = Literal[
    "violated",
    "confounded",
    "weak",
    "weakened",
    "useless",
    "alarm",
    "uncovered",
    "wide",
    "unresolved",
    "unmeasured",
    "gap",
    "clean",
    "unchecked",
    "waived",
    "above",
]
"""What became of a limit, more finely than its outcome.

    violated    the leak is confirmed over the limit
    clean       the audit as a whole passed, and nobody had to waive anything
    unchecked   no limit of the policy applies to this model
    waived      somebody took responsibility
    (others)    no decision, see `audit.policy.decision.Cause`
    above       a measurement, gated or not, lies wholly above a value that the remedy names
"""
ORDER: tuple[FindingState, ...] = (
    "violated",
    "alarm",
    "unmeasured",
    "useless",
    "confounded",
    "weak",
    "weakened",
    "uncovered",
    "unresolved",
    "gap",
    "wide",
    "clean",
    "unchecked",
    "waived",
    "above",
)


@strict_dataclass(frozen=True, config=STRICT)
class AnsweredFinding:
    """A finding that a remedy answers: `attack` and `metric` are shell patterns; `above` is for the state "above"."""

    attack: str
    metric: str
    finding: tuple[FindingState, ...]
    above: float = 0.0


@strict_dataclass(frozen=True, config=STRICT)
class Remedy:
    """One thing the owner can do.

    Attributes:
        does: what it does, for somebody who knows no ML.
        cost: what it takes away or asks for.
        check: how docaudit can tell later whether it helped.
        source: the citation it rests on.
        answers: the findings that call for it.
        measured_by: the registered countermeasures (`docaudit defend NAME`) that show what it changes.
    """

    id: str
    name: str
    does: str
    cost: str
    check: str
    source: str
    answers: tuple[AnsweredFinding, ...]
    measured_by: tuple[str, ...] = ()
