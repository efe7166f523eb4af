"""A comparison of two scans as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from audit.report.scan_diff import wording
from audit.report.scan_diff.result import OUTCOMES, MetricChange, ScanDiff

_VALUE, _CHANGE = 7, 25
"""Columns of a value, and of a change with its interval."""
_LEAST_NAME = 16


def render(diff: ScanDiff, width: int) -> str:
    """Draw a comparison, no line longer than `width` where its names allow it."""
    lines = [
        *_wrapped(wording.side("OLD", diff.old), width),
        *_wrapped(wording.side("NEW", diff.new), width),
        "",
        *_wrapped(f"{diff.summary[0].upper()}{diff.summary[1:]}.", width),
        *(line for note in diff.notes for line in _wrapped(f"Note: {note}.", width)),
    ]
    room = _room(diff, width)
    for outcome in OUTCOMES:
        lines += _table(wording.HEADINGS[outcome], diff.of(outcome), room)
    if diff.of("cannot be told"):
        lines += ["", "Why it cannot be told"]
        for reason, names in wording.reasons(diff).items():
            lines += _wrapped(f"{reason}: {names}", width, "  ")
    if diff.missing:
        lines += ["", "In neither scan", *(line for item in diff.missing for line in _wrapped(item, width, "  "))]
    return "\n".join([*lines, "", *_wrapped(wording.LEGEND, width), *_wrapped(diff.rule, width)]) + "\n"


def _room(diff: ScanDiff, width: int) -> int:
    """The columns of names, the same in every table: as many as the longest takes, where a line has them."""
    heads = [_head(wording.HEADINGS[outcome], diff.of(outcome)) for outcome in OUTCOMES]
    longest = max(map(len, [*heads, *(f"  {change.metric}" for change in diff.changes)]))
    return max(min(longest + 1, width - 2 * _VALUE - _CHANGE - 3), _LEAST_NAME)


def _head(title: str, changes: Sequence[MetricChange]) -> str:
    return f"{title} ({len(changes)})"


def _table(title: str, changes: Sequence[MetricChange], room: int) -> Iterator[str]:
    if not changes:
        return
    head = _head(title, changes)
    yield ""
    yield f"{head:<{room}}{'old':>{_VALUE}}{'new':>{_VALUE}}  change"
    for attack, rows in groupby(changes, wording.attack_of):
        yield f" {attack}"
        for change in rows:
            yield from _row(change, room)


def _row(change: MetricChange, room: int) -> Iterator[str]:
    name = f"  {change.metric}"
    if len(name) > room:
        yield name
        name = ""
    mark = "" if change.paired or not change.compared else "*"
    values = f"{wording.of(change.before):>{_VALUE}}{wording.of(change.after):>{_VALUE}}"
    yield f"{name:<{room}}{values}  {wording.interval(change)}{mark}"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
