"""Answers that can be read on their page as they are: a count for owners and places, not the proof of a removal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from audit.corpus.documents import Question, Word
from audit.corpus.folding import fold

MIN_INSIDE = 3
"""Folded characters of an answer that is looked for inside words (ours): a shorter one stands in many by chance."""


def is_on_page(question: Question, words: Sequence[Word]) -> bool:
    """Test whether an accepted answer equals consecutive whole words of the page, after `fold`.

    Plainer than what removal looks for (methods.md#memorisation): answers inside a word or with OCR errors are not
    found.
    """
    page, edges = _folded(words)
    return any(_between(fold(answer), page, frozenset(edges)) for answer in question.answers)


def places_of(answer: str, words: Sequence[Word]) -> list[tuple[int, int]]:
    """The first and the last word of every place where a page has this answer, after `fold`, in reading order.

    Places of whole words. Where there are none, those of the words that an answer of `MIN_INSIDE` characters or more
    begins and ends in, such as "9.00" in "$9.00,". Empty where the page does not have the answer.
    """
    page, edges = _folded(words)
    value = fold(answer)
    found = [(start, start + len(value)) for start in _occurrences(value, page)]
    known = frozenset(edges)
    whole = [(start, end) for start, end in found if start in known and end in known]
    if not whole and len(value) < MIN_INSIDE:
        return []
    # Words without any folded character have no place of their own: the first that begins here is taken after them.
    return [(bisect_right(edges, start) - 1, bisect_left(edges, end) - 1) for start, end in whole or found]


def _folded(words: Sequence[Word]) -> tuple[str, list[int]]:
    """All words folded and joined, and where each begins, with the end of the last."""
    folded = [fold(word.text) for word in words]
    return "".join(folded), [*accumulate(map(len, folded), initial=0)]


def _occurrences(value: str, page: str) -> Iterator[int]:
    """Yield where `value`, not empty, begins in `page`; occurrences may overlap."""
    start = page.find(value) if value else -1
    while start >= 0:
        yield start
        start = page.find(value, start + 1)


def _between(value: str, page: str, edges: frozenset[int]) -> bool:
    """Whether `value` occurs in `page` from one edge to another."""
    return any(start in edges and start + len(value) in edges for start in _occurrences(value, page))
