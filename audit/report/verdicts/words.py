"""A verdict in words of `Facts`: as Markdown, as a comment on a change, and as a badge."""

import json
from collections.abc import Sequence

from audit.policy import Outcome
from audit.policy.decision import COUNTED
from audit.report.access import access_view
from audit.report.action import first_action
from audit.report.answer import headline as answer
from audit.report.decision import question_rows
from audit.report.exports import export_view
from audit.report.facts.definitions import Facts
from audit.report.leaks import headline, notes
from audit.report.residual import unexamined
from audit.report.verdicts import Check, Judged, bound

MARKS: dict[Outcome, str] = {"violated": "❌", "undecided": "⚠️", "waived": "🟡", "passed": "✅"}
"""Of the outcomes of limits that were examined, the worst first."""
_COLOURS = {"violated": "red", "undecided": "yellow", "waived": "orange", "passed": "green"}
"""Of a badge, by the outcome that decides."""
_COUNTS = {"violated": "violated", "undecided": "undecided", "waived": "waived", "passed": "met"}
"""The count of a verdict that an outcome is told by."""
_SHORT_NOTES = ("another policy", "usefulness", "export", "baseline", "waiver", "outside")
"""Notes on a verdict that a comment has."""


def as_markdown(judged: Judged) -> str:
    """Draw the verdict, what each attack reached, a table of the limits, and all notes."""
    checks = judged.limits
    return _render(
        "verdict.md",
        judged,
        marks=MARKS,
        examined=_examined_checks(checks),
        unexamined=_unexamined_metrics(checks),
        access=access_view(judged.facts),
        notes=[_split_indent(note.text) for note in notes(judged.facts)],
        bound=bound,
    )


def as_comment(judged: Judged) -> str:
    """Draw what each attack reached and what to do, short enough for a pull request."""
    facts = judged.facts
    remarks = [note.text for note in notes(facts) if note.kind in _SHORT_NOTES]
    return _render(
        "comment.md",
        judged,
        action=first_action(facts),
        not_tested=[gap.title for gap in unexamined(judged.record, judged.verdict).gaps],
        notes=[_split_indent(text) for text in remarks],
    )


def as_note(judged: Judged) -> str:
    """Draw the counts of limits and what each attack reached, without the names of waivers."""
    return _render("note.md", judged, counts=judged.verdict.counts.sentence)


def _render(template: str, judged: Judged, **values: object) -> str:
    """Draw a template with the verdict, and page one's rows of every attack."""
    # Loads Jinja, which other formats do without.
    from audit.report.templates import render_markdown

    return render_markdown(
        template,
        record=judged.record,
        verdict=judged.verdict,
        mark=MARKS[judged.facts.outcome],
        answer=answer(judged.facts),
        headline=headline(judged.facts),
        questions=question_rows(judged.facts),
        export=export_view(judged.record),
        outcome_marks=MARKS,
        **values,
    )


def _examined_checks(checks: Sequence[Check]) -> list[Check]:
    """List the limits that were examined, the worst outcome first."""
    listed: list[Check] = []
    for outcome in MARKS:
        listed += [check for check in checks if check.outcome == outcome]
    return listed


def _unexamined_metrics(checks: Sequence[Check]) -> dict[tuple[str, str], list[str]]:
    """Group the limits that were not examined by attack and reason."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.outcome not in MARKS:
            metrics.setdefault((check.attack, check.sentence), []).append(check.metric)
    return metrics


def _split_indent(text: str) -> tuple[str, str]:
    """Split a note into its indent and what follows."""
    content = text.lstrip()
    return text[: len(text) - len(content)], content


def as_badge(judged: Judged) -> str:
    """Draw a badge as shields.io reads it: the count of limits that decides, and its colour."""
    badge = {
        "schemaVersion": 1,
        "label": "docaudit",
        "message": _badge_message(judged.facts),
        "color": _COLOURS[judged.facts.outcome],
    }
    return json.dumps(badge) + "\n"


def _badge_message(facts: Facts) -> str:
    """Count the limits with the outcome that decides; name the outcome where no limit has it."""
    verdict = facts.verdict
    if facts.outcome != verdict.overall:
        return f"redacted text: {verdict.text_reason}"
    name = _COUNTS[facts.outcome]
    number = getattr(verdict.counts, name)
    if not number:
        return verdict.word
    return f"{number} of {verdict.counts.limits} limits {COUNTED[name]}"
