"""The verdict as data: decisions on limits, their counts, waivers and the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal, Self, get_args

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT, Estimate
from audit.policy.checks import SettledRecord
from audit.policy.grounds import Ground, Remedy, Urgency
from audit.policy.limits import TEXTS, Limit, Waiver
from audit.policy.reading import PREFIX, PolicyIdentity

Change = Literal["worse", "no longer measured", "better", "lower", "cannot be told", "not compared"]
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
        role: what the earlier scan is to this one: a baseline, or that of the audited model of
            which this one is an export.
    """

    record_sha256: str
    subject: str
    model_sha256: str
    scanned: str
    docaudit: str
    limits: tuple[ComparedLimit, ...]
    notes: tuple[str, ...] = ()
    role: Literal["baseline", "audited model"] = "baseline"

    def of(self, outcome: Change) -> list[ComparedLimit]:
        """List the limits with this outcome."""
        return [limit for limit in self.limits if limit.outcome == outcome]

    @property
    def compared(self) -> bool:
        """Tell whether any limit could be compared with the earlier scan."""
        return any(
            limit.outcome in ("worse", "better", "lower", "cannot be told") for limit in self.limits
        )

    @property
    def counted(self) -> str:
        """Count the limits by what became of them since the earlier scan, in words."""
        counts = []
        for outcome in get_args(Change):
            number = len(self.of(outcome))
            if number:
                counts.append(f"{number} {outcome}")
        noun = "limits"
        if len(self.limits) == 1:
            noun = "limit"
        return f"{len(self.limits)} {noun}: {', '.join(counts)}"

    @property
    def sentence(self) -> str:
        """Name the earlier scan, and say what became of the limits since."""
        scan = f"{self.subject}, scanned {self.scanned[:10]}"
        return f"{scan} (sha256 of the record {self.record_sha256[:PREFIX]}); {self.counted}"


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
        """Count the limits without a decision: nothing is known of them."""
        return self.not_tested + self.inapplicable

    @property
    def limits(self) -> int:
        """Count all limits."""
        return self.met + self.waived + self.violated + self.undecided + self.unexamined

    @property
    def examined(self) -> int:
        """Count the limits with a decision: met, violated, or violated and waived."""
        return self.met + self.waived + self.violated

    @property
    def sentence(self) -> str:
        """Write the counts as a sentence, the worst outcome first.

        Such as "2 of 8 limits met, 4 not tested, 2 not applicable".
        """
        return self.sentence_with({})

    def sentence_with(self, remarks: Mapping[str, str]) -> str:
        """Write the counts in words, the worst first.

        Args:
            remarks: by the name of a count, what stands behind it in brackets.
        """
        return ", ".join(self._clauses(remarks))

    @property
    def clauses(self) -> tuple[str, ...]:
        """Write each count as a clause, the worst outcome first."""
        return self._clauses({})

    def _clauses(self, remarks: Mapping[str, str]) -> tuple[str, ...]:
        """Write each count above 0 as a clause, "2 of 5 limits met", the worst outcome first.

        Args:
            remarks: words for the brackets behind a count, by the count's name.
        """
        clauses: list[str] = []
        for name, words in COUNTED.items():
            number = getattr(self, name)
            if not number:
                continue
            if name in remarks:
                words = f"{words} ({remarks[name]})"
            limits = "" if clauses else f"of {self.limits} limits "
            clauses.append(f"{number} {limits}{words}")
        if not clauses:
            clauses = [f"0 of {self.limits} limits {COUNTED['met']}"]
        return tuple(clauses)


Outcome = Literal["passed", "violated", "undecided", "waived", "inapplicable", "not run"]
Overall = Literal["passed", "waived", "violated", "undecided"]
"""The verdict on all limits together; "waived": nothing worse, and somebody answers for at least
one violation."""
Word = Literal["met", "exceeded", "undecided", "waived", "not applicable", "not tested"]
WORDS: Mapping[Outcome, Word] = {
    "passed": "met",
    "violated": "exceeded",
    "undecided": "undecided",
    "waived": "waived",
    "inapplicable": "not applicable",
    "not run": "not tested",
}
"""What every output calls an outcome, of a limit or of all of them together."""


