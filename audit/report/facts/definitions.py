"""Define every number that an output of an audit shows, once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from audit.attacks import TEXTS, text_of
from audit.attacks.text import Access
from audit.measurements import Breakdown, By, Coverage, Estimate, PeopleCount
from audit.policy import Cause, Decision, Outcome, Overall, Verdict
from audit.policy.alarms import Alarm
from audit.policy.grounds import Remedy, Urgency
from audit.record import AuditRecord
from audit.report.commands import Commands
from audit.report.facts.actions import Recommendation
from audit.report.facts.attackers import AccessRow, ReleaseFacts
from audit.report.facts.scale import ScaleFacts
from audit.report.sentences import finding_sentence, value_sentence

WORST_FIRST: tuple[Outcome, ...] = (
    "violated",
    "waived",
    "undecided",
    "passed",
    "not run",
    "inapplicable",
)
LEAK_ORDER = ("violated", "waived", "undecided", "", "passed", "not run", "inapplicable")
"""Attacks by the worst outcome of their limits, as all outputs list them; empty: none limits it."""
EXTRACTING = ("reconstruction", "memorisation", "attribute_inference", "canaries")
"""Attacks that give values back; the others recognise documents, companies or kinds of values."""
RETURNING = ("reconstruction", "memorisation")
"""Attacks whose values come back as the document has them, and are not picked from a list."""
RECOGNISING = ("membership",)
DISCOUNTED = 0.005
"""Share by which somebody without the model has to do better than an attack on unseen documents
before a report explains it."""
FEWEST_OF_KIND = 10
"""Values of a kind below which its share is not compared with that of other kinds."""
ROUNDING = 1e-9
"""Difference of two shares under which they count as equal."""


NEARLY = ".near"
"""The end of the names of counts that allow a few wrong letters."""
Subtracted = Literal["unseen", "without", "both"]
"""What a leak leaves out of the share on training documents: the share on unseen ones, the share
without the model, or the first and what an attacker gains without the model."""


DOCUMENTS = "documents_identified"
"""The count of documents that leak, or that are recognised, because of training."""


@dataclass(frozen=True)
class ReturnedDocuments:
    """Documents by whether any of their own values came back, by the method that decides.

    Attributes:
        n_member: documents of training that gave back at least one value of their own.
        of_member: documents of training that were tried with such a value.
        n_heldout: unseen documents that gave back at least one.
        of_heldout: unseen documents that were tried with one.
    """

    n_member: int
    of_member: int
    n_heldout: int
    of_heldout: int


@dataclass(frozen=True)
class QuestionFacts:
    """What one attack that ran to its end found, and what became of its limits.

    Attributes:
        attack: its name.
        outcome: the worst outcome of its limits; empty where the policy has none on it.
        decisions: on its limits, in the policy's order.
        deciding: the first of the worst decisions for which there is a number. Its `measured` is
            that of the method that decides.
        access: access to the model that the deciding number needs; without one, that of the
            whole attack.
        trained: the share, or the count, that the attack reached on training documents, by the
            method that decides; None where it was not measured.
        unseen: the same on unseen documents: what luck reaches.
        subtracts: what is subtracted from `trained` before it is a leak; None where no leak of the
            attack is a difference.
        returned: documents that gave back values of their own; None where nothing counts them.
        leaking: documents of both sides that the count of leaking documents compares, by its own
            method; None where nothing counts them, or where it counts others too.
        plainest: the number that says most plainly what the attack found: `trained` where it finds
            values, else what sums the attack up, by the method that decides.
        plainest_unseen: the same number on unseen documents; None where there is none.
        word_for_word: of `trained`, what came back without a wrong letter, where the method that
            decides allows a few; None elsewhere.
        trained_without: what someone reaches of `trained` without the model; None where that is
            not known.
        tried: what the attack tried of what the training documents hold; None where it does not
            count that.
        scale: the deciding number and its limit as shares; None where it is no share.
        without_model: what someone reaches without the model, where `plainest` is a share that is
            compared with that; None elsewhere.
        explained: what else than memory may explain the numbers, unless a leak over a limit is
            confirmed all the same; None where nothing may.
        under_bars: values whose text still lies under a bar of a page image.
        bars: values under bars that were looked at.
        about_text: whether a number says what the documents give away, whatever the model.
        method: the end of the names of that method's measurements; empty for the first method.
        groups: where the attack found something, by what divides it and by the same method as
            `trained`: the groups by kind add up to `trained` and `unseen`. Empty for records of
            older versions.
        people: whom the attack reached, by the same method; None where no person is known.
        adds_to_text: whether the row is about what the model adds to what the text gives away.
    """

    attack: str
    outcome: str
    decisions: tuple[Decision, ...]
    deciding: Decision | None
    access: Access
    trained: Estimate | None
    unseen: Estimate | None
    subtracts: Subtracted | None
    returned: ReturnedDocuments | None
    leaking: ReturnedDocuments | None
    plainest: Estimate | None
    plainest_unseen: Estimate | None
    word_for_word: Estimate | None
    trained_without: float | None
    tried: Coverage | None
    scale: ScaleFacts | None
    without_model: float | None
    explained: str | None
    under_bars: int
    bars: int
    about_text: bool
    method: str
    groups: Mapping[By, Breakdown]
    people: PeopleCount | None
    adds_to_text: bool = False

    @property
    def measured(self) -> Estimate | None:
        """Return the number of the method that decides.

        None where nothing was measured for a limit.
        """
        return None if self.deciding is None else self.deciding.measured

    def held_against(self, metric: str) -> Estimate | None:
        """Return the number that the first limit on a metric was held against.

        None where no limit is on it, or nothing was measured.
        """
        for decision in self.decisions:
            if decision.limit.metric == metric:
                return decision.measured
        return None

    @property
    def counts_in_one_document(self) -> bool:
        """Tell whether the counts of page one leave out values that several documents hold."""
        tried = self.tried
        if tried is None or tried.unique is None or self.trained is None:
            return False
        return self.trained.n != tried.attacked

    @property
    def compares_pairs(self) -> bool:
        """Test whether the number that decides is an area: a share of pairs told apart rightly.

        A balanced accuracy has the same chance of 0.5, and is a share of documents or companies.
        """
        if self.deciding is None:
            return False
        return text_of(self.attack).metric(self.deciding.limit.metric).kind == "auc"

    @property
    def n_limits(self) -> int:
        """Count the policy's limits on the attack."""
        return len(self.decisions)

    @property
    def n_alike(self) -> int:
        """Count the attack's limits whose outcome is the worst one."""
        return sum(decision.outcome == self.outcome for decision in self.decisions)

    @property
    def open_causes(self) -> frozenset[Cause | None]:
        """Collect why limits on the attack are undecided; empty where none is."""
        return frozenset(
            decision.cause for decision in self.decisions if decision.outcome == "undecided"
        )

    @property
    def discounts_knowledge(self) -> bool:
        """Tell whether the attack finds less on unseen documents than somebody without the model.

        Then it discounts what general knowledge finds.
        """
        if self.trained_without is None or self.unseen is None:
            return False
        return self.trained_without > self.unseen.value + DISCOUNTED

    @property
    def leaks(self) -> bool:
        """Tell whether a leak over a limit on the attack is confirmed, waived or not."""
        return self.outcome in ("violated", "waived")


