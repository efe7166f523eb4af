"""Lay out who can do what an attack did: a table by access, and a line for each way to release."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.attacks import text_of
from audit.attacks.text import sentence_case
from audit.cards import SERVED
from audit.measurements import Estimate
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.facts.attackers import AccessCell, AccessRow, ReleaseFacts
from audit.report.facts.definitions import Facts, title_of
from audit.report.labels import LABELS

COLUMNS = LABELS["access"]
STATES = LABELS["access_states"]
OUTCOMES = LABELS["access_outcomes"]
RELEASES = LABELS["release_names"]
WORDS = LABELS["release_lines"]
MOST_LISTED = 4
"""Attacks that a line names."""
STATED = {"internal": "internal", "api": "hosted", "open-weights": "shared"}
"""Ways to release by the word of the manifest."""


@dataclass(frozen=True)
class CellText:
    """Hold a cell: whether a leak was shown, and what the number and the limit say."""

    state: str
    word: str
    note: str


@dataclass(frozen=True)
class RowText:
    """Hold a row: what an attacker tries, and a cell for each kind of access, most first."""

    question: str
    cells: tuple[CellText, ...]


@dataclass(frozen=True)
class AccessView:
    """Hold the table of access, and what follows for each way to give the model away.

    Attributes:
        columns: titles of the columns of cells.
        rows: a row for each question.
        releases: name and sentences of each way; empty where no model was audited.
    """

    columns: tuple[str, ...]
    rows: tuple[RowText, ...]
    releases: tuple[tuple[str, str], ...]


def access_view(facts: Facts) -> AccessView:
    """Lay out the table of access of an audit; empty where no attack ran."""
    ran = [row for row in facts.access if row.ran]
    if not ran:
        return AccessView((), (), ())
    return AccessView(
        columns=tuple(COLUMNS.values()),
        rows=(*map(_row, ran), *_row_not_run(facts.access)),
        releases=tuple(
            (RELEASES[line.release], " ".join(_sentences(line, facts.record)))
            for line in facts.releases
        ),
    )


def recipients_sentence(facts: Facts, wording: str = "", only: str = "") -> str:
    """Say what was shown to those who get the model, as page one does.

    Empty where the owner does not state who they are.

    Args:
        facts: facts of the scan.
        wording: label of another sentence than that of what was shown.
        only: the one state in which anything is said; empty: in each.
    """
    line = _stated_line(facts)
    if line is None:
        return ""
    state = _state_of_release(line)
    if only not in ("", state):
        return ""
    words = LABELS["recipients"]
    who = words[line.release]
    template = words[wording or _wording_of(line, facts)]
    return template.format(
        who=who,
        Who=sentence_case(who),
        knowledge=_knowledge_of(line),
        limits=_share_of_exceeded(line, facts),
    )


def _share_of_exceeded(line: ReleaseFacts, facts: Facts) -> str:
    """Say how many of the exceeded limits are exceeded with the access of a release."""
    words = LABELS["recipients"]
    total = facts.verdict.counts.violated
    if not line.n_exceeded:
        return words["a leak"]
    if total == 1:
        return words["exceeded limit"]
    return words["exceeded limits"].format(n=line.n_exceeded, total=total)


def _stated_line(facts: Facts) -> ReleaseFacts | None:
    """Return what was found for the release that the owner states; None where none is stated."""
    stated = facts.record.audit.release
    if stated is None:
        return None
    for line in facts.releases:
        if line.release == STATED[stated]:
            return line
    return None


def _wording_of(line: ReleaseFacts, facts: Facts) -> str:
    """Choose the label of the sentence on what was shown to the recipients of a release."""
    state = _state_of_release(line)
    if state == "not tested" and line.with_scores:
        return "scores alone"
    is_served = facts.record.target.family == SERVED
    if state == "shown" and line.release == "hosted" and not is_served:
        # A copy of the file was asked, so that nothing is known of the service itself.
        return "shown to users"
    return state


def _knowledge_of(line: ReleaseFacts) -> str:
    """Say what recipients have to know for the first leak that was shown to them."""
    for attack in line.shown[:1]:
        threat = text_of(attack).threat
        if threat is not None and threat.in_short:
            return LABELS["recipients"]["knowledge"].format(knowledge=threat.in_short)
    return ""


def _state_of_release(line: ReleaseFacts) -> str:
    """Say whether a leak was shown to the recipients of a release, or nothing was tested."""
    if not line.was_tested:
        return "not tested"
    return "shown" if line.shown else "not shown"


def _row(row: AccessRow) -> RowText:
    """Lay out the row of an attack; each attacker's cell has the number of that attacker."""
    cells = tuple(_cell(row.attack, cell) for cell in row.cells.values())
    return RowText(_question_of(row.attack), cells)


