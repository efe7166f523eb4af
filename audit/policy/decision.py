"""Decisions on limits, and the verdict, as data."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT, Estimate
from audit.policy.compared import Baseline
from audit.policy.counts import Counts
from audit.policy.identity import PolicyIdentity
from audit.policy.limits import Limit, Waiver
from audit.policy.waivers import RegisteredWaiver

Outcome = Literal["passed", "violated", "undecided", "waived", "inapplicable", "not run"]
Overall = Literal["passed", "waived", "violated", "undecided"]
"""The verdict on all limits together; "waived": nothing worse, and somebody answers for at least one violation."""
Cause = Literal[
    "confounded", "weak", "weakened", "useless", "alarm", "uncovered", "wide", "unresolved", "unmeasured", "gap"
]
"""Why a limit is undecided.

    confounded  something else than memory can explain the numbers, or they lie on the wrong side of their null
    weak        the attacker had too little power
    weakened    the attacker was weakened on purpose, or lacked something
    useless     the model does not do its task as it is asked
    alarm       something beside the limited numbers speaks for a leak
    uncovered   the number rests on too little of what could leak
    wide        the interval reaches over the limit
    unresolved  too few units for this number
    unmeasured  the attack was skipped, broke down or was not run
    gap         this kind of model cannot be asked, and the policy permits no such gap
"""
EXIT_CODES: dict[Overall, int] = {"passed": 0, "waived": 0, "violated": 10, "undecided": 11}


@dataclass(frozen=True, config=STRICT)
class Decision:
    """What became of one limit.

    Attributes:
        reason: one sentence.
        remedy: what would decide it, for an undecided one.
        measured: the number it was held against, when there is one: that of the method that decides.
        power: the attack's strength, when the limit asks for one.
        p_value: one-sided, against the limit, conservative (read from the record's bounds), after Holm.
        waiver: who took responsibility, when somebody did.
        cause: why an undecided one is undecided; None for the others.
        about_text: whether it is a finding about the documents' own text, whatever the model.
    """

    limit: Limit
    outcome: Outcome
    reason: str
    remedy: str = ""
    measured: Estimate | None = None
    power: Estimate | None = None
    p_value: float | None = None
    waiver: Waiver | None = None
    about_text: bool = False
    cause: Cause | None = None


@dataclass(frozen=True, config=STRICT)
class Verdict:
    """The one verdict that console, PDF and exit code are drawn from.

    Attributes:
        overall: of the limits on the model.
        counts: of the limits that `overall` is about.
        waivers: all of the policy's, with what each does.
        identity: of the policy.
        text: of the limits on what the documents' own text gives away; None where the policy has none of them.
        text_reason: one sentence, empty without such limits.
        text_counts: whether the policy lets the limits on the text decide the exit code too.
        contradicted: why the guarantee that the training claims is false, see `guarantee.contradiction`; then the
            verdict is violated, whatever the limits, and no waiver is accepted.
        baseline: the earlier scan that it was held against too; None: against none.
    """

    policy: str
    overall: Overall
    decisions: tuple[Decision, ...]
    exit_code: int
    reason: str
    text: Overall | None = None
    text_reason: str = ""
    contradicted: str | None = None
    counts: Counts = Counts()
    waivers: tuple[RegisteredWaiver, ...] = ()
    identity: PolicyIdentity | None = None
    text_counts: bool = False
    baseline: Baseline | None = None

    @property
    def stamp(self) -> str:
        """The overall verdict as a stamp: a waived one is never plain "PASSED"."""
        if self.overall != "waived":
            return self.overall.upper()
        return f"PASSED WITH {self.counts.waived} {'WAIVER' if self.counts.waived == 1 else 'WAIVERS'}"
