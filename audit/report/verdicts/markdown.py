"""A verdict as Markdown: for the summary of a job, or a comment on a change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from audit.corpus.paths import printable
from audit.policy import Outcome
from audit.report.leaks import headline, notes
from audit.report.verdicts.judged import Check, Judged, bound

MOST_BYTES = 60_000
"""Of the whole text (ours): a comment on GitHub takes 65,536 characters."""
_ORDER: tuple[Outcome, ...] = ("violated", "undecided", "waived", "passed", "not run", "inapplicable")
_MARKS: dict[Outcome, str] = {"violated": "❌", "undecided": "⚠️", "waived": "🟡", "passed": "✅"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
_OMITTED = "{} more lines are left out here; the record has them all."
_HEAD = (
    "",
    "| | limit | allowed | measured, interval | n | reason |",
    "| --- | --- | --- | --- | --- | --- |",
)


def as_markdown(judged: Judged) -> str:
    """Draw the verdict, a table of the limits with the worst first, and what qualifies it, in under `MOST_BYTES`."""
    record, verdict = judged.record, judged.verdict
    worst = verdict.text if verdict.text is not None and verdict.exit_code == 10 else verdict.overall
    mark = _MARKS[verdict.overall if verdict.overall == "violated" or worst is None else worst]
    code = f", exit code {verdict.exit_code}" if judged.decides_exit else ""
    head = [
        f"## {mark} docaudit: {verdict.stamp}",
        "",
        f"{_sentence(headline(record, verdict))}  ",
        f"{_subject(judged)}, policy {_text(verdict.policy)}{code}",
    ]
    if verdict.text is not None:
        said = f"What the text itself gives away, whatever the model: {verdict.text_reason}"
        head += ["", f"**{verdict.text.upper()}** {_sentence(said)}"]
    if verdict.baseline is not None:
        head += ["", f"Held against an earlier scan: {_sentence(verdict.baseline.sentence)}"]
    tail = ["", "<details><summary>What qualifies this verdict</summary>", ""]
    tail += [_item(note.text) for note in notes(record, verdict)]
    tail += ["", "</details>", ""]
    room = MOST_BYTES - len("\n".join([*head, *tail, _OMITTED, ""]).encode())
    return "\n".join([*head, *_table(judged.checks, room), *tail])


def _subject(judged: Judged) -> str:
    target, corpus = judged.record.target, judged.record.corpus
    model = f"Model {_text(target.name)}" if target.is_model else "No model"
    return f"{model}, data set {_text(corpus.name)}"


def _table(checks: Sequence[Check], room: int) -> Iterator[str]:
    """The limits, the worst first, then those that were not examined, as far as there is room."""
    worst_first = sorted(checks, key=lambda check: _ORDER.index(check.decision.outcome))
    examined = [_row(check) for check in worst_first if check.decision.outcome in _MARKS]
    rows = [*_HEAD, *examined] if examined else []
    unexamined: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.decision.outcome not in _MARKS:
            unexamined.setdefault((check.attack, check.sentence), []).append(check.metric)
    rows += ["", "Not examined:", ""] if unexamined else []
    rows += [
        f"- {_text(attack)} ({_text(', '.join(metrics))}): {_text(why)}"
        for (attack, why), metrics in unexamined.items()
    ]
    for number, row in enumerate(rows):
        room -= len(row.encode()) + 1
        if room < 0:
            yield from ("", _OMITTED.format(len(rows) - number))
            return
        yield row


def _row(check: Check) -> str:
    decision, measured = check.decision, check.decision.measured
    outcome = f"{_MARKS.get(decision.outcome, '')} {decision.outcome}".strip()
    number, n = "", ""
    if measured is not None:
        number = f"{measured.value:.3f}, {measured.low:.3f} to {measured.high:.3f}"
        n = f"{measured.n} {measured.unit}"
    cells = (f"{check.attack} {check.metric}", bound(decision.limit), number, n, check.sentence)
    return f"| {outcome} | {' | '.join(map(_text, cells))} |"


def _item(text: str) -> str:
    """A line of a list; what belongs to the line before it is indented, as it is on a terminal."""
    own = text.lstrip()
    return f"{text[: len(text) - len(own)]}- {_text(own)}"


def _sentence(text: str) -> str:
    return f"{_text(text[:1].upper() + text[1:])}."


def _text(text: str) -> str:
    """Text that neither styles, links, nor calls anybody."""
    return _SPECIAL.sub(r"\\\1", printable(text)).replace("@", "@&#8203;")
