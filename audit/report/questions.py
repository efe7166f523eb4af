"""Lay out a row of page one: what an attacker tries, what the attack reached, and the limit."""

from dataclasses import dataclass, replace

from audit.attacks import text_of
from audit.attacks.figure_text import Form
from audit.attacks.text import sentence_case
from audit.measurements import Estimate
from audit.policy import Decision
from audit.report import numbers
from audit.report.facts.actions import STATE_LABELS
from audit.report.facts.definitions import Facts, QuestionFacts
from audit.report.facts.recommend import state_of
from audit.report.facts.scale import ScaleFacts
from audit.report.labels import LABELS
from audit.report.tables import RAN_LABELS, DecisionRow, decision_row

UNITS = {"fields": "values", "documents": "training documents"}
"""What page one calls units of the documents of training."""
NOTES = LABELS["notes"]


@dataclass(frozen=True)
class Question:
    """Hold one row of page one: what an attacker tries, what the attack reached, and the limit.

    Attributes:
        outcome: the worst of the attack's limits; empty where none limits it.
        word: the outcome in one word.
        trained, unseen: what the attack reached on training and on unseen documents; empty where it
            counts nothing.
        without: what somebody reaches on training documents without the model.
        tried: what the attack tried of what there is; empty where nothing counts that.
        spans_sides: whether the number of training documents compares them with unseen ones.
        reached: the number that the limit is about, with its interval.
        limit: the limit that decides; empty where nothing was measured for it.
        others: how many limits of the attack came out so; empty where it has one alone.
        row: the limit that decides; None where nothing was measured for it.
        scale: where both sides and the limit lie between 0 and 100 %; None where it is no share.
        note: why the numbers decide nothing, or that they are about the text; often empty.
    """

    attack: str
    question: str
    outcome: str
    word: str
    trained: str
    unseen: str
    without: str
    tried: str
    reached: str
    row: DecisionRow | None
    scale: ScaleFacts | None
    limit: str
    others: str
    spans_sides: bool = False
    note: str = ""


def question_row(facts: Facts, row: QuestionFacts) -> Question:
    """Lay out the question of an attack for page one: both sides' numbers, outcome and limits."""
    text = text_of(row.attack)
    trained, unseen = _side_texts(row)
    reached = ""
    limit = ""
    limit_row = None
    if row.deciding is not None and row.measured is not None:
        reached = _number_with_interval(row.deciding, row.measured)
        limit = _limit_text(row.deciding, row.measured)
        limit_row = decision_row(row.deciding, text)
    return Question(
        attack=row.attack,
        question=text.short_question or text.title or row.attack,
        outcome=row.outcome,
        word=RAN_LABELS[row.outcome],
        trained=trained,
        unseen=unseen,
        without=_without_text(row),
        tried=_tried_text(row),
        reached=reached,
        row=limit_row,
        scale=row.scale,
        limit=limit,
        others=_others_text(row),
        spans_sides=row.compares_pairs and trained != "",
        note=_note_on_row(facts, row),
    )


def _note_on_row(facts: Facts, row: QuestionFacts) -> str:
    """Say why the numbers of a row decide nothing, or what they are about; often empty."""
    if row.explained is not None:
        return f"No limit can be met on these numbers: {row.explained}."
    notes = []
    if row.adds_to_text:
        notes.append(NOTES["added"])
    if row.about_text and facts.record.target.is_model:
        notes.append(NOTES["about text"])
    if row.under_bars:
        notes.append(NOTES["under the box"].format(under=row.under_bars, seen=row.bars))
    notes.append(_note_on_decision(row))
    return " ".join(filter(None, notes))


def _note_on_decision(row: QuestionFacts) -> str:
    """Say that another limit gives the result, or why it is undecided; often empty."""
    if row.deciding is None:
        return ""
    if row.deciding.outcome != row.outcome:
        return NOTES["other limit"]
    state = state_of(row.deciding)
    if row.outcome == "undecided" and state is not None:
        return f"{sentence_case(STATE_LABELS[state])}."
    return ""


