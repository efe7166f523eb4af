"""Say who can do what an attack did: whoever has the file, gets scores, gets answers, or a copy.

What a number needs of the model follows from the queries that its attack declares
(`audit.attacks.text.Ask`). Nothing is concluded for less access than was tried: a leak that was
shown by scores says nothing about answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from audit.attacks import text_of
from audit.attacks.text import ACCESSES, QUERY_ACCESS, Access, Threat
from audit.cards import SERVED
from audit.measurements import Estimate
from audit.policy import Decision, Outcome, Verdict
from audit.record import AuditRecord, Result
from audit.report.facts.attackers import AccessCell, AccessRow, Release, ReleaseFacts
from audit.report.facts.definitions import WORST_FIRST, MeasuredLeak, QuestionFacts
from audit.report.facts.leaks import leaks, telling_numbers

CONFIRMED = ("violated", "waived")
SERVED_TASK = "question-answering"
"""The task of models that docaudit asks over a server."""
UNKNOWN = Threat(knowledge="")
"""The threat model of an attack that states none: it needs the model's file."""
OUTSIDERS: Mapping[Release, Access] = {
    "internal": "weights",
    "hosted": "answers",
    "shared": "weights",
}
"""Access of whoever attacks: insiders and intruders, users of the service, whoever gets the
file."""


def needed_access(record: AuditRecord, attack: str, measured: Estimate | None) -> Access:
    """Return the access to the model that a number of an attack was measured with.

    Args:
        record: the scan.
        attack: name of the attack.
        measured: one of its numbers; None: all of the attack.
    """
    threat = text_of(attack).threat or UNKNOWN
    needed = threat.access
    if measured is not None:
        needed = threat.access_of(measured.name, record.target.task)
    if record.target.family == SERVED and needed != "copies":
        return "answers"
    return needed


def access_rows(
    record: AuditRecord,
    verdict: Verdict,
    questions: Sequence[QuestionFacts],
    other_leaks: Sequence[MeasuredLeak],
) -> tuple[AccessRow, ...]:
    """Return a row for each attack that ran, and for each that could have run.

    Args:
        record: the scan.
        verdict: on it.
        questions: what the attacks found that ran to their end, in the order of the rows.
        other_leaks: measured leaks that a limit accepts, or that none is about.
    """
    rows = []
    for question in questions:
        tried = _Tried(record, verdict, question, other_leaks)
        cells = {access: tried.cell(access) for access in ACCESSES}
        rows.append(AccessRow(question.attack, cells))
    rows += _rows_not_run(record)
    return tuple(rows)


def _rows_not_run(record: AuditRecord) -> Iterator[AccessRow]:
    """Yield a row for each attack that gave no numbers, unless it cannot apply to the model."""
    names = dict.fromkeys([*record.battery, *record.results])
    for attack in names:
        if attack in record.completed:
            continue
        result = record.results.get(attack)
        if _cannot_apply(result):
            continue
        reason = ""
        if result is not None and result.reason is not None:
            reason = result.reason.why
        cells = {access: _untested_cell(attack, access) for access in ACCESSES}
        yield AccessRow(attack, cells, ran=False, reason=reason)


def _untested_cell(attack: str, access: Access) -> AccessCell:
    """Return the cell of an attack that nobody tried with an access."""
    if access == "copies" and text_of(attack).needs_model:
        return AccessCell("needs the model")
    return AccessCell("not tested")


def _cannot_apply(result: Result | None) -> bool:
    """Test whether an attack cannot be run on this kind of model."""
    return result is not None and result.reason is not None and result.reason.kind == "model"


