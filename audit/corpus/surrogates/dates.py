"""Dates and times drawn in the form of others: what stands there is valid, and says nothing of what stood there."""

from __future__ import annotations

import re

import numpy as np

_DATE = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_RUN = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_LISTS = (
    _MONTHS,
    " ".join(name[:3] for name in _MONTHS.split()),
    _DAYS,
    " ".join(name[:3] for name in _DAYS.split()),
    "morning afternoon evening night noon midnight",
    "today tomorrow yesterday tonight",
    "one two three four five six seven eight nine ten eleven twelve",
)


def draw_date(text: str, rng: np.random.Generator) -> str:
    """A word of a date or a time in the form of `text`: digits and names of months, days and hours; the rest stays."""
    return _LETTERS.sub(lambda found: _name(found[0], rng), _digits(text, rng))


def _digits(text: str, rng: np.random.Generator) -> str:
    if _DATE.search(text):
        return _DATE.sub(lambda found: _date(found, rng), text)
    if _CLOCK.search(text):
        return _CLOCK.sub(lambda found: _clock(found, rng), text)
    return _RUN.sub(lambda found: _number(found[0], rng), text)


def _date(found: re.Match[str], rng: np.random.Generator) -> str:
    parts = [found[1], found[3], found[4]]
    if len(parts[0]) > 2:
        order = [_number(parts[0], rng), _between(1, 12, parts[1], rng), _between(1, 28, parts[2], rng)]
        return found[2].join(order)
    # A form that could be read both ways stays one: both are months' numbers.
    first, second = (28 if int(part) > 12 else 12 for part in parts[:2])
    return found[2].join(
        [_between(1, first, parts[0], rng), _between(1, second, parts[1], rng), _number(parts[2], rng, year=True)]
    )


def _clock(found: re.Match[str], rng: np.random.Generator) -> str:
    drawn = [_between(0 if len(found[1]) > 1 else 1, 23, found[1], rng)]
    drawn += [_between(0, 59, part, rng) for part in found.groups()[1:] if part is not None]
    return ":".join(drawn)


def _number(run: str, rng: np.random.Generator, *, year: bool = False) -> str:
    """A run of digits: a year of this or the last century, a two-digit year, a day, or any digits."""
    if len(run) == 4 and run[:2] in ("19", "20"):
        return str(rng.integers(1950, 2030))
    if len(run) <= 2 and not year:
        return _between(1, 28, run, rng)
    return "".join(str(rng.integers(10)) for _ in run)


def _between(low: int, high: int, like: str, rng: np.random.Generator) -> str:
    """A number of as many digits as `like`; one that is not padded with zeros keeps its length too."""
    if len(like) == 1:
        return str(rng.integers(low, min(high, 9) + 1))
    lowest = low if like.startswith("0") or high < 10 else max(low, 10)
    highest = min(high, 9) if like.startswith("0") else high
    return str(rng.integers(lowest, highest + 1)).zfill(len(like))


def _name(word: str, rng: np.random.Generator) -> str:
    for names in map(str.split, _LISTS):
        if word.casefold() in names:
            return str(rng.choice([name for name in names if name != word.casefold()]))
    return word