def _number_with_interval(decision: Decision, measured: Estimate) -> str:
    """Write a limited number with its interval; an area as a share of pairs."""
    form = form_on_page_one(decision, measured)
    digits = numbers.digits_of(decision, form)
    between = decision.count_range
    if not between:
        between = numbers.between(measured, form, digits).replace(" to ", "–")
    amount = f"{numbers.amount(measured, form, digits)} ({between})"
    if form == "points":
        return f"leak: {amount}"
    text = text_of(decision.limit.attack).metric(decision.limit.metric)
    if form == "share" and not text.counted:
        # Beside a count of another share it would read like a contradiction.
        return f"{text.short.lower()}: {amount}"
    return amount


def _limit_text(decision: Decision, measured: Estimate) -> str:
    """Write a limit: "limit: 5 points", or "at least: 20 %"."""
    limit = decision.limit
    word = "limit" if limit.max is not None else "at least"
    bound = numbers.limit_text(numbers.bound_of(limit), form_on_page_one(decision, measured))
    return f"{word}: {bound}"


def _others_text(row: QuestionFacts) -> str:
    """Count the limits on the attack with the outcome of the row: "4 of 5 limits"."""
    if row.n_limits < 2:
        return ""
    return f"{row.n_alike} of {row.n_limits} limits"


def form_on_page_one(decision: Decision, measured: Estimate) -> Form:
    """Return the form in which page one writes a limited number: an area as a share of pairs."""
    if measured.is_area:
        return "share"
    limit = decision.limit
    return text_of(limit.attack).metric(limit.metric).form


def _side_texts(row: QuestionFacts) -> tuple[str, str]:
    """Write what the attack reached on training and on unseen documents.

    An area compares both sides, so that it stands under the first one alone. Another number that
    compares both, such as a balanced accuracy, stands beside its limit only.
    """
    if row.measured is not None and row.measured.is_area:
        if not row.compares_pairs:
            return "", ""
        value = min(1.0, row.measured.value)
        reversed_sides = ""
        if row.measured.is_below_chance:
            value = 1 - value
            reversed_sides = " with the sides exchanged"
        right = f"right in {numbers.show(value, 'share')} of pairs{reversed_sides}"
        return right, ""
    return _count_text(row.trained), _count_text(row.unseen)


def _without_text(row: QuestionFacts) -> str:
    """Write what somebody without the model reaches on training documents; often empty."""
    measured = row.measured
    if measured is not None and measured.null_kind == "chance" and row.scale is not None:
        return f"guessing: {numbers.show(measured.null or 0.0, 'share')}"
    if row.trained is None or row.trained_without is None:
        return ""
    return _count_text(replace(row.trained, value=row.trained_without))


def _tried_text(row: QuestionFacts) -> str:
    """Say how much the attack tried of what the training documents hold, and how much counts.

    Empty where nothing counts that.
    """
    tried = row.tried
    if tried is None:
        return ""
    unit = UNITS.get(tried.unit, tried.unit)
    text = f"tried: {tried.attacked:,} of {tried.total:,} {unit}"
    if tried.attacked == tried.total:
        text = f"tried: all {tried.total:,} {unit}"
    if row.trained is None or not row.counts_in_one_document:
        return text
    # The method that decides leaves out values that resemble another document's, or that training
    # never named. So its count is shown, which is that of the row.
    return f"{text}; the {row.trained.n:,} in one document count"


def _count_text(item: Estimate | None) -> str:
    """Write a count or a share of one side; empty where it was not measured."""
    if item is None:
        return ""
    if item.total is not None:
        return numbers.amount(item, "count")
    if numbers.exact_count(item) is not None:
        return f"{numbers.reached(item)} ({numbers.show(item.value, 'share')})"
    if item.value > 1:
        return f"{numbers.show(item.value, 'number')} of {item.n:,}"
    return numbers.show(item.value, "share")
