"""Location of a transcribed value among the words of a page.

Five rules, each tried on the whole page before the next; the first location in reading order wins:

1. `exact`: consecutive whole words, equal after folding case, width and spacing.
2. `punctuation`: the same letters and digits, where no group of digits is joined or divided ("1/12"
   is not "11/2").
3. `equal amount`, `equal date`: one word with the same number ("7,838.80", "RM1.38") or the same
   day ("06/04/18").
4. `inside`: the value is inside a word, at an edge between letters, digits and signs
   ("DATE:11/03/18", "BHD(728-M)"), and the rest of the words it touches is no longer than the
   value. Digits beyond a decimal or date sign are another value. The whole words become the entity:
   what is hidden later is a little more than the value, not less.
5. `loose`: names and addresses of at least 10 letters and digits, where the consecutive words that
   are most like the value are like enough and no other place of the page is nearly as much like it
   (methods/index.md#located-loosely). Two such places: none is taken.

Rule 1 is an exact location, 2 to 4 are normalised ones, 5 is a loose one, which reports count
apart.
"""

import datetime
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, get_args

from rapidfuzz.distance import Levenshtein

from audit.corpus.documents import Category
from audit.corpus.folding import fold
from audit.corpus.removal.matching import normalise_ocr
from audit.importers.reading import spend

Quality = Literal["exact", "normalised", "loose"]
"""How like the value the words of a located field are: itself, itself in another spelling, or
nearly itself."""
MIN_PARTIAL = 4  # folded characters a value needs for rules 2 and 4
MIN_APPROXIMATE = 10  # letters and digits it needs for rule 5
MAX_APPROXIMATE = 200
"""Letters and digits of the longest value that rule 5 compares with each stretch of a page."""
LONGEST_VALUE = 5_000
"""Letters of a value that is located: as many as an answer may have."""
MOST_OCCURRENCES = 10_000
"""Places of a value on a page that are looked at."""
MIN_SCORE = 0.75
"""How like a value the words must be by rule 5, from 0 to 1:
benchmarks/calibration/loose_locating.md."""
MARGIN = 0.05
"""By how much the best place must be more like the value than any that shares no word with it."""
QUALITIES: tuple[Quality, ...] = get_args(Quality)
TEXTUAL: frozenset[Category] = frozenset({"person", "organization", "location"})

_DIGIT_GROUPS = re.compile(r"\d+")
_AMOUNT = re.compile(
    r"(?:rm|myr|usd|sgd|eur|gbp|[$€£])?(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d{1,2})?)[.,;*]?"
)
_DAY_FIRST = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})")
_YEAR_FIRST = re.compile(r"(\d{4})[./-]?(\d{2})[./-]?(\d{2})")


@dataclass(frozen=True)
class Location:
    """Indices of the words that hold a value, in reading order, and the rule that located them.

    `score` says how like the value they are, from 0 to 1: below 1 by rule 5 only.
    """

    words: tuple[int, ...]
    rule: str
    score: float = field(default=1.0, compare=False)


def quality_of(rule: str) -> Quality:
    """Return the quality (exact, normalised or loose) of a location that this rule gives.

    Rules of sources that name the words themselves are exact.
    """
    if rule == "loose":
        return "loose"
    if rule in ("punctuation", "equal amount", "equal date", "inside"):
        return "normalised"
    return "exact"


def locate(
    value: str, category: Category, words: Sequence[str], taken: Collection[int] = ()
) -> Location | str:
    """Find the words that show `value`, and return their location; else the reason.

    Args:
        value: the transcription, not empty.
        category: decides whether the value is read as an amount, a day or text.
        words: words of the page, in reading order.
        taken: indices of words that belong to another field already.

    Returns:
        Its location, or the reason why there is none: "not found", or "part of a longer value" by
        rule 4.
    """
    spend("comparisons", len(words))
    for rule, spans in _apply_rules(value, category, words):
        for start, end in spans:
            if not any(index in taken for index in range(start, end)):
                return Location(tuple(range(start, end)), rule)
    if category in TEXTUAL:
        location = _locate_loosely(value, words, taken)
        if location is not None:
            return location
    contained = len(fold(value)) >= MIN_PARTIAL and fold(value) in "".join(map(fold, words))
    return "part of a longer value" if contained else "not found"


def _apply_rules(
    value: str, category: Category, words: Sequence[str]
) -> Iterator[tuple[str, Iterator[tuple[int, int]]]]:
    """Yield the rules that apply, in order, with the spans [start, end) that each matches."""
    yield "exact", _find_joined(fold(value), words, fold)
    bare = _letters_and_digits(value)
    if len(bare) >= MIN_PARTIAL and category != "amount":
        groups = _DIGIT_GROUPS.findall(value)
        same = _find_joined(bare, words, _letters_and_digits)
        yield (
            "punctuation",
            (
                (start, end)
                for start, end in same
                if _DIGIT_GROUPS.findall(" ".join(words[start:end])) == groups
            ),
        )
    if category == "amount":
        yield "equal amount", _find_equal(_parse_amount, value, words)
    if category == "datetime":
        yield "equal date", _find_equal(_parse_day, value, words)
    if len(fold(value)) >= MIN_PARTIAL:
        yield "inside", _find_inside(fold(value), words)