def _row_not_run(rows: Sequence[AccessRow]) -> Iterator[RowText]:
    """Yield one row for all attacks that did not run, as “Not tested” says why."""
    titles = [title_of(row.attack) for row in rows if not row.ran]
    if titles:
        cell = CellText("not tested", STATES["not tested"], "")
        yield RowText(WORDS["not run"].format(listed=_some(titles)), (cell,) * len(COLUMNS))


def _cell(attack: str, cell: AccessCell) -> CellText:
    """Lay out a cell, with its number where there is one."""
    notes = []
    if cell.measured is not None:
        notes.append(_number_text(attack, cell.measured))
    word = STATES[cell.state]
    if cell.is_undecided:
        # Something else than the limited number may speak for a leak, or too little was tried.
        word = STATES["undecided"]
    elif cell.state in ("shown", "not shown"):
        notes.append(OUTCOMES[cell.outcome])
    if cell.guessed is not None:
        share = numbers.show(cell.guessed, "share")
        notes.append(LABELS["access_without"]["guesses"].format(share=share))
    return CellText(cell.state, word, "; ".join(notes))


def _number_text(attack: str, measured: Estimate) -> str:
    """Write the number of a cell: an area as the share of pairs told apart rightly."""
    if measured.is_area and text_of(attack).metric(measured.name).kind == "auc":
        return f"right in {numbers.show(min(1.0, measured.value), 'share')} of pairs"
    form = text_of(attack).metric(measured.name).form
    return numbers.amount(measured, form)


def _question_of(attack: str) -> str:
    """Return what the attacker tries."""
    return text_of(attack).short_question or title_of(attack)


def _sentences(line: ReleaseFacts, record: AuditRecord) -> Iterator[str]:
    """Yield what follows for one way to give the model away."""
    stated = record.audit.release
    if stated is not None and STATED[stated] == line.release:
        yield WORDS["stated"]
    yield _what_was_shown(line)
    if line.release == "shared" and line.shown:
        # Whoever has the file can do the same, inside or outside.
        return
    yield from _what_else(line)


def _what_else(line: ReleaseFacts) -> Iterator[str]:
    """Yield what scores would add, and what is undecided or was not tested with an access."""
    rest = {
        _scores_wording(line): line.with_scores,
        "scores undecided": line.undecided_with_scores,
        "undecided": line.undecided,
        "not tested": _untested_otherwise(line),
        "server": line.by_server,
    }
    if not line.was_tested:
        del rest["not tested"]
    for name, attacks in rest.items():
        if attacks:
            yield WORDS[name].format(listed=_listed(attacks), n=line.n_exceeded)


def _scores_wording(line: ReleaseFacts) -> str:
    """Choose the label of the sentence on scores: it says what withholding them leaves."""
    if not line.n_exceeded:
        return "scores"
    return "scores left one" if line.n_exceeded == 1 else "scores left"


def _untested_otherwise(line: ReleaseFacts) -> tuple[str, ...]:
    """List the attacks not tested with an access but those that another sentence names."""
    named = (*line.with_scores, *line.undecided_with_scores, *line.by_server)
    return tuple(attack for attack in line.not_tested if attack not in named)


def _what_was_shown(line: ReleaseFacts) -> str:
    """Say what was shown to attackers with the access of a release."""
    if line.shown:
        sentence = WORDS[f"{line.release} shown"].format(listed=_listed(line.shown))
        if not line.exceeded:
            return f"{sentence} {WORDS['accepted']}"
        follows = WORDS[f"{line.release} exceeded"]
        return f"{sentence} {_exceeded_sentence(line.n_exceeded)} {follows}"
    if line.was_tested:
        return WORDS[line.release]
    return WORDS["nothing"]


def _exceeded_sentence(n_limits: int) -> str:
    """Count the limits that attackers with the access of a release exceed."""
    if n_limits == 1:
        return WORDS["one limit"]
    return WORDS["limits"].format(n=n_limits)


def _listed(attacks: Sequence[str]) -> str:
    """Name what attackers try, in one clause."""
    questions = [_question_of(attack) for attack in attacks]
    return _some([f"{question[:1].lower()}{question[1:]}" for question in questions])


def _some(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    if len(names) <= MOST_LISTED:
        return "; ".join(names)
    return f"{'; '.join(names[: MOST_LISTED - 1])}; and {len(names) - MOST_LISTED + 1} more"
