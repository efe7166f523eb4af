"""Lay out page one: the answer, one row for each question, what remains, and who decides."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, CATEGORY_LABELS
from audit.errors import printable
from audit.measurements import Estimate, Histogram
from audit.policy import Decision, Outcome, Overall, Verdict
from audit.record import AuditRecord, Result
from audit.report import numbers
from audit.report.answer import LABELS, deciding_outcome, explanation, headline
from audit.report.leaks import findings_outside, looser_policy
from audit.report.residual import unexamined
from audit.report.tables import RAN_LABELS, DecisionRow, decision_row

WORST_FIRST: tuple[Outcome, ...] = (
    "violated",
    "waived",
    "undecided",
    "passed",
    "not run",
    "inapplicable",
)
LEAK_ORDER = ("violated", "waived", "undecided", "", "passed", "not run", "inapplicable")
"""Of attacks by the worst outcome of their limits, on page one; empty: none limits it."""
MOST_ROWS = 5
"""Questions that page one shows, the worst first; the pages behind it hold the others."""
MOST_KINDS = 4
LONGEST_TITLE = 64
"""Signs of a title: two lines of page one."""
RETURNED = "returned"
"""The histogram of documents by how many of their values came back, and the first word of counts by
kind."""
STAMPS = LABELS["stamps"]
CONSEQUENCES = LABELS["consequences"]


@dataclass(frozen=True)
class Question:
    """Hold one row of page one: what an attacker tries, what the attack reached, and the limit that decides.

    Attributes:
        outcome: the worst of the attack's limits; empty where none limits it.
        word: the outcome in one word.
        trained, unseen: what the attack reached on training and on unseen documents; empty where it
            counts nothing.
        reached: the number that the limit is about, its interval and the limit, in words.
        row: the limit that decides; None where nothing was measured for it.
        note: why the numbers decide nothing, or that they are about the text; often empty.
    """

    attack: str
    question: str
    outcome: str
    word: str
    trained: str
    unseen: str
    reached: str
    row: DecisionRow | None
    note: str = ""


@dataclass(frozen=True)
class Risk:
    """Hold the box on residual risk: who is affected, who attacks, and the kinds of values that came back most."""

    who: str
    attacker: str
    kinds: str


@dataclass(frozen=True)
class DecisionView:
    """Page one.

    Attributes:
        number: of the report; it follows from model, data set, policy and the time of the scan.
        title: of the report: the name of what was audited, never what its owner states.
        outcome: that the answer rests on: of the model, or of the text where it is worse and the
            policy counts it.
        stamp: what the outcome asks for, as it is stamped.
        word: the verdict as commands and records name it.
        headline: the answer in a sentence.
        consequences: what the attacks reached, in documents and values.
        explanation: sentences under the headline.
        counts: of the limits on the model, by what became of them.
        questions: the worst first, as many as the page holds.
        more_questions: how many it does not hold.
        not_tested: titles of the gaps that the section of this name lists.
        risk: what remains, in short.
    """

    number: str
    title: str
    outcome: Overall
    stamp: str
    word: str
    headline: str
    consequences: tuple[str, ...]
    explanation: str
    counts: str
    questions: tuple[Question, ...]
    more_questions: int
    not_tested: tuple[str, ...]
    risk: Risk


def decision_view(record: AuditRecord, verdict: Verdict) -> DecisionView:
    """Lay out page one."""
    outcome, name = deciding_outcome(verdict), printable(record.subject)
    questions = [_question(record, verdict, result) for result in record.completed.values()]
    questions.sort(key=lambda one: LEAK_ORDER.index(one.outcome))
    return DecisionView(
        number=_report_number(record, verdict),
        title=name if len(name) <= LONGEST_TITLE else f"{name[: LONGEST_TITLE - 1]}…",
        outcome=outcome,
        stamp=STAMPS[outcome if record.target.is_model else f"{outcome} without a model"],
        word=verdict.stamp if outcome == verdict.overall else LABELS["outcomes"][outcome].upper(),
        headline=headline(record, verdict),
        consequences=tuple(_consequences(record, verdict))[:2],
        explanation=explanation(record, verdict),
        # What passes names what was not tested; elsewhere the open limits say it.
        counts=(
            verdict.reason if verdict.overall in ("passed", "waived") else verdict.counts.sentence
        )
        + looser_policy(verdict)
        + findings_outside(record, verdict),
        questions=tuple(questions[:MOST_ROWS]),
        more_questions=max(0, len(questions) - MOST_ROWS),
        not_tested=tuple(gap.title for gap in unexamined(record, verdict).gaps),
        risk=_risk(record, verdict),
    )


def outcome_of(attack: str, decisions: Sequence[Decision]) -> str:
    """Return the worst outcome of an attack's limits; empty where the policy has none."""
    own = {decision.outcome for decision in decisions if decision.limit.attack == attack}
    return next((outcome for outcome in WORST_FIRST if outcome in own), "")


