"""The answer of an audit, for page one: may the model be deployed, what leaks, who stated what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audit.policy import Decision, Outcome, Overall, Policy, Verdict
from audit.printable import shown
from audit.record import AuditRecord, Result
from audit.report import numbers
from audit.report.answer import decided, explanation, headline
from audit.report.attack_text import AttackMacros, ResultIndex
from audit.report.labels import report_of
from audit.report.leaks import findings_outside

NOT_STATED = "not stated"
WORST_FIRST: tuple[Outcome, ...] = ("violated", "waived", "undecided", "passed", "not run", "inapplicable")
LEAK_ORDER = ("violated", "waived", "undecided", "", "passed", "not run", "inapplicable")
"""Of attacks by the worst outcome of their limits, on page one; empty: none limits it."""
LINES = 24
"""Lines of page one that A4 leaves to what varies in length (ours, by counting); what leaks and does not fit is told on
the pages behind."""
LONGEST_TITLE = 64
"""Signs of a title (ours): two lines of page one."""
LETTERS, CELL = 100, 36
"""Letters in a line, and in a line of a cell of the audit sheet."""
ANSWERS: dict[Overall, str] = {
    "passed": "Yes",
    "waived": "Yes, with conditions",
    "violated": "No",
    "undecided": "Cannot be said",
}
OUTCOME_WORDS: dict[str, str] = {
    "violated": "over its limit",
    "waived": "over its limit, waived",
    "undecided": "undecided",
    "passed": "within its limits",
    "": "not limited by this policy",
}
RELEASES = {
    "open-weights": "weights given to everybody",
    "api": "answers to strangers",
    "internal": "internal use only",
}
NOT_CONTRADICTED = (
    "That does not contradict what else comes out: telling whole documents apart is another question than giving back "
    "what stands in them."
)


@dataclass(frozen=True)
class Leak:
    """What one attack found, in a sentence with count and interval.

    Attributes:
        outcome: the worst of its limits; empty where none limits it.
        words: the outcome in words.
        in_full: whether the sentence is that of the attack's template; else it is the number that decides, alone.
    """

    attack: str
    title: str
    outcome: str
    words: str
    sentence: Markup
    in_full: bool


@dataclass(frozen=True)
class Identity:
    """A line of what identifies an audit: a policy, model, data set or day, and its SHA-256 where it has one."""

    label: str
    text: str
    sha256: str = ""


@dataclass(frozen=True)
class DecisionView:
    """Page one.

    Attributes:
        title: of the report: the name of what was audited, never what its owner states.
        owner_name: name and version of the model as its owner states them; empty where they are not stated.
        outcome: that the answer rests on: of the model, or of the text where it is worse and the policy counts it.
        stamp: the outcome as it is stamped.
        explanation: sentences under the headline.
        counts: of the limits on the model, by what became of them.
        leaks: the worst first, as many as the page holds.
        more_leaks: how many it does not hold.
        sheet: the circumstances as the owner states them, in quotes.
    """

    title: str
    owner_name: str
    question: str
    answer: str
    outcome: Overall
    stamp: str
    headline: str
    explanation: str
    counts: str
    leaks: tuple[Leak, ...]
    more_leaks: int
    sheet: tuple[tuple[str, str], ...]
    identity: tuple[Identity, ...]


def decision_view(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    texts: Mapping[str, AttackMacros],
    beside: Sequence[str] = (),
) -> DecisionView:
    """Answer the question of page one from the verdict.

    Args:
        record: the measurements.
        verdict: on them.
        policy: that they were held against.
        texts: of every attack that the record names.
        beside: what else page one says, a paragraph each: what leaks has the room that it leaves.
    """
    outcome = decided(verdict)
    leaks, sheet = _leaks(record, verdict, texts), _sheet(record)
    head = [headline(record, verdict), explanation(record, verdict)]
    # What passes names what was not examined; elsewhere the open limits say it.
    counted = verdict.reason if verdict.overall in ("passed", "waived") else verdict.counts.sentence
    taken = sum(
        len(text) // LETTERS for text in (title(record), *head, counted.removeprefix(verdict.counts.sentence), *beside)
    )
    taken += len(beside) + sum(len(value) // CELL for _, value in sheet)
    shown = _that_fit(leaks, LINES - taken)
    return DecisionView(
        title=title(record),
        owner_name=_owner_name(record),
        question=_question(record, policy),
        answer=ANSWERS[outcome],
        outcome=outcome,
        stamp=verdict.stamp if outcome == verdict.overall else outcome.upper(),
        headline=head[0],
        explanation=head[1],
        counts=f"{counted}{findings_outside(record, verdict)}",
        leaks=shown,
        more_leaks=len(leaks) - len(shown),
        sheet=sheet,
        identity=_identity(record, verdict, policy),
    )


def title(record: AuditRecord) -> str:
    """The name of what was audited, by its folder: what its owner calls it stands below, as stated."""
    name = shown(record.subject)
    return name if len(name) <= LONGEST_TITLE else f"{name[: LONGEST_TITLE - 1]}…"


def outcome_of(attack: str, decisions: Sequence[Decision]) -> str:
    """The worst outcome of an attack's limits; empty where the policy has none."""
    own = {decision.outcome for decision in decisions if decision.limit.attack == attack}
    return next((outcome for outcome in WORST_FIRST if outcome in own), "")


