"""A remedy: what a report says of something that its reader can do about a finding."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic.dataclasses import dataclass

from audit.attacks.figure_text import Form
from audit.measurements import STRICT

FindingState = Literal[
    "violated",
    "alarm",
    "useless",
    "confounded",
    "one-sided",
    "unmeasured",
    "untried",
    "uncovered",
    "weak",
    "weakened",
    "unresolved",
    "wide",
    "gap",
    "clean",
    "unchecked",
    "waived",
    "outside",
]
"""What became of a limit, more finely than its outcome; the first is answered first.

Undecided ones are in the order of `audit.policy.grounds.Urgency`.

    violated    the leak is confirmed over the limit
    one-sided   undecided, because the data set holds no unseen documents
    clean       the audit as a whole passed, and nobody had to waive anything
    unchecked   no limit of the policy applies to this model
    waived      somebody took responsibility
    outside     the policy passes, and this speaks for a leak that it does not limit; answered as a
    violation is
    untried     undecided, because the budget or a bound left out what would decide it
    (others)    no decision, see `audit.policy.decision.Cause`
"""
Effort = Literal[
    "a setting, without training",
    "an agreement on who gets what, without training",
    "another scan",
    "new copies of the documents, without training",
    "training again",
    "a pass over the data, and training again",
]
"""The work that a remedy asks for, least first."""
Command = Literal[
    "",
    "scan",
    "scan longer",
    "scan at full budget",
    "scan at full strength",
    "plan",
    "train baselines",
    "judge anew",
]
STATES: tuple[FindingState, ...] = get_args(FindingState)
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True, config=STRICT)
class AnsweredFinding:
    """A finding that a remedy answers: `attack` and `metric` are shell patterns."""

    attack: str
    metric: str
    finding: tuple[FindingState, ...]


@dataclass(frozen=True, config=STRICT)
class MeasuredUse:
    """A model's usefulness without and with a remedy by one measure, as shares.

    Larger is better; `before` is above 0.
    """

    measure: str
    before: float
    after: float


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """A published effect of a remedy on another model.

    Attributes:
        by: docaudit's own measurement, or a paper's.
        attack, metric: shell patterns of the limits that it speaks for.
        before, after: what was measured, in the unit of `form`.
        leak: what was measured, in words that stand before the numbers.
        form: how the numbers are printed.
        of_failures: whether they are shares of what the attacker got wrong, which rise where the
            leak falls.
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
    leak: str
    form: Form
    setting: str
    source: str
    cost: str = ""
    useful: tuple[MeasuredUse, ...] = ()
    of_failures: bool = False

    @property
    def leaks(self) -> tuple[float, float]:
        """Return how much leaked before and after."""
        if self.of_failures:
            return 1 - self.before, 1 - self.after
        return self.before, self.after


@dataclass(frozen=True, config=STRICT)
class Remedy:
    """One thing the owner can do.

    Attributes:
        does: what it does, for somebody who knows no ML.
        cost: what it takes away or asks for.
        check: how docaudit can tell later whether it helped.
        source: the citation it rests on.
        answers: the findings that call for it.
        measured_by: the registered countermeasures (`docaudit defend NAME`) that show what it
            changes.
        effort: the work that it asks for.
        lifts: whether a model with it may meet the limit; False where the attacker of the audit is
            not hindered by it.
        beside_only: whether it is worth doing only beside another remedy; it ranks behind those
            that stand alone.
        forgetting: whether it helps a model to forget documents, and no other; one without it helps
            no such model.
        command: what measures it, see `audit.report.commands`; empty: `docaudit fix` with the first
            of `measured_by`, where there is one.
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
    effort: Effort = "training again"
    lifts: bool = True
    beside_only: bool = False
    forgetting: bool = False
    command: Command = ""
    evidence: tuple[Evidence, ...] = ()

    @property
    def needs_training(self) -> bool:
        """Test whether it takes the weights of the model, or others in their place."""
        return self.effort in ("training again", "a pass over the data, and training again")

    @property
    def is_a_setting(self) -> bool:
        """Test whether a countermeasure measures it that trains nothing."""
        if self.needs_training:
            return False
        return bool(self.measured_by)