def _report_number(record: AuditRecord, verdict: Verdict) -> str:
    """Make a number that the same record and policy always get."""
    policy = verdict.identity.sha256 if verdict.identity is not None else None
    named = [
        record.target.sha256,
        record.corpus.sha256,
        str(policy or verdict.policy),
        record.timing.finished,
    ]
    return f"DA-{record.timing.finished[:10]}-{hashlib.sha256(' '.join(named).encode()).hexdigest()[:6]}"


def _question(record: AuditRecord, verdict: Verdict, result: Result) -> Question:
    text, outcome = text_of(result.attack), outcome_of(result.attack, verdict.decisions)
    deciding = _deciding(result, verdict)
    row = None if deciding is None else decision_row(deciding, text)
    trained, unseen = _sides(result, deciding)
    note = _about_text(record, result)
    if result.confounded is not None and outcome not in ("violated", "waived"):
        note = f"No limit can be met on these numbers: {result.confounded}."
    elif deciding is not None and deciding.outcome != outcome:
        note = f"{note} {LABELS['notes']['other limit']}".strip()
    return Question(
        attack=result.attack,
        question=text.short_question or text.title or result.attack,
        outcome=outcome,
        word=RAN_LABELS[outcome],
        trained=trained,
        unseen=unseen,
        reached="" if deciding is None else _reached(deciding),
        row=row,
        note=note,
    )


def _about_text(record: AuditRecord, result: Result) -> str:
    """Say that a finding is about the text, and how much text lies under the bars of page images."""
    counts = {count.name: count.value for count in result.counts}
    under, seen = (
        counts.get(name, 0) for name in ("text under the box", "looked at under the box")
    )
    notes = [LABELS["notes"]["about text"]] if result.about_text and record.target.is_model else []
    if under:
        notes.append(LABELS["notes"]["under the box"].format(under=under, seen=seen))
    return " ".join(notes)


def _deciding(result: Result, verdict: Verdict) -> Decision | None:
    """Return the first of the attack's worst limits for which there is a number."""
    own = [
        one
        for one in verdict.decisions
        if one.limit.attack == result.attack and one.measured is not None
    ]
    return min(own, key=lambda one: WORST_FIRST.index(one.outcome), default=None)


def _reached(decision: Decision) -> str:
    """Write the number of a limit, its interval and the limit.

    An area as the share of pairs told apart rightly.
    """
    measured, limit = decision.measured, decision.limit
    assert measured is not None
    form = "share" if measured.is_area else text_of(limit.attack).metric(limit.metric).form
    bound = limit.max if limit.max is not None else limit.min or 0.0
    low, value, high = measured.low, measured.value, measured.high
    if form in ("share", "points"):
        low, value, high = (min(1.0, max(-1.0, one)) for one in (low, value, high))
    clipped = replace(measured, low=low, value=value, high=high)
    digits = numbers.distinct_digits(clipped, bound, form)
    word = "limit" if limit.max is not None else "at least"
    between = decision.count_range or numbers.between(clipped, form, digits).replace(" to ", "–")
    return f"{numbers.amount(clipped, form, digits)} ({between}); {word} {numbers.limit_text(bound, form)}"


def _sides(result: Result, deciding: Decision | None) -> tuple[str, str]:
    """Write what the attack reached on training and on unseen documents, by the method that decides."""
    if deciding is not None and deciding.measured is not None and deciding.measured.is_area:
        value = min(1.0, deciding.measured.value)
        return (
            f"right in {numbers.show(value, 'share')} of pairs",
            f"guessing: {numbers.show(0.5, 'share')}",
        )
    found = [_count_of(one) for one in _counted(result, deciding)]
    return (*found, "", "")[0], (*found, "", "")[1]


def _counted(result: Result, deciding: Decision | None) -> list[Estimate]:
    """Return the shares that the consequence counts: training documents first."""
    by_name = {item.name: item for item in result.measurements if isinstance(item, Estimate)}
    measured = None if deciding is None else deciding.measured
    method = (
        ""
        if deciding is None or measured is None
        else measured.name.removeprefix(deciding.limit.metric)
    )
    named = text_of(result.attack).consequence_of
    return [
        by_name[own]
        for name in named
        for own in [name + method if name + method in by_name else name]
        if own in by_name
    ]


