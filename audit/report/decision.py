"""Lay out page one: the answer, one row for each question, what remains, and who decides.

Every number is one of `facts`; words, digits and order are chosen here.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, CATEGORY_LABELS
from audit.errors import listed, printable
from audit.measurements import Estimate
from audit.policy import Decision, Overall, Verdict
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.answer import explanation, headline
from audit.report.facts.definitions import Facts, KindFacts, QuestionFacts
from audit.report.labels import LABELS
from audit.report.leaks import findings_outside, looser_policy
from audit.report.residual import unexamined
from audit.report.tables import RAN_LABELS, DecisionRow, decision_row

MOST_ROWS = 5
"""Questions that page one shows, the worst first; the pages behind it hold the others."""
MOST_KINDS = 4
MOST_CONSEQUENCES = 2
LONGEST_TITLE = 64
"""Signs of a title: two lines of page one."""
STAMPS = LABELS["stamps"]
CONSEQUENCES = LABELS["consequences"]


@dataclass(frozen=True)
class Question:
    """Hold one row of page one: what an attacker tries, what the attack reached, and the limit.

    Attributes:
        outcome: the worst of the attack's limits; empty where none limits it.
        word: the outcome in one word.
        trained, unseen: what the attack reached on training and on unseen documents; empty where it
            counts nothing.
        reached: the number that the limit is about, its interval and the limit, in words.
        row: the limit that decides; None where nothing was measured for it.
        limits: how many of the attack's limits came out so; empty where none limits it.
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
    limits: str
    note: str = ""


@dataclass(frozen=True)
class Risk:
    """Hold the box on residual risk: who is affected, who attacks, and what came back most."""

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
        leak: what the leak of a row is, from both of its columns.
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
    leak: str
    more_questions: int
    not_tested: tuple[str, ...]
    risk: Risk


def decision_view(facts: Facts) -> DecisionView:
    """Return everything that page one shows of an audit, in display words."""
    record = facts.record
    verdict = facts.verdict
    questions = [_question(facts, row) for row in facts.rows]
    return DecisionView(
        number=_report_number(record, verdict),
        title=_short_subject(record),
        outcome=facts.outcome,
        stamp=_stamp(facts),
        word=_outcome_word(facts),
        headline=headline(facts),
        consequences=tuple(_consequences(facts))[:MOST_CONSEQUENCES],
        explanation=explanation(facts),
        counts=f"{_counts_sentence(verdict)}{looser_policy(verdict)}{findings_outside(facts)}",
        questions=tuple(questions[:MOST_ROWS]),
        leak=_leak_sentence(facts.rows[:MOST_ROWS]),
        more_questions=max(0, len(questions) - MOST_ROWS),
        not_tested=tuple(gap.title for gap in unexamined(record, verdict).gaps),
        risk=_risk(facts),
    )


def _short_subject(record: AuditRecord) -> str:
    """Return the name of what was audited, cut at `LONGEST_TITLE` letters."""
    name = printable(record.subject)
    if len(name) <= LONGEST_TITLE:
        return name
    return f"{name[: LONGEST_TITLE - 1]}…"


def _stamp(facts: Facts) -> str:
    """Return the stamp of page one for the outcome; without a model it has words of its own."""
    if facts.record.target.is_model:
        return STAMPS[facts.outcome]
    return STAMPS[f"{facts.outcome} without a model"]


def _outcome_word(facts: Facts) -> str:
    """Return the outcome in capitals, as the verdict's stamp where both outcomes are the same."""
    if facts.outcome == facts.verdict.overall:
        return facts.verdict.stamp
    return LABELS["outcomes"][facts.outcome].upper()


def _counts_sentence(verdict: Verdict) -> str:
    """Write the counts of limits by outcome; a pass names the untested attacks beside them."""
    if verdict.overall in ("passed", "waived"):
        return verdict.reason
    return verdict.counts.sentence


