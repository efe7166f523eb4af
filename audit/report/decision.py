"""Lay out page one: the answer, one row for each question, what remains, and who decides.

Every number is one of `facts`; words, digits and order are chosen here.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, Access, sentence_case
from audit.errors import listed
from audit.policy import Overall, Verdict
from audit.policy.alarms import Alarm
from audit.policy.guarantees import CANARIES
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.access import recipients_sentence
from audit.report.answer import explanation, headline, headline_row
from audit.report.facts.actions import Recommendation
from audit.report.facts.definitions import FEWEST_OF_KIND, NEARLY, Facts, KindFacts, QuestionFacts
from audit.report.kinds import (
    KindRow,
    count_kinds,
    kind_label,
    kind_rows,
    kinds_sum,
    people_sentence,
)
from audit.report.labels import LABELS
from audit.report.leaks import findings_outside, looser_policy
from audit.report.owner import OwnerFact, Title, owner_facts, title_of
from audit.report.questions import NOTES, Question, form_on_page_one, question_row
from audit.report.residual import unexamined
from audit.report.room import LINES, MOST_ROWS, Room, Words, share_out
from audit.report.sentences import finding_sentence

MOST_CONSEQUENCES = 2
FILLER = "words "
DECLARED_WORDS = 51
LEGEND_WORDS = 18
TEXT_WORDS = 16
HEADING_WORDS = 7
"""Length of sentences of the page that the template writes."""
STAMPS = LABELS["stamps"]


@dataclass(frozen=True)
class DecisionView:
    """Page one.

    Attributes:
        number: of the report; it follows from model, data set, policy and the time of the scan.
        title: of the report: what the owner calls the model, never the name of a folder.
        owner: what only the owner knows.
        outcome: that the answer rests on: of the model, or of the text where it is worse and the
            policy counts it.
        stamp: what the outcome asks for, as it is stamped.
        headline: the answer in a sentence.
        consequences: what the attacks reached, and what the same attack reaches without a memory.
        explanation: sentences under the headline.
        counts: of the limits on the model, by what became of them.
        questions: the worst first, as many as the page holds.
        leak: what the leak of a row is, from both of its columns.
        more_questions: how many it does not hold.
        mend_first: what has to be mended before anything else; None where nothing has.
        actions: the first countermeasures to take.
        meanwhile: what keeps attackers away until then; at most one.
        in_column: whether what the audit does not say stands beside the actions.
        attacker: what the attackers have whose leak is confirmed, else all that were tried.
        kinds: kinds of values that came back; empty where none did.
        kinds_sum: one sentence that adds them up, and says on how many documents they stand.
        untested_recipients: that those who get the model were not tested; empty where they were.
        not_tested: titles of the gaps that the section of this name lists.
        limits_not_tested: how many limits they have, and how many more attacks that ran left open.
        lacks_canaries: whether planted secrets were not tested: they go in before a training.
    """

    number: str
    title: Title
    owner: tuple[OwnerFact, ...]
    outcome: Overall
    stamp: str
    headline: str
    consequences: tuple[str, ...]
    explanation: str
    counts: str
    questions: tuple[Question, ...]
    leak: str
    more_questions: int
    text_note: str
    mend_first: Alarm | None
    actions: tuple[Recommendation, ...]
    meanwhile: tuple[Recommendation, ...]
    in_column: bool
    attacker: str
    kinds: tuple[KindRow, ...]
    kinds_sum: str
    untested_recipients: str
    not_tested: tuple[str, ...]
    limits_not_tested: str
    lacks_canaries: bool

    @property
    def lacks_facts(self) -> bool:
        """Tell whether the owner has to state something before anybody can sign."""
        return self.title.missing or not all(fact.value for fact in self.owner)


def decision_view(facts: Facts, n_lines: float = LINES) -> DecisionView:
    """Return everything that page one shows of an audit, in display words.

    Args:
        facts: what the reports show of the audit.
        n_lines: lines of text that the page holds.
    """
    record = facts.record
    verdict = facts.verdict
    questions = question_rows(facts)
    not_tested = tuple(gap.title for gap in unexamined(record, verdict).gaps)
    limits_not_tested = _limits_not_tested(facts)
    untested = f"{'; '.join(not_tested)}{limits_not_tested}"
    words = _words(facts, questions, untested)
    room = share_out(words, n_lines)
    return DecisionView(
        number=_report_number(record, verdict),
        title=title_of(record),
        owner=owner_facts(record),
        outcome=facts.outcome,
        stamp=_stamp(facts),
        headline=words.headline,
        consequences=tuple(filter(None, _consequences(facts))),
        explanation=_explanation(facts),
        counts=words.tally,
        questions=tuple(questions[: room.rows]),
        leak=_leak_sentence(facts.rows_on_model[: room.rows]),
        more_questions=max(0, len(questions) - room.rows),
        text_note=_text_note(facts),
        mend_first=facts.alarm,
        actions=facts.lifting_model[: _room_beside_alarm(room, facts)],
        meanwhile=facts.meanwhile,
        in_column=room.in_column,
        attacker=_attacker(facts.rows_on_model[: room.rows]),
        kinds=tuple(kind_rows(facts, room.kinds)),
        kinds_sum=words.kinds_sum,
        untested_recipients=_untested_recipients(facts),
        not_tested=not_tested,
        limits_not_tested=limits_not_tested,
        lacks_canaries=text_of(CANARIES).title in not_tested,
    )


def _limits_not_tested(facts: Facts) -> str:
    """Count the limits of attacks that were not tested, and those that other attacks left open.

    So that the counts of the stamp add up; empty where no limit was left untested.
    """
    outcomes = Counter(
        decision.outcome
        for decision in facts.verdict.decisions
        if decision.limit.attack not in facts.record.completed
    )
    n_not_run = facts.verdict.counts.not_tested
    n_unrun = outcomes["not run"] + outcomes["undecided"]
    if not n_unrun:
        return ""
    words = LABELS["not tested"]
    clauses = [words["limits"].format(n=n_unrun)]
    if outcomes["undecided"]:
        clauses.append(words["undecided"].format(n=outcomes["undecided"]))
    if n_not_run > outcomes["not run"]:
        clauses.append(words["more"].format(n=n_not_run - outcomes["not run"]))
    return f" ({', '.join(clauses)})"


def question_rows(facts: Facts) -> list[Question]:
    """Lay out the question of every attack on the model that ran, the worst first."""
    return [question_row(facts, row) for row in facts.rows_on_model]


def _untested_recipients(facts: Facts) -> str:
    """Say that those who get the model were not tested, unless the answer does so under a leak."""
    if any(row.leaks for row in facts.rows_on_model):
        return ""
    return recipients_sentence(facts, "neither", only="not tested")


def _explanation(facts: Facts) -> str:
    """Return the sentence under the answer; the stamp says enough where a leak is counted."""
    if facts.outcome == "violated" and headline_row(facts) is not None:
        return ""
    return explanation(facts)


def _tally(facts: Facts) -> str:
    """Write the counts of limits by outcome, and what qualifies them."""
    verdict = facts.verdict
    return f"{_counts_sentence(verdict)}{looser_policy(verdict)}{findings_outside(facts)}"


def _words(facts: Facts, questions: Sequence[Question], untested: str) -> Words:
    """Collect the texts of page one, before any is left out.

    Args:
        facts: what the reports show of the audit.
        questions: rows of the attacks on the model.
        untested: attacks that were not tested, and how many limits they have.
    """
    owner = owner_facts(facts.record)
    return Words(
        title=title_of(facts.record).text,
        facts=[fact.value for fact in owner],
        headline=headline(facts),
        tally=_tally(facts),
        sentences=[*_consequences(facts), _explanation(facts)],
        notes=[*_notes_of_page(facts)],
        rows=[(question.question, question.tried, question.note) for question in questions],
        n_kinds=count_kinds(facts),
        kinds_sum=kinds_sum(facts),
        actions=[*_alarm_in_short(facts), *(action.in_short for action in facts.lifting_model)],
        until_then="".join(action.in_short for action in facts.meanwhile),
        not_said=f"{untested} {FILLER * DECLARED_WORDS}",
    )


def _room_beside_alarm(room: Room, facts: Facts) -> int:
    """Return how many actions page one holds beside an alarm, which is always shown."""
    if facts.alarm is None:
        return room.actions
    return max(0, room.actions - 1)


def _alarm_in_short(facts: Facts) -> list[str]:
    """Return an alarm as page one has it among the actions; nothing without one."""
    if facts.alarm is None:
        return []
    return [f"{facts.alarm.remedy}. {facts.alarm.reason}."]


def _stamp(facts: Facts) -> str:
    """Return the stamp of page one for the outcome; without a model it has words of its own."""
    if facts.record.target.is_model:
        return STAMPS[facts.outcome]
    return STAMPS[f"{facts.outcome} without a model"]


def _counts_sentence(verdict: Verdict) -> str:
    """Write the counts of limits by outcome, and of a pass what else its reason says.

    “Not tested” names the attacks without a number further down the page.
    """
    if verdict.overall in ("passed", "waived"):
        return verdict.reason_with(verdict.counts.sentence)
    sentence = verdict.counts.sentence
    if verdict.counts.violated and not verdict.counts.met:
        sentence = f"{sentence}, {LABELS['tally']['none met']}"
    return sentence


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
    return f"DA-{record.timing.finished[:10]}-{digest[:6].upper()}"


def _notes_of_page(facts: Facts) -> Iterator[str]:
    """Yield the paragraphs that take the width of the page, as long as the page has them."""
    verdict = facts.verdict
    yield f"{FILLER * HEADING_WORDS} {_attacker(facts.rows_on_model[:MOST_ROWS])}"
    yield _leak_sentence(facts.rows_on_model)
    if verdict.text and facts.record.target.is_model:
        yield f"{_text_note(facts)} {FILLER * TEXT_WORDS}"
    if facts.leaves_findings:
        yield FILLER * LEGEND_WORDS


def _text_note(facts: Facts) -> str:
    """Say what the text of the documents gives away without the model, and what to do about it.

    Empty where no limit is on the text of a model's documents.
    """
    verdict = facts.verdict
    if verdict.text is None or not facts.record.target.is_model:
        return ""
    words = LABELS["text"]
    sentences = [f"{sentence_case(verdict.text_reason)}."]
    sentences += filter(None, map(_reached_sentence, facts.rows_on_text))
    sentences.append(words["counted" if verdict.text_counts else "aside"])
    action = facts.action_on_text
    if action is not None:
        sentences.append(words["action"].format(action=action.remedy.name))
    return " ".join(sentences)


def _leak_sentence(rows: Sequence[QuestionFacts]) -> str:
    """Say what the leak is, and why an attack can be worse than somebody without the model."""
    sentences = [_difference_sentence(rows)]
    if any(row.discounts_knowledge for row in rows):
        sentences.append(NOTES["discounted"])
    for number, row in enumerate(rows, start=1):
        if row.method == NEARLY:
            sentences.append(NOTES["nearly"].format(row=number))
    return " ".join(sentences)


def _difference_sentence(rows: Sequence[QuestionFacts]) -> str:
    """Say of which rows what is taken off the share on training documents."""
    words = LABELS["leak"]
    clauses = LABELS["leak_less"]
    lines: dict[str, list[str]] = {}
    for number, row in enumerate(rows, start=1):
        if row.subtracts is not None:
            lines.setdefault(row.subtracts, []).append(str(number))
    if len(lines) <= 1:
        subtracted = "".join(lines) or "unseen"
        return words["all"].format(less=clauses[subtracted])
    parts = []
    for subtracted, places in lines.items():
        parts.append(words["row"].format(rows=_rows_text(places), less=clauses[subtracted]))
    return words["rows"].format(parts=", ".join(parts))


def _consequences(facts: Facts) -> Iterator[str]:
    """Say what the attacks reached, and under a leak of values what they reach without memory.

    Under an exceeded limit only attacks with a confirmed leak are told.
    """
    leaking = [row for row in facts.rows_on_model if row.leaks]
    first = headline_row(facts)
    if first is not None:
        yield from _memory_sentences(facts, first)
        return
    rows = leaking or [row for row in facts.rows_on_model if row.explained is None]
    sentences = filter(None, map(_reached_sentence, rows))
    yield from [*sentences][:MOST_CONSEQUENCES]
    if leaking:
        yield _certainty(facts, leaking[0])
        yield recipients_sentence(facts)


def _memory_sentences(facts: Facts, row: QuestionFacts) -> Iterator[str]:
    """Say which kind came back most, that memory is the cause, and whether anything ends it."""
    words = LABELS["memory"]
    yield " ".join(filter(None, [_worst_kind(facts), people_sentence(facts)]))
    unseen = row.unseen
    if unseen is not None and numbers.exact_count(unseen) is not None:
        yield words["unseen"].format(
            n_heldout=numbers.exact_count(unseen),
            of_heldout=unseen.n,
            without=_without_clause(row),
        )
    yield _certainty(facts, row)
    if facts.actions and facts.actions[0].ends_leak:
        yield words[f"ends {facts.actions[0].verdict_after}"]
    yield recipients_sentence(facts)


def _worst_kind(facts: Facts) -> str:
    """Say which kind of values came back most; empty where no kind can be compared."""
    worst = facts.worst_kind
    if worst is None:
        return ""
    left_out = any(kind.came_back and not kind.is_compared for kind in facts.kinds)
    sentence: str = LABELS["memory"]["worst of many" if left_out else "worst"]
    return sentence.format(
        fewest=FEWEST_OF_KIND,
        kind=kind_label(worst),
        came_back=worst.came_back,
        total=worst.of_member,
        other_kind=_other_kind(facts, worst),
    )


def _certainty(facts: Facts, row: QuestionFacts) -> str:
    """Say how sure a confirmed leak is: the lower end of its interval, beside the limit.

    Empty where no limit is exceeded, as where all leaks are waived.
    """
    words = LABELS["memory"]
    if not facts.verdict.counts.violated:
        return ""
    decision = row.deciding
    if decision is None or decision.measured is None or decision.limit.max is None:
        return words["any certain"]
    measured = decision.measured
    form = form_on_page_one(decision, measured)
    if form not in ("points", "share") or measured.is_below_chance:
        return words["any certain"]
    low = numbers.lower_end(measured, form, numbers.digits_of(decision, form))
    return words["certain"].format(low=low, limit=numbers.limit_text(decision.limit.max, form))


def _other_kind(facts: Facts, worst: KindFacts) -> str:
    """Count the other values where the page has room for no table: where there are two kinds."""
    others = [kind for kind in facts.kinds if kind != worst and kind.of_member]
    if len(others) != 1:
        return ""
    (other,) = others
    clause: str = LABELS["memory"]["other kind"]
    return clause.format(came_back=other.came_back, total=other.of_member)


def _without_clause(row: QuestionFacts) -> str:
    """Say how many of the same values somebody gets without the model; empty if not known."""
    if row.trained is None or row.trained_without is None:
        return ""
    n_without = numbers.exact_count(replace(row.trained, value=row.trained_without))
    if n_without is None:
        return ""
    clause: str = LABELS["memory"]["without"]
    return clause.format(n_without=n_without, of_member=row.trained.n)


def _reached_sentence(row: QuestionFacts) -> str:
    """Say what an attack reached: of pairs, or of units of both sides; empty where neither."""
    measured = row.measured
    if measured is not None and measured.is_area:
        if measured.is_below_chance:
            return ""
        if not row.compares_pairs:
            return finding_sentence(row.attack, measured) + "."
        share = numbers.show(measured.value, "share")
        return text_of(row.attack).of_pairs.format(share=share)
    return _counted_sentence(row)


def _counted_sentence(row: QuestionFacts) -> str:
    """Say how many units an attack reached, of both sides if its text names both.

    Empty where they were not counted.
    """
    template = text_of(row.attack).consequence
    trained = row.trained
    unseen = row.unseen
    if trained is None or numbers.exact_count(trained) is None:
        return ""
    counts = {"n_member": f"{numbers.exact_count(trained):,}", "of_member": f"{trained.n:,}"}
    if "heldout" in template:
        if unseen is None or numbers.exact_count(unseen) is None:
            return ""
        counts["n_heldout"] = f"{numbers.exact_count(unseen):,}"
        counts["of_heldout"] = f"{unseen.n:,}"
    return template.format(**counts)


def _attacker(rows: Sequence[QuestionFacts]) -> str:
    """Say what the attackers have, by the rows of the page."""
    lines: dict[Access, list[str]] = {}
    for number, row in enumerate(rows, start=1):
        lines.setdefault(row.access, []).append(str(number))
    words = LABELS["attacker"]
    if not lines:
        return "not tested"
    knowledge = _knowledge(rows)
    if len(lines) == 1:
        (access,) = lines
        template = words["copies alone" if access == "copies" else "alone"]
        return template.format(access=ACCESS_LABELS[access], knowledge=knowledge)
    parts = []
    for access, numbers_of_rows in lines.items():
        template = words["row" if len(numbers_of_rows) == 1 else "several"]
        parts.append(
            template.format(
                rows=listed(numbers_of_rows, "and"), access=LABELS["attacker_access"][access]
            )
        )
    return words["rows"].format(knowledge=knowledge, parts=sentence_case(", ".join(parts)))


def _knowledge(rows: Sequence[QuestionFacts]) -> str:
    """Say what the attackers know beside the model: that of the first row, and where it differs."""
    lines: dict[str, list[str]] = {}
    for number, row in enumerate(rows, start=1):
        threat = text_of(row.attack).threat
        if threat is not None and threat.in_short:
            lines.setdefault(threat.in_short, []).append(str(number))
    words = LABELS["attacker"]
    if not lines:
        return words["unknown"]
    first, *others = lines
    if not others:
        return first
    notes = [words["other"].format(rows=_rows_text(lines[it]), knowledge=it) for it in others]
    return f"{first} ({', '.join(notes)})"


def _rows_text(places: Sequence[str]) -> str:
    """Name rows by their numbers."""
    noun = "row" if len(places) == 1 else "rows"
    return f"{noun} {listed(places, 'and')}"