@dataclass(frozen=True)
class KindFacts:
    """A kind of personal value.

    Attributes:
        category: its name in the manifest.
        came_back: values of training documents that came back, by the method that decides; of
            records of older versions, by the method by which most documents gave one back. 0 where
            none did, and where nothing counts them by kind.
        tried: whether any attack tried values of this kind.
        of_member: values of training documents that were tried by the same attack, of which
            `came_back` did; None where nothing counts them by kind.
        n_heldout: values of unseen documents that came back.
        of_heldout: values of unseen documents that were tried.
    """

    category: str
    came_back: int
    tried: bool
    of_member: int | None = None
    n_heldout: int | None = None
    of_heldout: int | None = None

    @property
    def rate(self) -> float | None:
        """Return the share of the tried values of training documents that came back.

        None where it is not known.
        """
        if not self.of_member:
            return None
        return self.came_back / self.of_member

    @property
    def is_compared(self) -> bool:
        """Tell whether some came back, and enough were tried to compare it with other kinds."""
        return self.came_back > 0 and (self.of_member or 0) >= FEWEST_OF_KIND


@dataclass(frozen=True)
class PeopleFacts:
    """The people that one attack reached, by the method that decides.

    Attributes:
        attack: its name.
        recognised: whether people were recognised by their documents; else values of theirs came
            back, or were picked.
        declared: whether the data set says whose a document or a value is; else distinct names
            stand for people.
        trained: the share of people of training documents; None where they are too few.
        unseen: the same of people whom unseen documents alone name.
    """

    attack: str
    recognised: bool
    declared: bool
    trained: Estimate | None
    unseen: Estimate | None


