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
    "outside",
    "above",
]
"""What became of a limit, more finely than its outcome.

    violated    the leak is confirmed over the limit
    clean       the audit as a whole passed, and nobody had to waive anything
    unchecked   no limit of the policy applies to this model
    waived      somebody took responsibility
    (others)    no decision, see `audit.policy.decision.Cause`
    outside     the policy passes, and this speaks for a leak that it does not limit; answered as a violation is
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
    "outside",
    "above",
)


@strict_dataclass(frozen=True, config=STRICT)
class AnsweredFinding:
    """A finding that a remedy answers: `attack` and `metric` are shell patterns; `above` is for the state "above"."""

    attack: str
    metric: str
    finding: tuple[FindingState, ...]
    above: float = 0.0


Effort = Literal["setting", "agreement", "scan", "copies", "training", "data"]
EFFORTS: dict[Effort, str] = {
    "setting": "a setting, without training",
    "agreement": "an agreement on who gets what, without training",
    "scan": "another scan",
    "copies": "new copies of the documents, without training",
    "training": "training again",
    "data": "a pass over the data, and training again",
}
"""The work that a remedy asks for, in words, least first."""


@strict_dataclass(frozen=True, config=STRICT)
class MeasuredUse:
    """Compare a model's usefulness without and with a remedy by one measure (larger is better; `before` above 0)."""

    measure: str
    before: float
    after: float


@strict_dataclass(frozen=True, config=STRICT)
class Evidence:
    """A published effect of a remedy on another model.

    Attributes:
        by: docaudit's own measurement, or a paper's.
        attack, metric: shell patterns of the limits that it speaks for.
        before, after: what was measured, in whatever unit; `null` is its value without any leak.
        setting: what was measured, on which model and data.
        cost: what it did to usefulness there, in words; empty where numbers say it, or nobody said.
        useful: all measures of usefulness that were taken there.
        source: where the numbers stand.
    """

    by: Literal["docaudit", "paper"]
    attack: str
    metric: str
    before: float
    after: float
    setting: str
    source: str
    null: float = 0.0
    cost: str = ""
    useful: tuple[MeasuredUse, ...] = ()

    @property
    def loss(self) -> float:
        """The largest relative loss of usefulness that was measured, at least 0."""
        return max((1 - one.after / one.before for one in self.useful), default=0.0)

    @property
    def left(self) -> float:
        """The share of the effect that was left, at least 0: 1 is no change."""
        return max(0.0, (self.after - self.null) / (self.before - self.null))


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
        effort: the work that it asks for.
        lifts: whether a model with it may meet the limit; False where the attacker of the audit is not hindered by it.
        beside_only: whether it is worth doing only beside another remedy; it ranks behind those that stand alone.
        command: what measures it, with {policy}, {budget} and {seed} of the scan; empty: `docaudit defend` with the
            first of `measured_by`, where there is one.
        evidence: measured effects, docaudit's own first.
    """

    id: str
    name: str
    does: str
    cost: str
    check: str
    source: str
    answers: tuple[AnsweredFinding, ...]
    measured_by: tuple[str, ...] = ()
    effort: Effort = "training"
    lifts: bool = True
    beside_only: bool = False
    command: str = ""
    evidence: tuple[Evidence, ...] = ()
