"""Draw the comparison of two scans as text, JSON or Markdown.

No text of documents is in it.
"""

import json
import textwrap
from functools import partial
from typing import Any, Literal

from pydantic import TypeAdapter

from audit.compare.comparison import OUTCOMES, Comparison
from audit.report.labels import LABELS
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
        "diff.txt", diff=diff, tables=tables, room=room, row=row, fold=fold, legend=LEGEND
    )