def _leaks(record: AuditRecord, verdict: Verdict, texts: Mapping[str, AttackMacros]) -> list[Leak]:
    found = []
    outcomes = {result.attack: outcome_of(result.attack, verdict.decisions) for result in record.attacks}
    leaking = {"violated", "waived"} & {outcomes[one.attack] for one in record.attacks if not one.about_text}
    for result in record.completed.values():
        text, outcome = texts[result.attack], outcomes[result.attack]
        sentence = text.leak(ResultIndex(result, text.report.all_labels, verdict))
        decisive = _decisive(result, verdict, sentence)
        sentence = decisive or sentence
        if leaking and outcome == "passed" and result.attack == "membership":
            sentence += Markup(" {}").format(NOT_CONTRADICTED)
        if result.confounded is not None and outcome not in ("violated", "waived"):
            refused = Markup("<strong>Nothing can be decided on these numbers:</strong> {}. ")
            sentence = refused.format(result.confounded) + sentence
        words = OUTCOME_WORDS.get(outcome, OUTCOME_WORDS[""])
        if result.about_text and record.target.is_model:
            words = f"{words}; a finding about the text, whatever the model"
        found.append(Leak(result.attack, text.title, outcome, words, sentence, not decisive))
    return sorted(found, key=lambda leak: LEAK_ORDER.index(leak.outcome))


def _decisive(result: Result, verdict: Verdict, told: Markup) -> Markup:
    """Return the number that decides an attack's worst limit, with the limit; empty where `told` holds it already."""
    own = [one for one in verdict.decisions if one.limit.attack == result.attack and one.measured is not None]
    worst = min(own, key=lambda one: WORST_FIRST.index(one.outcome), default=None)
    if worst is None or worst.measured is None or worst.cause == "confounded":
        return Markup()
    report, measured = report_of(result.attack), worst.measured
    form = report.form(worst.limit.metric)
    bound = worst.limit.max if worst.limit.max is not None else worst.limit.min or 0.0
    words = told.striptags().replace(numbers.NBSP, " ")
    between = [numbers.between(measured, form), numbers.between_of_hundred(measured, "share")]
    if measured.name == worst.limit.metric or any(one.replace(numbers.NBSP, " ") in words for one in between):
        return Markup()
    value = f"{numbers.show(measured.value, form)} ({numbers.interval(measured, form)})"
    guessing = f", guessing gives {numbers.show(0.5, form)}" if measured.is_area else ""
    limit = f"{'at most' if worst.limit.max is not None else 'at least'} {numbers.limit_text(bound, form)}"
    what = report.label(measured.name).replace(": ", ", ")
    return Markup("<strong>{}</strong>, the limit is {}{} ({}).").format(value, limit, guessing, what)


def _that_fit(leaks: Sequence[Leak], most: int) -> tuple[Leak, ...]:
    """The first ones, as many as fill so many lines; never less than one."""
    shown, lines = 0, 0
    for leak in leaks:
        lines += 1 + len(f"{leak.title} {leak.words} {leak.sentence.striptags()}") // LETTERS
        if shown and lines > most:
            break
        shown += 1
    return tuple(leaks[:shown])


def _question(record: AuditRecord, policy: Policy) -> str:
    if record.target.is_model:
        return f"May this model be deployed as the policy “{policy.name}” asks?"
    return f"May redacted copies of these documents be shared as the policy “{policy.name}” asks?"


def _owner_name(record: AuditRecord) -> str:
    """Name and version of the model as its owner states them; empty where neither is stated."""
    return " ".join(filter(None, (record.audit.model_name, record.audit.model_version)))


def _sheet(record: AuditRecord) -> tuple[tuple[str, str], ...]:
    sheet = record.audit
    stated = [
        ("System", sheet.system),
        ("Controller", sheet.controller),
        ("Purpose", sheet.purpose),
        ("Model", _owner_name(record)),
        ("Personal data", ", ".join(sheet.data_categories)),
        ("Release", RELEASES.get(sheet.release or "")),
        ("Audited by", sheet.auditor),
        ("Decided by", sheet.decides),
        ("DPO", sheet.dpo),
    ]
    quoted = tuple((label, f"“{value}”" if value and label != "Release" else value) for label, value in stated)
    return tuple((label, value or NOT_STATED) for label, value in quoted)


def _identity(record: AuditRecord, verdict: Verdict, policy: Policy) -> tuple[Identity, ...]:
    target, corpus = record.target, record.corpus
    model = Identity("Model", f"{target.name}: {target.architecture}", target.sha256)
    return (
        _policy(verdict, policy),
        *((model,) if target.is_model else (Identity("Model", "none: the text was audited alone"),)),
        Identity("Data set", corpus.name, corpus.sha256),
        Identity("Date", "; ".join(filter(None, (numbers.day(record.timing.finished), record.timing.origin)))),
    )


def _policy(verdict: Verdict, policy: Policy) -> Identity:
    """The policy, whose it is, and whether it was declared before the results were known."""
    identity = verdict.identity
    if identity is None or identity.sha256 is None:
        return Identity("Policy", f"{policy.name}, not read from a file")
    kind = "shipped with docaudit, unchanged" if identity.shipped else "the owner's own"
    told = "; ".join(filter(None, (identity.warning or "declared before the scan", identity.looser)))
    return Identity("Policy", f"{policy.name}: {kind}; {told}", identity.sha256)