def _count_of(item: Estimate) -> str:
    if item.total is not None:
        return numbers.amount(item, "number")
    if numbers.exact_count(item) is None:
        found = numbers.show(item.value, "number" if item.value > 1 else "share")
        return f"{found} of {item.n:,}" if item.value > 1 else found
    return f"{numbers.reached(item)} ({numbers.show(item.value, 'share')})"


def _consequences(record: AuditRecord, verdict: Verdict) -> Iterator[str]:
    """Say what the attacks reached, those over a limit first: in documents where they were counted, else in values."""
    outcomes = {name: outcome_of(name, verdict.decisions) for name in record.completed}
    for result in sorted(
        record.completed.values(), key=lambda one: LEAK_ORDER.index(outcomes[one.attack])
    ):
        outcome = outcomes[result.attack]
        if result.confounded is not None and outcome not in ("violated", "waived"):
            continue
        documents = next((one for one in result.histograms if one.name == RETURNED), None)
        if documents is not None and {"member", "held-out"} <= {*documents.counts}:
            told = _documents(documents)
            parts = [RETURNED, "unseen"] if told["of_heldout"] else [RETURNED]
            yield " ".join(CONSEQUENCES[part] for part in parts).format(**told)
            continue
        counted = _counted(result, _deciding(result, verdict))
        counts = [numbers.exact_count(one) for one in counted]
        if len(counted) == 2 and None not in counts:
            (member, heldout), (hits, others) = counted, counts
            yield text_of(result.attack).consequence.format(
                n_member=f"{hits:,}",
                of_member=f"{member.n:,}",
                n_heldout=f"{others:,}",
                of_heldout=f"{heldout.n:,}",
            )


def _documents(histogram: Histogram) -> dict[str, int]:
    """Count the documents of both sides, and those that gave back at least one value."""
    sides = {"member": histogram.counts["member"], "heldout": histogram.counts["held-out"]}
    return {
        key: value
        for side, counts in sides.items()
        for key, value in ((f"n_{side}", sum(counts[1:])), (f"of_{side}", sum(counts)))
    }


def _risk(record: AuditRecord, verdict: Verdict) -> Risk:
    documents, providers = record.corpus.documents, record.corpus.providers
    if record.target.is_model:
        # The record counts the companies of all splits together: they are not those of the training
        # documents.
        who = f"{documents.get('member', 0):,} training documents, as declared"
    else:
        companies = f" from {providers:,} companies" if providers else ""
        who = f"{sum(documents.values()):,} documents{companies}, as declared"
    leaking = [
        text_of(one.attack).threat
        for one in record.completed.values()
        if outcome_of(one.attack, verdict.decisions) in ("violated", "waived")
    ] or [text_of(attack).threat for attack in record.completed]
    access = dict.fromkeys(ACCESS_LABELS[one.access] for one in leaking if one is not None)
    attacker = f"someone who has {' or '.join(access)}" if access else "not tested"
    return Risk(who, attacker, _kinds(record))


def _kinds(record: AuditRecord) -> str:
    """Name the kinds of values that came back most, with their number.

    Else the kinds that were tried.
    """
    came_back = {
        count.name.partition(": ")[2]: count.value
        for result in record.completed.values()
        for count in result.counts
        if count.name.startswith(f"{RETURNED}: ") and count.value
    }
    counted = [
        one
        for result in record.completed.values()
        for one in result.histograms
        if one.name == RETURNED
    ]
    if came_back:
        worst = sorted(came_back.items(), key=lambda pair: (-pair[1], pair[0]))
        rest = sum(value for _, value in worst[MOST_KINDS:])
        shown = [
            f"{CATEGORY_LABELS.get(kind, kind)} ({value:,})" for kind, value in worst[:MOST_KINDS]
        ]
        return ", ".join([*shown, *([f"other kinds ({rest:,})"] if rest else [])])
    tried = dict.fromkeys(
        CATEGORY_LABELS.get(one.category, one.category)
        for result in record.completed.values()
        for one in result.coverage
        if one.category in CATEGORY_LABELS and one.attacked
    )
    if not tried:
        return "not tested by kind"
    nothing = counted and not any(sum(one.counts.get("member", ())[1:]) for one in counted)
    return f"{'none came back; ' if nothing else ''}tested: {', '.join(tried)}"
