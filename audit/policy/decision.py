"""Decisions on limits, their counts, waivers and comparison with a baseline, and the verdict, as data."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT, Estimate
from audit.policy.limits import LONGEST_WAIVER, TEXTS, Limit, Policy, Waiver
from audit.policy.reading import PREFIX, PolicyIdentity

Change = Literal["worse", "no longer measured", "better", "cannot be told", "not compared"]
"""What became of a limit since the baseline, the worst first: that of its worst method."""


@dataclass(frozen=True, config=STRICT)
class ComparedLimit:
    """What became of a limit since the baseline.

    Attributes:
        reason: the largest change where there is one, else why there is none.
    """

    attack: str
    metric: str
    outcome: Change
    reason: str


@dataclass(frozen=True, config=STRICT)
class Baseline:
    """An earlier scan that a verdict was held against.

    Attributes:
        record_sha256: of the file of its record.
        subject: the name of the model, or of the data set where its text was audited alone.
        model_sha256: of the model.
        scanned: when the scan began.
        limits: all of the policy's, in its order, each metric once.
        notes: what differs between both scans all the same, and what was not paired, in sentences.
    """

    record_sha256: str
    subject: str
    model_sha256: str
    scanned: str
    docaudit: str
    limits: tuple[ComparedLimit, ...]
    notes: tuple[str, ...] = ()

    def of(self, outcome: Change) -> list[ComparedLimit]:
        """List the limits with this outcome."""
        return [limit for limit in self.limits if limit.outcome == outcome]

    @property
    def compared(self) -> bool:
        """Whether any limit could be compared."""
        return any(limit.outcome in ("worse", "better", "cannot be told") for limit in self.limits)

    @property
    def counted(self) -> str:
        """The limits by outcome, in words."""
        counts = ", ".join(
            f"{len(own)} {outcome}" for outcome in get_args(Change) if (own := self.of(outcome))
        )
        return f"{len(self.limits)} {'limit' if len(self.limits) == 1 else 'limits'}: {counts}"

    @property
    def sentence(self) -> str:
        """The scan, and what became of the limits since."""
        scan = f"{self.subject}, scanned {self.scanned[:10]} (sha256 of the record {self.record_sha256[:PREFIX]})"
        return f"{scan}; {self.counted}"


COUNTED = {
    "violated": "exceeded",
    "undecided": "undecided",
    "waived": "exceeded and waived",
    "met": "met",
    "not_tested": "not tested",
    "inapplicable": "not applicable",
}
"""The counts of a verdict in words, the worst first."""


@dataclass(frozen=True, config=STRICT)
class Counts:
    """Limits by what became of them, those that a verdict is reached on.

    Attributes:
        not_tested: limits of attacks that could be run and were not; the policy does without them.
        inapplicable: limits of attacks that this kind of model cannot be asked.
    """

    met: int = 0
    waived: int = 0
    violated: int = 0
    undecided: int = 0
    not_tested: int = 0
    inapplicable: int = 0

    @property
    def unexamined(self) -> int:
        """Limits that nothing is known of."""
        return self.not_tested + self.inapplicable

    @property
    def limits(self) -> int:
        """All of them."""
        return self.met + self.waived + self.violated + self.undecided + self.unexamined

    @property
    def examined(self) -> int:
        """Those with a decision: met, violated, or violated and waived."""
        return self.met + self.waived + self.violated

    @property
    def sentence(self) -> str:
        """The counts in words, the worst first: "2 of 8 limits met, 4 not tested, 2 not applicable"."""
        return self.sentence_with({})

    def sentence_with(self, remarks: Mapping[str, str]) -> str:
        """Write the counts in words, the worst first.

        Args:
            remarks: by the name of a count, what stands behind it in brackets.
        """
        clauses = []
        for name, words in COUNTED.items():
            number = getattr(self, name)
            if number:
                remark = f" ({remarks[name]})" if name in remarks else ""
                clauses.append((number, f"{words}{remark}"))
        if not clauses:
            clauses = [(0, COUNTED["met"])]
        first_number, first_words = clauses[0]
        sentence = f"{first_number} of {self.limits} limits {first_words}"
        for number, words in clauses[1:]:
            sentence += f", {number} {words}"
        return sentence


def count(decisions: Sequence[Decision]) -> Counts:
    """Count decisions by their outcome."""
    named = {"passed": "met", "not run": "not_tested"}
    return Counts(
        **Counter(named.get(decision.outcome, decision.outcome) for decision in decisions)
    )


Outcome = Literal["passed", "violated", "undecided", "waived", "inapplicable", "not run"]
Overall = Literal["passed", "waived", "violated", "undecided"]
"""The verdict on all limits together; "waived": nothing worse, and somebody answers for at least
one violation."""
Cause = Literal[
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
]
"""Why a limit is undecided.

    confounded  something else than memory can explain the numbers, or they lie on the wrong side of
    their null weak        the attacker had too little power, or what it compares with is not shown
    to serve weakened    the attacker was weakened on purpose, or lacked something
    useless     the model does not do its task as it is asked
    alarm       something beside the limited numbers speaks for a leak
    uncovered   the number rests on too little of what could leak
    wide        the interval crosses the limit
    unresolved  too few units for this number
    unmeasured  the attack was skipped, broke down or was not run, or what a pass rests on was not
    measured gap         this kind of model cannot be asked, and the policy permits no such gap
