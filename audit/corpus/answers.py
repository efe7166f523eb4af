"""Answers that can be read on their page as they are: a count for owners, not the proof of a removal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from audit.corpus.documents import Question, Word
from audit.corpus.folding import fold


def is_on_page(question: Question, words: Sequence[Word]) -> bool:
    """Test whether an accepted answer equals consecutive whole words of the page, after `fold`.

    Plainer than what removal looks for (methods.md#memorisation): answers inside a word or with OCR errors are not
    found.
    """
    folded = [fold(word.text) for word in words]
    page = "".join(folded)
    edges = frozenset(accumulate(map(len, folded), initial=0))
    return any(_between(fold(answer), page, edges) for answer in question.answers)


def _between(value: str, page: str, edges: frozenset[int]) -> bool:
    """Whether `value`, not empty, occurs in `page` from one edge to another."""
    start = page.find(value) if value else -1
    while start >= 0:
        if start in edges and start + len(value) in edges:
            return True
        start = page.find(value, start + 1)
    return False