def _report_number(record: AuditRecord, verdict: Verdict) -> str:
    """Make a number that the same record and policy always get."""
    policy = None
    if verdict.identity is not None:
        policy = verdict.identity.sha256
    names = [
        record.target.sha256,
        record.corpus.sha256,
        str(policy or verdict.policy),
        record.timing.finished,
    ]
    digest = hashlib.sha256(" ".join(names).encode()).hexdigest()
    return f"DA-{record.timing.finished[:10]}-{digest[:6]}"


def _question(facts: Facts, row: QuestionFacts) -> Question:
    """Lay out the question of an attack for page one: both sides' numbers, outcome and limits."""
    text = text_of(row.attack)
    trained, unseen = _side_texts(row)
    reached = ""
    limit_row = None
    if row.deciding is not None and row.measured is not None:
        reached = _number_against_limit(row.deciding, row.measured)
        limit_row = decision_row(row.deciding, text)
    return Question(
        attack=row.attack,
        question=text.short_question or text.title or row.attack,
        outcome=row.outcome,
        word=RAN_LABELS[row.outcome],
        trained=trained,
        unseen=unseen,
        reached=reached,
        row=limit_row,
        limits=_count_alike_limits(row),
        note=_note_on_row(facts, row),
    )


def _leak_sentence(rows: Sequence[QuestionFacts]) -> str:
    """Say what the leak is, and of which rows an attacker's gain without the model is taken off."""
    words = LABELS["leak"]
    differences = [row for row in rows if row.takes_off is not None]
    lines = [str(number) for number, row in enumerate(rows, start=1) if row.takes_off]
    if not lines:
        return words["plain"]
    if len(lines) == len(differences):
        return words["less"]
    places = f"{'row' if len(lines) == 1 else 'rows'} {listed(lines, 'and')}"
    return words["less in rows"].format(rows=places)


def _count_alike_limits(row: QuestionFacts) -> str:
    """Write how many limits on the attack have its worst outcome: "2 of 3 limits"; "" of none."""
    if not row.n_limits:
        return ""
    return f"{row.n_alike} of {row.n_limits} {'limit' if row.n_limits == 1 else 'limits'}"


def _note_on_row(facts: Facts, row: QuestionFacts) -> str:
    """Say why the numbers of a row decide nothing, or what they are about; often empty."""
    if row.explained is not None:
        return f"No limit can be met on these numbers: {row.explained}."
    notes = []
    if row.about_text and facts.record.target.is_model:
        notes.append(LABELS["notes"]["about text"])
    if row.under_bars:
        notes.append(LABELS["notes"]["under the box"].format(under=row.under_bars, seen=row.bars))
    if row.deciding is not None and row.deciding.outcome != row.outcome:
        notes.append(LABELS["notes"]["other limit"])
    return " ".join(notes)


def _number_against_limit(decision: Decision, measured: Estimate) -> str:
    """Write a limited number, its interval and the limit in one sentence.

    An area as the share of pairs told apart rightly.
    """
    limit = decision.limit
    form = text_of(limit.attack).metric(limit.metric).form
    if measured.is_area:
        form = "share"
    bound = numbers.bound_of(limit)
    digits = numbers.digits_of(decision, form)
    between = decision.count_range
    if not between:
        between = numbers.between(measured, form, digits).replace(" to ", "–")
    word = "limit" if limit.max is not None else "at least"
    value = numbers.amount(measured, form, digits)
    return f"{value} ({between}); {word} {numbers.limit_text(bound, form)}"


def _side_texts(row: QuestionFacts) -> tuple[str, str]:
    """Write what the attack reached on training and on unseen documents."""
    if row.measured is not None and row.measured.is_area:
        value = min(1.0, row.measured.value)
        reversed_sides = ""
        if row.measured.is_below_chance:
            value = 1 - value
            reversed_sides = " with the sides exchanged"
        right = f"right in {numbers.show(value, 'share')} of pairs{reversed_sides}"
        return right, f"guessing: {numbers.show(0.5, 'share')}"
    return _count_text(row.trained), _count_text(row.unseen)


