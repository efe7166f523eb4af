"""Lay out what somebody who assesses the risk asks: how it was tested, and how counts fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, sentence_case
from audit.cards import SERVED
from audit.measurements import Estimate
from audit.report import numbers
from audit.report.coverage import NOT_STATED, describe_cost
from audit.report.facts.definitions import (
    DOCUMENTS,
    NEARLY,
    Facts,
    QuestionFacts,
    ReturnedDocuments,
    row_of_kinds,
    title_of,
)
from audit.report.kinds import VALUES, kind_label, people_sentence
from audit.report.labels import LABELS

WORDS = LABELS["assessment"]
TITLES = LABELS["assessment_titles"]
PERSONAL = "identified"
NO_NUMBER = "–"
FEWEST_COUNTS = 2
"""Counts from which on a table of them says more than page one."""
FEWEST_TOTALS = 2
"""Attacks that count values, from which on their totals are compared."""


@dataclass(frozen=True)
class TestRow:
    """Say how one attack was run.

    Attributes:
        title: title of the attack.
        procedure: what it does, for readers who know no model.
        has: what the attacker has, by the number that decides.
        effort: how much was tried.
    """

    title: str
    procedure: str
    has: str
    effort: str


@dataclass(frozen=True)
class CountRow:
    """Hold a count that a reader compares with others; a dash where a number is not counted.

    Attributes:
        counted: what is counted.
        training: count on training documents.
        unseen: count on unseen documents.
        because: what remains because of training.
    """

    counted: str
    training: str
    unseen: str
    because: str


@dataclass(frozen=True)
class CountGroup:
    """Hold the counts of one attack under its title."""

    title: str
    rows: tuple[CountRow, ...]


@dataclass(frozen=True)
class AssessmentView:
    """Hold what an assessment of the risk takes from this audit.

    Attributes:
        tests: how each attack was run, in the order of page one.
        counts: counts that differ, side by side.
        count_notes: sentences that say why they differ.
        matters: what an assessment names, and what this audit says of it.
    """

    tests: tuple[TestRow, ...]
    counts: tuple[CountGroup, ...]
    count_notes: tuple[str, ...]
    matters: tuple[tuple[str, str], ...]

    @property
    def reconciles(self) -> bool:
        """Tell whether there are counts to compare: one alone says no more than page one."""
        return sum(len(group.rows) for group in self.counts) >= FEWEST_COUNTS


def assessment_view(facts: Facts) -> AssessmentView:
    """Lay out how the attacks were run, how their counts fit, and what an assessment asks."""
    return AssessmentView(
        tests=tuple(_test_row(facts, row) for row in facts.rows),
        counts=tuple(_count_groups(facts)),
        count_notes=tuple(_count_notes(facts)),
        matters=tuple(_matters(facts)),
    )


def _test_row(facts: Facts, row: QuestionFacts) -> TestRow:
    """Say what an attack does, with what, and how much of it was done."""
    text = text_of(row.attack)
    result = facts.record.completed[row.attack]
    effort = describe_cost(facts, text.threat, result)
    if effort == NOT_STATED:
        effort = ""
    return TestRow(title_of(row.attack), text.procedure, _has(row), effort)


def _has(row: QuestionFacts) -> str:
    """Say what the attacker has: the access that the deciding number needs, and knowledge."""
    threat = text_of(row.attack).threat
    if threat is None:
        return ACCESS_LABELS[row.access]
    access = ACCESS_LABELS[row.access]
    if row.access == "answers" and threat.least_for:
        access = f"{access} ({threat.least_for})"
    return f"{access}; {threat.knowledge}"


def _count_groups(facts: Facts) -> Iterator[CountGroup]:
    """Yield the counts that a reader of several pages compares, in the order of page one."""
    for row in facts.rows:
        rows = (
            *_word_for_word_row(row),
            *_page_one_row(row),
            *_personal_row(row),
            *_documents_rows(row),
        )
        if rows:
            yield CountGroup(title_of(row.attack), rows)


def _word_for_word_row(row: QuestionFacts) -> Iterator[CountRow]:
    """Yield how many values came back without a wrong letter, where page one allows a few."""
    if row.word_for_word is not None:
        yield CountRow(
            WORDS["word for word"],
            numbers.reached(row.word_for_word),
            NO_NUMBER,
            NO_NUMBER,
        )


def _page_one_row(row: QuestionFacts) -> Iterator[CountRow]:
    """Yield the counts of page one, and how much of them is because of training."""
    if row.trained is None or numbers.exact_count(row.trained) is None:
        return
    wording = "values nearly" if row.method == NEARLY else "values"
    yield CountRow(
        WORDS[wording],
        _reached(row.trained),
        _reached(row.unseen),
        _because_of_training(row),
    )
    counted = row.held_against(VALUES)
    if counted is not None and _counts_unnamed_values(row):
        yield CountRow(WORDS["all values"], NO_NUMBER, NO_NUMBER, _with_share(counted))


def _because_of_training(row: QuestionFacts) -> str:
    """Write the count of values that leaked because of training, else the leak of page one."""
    counted = row.held_against(VALUES)
    if counted is not None and not _counts_unnamed_values(row):
        return _amount(counted)
    if row.measured is None or row.deciding is None:
        return NO_NUMBER
    form = text_of(row.attack).metric(row.deciding.limit.metric).form
    return numbers.amount(row.measured, form)


def _personal_row(row: QuestionFacts) -> Iterator[CountRow]:
    """Yield the distinct personal values that came back because of training."""
    counted = row.held_against(PERSONAL)
    if counted is not None:
        yield CountRow(
            WORDS["personal values"],
            NO_NUMBER,
            NO_NUMBER,
            _with_share(counted),
        )


def _documents_rows(row: QuestionFacts) -> Iterator[CountRow]:
    """Yield the documents that leak a value, or are recognised, and how many because of training.

    Both sides are those that the count compares, by its own method. A count of which they are not
    known is left out, but for documents that are recognised by their score.
    """
    counted = row.held_against(DOCUMENTS)
    leaking = row.leaking
    if counted is None or (leaking is None and not row.compares_pairs):
        return
    if leaking is None:
        yield CountRow(WORDS["documents"], NO_NUMBER, NO_NUMBER, _amount(counted))
        return
    wording = "documents"
    if row.method == NEARLY and row.returned is not None:
        # No certain count is of values that are nearly right.
        wording = "documents word for word"
        yield CountRow(WORDS["documents nearly"], *_both_sides(row.returned), NO_NUMBER)
    yield CountRow(WORDS[wording], *_both_sides(leaking), _amount(counted))


def _both_sides(documents: ReturnedDocuments) -> tuple[str, str]:
    """Write how many documents of training, and how many unseen ones, gave something away."""
    training = f"{documents.n_member:,} of {documents.of_member:,}"
    unseen = f"{documents.n_heldout:,} of {documents.of_heldout:,}"
    return training, unseen


def _with_share(counted: Estimate) -> str:
    """Write a count with the share that it is of all."""
    amount = numbers.amount(counted, "count")
    if not counted.total:
        return amount
    share = numbers.show(counted.value / counted.total, "share")
    return WORDS["with share"].format(amount=amount, share=share)


def _amount(counted: Estimate) -> str:
    """Write a count, with how many were tried where that is a part of all."""
    amount = numbers.amount(counted, "count")
    if counted.total is None or counted.n >= counted.total:
        return amount
    return WORDS["tried"].format(amount=amount, n=counted.n)


def _reached(share: Estimate | None) -> str:
    """Write how many units an attack reached; a dash where that was not measured."""
    if share is None:
        return NO_NUMBER
    return numbers.reached(share)


def _count_notes(facts: Facts) -> Iterator[str]:
    """Yield why the counts of the table differ, where it has any that do."""
    counting = [row for row in facts.rows if row.held_against(VALUES) is not None]
    if any(not _counts_unnamed_values(row) for row in counting):
        yield WORDS["less unseen"]
    yield from _notes_on_documents(facts)
    if any(row.held_against(PERSONAL) for row in facts.rows):
        yield WORDS["personal"]
    yield from _notes_on_values(counting)


def _notes_on_documents(facts: Facts) -> Iterator[str]:
    """Yield how leaking and recognised documents are counted."""
    if any(row.leaking is not None for row in facts.rows):
        yield WORDS["corrected"]
    if any(row.compares_pairs and row.held_against(DOCUMENTS) for row in facts.rows):
        yield WORDS["above all but one"]


def _notes_on_values(counting: Sequence[QuestionFacts]) -> Iterator[str]:
    """Yield why attacks count out of different numbers of values."""
    if any(map(_counts_unnamed_values, counting)):
        yield WORDS["never named"]
    if any(row.method == NEARLY for row in counting):
        yield WORDS["near"]
    if len(counting) >= FEWEST_TOTALS:
        yield WORDS["totals"]


def _counts_unnamed_values(row: QuestionFacts) -> bool:
    """Test whether a count covers values that page one leaves out, as training never named them."""
    counted = row.held_against(VALUES)
    return counted is not None and row.trained is not None and counted.n > row.trained.n


def _matters(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what an assessment names, with what this audit says of it."""
    record = facts.record
    if not record.target.is_model or record.corpus.forgotten:
        return
    yield from _data_matter(facts)
    yield TITLES["people"], people_sentence(facts) or WORDS["no people"]
    leaking = [row for row in facts.rows_on_model if row.leaks]
    if leaking:
        is_served = record.target.family == SERVED
        yield (
            TITLES["means"],
            WORDS["means"].format(
                has=sentence_case(_has(leaking[0])),
                subject=WORDS["means server" if is_served else "means file"],
                duration=numbers.duration(record.timing.seconds),
                device=record.environment.device,
            ),
        )
    yield TITLES["after"], _after_measures(facts)
    yield TITLES["limits"], _limits_sentence(facts)
    yield (
        TITLES["holds"],
        WORDS["holds"].format(version=record.environment.docaudit),
    )
    yield TITLES["article"], WORDS["article"]


