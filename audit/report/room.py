"""Share out the lines of page one, so that it stays one page whatever there is to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_ROWS = 4
"""Questions that page one shows at most, the worst first; the pages behind it hold the others."""
LINES = 18
"""Lines that title, owner's facts and questions may take together."""
SIGNS_OF_TITLE = 48
SIGNS_OF_FACT = 22
SIGNS_OF_QUESTION = 26
SIGNS_OF_SMALL = 30
"""Letters that fit on one line of each (measured on the shipped typeface, at the least)."""
MOST_KINDS = {11: 6, 14: 5, 15: 3}
"""Kinds of values that fit where the parts above take at most so many lines; none where more."""
MOST_ACTIONS = {11: 3, 15: 2, LINES: 1}
"""Countermeasures that fit, in the same way."""


@dataclass(frozen=True)
class Room:
    """How much of each part page one shows.

    Attributes:
        rows: questions.
        kinds: kinds of values that came back.
        actions: countermeasures.
    """

    rows: int
    kinds: int
    actions: int


def room_for(title: str, facts: Sequence[str], rows: Sequence[tuple[str, str]]) -> Room:
    """Return how much of each part page one has room for.

    Args:
        title: title of the report.
        facts: the owner's facts, as they are shown.
        rows: question and small print of each question, the worst first.
    """
    used = lines_of(title, SIGNS_OF_TITLE)
    used += max((lines_of(fact, SIGNS_OF_FACT) for fact in facts), default=0) or 1
    n_rows = 0
    for question, small_print in rows[:MOST_ROWS]:
        needed = lines_of(question, SIGNS_OF_QUESTION) + lines_of(small_print, SIGNS_OF_SMALL)
        needed = max(needed, 2)
        if n_rows and used + needed > LINES:
            break
        used += needed
        n_rows += 1
    return Room(n_rows, _most(MOST_KINDS, used), _most(MOST_ACTIONS, used))


def lines_of(text: str, signs: int) -> int:
    """Return how many lines a text takes, of so many letters each."""
    return math.ceil(len(text) / signs)


def _most(allowed: dict[int, int], used: int) -> int:
    """Return what fits where so many lines are used; 0 where nothing does."""
    for lines, number in allowed.items():
        if used <= lines:
            return number
    return 0
