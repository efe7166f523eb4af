"""Documents whose words are the same, or nearly: texts that share their runs of words and their numbers.

The constants are ours; see `near_copies` for what they were chosen on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from audit.arrays import Ints
from audit.corpus.documents import Document
from audit.corpus.folding import fold

SHINGLE = 5
"""Words of a run."""
MIN_WORDS = 30
"""Texts with fewer words are copies only when they are equal."""
MIN_ALIKE = 0.5
"""Jaccard similarity of two texts' runs of words: of texts of which one word in fifty was misread, 98 % reach it."""
MIN_NUMBERS = 5
"""Where a text has fewer distinct numbers, all its words are compared in their place."""
MIN_NUMBERS_ALIKE = 0.92
"""Jaccard similarity of the numbers, each a run of digits, however a reader divides words. In the 179 pairs of SROIE's
receipts that share half of their runs of words it is 1 for the four true copies and 0.91 at most for others. Of texts
of which one word in a hundred was misread 91 to 98 % reach both, one word in fifty 82 to 95 %, in twenty about half."""
_ROWS = 256

Pair = tuple[str, str]


class Text(NamedTuple):
    """The words of a document, folded, as far as they are compared.

    Attributes:
        whole: a digest of them all.
        runs: (n_runs,) 64-bit digests of its distinct runs of `SHINGLE` words; empty for a text that is too short.
    """

    whole: bytes
    runs: Ints


def read_texts(documents: Sequence[Document]) -> dict[str, Text]:
    """What is compared of each document's words, where it has some."""
    found = {}
    for document in documents:
        words = [fold(word.text) for word in document.words]
        if words:
            runs = {_digest("\0".join(words[start : start + SHINGLE]), 8) for start in range(len(words) - SHINGLE + 1)}
            long = len(words) >= MIN_WORDS
            found[document.id] = Text(_digest("".join(words), 16), np.frombuffer(b"".join(sorted(runs) * long), "<i8"))
    return found


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def equal_texts(copies: Sequence[Document], originals: Sequence[Document], texts: Mapping[str, Text]) -> set[Pair]:
    """Pairs whose words are the same but for case, width and spacing."""
    by_text: dict[bytes, list[str]] = {}
    for document in originals:
        if document.id in texts:
            by_text.setdefault(texts[document.id].whole, []).append(document.id)
    read = [copy.id for copy in copies if copy.id in texts]
    return {(copy, name) for copy in read for name in by_text.get(texts[copy].whole, ())}


def alike_texts(copies: Sequence[Document], originals: Sequence[Document], texts: Mapping[str, Text]) -> set[Pair]:
    """Pairs of longer texts that share their runs of words and their numbers."""
    sides = [[one for one in side if one.id in texts and len(texts[one.id].runs)] for side in (copies, originals)]
    if not all(sides):
        return set()
    return {
        (sides[0][row].id, sides[1][column].id)
        for row, column in alike_sets(*([texts[document.id].runs for document in side] for side in sides))
        if same_numbers(sides[0][row], sides[1][column])
    }


def alike_sets(one: Sequence[Ints], two: Sequence[Ints]) -> Iterator[tuple[int, int]]:
    """Places of two sets whose Jaccard similarity is `MIN_ALIKE` or more.

    Two such sets share one of the rarest members of each: of so many that fewer others are left than must be shared.
    Only sets that do are compared, so that what stands on every page costs nothing.
    """
    left, right = _incidence(one, two)
    sizes = [np.diff(side.indptr) for side in (left, right)]
    frequent = np.bincount(np.concatenate([left.indices, right.indices]))
    rare = [_rarest(side, frequent) for side in (left, right)]
    for start in range(0, len(one), _ROWS):
        near = (rare[0][start : start + _ROWS] @ rare[1].T).tocoo()
        for some in range(0, near.nnz, _ROWS * _ROWS):
            rows, columns = (places[some : some + _ROWS * _ROWS] for places in (near.row + start, near.col))
            shared = np.asarray(left[rows].multiply(right[columns]).sum(axis=1)).ravel()
            alike = shared >= MIN_ALIKE * (sizes[0][rows] + sizes[1][columns] - shared)
            yield from zip(rows[alike].tolist(), columns[alike].tolist(), strict=True)


def _incidence(*sides: Sequence[Ints]) -> list[Any]:
    """Sets as rows of sparse matrices of 0 and 1, a column for each of their members."""
    from scipy.sparse import csr_matrix

    members, columns = np.unique(np.concatenate([runs for side in sides for runs in side]), return_inverse=True)
    found, begin = [], 0
    for side in sides:
        starts = np.concatenate([[0], np.cumsum([len(runs) for runs in side])])
        own = columns[begin : begin + starts[-1]].astype(np.int32)
        found.append(csr_matrix((np.ones(len(own), np.int32), own, starts), (len(side), len(members))))
        begin += starts[-1]
    return found


def _rarest(side: Any, frequent: Ints) -> Any:
    """The matrix with those members of each row only that stand in the fewest rows, see `alike_sets`."""
    from scipy.sparse import csr_matrix

    sizes = np.diff(side.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((side.indices, frequent[side.indices], rows))
    places = np.arange(len(order)) - np.repeat(side.indptr[:-1], sizes)
    kept = order[places <= np.repeat(sizes - np.ceil(MIN_ALIKE * sizes), sizes)]
    return csr_matrix((np.ones(len(kept), np.int32), (rows[kept], side.indices[kept])), side.shape)


def same_numbers(one: Document, two: Document) -> bool:
    """Whether two texts hold the same numbers, but for a few that were misread."""
    numbers = [set(re.findall(r"\d+", " ".join(word.text for word in document.words))) for document in (one, two)]
    words = [{fold(word.text) for word in document.words} for document in (one, two)]
    first, second = numbers if min(map(len, numbers)) >= MIN_NUMBERS else words
    return len(first & second) >= MIN_NUMBERS_ALIKE * len(first | second)
