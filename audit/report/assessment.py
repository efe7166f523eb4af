"""Lay out what somebody who assesses the risk asks: how it was tested, and how counts fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, sentence_case
from audit.cards import SERVED
from audit.errors import listed
from audit.measurements import Estimate
from audit.report import numbers
from audit.report.coverage import NOT_STATED, describe_cost
from audit.report.facts.definitions import NEARLY, Facts, QuestionFacts, title_of
from audit.report.kinds import VALUES, kind_label, people_sentence
from audit.report.labels import LABELS

WORDS = LABELS["assessment"]
TITLES = LABELS["assessment_titles"]
DOCUMENTS = "documents_identified"
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
class AssessmentView:
    """Hold what an assessment of the risk takes from this audit.

    Attributes:
        tests: how each attack was run, in the order of page one.
        counts: sentences on counts that differ, and why.
        matters: what an assessment names, and what this audit says of it.
    """

    tests: tuple[TestRow, ...]
    counts: tuple[str, ...]
    matters: tuple[tuple[str, str], ...]


def assessment_view(facts: Facts) -> AssessmentView:
    """Lay out how the attacks were run, how their counts fit, and what an assessment asks."""
    return AssessmentView(
        tests=tuple(_test_row(facts, row) for row in facts.rows),
        counts=tuple(_count_sentences(facts)),
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
    return f"{ACCESS_LABELS[row.access]}; {threat.knowledge}"


def _count_sentences(facts: Facts) -> Iterator[str]:
    """Yield why counts differ that a reader of several pages compares."""
    for row in facts.rows:
        yield from _word_for_word_sentence(row)
        yield from _documents_sentence(facts, row)
        yield from _recognised_sentence(row)
    yield from _totals_sentence(facts)


def _word_for_word_sentence(row: QuestionFacts) -> Iterator[str]:
    """Yield how many values came back without a wrong letter, where the count allows a few."""
    exactly = row.word_for_word
    if exactly is None or row.trained is None:
        return
    n_exactly = numbers.exact_count(exactly)
    n_nearly = numbers.exact_count(row.trained)
    if n_exactly is not None and n_nearly is not None:
        yield WORDS["word for word"].format(
            title=title_of(row.attack),
            n=n_exactly,
            total=exactly.n,
            n_near=n_nearly,
            total_near=row.trained.n,
        )


def _documents_sentence(facts: Facts, row: QuestionFacts) -> Iterator[str]:
    """Yield how documents that gave a value back become documents because of training."""
    counted = row.held_against(DOCUMENTS)
    if row.returned is None or counted is None:
        return
    yield WORDS["documents"].format(
        title=title_of(row.attack),
        of_declared=facts.record.corpus.documents.get("member", 0),
        because=numbers.bare(counted.value, "count"),
        returned=row.returned,
    )


def _recognised_sentence(row: QuestionFacts) -> Iterator[str]:
    """Yield what a count of recognised documents is, beside a share of pairs."""
    counted = row.held_against(DOCUMENTS)
    if not row.compares_pairs or counted is None:
        return
    yield WORDS["recognised"].format(
        title=title_of(row.attack),
        n=numbers.bare(counted.value, "count"),
        total=_total_of(counted),
    )


def _totals_sentence(facts: Facts) -> Iterator[str]:
    """Yield why attacks count out of different numbers of values, where several do."""
    parts = []
    nearly = []
    for row in facts.rows:
        counted = row.held_against(VALUES)
        if counted is None:
            continue
        title = title_of(row.attack)
        parts.append(WORDS["total"].format(title=title, total=_total_of(counted)))
        if row.method == NEARLY:
            nearly.append(WORDS["near"].format(title=title))
    if len(parts) >= FEWEST_TOTALS:
        yield " ".join([WORDS["totals"].format(totals=listed(parts, "and")), *nearly])


def _total_of(counted: Estimate) -> int:
    """Return what a count is out of: all that there is, or what was tried."""
    return counted.total or counted.n


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
    tried = []
    for kind in facts.kinds:
        label = kind_label(kind)
        if kind.of_member:
            label = f"{label} ({kind.of_member:,})"
        if kind.tried:
            tried.append(label)
    if not tried:
        return
    stated = ", ".join(facts.record.audit.data_categories)
    words = WORDS["data" if stated else "no data"]
    yield TITLES["data"], words.format(stated=f"“{stated}”", tried=", ".join(tried))


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