def _data_matter(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the kinds of personal data that the owner states beside those that were tried."""
    tried = _kinds_tried(facts)
    if not tried:
        return
    stated = ", ".join(facts.record.audit.data_categories)
    words = WORDS["data" if stated else "no data"]
    yield TITLES["data"], words.format(stated=f"“{stated}”", tried=tried)


def _kinds_tried(facts: Facts) -> str:
    """Name the kinds of values that were tried: those of page one with their counts, then others.

    Empty where none was.
    """
    counted = []
    uncounted = []
    for kind in facts.kinds:
        label = kind_label(kind)
        if kind.of_member:
            counted.append(f"{label} ({kind.of_member:,})")
        elif kind.tried:
            uncounted.append(label)
    if not counted:
        return ", ".join(uncounted)
    tried = ", ".join(counted)
    row = row_of_kinds(facts.rows)
    if row is not None and row.counts_in_one_document:
        tried = WORDS["in one document"].format(counted=tried)
    if uncounted:
        tried = WORDS["by others"].format(counted=tried, uncounted=", ".join(uncounted))
    return tried


def _after_measures(facts: Facts) -> str:
    """Say what was measured to remain after the first countermeasure."""
    if not facts.lifting_model:
        return WORDS["nothing to treat"]
    first = facts.lifting_model[0]
    if first.verdict_after:
        return WORDS["after"].format(verdict=LABELS["verdicts"][first.verdict_after])
    return WORDS["not after"]


def _limits_sentence(facts: Facts) -> str:
    """Say whose the limits are, and what they do not say."""
    identity = facts.verdict.identity
    if identity is not None and identity.shipped:
        return WORDS["shipped limits"]
    return WORDS["own limits"]