@dataclass(frozen=True)
class OpenFacts:
    """A limit that is undecided: why, and what would decide it."""

    decision: Decision

    @property
    def remedy(self) -> str:
        """Return what would decide the limit; empty where nothing known does."""
        return self.decision.remedy

    @property
    def remedy_id(self) -> Remedy | None:
        """Name what would decide the limit, for code; None where nothing is open."""
        return self.decision.remedy_id

    @property
    def urgency(self) -> Urgency:
        """Return how soon the limit's remedy is needed; the last of all where nothing says so."""
        if self.decision.urgency is None:
            return Urgency.POLICY
        return self.decision.urgency


@dataclass(frozen=True)
class NextStep:
    """The one thing to do about undecided limits: what mends their most urgent cause.

    Attributes:
        remedy: what to do.
        remedy_id: the same, for code.
        urgency: how soon it is needed.
        decides: how many undecided limits it is the remedy of.
        open: undecided limits in all.
        documents: training and unseen documents of the data set, where more of them are asked for
            and a budget or a bound left some untried; else None.
        limits: attack and metric of the limits that it decides.
    """

    remedy: str
    remedy_id: Remedy | None
    urgency: Urgency
    decides: int
    open: int
    documents: int | None = None
    limits: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class MeasuredLeak:
    """A measurement whose interval lies beyond what no leak gives.

    Attributes:
        attack: that measured it.
        metric: as a policy would limit it.
        measured: the strongest of the methods that answer for the metric.
        reach: how much of the way from its null to the most that it can be is shown, 0 to 1.
        shown: the number that says it most plainly, often `measured` itself.
        about_text: whether it says what the documents give away, whatever the model.
        confounded: what else may explain it; None where nothing does.
    """

    attack: str
    metric: str
    measured: Estimate
    reach: float
    shown: Estimate
    about_text: bool = False
    confounded: str | None = None

    @property
    def sentence(self) -> str:
        """Describe the leak in a sentence, with count or value and interval."""
        text = TEXTS.get(self.attack)
        if self.shown.low == self.shown.high and text is not None:
            return value_sentence(text, self.shown)
        return finding_sentence(self.attack, self.shown)