def word_of(outcome: str) -> str:
    """Return what outputs call an outcome; any other text is returned as it is.

    Files of versions before 0.14 hold the outcome itself.
    """
    for name, word in WORDS.items():
        if outcome == name:
            return word
    return outcome


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
    """Say what a count shows and what it does not exclude.

    Both are whole units, each rounded away from the estimate.
    """
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
        restates: the beginning of `reason` that outcome and bounds state already; empty where they
            state none of it.
        ground: what `reason` says; code compares this and no sentence. None: not stated.
        remedy_id: what `remedy` says; None where nothing is open.
        urgency: how soon `remedy` is needed; None where nothing is open.
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
    restates: str = ""
    ground: Ground | None = None
    remedy_id: Remedy | None = None
    urgency: Urgency | None = None

    @property
    def word(self) -> Word:
        """Return what outputs call the outcome."""
        return WORDS[self.outcome]

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
        settled: the record that was judged, its checks settled by the limits of the policy.
        before, after: what stands before and behind these counts in `reason`.
        waivers: all of the policy's, with what each does.
        identity: of the policy.
        text: of the limits on what the documents' own text gives away; None where the policy has
            none of them.
        text_reason: one sentence, empty without such limits.
        text_counts: whether the policy lets the limits on the text decide the exit code too.
        contradicted: why the guarantee that the training claims is false, see
            `guarantees.contradiction`; then the verdict is violated, whatever the limits, and no
            waiver is accepted.
        baseline: the earlier scan that it was held against too; None: against none.
    """

    policy: str
    overall: Overall
    decisions: tuple[Decision, ...]
    exit_code: int
    reason: str
    settled: SettledRecord = field(repr=False)
    text: Overall | None = None
    text_reason: str = ""
    contradicted: str | None = None
    counts: Counts = Counts()
    counted: str = ""
    waivers: tuple[RegisteredWaiver, ...] = ()
    identity: PolicyIdentity | None = None
    text_counts: bool = False
    baseline: Baseline | None = None
    before: str = ""
    after: str = ""

    def reason_with(self, counted: str) -> str:
        """Return the reason with other words in the place of its counts; as it is without counts."""
        if not self.counted:
            return self.reason
        return f"{self.before}{counted}{self.after}"

    def followed_by(self, words: str) -> Self:
        """Return the verdict with words behind its reason."""
        return replace(self, reason=f"{self.reason}{words}", after=f"{self.after}{words}")

    @property
    def stamp(self) -> str:
        """Return the overall verdict as a stamp: a waived one is never plain "MET"."""
        if self.overall != "waived":
            return self.word.upper()
        if self.counts.waived == 1:
            return "MET WITH 1 WAIVER"
        return f"MET WITH {self.counts.waived} WAIVERS"

    @property
    def word(self) -> Word:
        """Return what outputs call the verdict on all limits together."""
        return WORDS[self.overall]


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
        """Say who answers for which limit until when, and what the waiver does."""
        waiver = self.waiver
        days = f"{self.days} days"
        if self.days == 1:
            days = "1 day"
        effects = {
            "in force": f"holds until {waiver.expires}",
            "ending": f"ends in {days}, on {waiver.expires}",
            "expired": f"expired on {waiver.expires} and has no effect",
            "too long": f"ends on {waiver.expires}, more than 12 months ahead, and has no effect",
            "not needed": f"until {waiver.expires} is not needed now",
        }
        owner = f"{waiver.owner} ({waiver.role})"
        limit = f"{waiver.attack} {waiver.metric}"
        return f"{limit}: the waiver of {owner} {effects[self.state]}"
