"""Share out the lines of page one, so that it stays one page whatever there is to say.

Lines are estimated from the widths of letters, as WeasyPrint would take seconds for each try.
`tests/report/test_report_files.py` draws pages at the edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from audit.report.svg import text_width

LINES = 55.0
"""Lines of text that the page holds beside its headings and the decision."""
FEWER_LINES = (LINES - 1, LINES - 2, LINES - 4, LINES - 7, LINES - 9, LINES - 11)
"""What is tried in turn where the page runs over all the same."""
WIDTHS = {
    "title": 225.0,
    "fact": 124.0,
    "headline": 258.0,
    "tally": 86.0,
    "sentence": 360.0,
    "question": 117.0,
    "small": 130.0,
    "column": 234.0,
    "action": 215.0,
    "page": 500.0,
}
"""Width of a line of each part, in points of the letters that `text_width` measures."""
MOST_ROWS = 4
KINDS_AND_ACTIONS = (
    (6, 2),
    (5, 2),
    (4, 2),
    (3, 2),
    (4, 1),
    (3, 1),
    (2, 1),
    (0, 2),
    (0, 1),
    (0, 0),
)
"""Kinds of values and countermeasures on the page, the fullest page first."""
HEADLINE = 1.4
KIND = 1.4
ACTION_SPACE = 1.25
"""Lines that a line of the first sentence, a kind of values and the end of an action take."""
STAMP = 5.0
"""Lines of the stamp above its tally, which the sentences beside it fill."""
HEADING = 2.0
NOTE_SPACE = 1.0


@dataclass(frozen=True)
class Words:
    """The texts of page one, before any is left out.

    Attributes:
        title: title of the report.
        facts: the owner's facts.
        headline: the first sentence.
        tally: counts of limits on the stamp.
        sentences: those below it.
        notes: paragraphs of the width of the page.
        rows: question, small print and note of each row, the worst first.
        n_kinds: kinds of values that came back.
        kinds_sum: the sentence that adds them up.
        actions: countermeasures with their effects.
        until_then: what keeps attackers away meanwhile.
        not_said: what the audit does not say.
    """

    title: str
    facts: Sequence[str]
    headline: str
    tally: str
    sentences: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[tuple[str, str, str]]
    n_kinds: int
    kinds_sum: str
    actions: Sequence[str]
    until_then: str
    not_said: str


@dataclass(frozen=True)
class Room:
    """How much of each part page one shows.

    Attributes:
        rows: questions.
        kinds: kinds of values that came back; 0: they are left out, with their sum.
        actions: countermeasures.
        in_column: whether what the audit does not say has room beside the actions.
    """

    rows: int
    kinds: int
    actions: int
    in_column: bool = True


def share_out(words: Words, n_lines: float = LINES) -> Room:
    """Return how much of each part fits into `n_lines`, the least important part cut first."""
    room = Room(0, 0, 0)
    for room in _from_most_to_least(words):
        if _lines_of_page(words, room) <= n_lines:
            return room
    return room


def _from_most_to_least(words: Words) -> Iterator[Room]:
    """Yield ever less: kinds and actions by turns, then rows."""
    for n_rows in range(min(MOST_ROWS, len(words.rows)), -1, -1):
        for n_kinds, n_actions in KINDS_AND_ACTIONS:
            room = Room(n_rows, min(n_kinds, words.n_kinds), min(n_actions, len(words.actions)))
            yield from _places(room)


def _places(room: Room) -> Iterator[Room]:
    """Yield the same with what is not said beside the actions, then below them."""
    yield room
    yield replace(room, in_column=False)


def _lines_of_page(words: Words, room: Room) -> float:
    """Estimate the lines that the page takes."""
    lines = 1.7 * _lines(words.title, "title")
    lines += max((_lines(fact, "fact") for fact in words.facts), default=1) or 1
    box = HEADLINE * _lines(words.headline, "headline")
    box += sum(1.2 * _lines(sentence, "sentence") for sentence in words.sentences)
    lines += max(STAMP + _lines(words.tally, "tally"), box)
    lines += sum(_lines(note, "page") for note in words.notes) + NOTE_SPACE * len(words.notes)
    for question, small_print, note in words.rows[: room.rows]:
        cells = _lines(question, "question") + _lines(small_print, "small")
        lines += max(3.4, 0.93 * cells + 0.5)
        if note:
            lines += _lines(note, "page") + 0.4
    lines += _lines_of_columns(words, room)
    return lines


def _lines_of_columns(words: Words, room: Room) -> float:
    """Estimate the lines of both columns, and of what stands below them."""
    left = 0.0
    if room.kinds:
        left = HEADING + KIND * room.kinds + _lines(words.kinds_sum, "column")
    right = HEADING + _lines(words.until_then, "column") + 1 + ACTION_SPACE
    for action in words.actions[: room.actions]:
        right += _lines(action, "action") + ACTION_SPACE
    if room.in_column:
        below = HEADING if room.kinds else 0.0
        left += HEADING + _lines(words.not_said, "column") + below / 2
        return max(left, right)
    return max(left, right) + 1.3 * HEADING + _lines(words.not_said, "page")


def _lines(text: str, part: str) -> int:
    """Return how many lines a text takes in a part of the page, broken between words."""
    room = WIDTHS[part]
    space = text_width(" ")
    n_lines = 0
    used = room
    for word in text.split():
        width = text_width(word)
        if n_lines and used + space + width <= room:
            used += space + width
            continue
        n_lines += max(1, math.ceil(width / room))
        used = width
    return n_lines