@dataclass(frozen=True)
class Facts:
    """All that outputs show of an audit.

    Attributes:
        record: the scan, for names, dates and settings.
        verdict: on it: outcomes, counts of limits (`Verdict.counts`) and exit code.
        outcome: the outcome that decides: of limits on the model, or on the text where these are
            worse and the policy counts them.
        rows: each attack that ran to its end, the worst first.
        rows_on_model: the same, of limits on the model alone, where the verdict on it leaves out
            those on the text of the documents; else `rows`.
        kinds: kinds of values: those that came back, most of them first, then those that were
            tried; by the first of `rows` that gives values back.
        nothing_returned: whether values that came back were counted, and none did.
        actions: what answers the findings, with its effect, the first to do in front.
        open: undecided limits that the answer rests on, in the policy's order.
        alarm: what has to be mended before anything else; None where nothing has.
        next_step: what to do about them; None where none is undecided, or nothing would help.
        accepted: measured leaks whose limit is met all the same, the worst first; all measurements
            of the record together are held at 1 % false alarms.
        outside: measured leaks that no limit of the policy is about, the worst first; each is held
            by itself at 2.5 %.
        signs: measured leaks that nothing but the training explains, at 1 % false alarms for all
            measurements of the record together.
        access: who can do it: each attack that ran or could have, by access to the model.
        releases: what follows from `access` for a model that stays inside, is hosted, or is shared;
            empty where no model was audited.
        commands: what goes on from the scan.
    """

    record: AuditRecord
    verdict: Verdict
    outcome: Overall
    rows: tuple[QuestionFacts, ...]
    rows_on_model: tuple[QuestionFacts, ...]
    kinds: tuple[KindFacts, ...]
    nothing_returned: bool
    actions: tuple[Recommendation, ...]
    open: tuple[OpenFacts, ...]
    alarm: Alarm | None
    next_step: NextStep | None
    accepted: tuple[MeasuredLeak, ...]
    outside: tuple[MeasuredLeak, ...]
    signs: tuple[MeasuredLeak, ...]
    access: tuple[AccessRow, ...]
    releases: tuple[ReleaseFacts, ...]
    commands: Commands

    @property
    def people(self) -> tuple[PeopleFacts, ...]:
        """List the people that each attack reached, in the order of `rows`."""
        return tuple(
            _people_facts(row.attack, row.people) for row in self.rows if row.people is not None
        )

    @property
    def by_attack(self) -> Mapping[str, QuestionFacts]:
        """Return the rows by attack."""
        return {row.attack: row for row in self.rows}

    @property
    def rows_on_text(self) -> tuple[QuestionFacts, ...]:
        """Return the attacks on the text of the documents that `rows_on_model` leaves out."""
        if not leaves_text_aside(self.record, self.verdict):
            return ()
        return tuple(row for row in self.rows if row.about_text)

    @property
    def action_on_text(self) -> Recommendation | None:
        """Return the first action that answers limits on the text, which the verdict leaves out."""
        attacks = {row.attack for row in self.rows_on_text if row.leaks}
        for action in self.actions:
            answered = {finding.attack for finding in action.findings if finding.aside}
            if answered & attacks and not action.limits_access:
                return action
        return None

    @property
    def lifting(self) -> tuple[Recommendation, ...]:
        """Return the actions that may change the verdict, the first to do in front."""
        return tuple(action for action in self.actions if not action.limits_access)

    @property
    def lifting_model(self) -> tuple[Recommendation, ...]:
        """Return `lifting` without actions that answer limits on the text alone."""
        on_text = {row.attack for row in self.rows_on_text}
        return tuple(action for action in self.lifting if not action.answers_only(on_text))

    @property
    def limiting_access(self) -> tuple[Recommendation, ...]:
        """Return the actions that only keep attackers away, the first to do in front."""
        return tuple(action for action in self.actions if action.limits_access)

    @property
    def meanwhile(self) -> tuple[Recommendation, ...]:
        """Return the first action that keeps attackers of the worst leak away; else the first."""
        leaking = [row.attack for row in self.rows_on_model if row.leaks]
        for action in self.limiting_access:
            answered = {finding.attack for finding in action.findings}
            if leaking and leaking[0] in answered:
                return (action,)
        return self.limiting_access[:1]

    @property
    def worst_kind(self) -> KindFacts | None:
        """Return the kind of which the largest share came back; None where none came back.

        A kind of which fewer than `FEWEST_OF_KIND` were tried is not compared.
        """
        compared = [kind for kind in self.kinds if kind.is_compared]
        return max(compared, key=lambda kind: kind.rate or 0.0, default=None)

    @property
    def in_order(self) -> list[QuestionFacts]:
        """List the rows in the record's order."""
        by_attack = self.by_attack
        return [by_attack[attack] for attack in self.record.completed]

    @property
    def leaves_findings(self) -> bool:
        """Tell whether limits accept a measured leak, or none is about one.

        A pass does not answer it.
        """
        return bool(self.accepted or self.outside)

    @property
    def n_declared(self) -> int:
        """Count the documents that the owner declares as trained on, those left out among them."""
        corpus = self.record.corpus
        counts = (corpus.documents, corpus.near_copies, corpus.unread)
        return sum(by_split.get("member", 0) for by_split in counts)

    @property
    def parameters_per_document(self) -> float | None:
        """Divide the model's parameters by the declared documents of training.

        None where there is no model, or either is not known.
        """
        parameters = self.record.target.parameters
        if not self.record.target.is_model or not self.n_declared or not parameters:
            return None
        return parameters / self.n_declared

    @property
    def gives_values_back(self) -> bool:
        """Tell whether a leak over a limit of an attack that extracts is confirmed.

        It may be waived.
        """
        return any(
            decision.outcome in ("violated", "waived") and decision.limit.attack in EXTRACTING
            for decision in self.verdict.decisions
        )

    @property
    def decides_extraction(self) -> bool:
        """Tell whether any limit on what the model gives back was decided."""
        return not decided_attacks(self.verdict).isdisjoint(EXTRACTING)

    @property
    def decides_recognition(self) -> bool:
        """Tell whether any limit on recognising members was decided."""
        return not decided_attacks(self.verdict).isdisjoint(RECOGNISING)