def _count_text(item: Estimate | None) -> str:
    """Write a count or a share of one side; empty where it was not measured."""
    if item is None:
        return ""
    if item.total is not None:
        return numbers.amount(item, "number")
    if numbers.exact_count(item) is not None:
        return f"{numbers.reached(item)} ({numbers.show(item.value, 'share')})"
    if item.value > 1:
        return f"{numbers.show(item.value, 'number')} of {item.n:,}"
    return numbers.show(item.value, "share")


def _consequences(facts: Facts) -> Iterator[str]:
    """Say what the attacks reached, those over a limit first.

    In documents where they were counted, else in values.
    """
    for row in facts.rows:
        if row.explained is not None:
            continue
        if row.returned is not None:
            sentences = [CONSEQUENCES["returned"]]
            if row.returned.of_heldout:
                sentences.append(CONSEQUENCES["unseen"])
            yield " ".join(sentences).format(**asdict(row.returned))
            continue
        sentence = _counted_sentence(row)
        if sentence:
            yield sentence


def _counted_sentence(row: QuestionFacts) -> str:
    """Say how many units of both sides an attack reached; empty where it counts none."""
    trained = row.trained
    unseen = row.unseen
    if trained is None or unseen is None:
        return ""
    n_member = numbers.exact_count(trained)
    n_heldout = numbers.exact_count(unseen)
    if n_member is None or n_heldout is None:
        return ""
    return text_of(row.attack).consequence.format(
        n_member=f"{n_member:,}",
        of_member=f"{trained.n:,}",
        n_heldout=f"{n_heldout:,}",
        of_heldout=f"{unseen.n:,}",
    )


def _risk(facts: Facts) -> Risk:
    """Return who is at risk, what the attackers have, and which kinds of values came back."""
    return Risk(_people_at_risk(facts.record), _attacker(facts), _kinds_text(facts))


def _people_at_risk(record: AuditRecord) -> str:
    """Write how many documents are at risk: those of training, or all where there is no model."""
    documents = record.corpus.documents
    if record.target.is_model:
        # The record counts the companies of all splits together: they are not those of the training
        # documents.
        return f"{documents.get('member', 0):,} training documents, as declared"
    companies = ""
    if record.corpus.providers:
        companies = f" from {record.corpus.providers:,} companies"
    return f"{sum(documents.values()):,} documents{companies}, as declared"


def _attacker(facts: Facts) -> str:
    """Say what the attackers have whose leak is confirmed, else all that were tried."""
    attacks = [row.attack for row in facts.in_order if row.leaks]
    if not attacks:
        attacks = [row.attack for row in facts.in_order]
    access: dict[str, None] = {}
    for attack in attacks:
        threat = text_of(attack).threat
        if threat is not None:
            access[ACCESS_LABELS[threat.access]] = None
    if not access:
        return "not tested"
    return f"someone who has {' or '.join(access)}"


def _kinds_text(facts: Facts) -> str:
    """Name the kinds of values that came back most, with their number.

    Else the kinds that were tried.
    """
    came_back = [kind for kind in facts.kinds if kind.came_back]
    if came_back:
        return _most_kinds(came_back)
    tried = dict.fromkeys(_kind_label(kind) for kind in facts.kinds if kind.tried)
    if not tried:
        return "not tested by kind"
    nothing = "none came back; " if facts.nothing_returned else ""
    return f"{nothing}tested: {', '.join(tried)}"


def _most_kinds(kinds: Sequence[KindFacts]) -> str:
    """Name the first kinds with the number of values that came back, and count the others."""
    parts = [f"{_kind_label(kind)} ({kind.came_back:,})" for kind in kinds[:MOST_KINDS]]
    n_others = sum(kind.came_back for kind in kinds[MOST_KINDS:])
    if n_others:
        parts.append(f"other kinds ({n_others:,})")
    return ", ".join(parts)


def _kind_label(kind: KindFacts) -> str:
    """Return the label of a category of values; the category itself where it has none."""
    return CATEGORY_LABELS.get(kind.category, kind.category)