def _letters_and_digits(text: str) -> str:
    """Fold a text, and drop all but its letters and digits."""
    return "".join(character for character in fold(text) if character.isalnum())


def _find_joined(
    target: str, words: Sequence[str], form: Callable[[str], str]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of words whose forms, joined, are `target`.

    First and last form are not empty.
    """
    begins = dict[int, int]()
    ends = dict[int, int]()
    length = 0
    forms = [form(word) for word in words]
    for index, text in enumerate(forms):
        if text:
            begins[length] = index
            length += len(text)
            ends[length] = index + 1
    for begin in _occurrences(target, "".join(forms)):
        end = begin + len(target)
        if begin in begins and end in ends:
            yield begins[begin], ends[end]


def _occurrences(target: str, page: str) -> Iterator[int]:
    """Yield the positions of a text in a page's text, the first `MOST_OCCURRENCES`.

    They may overlap.
    """
    if not 0 < len(target) <= LONGEST_VALUE:
        return
    place = page.find(target)
    for _ in range(MOST_OCCURRENCES):
        if place < 0:
            return
        yield place
        place = page.find(target, place + 1)


def _find_equal(
    read: Callable[[str], object], value: str, words: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield spans of single words for which `read` gives the same as for the value."""
    meaning = read(value)
    if meaning is None:
        return
    for index, word in enumerate(words):
        if read(word) == meaning:
            yield index, index + 1


def _parse_amount(text: str) -> tuple[Decimal, bool] | None:
    """Parse a number with at most two decimals, and whether it has any.

    9 and 9.000 are no total of 9.00.
    """
    match = _AMOUNT.fullmatch(fold(text))
    if match is None:
        return None
    return Decimal(match[1].replace(",", "")), "." in match[1]


def _parse_day(text: str) -> datetime.date | None:
    """Parse a day in digits, before the month unless the year comes first.

    Two-digit years are 20xx.
    """
    day_first = _DAY_FIRST.fullmatch(text)
    year_first = _YEAR_FIRST.fullmatch(text)
    if day_first is not None:
        day, month, year = map(int, day_first.groups())
    elif year_first is not None:
        year, month, day = map(int, year_first.groups())
    else:
        return None
    try:
        return datetime.date(year + 2000 if year < 100 else year, month, day)
    except ValueError:  # no such day: a number of another kind
        return None


def _find_inside(target: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of words that hold a value by rule 4 of the module's text."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(fold(word)))
    page = "".join(map(fold, words))
    for begin in _occurrences(target, page):
        stop = begin + len(target)
        first = bisect_right(starts, begin, hi=len(words)) - 1
        last = bisect_left(starts, stop, lo=1) - 1
        before = page[starts[first] : begin]
        after = page[stop : starts[last + 1]]
        if len(before) + len(after) > len(target):
            continue
        if _ends_there(target[0], before[::-1]) and _ends_there(target[-1], after):
            yield first, last + 1


def _ends_there(edge: str, outward: str) -> bool:
    """Test whether a value stops at `edge`: the text outward does not continue it.

    Args:
        edge: the value's character at its edge.
        outward: the word's other characters, from there outwards.
    """
    if not outward:
        return True
    if (edge.isdigit() and outward[0].isdigit()) or (edge.isalpha() and outward[0].isalpha()):
        return False
    return not (edge.isdigit() and outward[0] in ".,:/-" and outward[1:2].isdigit())


def _locate_loosely(value: str, words: Sequence[str], taken: Collection[int]) -> Location | None:
    """Locate a value by rule 5 of the module's text."""
    target = normalise_ocr(value)
    if not MIN_APPROXIMATE <= len(target) <= MAX_APPROXIMATE:
        return None
    windows = sorted(_score_windows(target, words, taken))
    if not windows or windows[0][0] > 1 - MIN_SCORE:
        return None
    cost, _, start, end = windows[0]
    rival_costs = (rival for rival, _, first, last in windows if last <= start or end <= first)
    if next(rival_costs, 1.0) - cost < MARGIN:
        return None
    return Location(tuple(range(start, end)), "loose", 1 - cost)


def _score_windows(
    target: str, words: Sequence[str], taken: Collection[int]
) -> Iterator[tuple[float, int, int, int]]:
    """Yield (1 - likeness, number of words, first, last + 1) of the free windows like enough.

    A window begins and ends with letters or digits, and its length allows the likeness.
    """
    least = MIN_SCORE - MARGIN
    forms = [normalise_ocr(word) for word in words]
    for start, first in enumerate(forms):
        joined = ""
        for end in range(start, len(forms) if first else start):
            joined += forms[end]
            if end in taken or least * len(joined) > len(target):
                break
            if forms[end] and len(joined) >= least * len(target):
                spend("comparisons", 1)
                likeness = Levenshtein.normalized_similarity(target, joined, score_cutoff=least)
                if likeness >= least:
                    yield 1 - likeness, end + 1 - start, start, end + 1