def _people_facts(attack: str, people: PeopleCount) -> PeopleFacts:
    """Return the people that an attack reached, each side where it has a number."""
    trained: Estimate | None = None
    unseen: Estimate | None = None
    if isinstance(people.member, Estimate):
        trained = people.member
    if isinstance(people.heldout, Estimate):
        unseen = people.heldout
    recognised = attack in RECOGNISING
    return PeopleFacts(attack, recognised, people.source == "declared", trained, unseen)


def leaves_text_aside(record: AuditRecord, verdict: Verdict) -> bool:
    """Tell whether the verdict on a model leaves out limits on the text of the documents."""
    return record.target.is_model and verdict.text is not None and not verdict.text_counts


def worst_outcome(decisions: Iterable[Decision]) -> str:
    """Return the worst outcome of decisions; empty where there is none."""
    outcomes = {decision.outcome for decision in decisions}
    for outcome in WORST_FIRST:
        if outcome in outcomes:
            return outcome
    return ""


def decided_attacks(verdict: Verdict) -> frozenset[str]:
    """Collect the attacks of which a limit was met or exceeded."""
    return frozenset(
        decision.limit.attack
        for decision in verdict.decisions
        if decision.outcome in ("passed", "violated", "waived")
    )


def row_of_kinds(rows: Iterable[QuestionFacts]) -> QuestionFacts | None:
    """Return the first row that gives values back and divides them by kind; None without one."""
    for row in rows:
        if row.attack in RETURNING and "kind" in row.groups:
            return row
    return None


def is_plain_difference(leak: Estimate, trained: Estimate, unseen: Estimate) -> bool:
    """Tell whether a leak is the difference of both sides, and nothing was taken off either."""
    return math.isclose(leak.value, trained.value - unseen.value, abs_tol=ROUNDING)


def title_of(attack: str) -> str:
    """Return the title of an attack; its name where it has none."""
    return text_of(attack).title or attack