class _Tried:
    """What one attack found, by the access that each of its numbers needs."""

    def __init__(
        self,
        record: AuditRecord,
        verdict: Verdict,
        question: QuestionFacts,
        other_leaks: Sequence[MeasuredLeak],
    ) -> None:
        """Collect the numbers of an attack that ran to its end."""
        self._record = record
        self._verdict = verdict
        self._question = question
        self._task = record.target.task
        self._threat = text_of(question.attack).threat or UNKNOWN
        result = record.completed[question.attack]
        self._numbers = telling_numbers(result)
        decided = [decision.measured for decision in question.decisions]
        self._numbers += [measured for measured in decided if measured is not None]
        self._other_leaks = [leak for leak in other_leaks if leak.attack == question.attack]

    def cell(self, access: Access) -> AccessCell:
        """Return what was found with an access, or with less."""
        within = self._decisions_within(access)
        measured: Estimate | None = None
        outcome: Outcome | Literal[""] = ""
        if within:
            measured = within[0].measured
            outcome = within[0].outcome
        shown = self._shown_by(access, within)
        if shown is not None:
            n_exceeded = sum(decision.outcome == "violated" for decision in within)
            return AccessCell("shown", shown, outcome, n_exceeded)
        if self._is_tested(access):
            return AccessCell("not shown", measured or self._first_within(access), outcome)
        untested = _untested_cell(self._question.attack, access)
        if untested.state == "needs the model":
            return replace(untested, guessed=self._question.trained_without)
        return untested

    def _first_within(self, access: Access) -> Estimate | None:
        """Return the first number within an access that tells of a leak; None without one."""
        for number in self._numbers:
            if self._is_within(access, number):
                return number
        return None

    def _decisions_within(self, access: Access) -> list[Decision]:
        """List the decisions on numbers within an access, the worst first."""
        decisions = self._question.decisions
        within = [item for item in decisions if self._is_within(access, item.measured)]
        return sorted(within, key=lambda decision: WORST_FIRST.index(decision.outcome))

    def _is_within(self, access: Access, measured: Estimate | None) -> bool:
        """Test whether a number needs no more than an access."""
        if measured is None:
            return False
        return ACCESSES.index(self._needed_for(measured)) >= ACCESSES.index(access)

    def _needed_for(self, measured: Estimate) -> Access:
        """Return the access that a number was measured with."""
        return needed_access(self._record, self._question.attack, measured)

    def _shown_by(self, access: Access, within: Sequence[Decision]) -> Estimate | None:
        """Return the number that shows a leak with an access; None where none does."""
        for decision in within:
            if decision.outcome in CONFIRMED:
                return decision.measured
        for leak in self._other_leaks:
            if leak.confounded is None and self._is_within(access, leak.measured):
                return leak.measured
        return self._shown_by_weaker_method(access)

    def _shown_by_weaker_method(self, access: Access) -> Estimate | None:
        """Return the number within an access that shows a leak which stronger methods confirm."""
        confirmed = set()
        for decision in self._question.decisions:
            if decision.outcome in CONFIRMED:
                confirmed.add(decision.limit.metric)
        counts = partial(self._counts, access)
        for leak in leaks(self._verdict.settled, counts=counts):
            if leak.metric in confirmed and leak.confounded is None:
                return leak.measured
        return None

    def _counts(self, access: Access, attack: str, measured: Estimate) -> bool:
        """Test whether a measurement is one of this attack, within an access."""
        return attack == self._question.attack and self._is_within(access, measured)

    def _is_tested(self, access: Access) -> bool:
        """Test whether the strongest part of the attack with an access gave a number."""
        level = ACCESSES.index(access)
        used = [ACCESSES.index(self._needed_for(number)) for number in self._numbers]
        possible = [ACCESSES.index(asked) for asked in self._declared()]
        reachable = [index for index in (*used, *possible) if index >= level]
        if not reachable:
            return False
        return min(reachable) in used

    def _declared(self) -> list[Access]:
        """List the access of every part of the attack on models of this task."""
        whole: Access = "weights"
        parts = []
        for asked in self._threat.asks:
            if not asked.is_of_task(self._task):
                continue
            if asked.metrics:
                parts.append(asked.access)
            else:
                whole = asked.access
        return [whole, *parts]


def releases_of(record: AuditRecord, rows: Sequence[AccessRow]) -> tuple[ReleaseFacts, ...]:
    """Return what follows for each way to give the model away; empty without a model."""
    if not record.target.is_model:
        return ()
    inside = _release("internal", rows)
    shared = _release("shared", rows)
    hosted = _release("hosted", rows)
    task = record.target.task
    hosted = replace(
        hosted,
        by_server=tuple(_by_server(rows, hosted, task)),
        with_scores=tuple(
            row.attack
            for row in rows
            if row.cells["scores"].state == "shown" and row.attack not in hosted.shown
        ),
        undecided_with_scores=tuple(_undecided_with_scores(rows, hosted)),
    )
    return inside, hosted, shared


def _release(name: Release, rows: Sequence[AccessRow]) -> ReleaseFacts:
    """Sort the attacks by what was found with the access that a release gives.

    A leak that redacted copies show without the model is none of a release.
    """
    by_state: dict[str, list[str]] = {}
    exceeded = []
    undecided = []
    n_exceeded = 0
    for row in rows:
        cell = row.cells[OUTSIDERS[name]]
        copies = row.cells["copies"]
        if copies.state == "shown" and cell.measured == copies.measured:
            continue
        by_state.setdefault(cell.state, []).append(row.attack)
        if cell.state == "shown" and cell.outcome == "violated":
            exceeded.append(row.attack)
            n_exceeded += cell.n_exceeded
        if cell.is_undecided:
            undecided.append(row.attack)
    return ReleaseFacts(
        release=name,
        shown=tuple(by_state.get("shown", ())),
        exceeded=tuple(exceeded),
        not_shown=tuple(by_state.get("not shown", ())),
        undecided=tuple(undecided),
        not_tested=tuple(by_state.get("not tested", ())),
        n_exceeded=n_exceeded,
    )


def _undecided_with_scores(rows: Sequence[AccessRow], hosted: ReleaseFacts) -> Iterator[str]:
    """Yield the attacks that scores leave undecided, and answers alone do not."""
    for row in rows:
        if row.cells["scores"].is_undecided and row.attack not in hosted.undecided:
            yield row.attack


def _by_server(rows: Sequence[AccessRow], hosted: ReleaseFacts, task: str) -> Iterator[str]:
    """Yield the attacks that ran, and that only a scan of a server tries with answers alone."""
    for row in rows:
        if row.ran and row.attack in hosted.not_tested and _asks_a_server(row.attack, task):
            yield row.attack


def _asks_a_server(attack: str, task: str) -> bool:
    """Test whether an attack has queries for a server that gives answers alone."""
    threat = text_of(attack).threat
    if threat is None or task != SERVED_TASK:
        return False
    for asked in threat.asks:
        levels = [QUERY_ACCESS.get(query) for query in asked.queries]
        if "answers" in levels and asked.is_of_task(task):
            return True
    return False
