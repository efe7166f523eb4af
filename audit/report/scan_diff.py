"""Draw the comparison of two scans as text, JSON or Markdown.

No text of documents is in it.
"""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pydantic import TypeAdapter

from audit.attacks import text_of
from audit.attacks.figure_text import Form
from audit.attacks.text import sentence_case
from audit.compare.comparison import OUTCOMES, Comparison, MetricChange
from audit.measurements import Estimate, Measurement
from audit.report import numbers
from audit.report.labels import LABELS, UTILITY
from audit.report.templates import render_markdown, render_text

Format = Literal["text", "json", "markdown"]
LEGEND = LABELS["diff"]["legend"]
_VALUE = 7
"""Columns of a value."""
_CHANGE = 25
"""Columns of a change with its interval."""
_LEAST_NAME = 16
"""Columns of a name at least."""


_COMPARISON: TypeAdapter[Comparison] = TypeAdapter(Comparison)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of `docaudit diff --format json`."""
    properties = _COMPARISON.json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **properties}


def render(diff: Comparison, chosen: Format, width: int) -> str:
    """Draw a comparison of two scans in a format; `width` is the columns of a terminal."""
    match chosen:
        case "text":
            return _draw_text(diff, width)
        case "json":
            content = _COMPARISON.dump_python(diff, mode="json")
            return json.dumps(content, indent=1, allow_nan=False) + "\n"
        case "markdown":
            return render_markdown("diff.md", diff=diff, outcomes=OUTCOMES, legend=LEGEND)


@dataclass(frozen=True)
class ShortLine:
    """What became of an attack between both scans, on one line.

    Attributes:
        question: what the attacker tries, or the measure of usefulness.
        change: the number before and after, and what it means.
    """

    question: str
    change: str


def in_short(diff: Comparison) -> Iterator[ShortLine]:
    """Yield a line for each attack, by the first of its numbers that both scans have.

    That is the number of the first limit on the attack.
    """
    places: set[str] = set()
    for change in diff.changes:
        if change.place in places or not change.compared:
            continue
        places.add(change.place)
        report = text_of(change.attack) if change.attack else UTILITY
        label = report.label(change.metric)
        if change.attack:
            label = report.short_question or report.title or change.attack
        form = report.metric(change.metric).form
        before = _value(change.before, form)
        after = _value(change.after, form)
        yield ShortLine(sentence_case(label), f"{before} → {after}: {_meaning(change)}")


def _value(item: Measurement | None, form: Form) -> str:
    """Write a number with its unit; a dash where there is none."""
    if not isinstance(item, Estimate):
        return "-"
    return numbers.show(item.value, form)


def _meaning(change: MetricChange) -> str:
    """Say in a word whether a change is for the better."""
    if change.outcome == "lower":
        return LABELS["diff"]["lower"]
    return change.outcome


def _draw_text(diff: Comparison, width: int) -> str:
    """Draw lines for a terminal, none longer than `width` where its names allow it."""
    changes = {outcome: diff.of(outcome) for outcome in OUTCOMES}
    tables = {f"{name.capitalize()} ({len(rows)})": rows for name, rows in changes.items()}
    names = [f"  {change.metric}" for change in diff.changes]
    longest = max(map(len, [*tables, *names]))
    room = max(min(longest + 1, width - 2 * _VALUE - _CHANGE - 3), _LEAST_NAME)
    row = f"%-{room}s%{_VALUE}s%{_VALUE}s  %s"
    fold = partial(
        textwrap.fill,
        width=width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return render_text(
        "diff.txt",
        diff=diff,
        tables=tables,
        room=room,
        row=row,
        fold=fold,
        legend=LEGEND,
        lines=tuple(in_short(diff)),
    )
