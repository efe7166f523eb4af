"""Compare printed numbers with recomputed ones, and keep account of the text that they cover."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

NUMBER = re.compile(r"[−-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[−-]?\d+(?:\.\d+)?")
State = Literal["equal", "near", "unequal", "name", "constant", "not in the journal", "unlisted"]
"""What became of a printed number.

"near": equal but for random numbers of resampling. "name": part of a name, a date or a fingerprint.
"constant": the same in every report. "not in the journal": no file of the scan holds what it rests
on. "unlisted": nothing recomputes it, and nothing says why.
"""
RECOMPUTED: tuple[State, ...] = ("equal", "near", "unequal")


class Expected(NamedTuple):
    """A recomputed number as a report prints it, and how far other random numbers may move it.

    Attributes:
        units: of the last printed digit by which rounding may move it; an end of an interval is
            rounded outwards.
    """

    value: float
    slack: float = 0.0
    units: float = 0.5


class Number(NamedTuple):
    """Printed numbers of one place, their definition, and the recomputed ones."""

    place: str
    printed: str
    definition: str
    recomputed: str
    state: State


class Printed(NamedTuple):
    """A number as a text has it."""

    value: float
    decimals: int
    start: int
    end: int


def numbers_in(text: str, start: int = 0) -> Iterator[Printed]:
    """Yield the numbers of a text; `start`: where the text begins in its sheet."""
    for match in NUMBER.finditer(text):
        plain = match[0].replace(",", "").replace("−", "-")
        decimals = len(plain.partition(".")[2])
        yield Printed(float(plain), decimals, start + match.start(), start + match.end())


def agreement(text: str, expected: Sequence[Expected]) -> State:
    """Return whether the numbers of a text are the expected ones, in order."""
    printed = list(numbers_in(text))
    if len(printed) != len(expected):
        return "unequal"
    state: State = "equal"
    for number, wanted in zip(printed, expected, strict=True):
        distance = abs(number.value - wanted.value)
        rounding = wanted.units * 10.0**-number.decimals + 1e-9
        if distance > rounding + wanted.slack:
            return "unequal"
        if distance > rounding:
            state = "near"
    return state


def write(expected: Sequence[Expected]) -> str:
    """Write recomputed numbers with one digit more than reports print."""
    return ", ".join(f"{item.value:.4g}" for item in expected)


class Sheet:
    """A text whose numbers are accounted for one by one.

    Attributes:
        numbers: those that are accounted for.
    """

    def __init__(self, name: str, text: str) -> None:
        """Begin with a text of which nothing is accounted for."""
        self.name = name
        self.text = text
        self.numbers: list[Number] = []
        self._left = text

    def compare(
        self, start: int, end: int, definition: str, expected: Sequence[Expected], row: str = ""
    ) -> None:
        """Compare the numbers of a part of the text with recomputed ones."""
        part = self.text[start:end]
        place = self._place(row)
        state = agreement(part, expected)
        number = Number(place, _on_one_line(part), definition, write(expected), state)
        self._add(start, end, number)

    def compare_pattern(
        self, pattern: str, definition: str, expected: Sequence[Expected], row: str = ""
    ) -> None:
        """Compare the numbers of each place where a pattern matches; nothing where it does not."""
        for match in re.finditer(pattern, self._left):
            self.compare(match.start(), match.end(), definition, expected, row)

    def leave(self, pattern: str, definition: str, state: State, row: str = "") -> None:
        """Account for the numbers of a pattern that nothing recomputes."""
        for match in re.finditer(pattern, self._left):
            if NUMBER.search(match[0]):
                part = self.text[match.start() : match.end()]
                number = Number(self._place(row), _on_one_line(part), definition, "", state)
                self._add(match.start(), match.end(), number)

    def close(self) -> list[Number]:
        """Return all numbers; those that nothing accounts for are "unlisted"."""
        for match in NUMBER.finditer(self._left):
            around = self.text[max(0, match.start() - 40) : match.end() + 20]
            line = _on_one_line(around)
            self.numbers.append(Number(self.name, match[0], f"near “{line}”", "", "unlisted"))
        return self.numbers

    def _place(self, row: str) -> str:
        """Return the place of a number: the sheet, and the row where it has one."""
        return ", ".join(filter(None, [self.name, row]))

    def _add(self, start: int, end: int, number: Number) -> None:
        """Account for a part of the text."""
        self.numbers.append(number)
        blank = re.sub(r"\d", "x", self.text[start:end])
        self._left = f"{self._left[:start]}{blank}{self._left[end:]}"


def _on_one_line(text: str) -> str:
    """Return a text with single spaces."""
    return " ".join(text.split())