"""


def count_range(measured: Estimate) -> str:
    """Say what a count shows and what it does not exclude: whole units, each rounded away from the estimate."""
    least = max(0, math.floor(measured.low))
    if measured.open_above:
        return TEXTS["count_at_least"].format(least=least)
    most = math.ceil(measured.high)
    return TEXTS["count_range"].format(least=least, most=most)


EXIT_CODES: dict[Overall, int] = {"passed": 0, "waived": 0, "violated": 10, "undecided": 11}


@dataclass(frozen=True, config=STRICT)
class Decision:
    """What became of one limit.

    Attributes:
        reason: one sentence.
        remedy: what would decide it, for an undecided one.
        measured: the number it was held against, when there is one: that of the method that
            decides.
        power: the attack's strength, when the limit asks for one.
        p_value: one-sided, against the limit, conservative (read from the record's bounds), after
            Holm.
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

    @property
    def count_range(self) -> str:
        """Say what a limited count shows and what it does not exclude, in whole units.

        Empty of other limits.
        """
        if self.limit.holds != "estimate" or self.measured is None:
            return ""
        return count_range(self.measured)


@dataclass(frozen=True, config=STRICT)
class Verdict:
    """The one verdict that console, PDF and exit code are drawn from.

    Attributes:
        overall: of the limits on the model.
        counts: of the limits that `overall` is about.
        counted: these counts in words, as `reason` has them; empty where it has none.
        waivers: all of the policy's, with what each does.
        identity: of the policy.
        text: of the limits on what the documents' own text gives away; None where the policy has
            none of them.
        text_reason: one sentence, empty without such limits.
        text_counts: whether the policy lets the limits on the text decide the exit code too.
        contradicted: why the guarantee that the training claims is false, see
            `limits.contradiction`; then the verdict is violated, whatever the limits, and no
            waiver is accepted.
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
    counted: str = ""
    waivers: tuple[RegisteredWaiver, ...] = ()
    identity: PolicyIdentity | None = None
    text_counts: bool = False
    baseline: Baseline | None = None

    @property
    def stamp(self) -> str:
        """The overall verdict as a stamp: a waived one is never plain "PASSED"."""
        if self.overall != "waived":
            return {"violated": "EXCEEDED"}.get(self.overall, self.overall.upper())
        return (
            f"PASSED WITH {self.counts.waived} {'WAIVER' if self.counts.waived == 1 else 'WAIVERS'}"
        )


SOON = 30
"""Days before the end of a waiver from which it is warned of: time for another training."""
WaiverState = Literal["in force", "ending", "expired", "too long", "not needed"]
"""What a waiver does.

    in force    its limit is violated, and it holds
    ending      the same, for `SOON` days at most
    expired     it has no effect
    too long    it ends later than `LONGEST_WAIVER` allows, and has no effect
    not needed  its limit is not violated, or a later waiver of it holds
"""


@dataclass(frozen=True, config=STRICT)
class RegisteredWaiver:
    """A waiver on the day of the verdict.

    `days` are left until its last one, negative once it is over.
    """

    waiver: Waiver
    state: WaiverState
    days: int

    @property
    def sentence(self) -> str:
        """Who answers for which limit until when, and what the waiver does."""
        one = self.waiver
        left = f"{self.days} {'day' if self.days == 1 else 'days'}"
        does = {
            "in force": f"holds until {one.expires}",
            "ending": f"ends in {left}, on {one.expires}",
            "expired": f"expired on {one.expires} and has no effect",
            "too long": f"ends on {one.expires}, more than 12 months ahead, and has no effect",
            "not needed": f"until {one.expires} is not needed now",
        }[self.state]
        return f"{one.attack} {one.metric}: the waiver of {one.owner} ({one.role}) {does}"


def waive(decision: Decision, policy: Policy, today: dt.date) -> Decision:
    """Return the decision waived where it is a violation and a waiver holds, else as it is."""
    limit = decision.limit
    own = [
        one for one in policy.waivers if (one.attack, one.metric) == (limit.attack, limit.metric)
    ]
    holding = [one for one in own if _term(one, today) == "in force"]
    if decision.outcome != "violated" or not holding:
        return decision
    return replace(decision, outcome="waived", waiver=max(holding, key=lambda one: one.expires))


def register(
    decisions: Sequence[Decision], policy: Policy, today: dt.date
) -> Iterator[RegisteredWaiver]:
    """Yield every waiver of the policy with what it does to these decisions, in the policy's order."""
    used = [decision.waiver for decision in decisions if decision.waiver is not None]
    for one in policy.waivers:
        days = (one.expires - today).days
        state: WaiverState = _term(one, today)
        if state == "in force" and one not in used:
            state = "not needed"
        elif state == "in force" and days <= SOON:
            state = "ending"
        yield RegisteredWaiver(one, state, days)


def _term(one: Waiver, today: dt.date) -> Literal["in force", "expired", "too long"]:
    if one.expires < today:
        return "expired"
    return "too long" if one.expires - today > LONGEST_WAIVER else "in force"
