"""Pages of two columns whose words are listed across both, line by line.

What is measured: boxes leave a gap from top to bottom, each side of it has running text, and the
words go from one side to the other on most lines. Tables and forms have such gaps too, and are
rightly read across: their lines have few words on a side, by which they are told from columns. What
training read is not known, only what the data set lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.corpus.documents import Corpus, Document
from audit.corpus.problems import TEXTS

FEWEST_LINES = 6
"""Lines that have words on both sides of the gap, at least. Ours."""
RUNNING_TEXT = 4
"""Words of a side on half of these lines, at least: tables and forms have fewer. Ours."""
MOST_CROSSING = 0.03
"""Share of the words that may cross the gap, as headings do. Ours."""
MIDDLE = (0.25, 0.75)
"""Where the gap lies, as shares of the width of the text."""
PLACES = 101
"""Places of a gap that are tried."""
SIDE_SHARE = 0.25
"""Share of the words that each side has, at least. Ours."""
NARROWEST = 1.0
"""Width of the gap on nearly all lines, in heights of a line, at least: words of a line are closer.
Ours."""
FEW_LINES = 0.1
"""The quantile of lines that stands for nearly all."""
WORTH_A_WORD = 0.05
"""Share of the words on such pages from which they are named. Ours."""


@dataclass(frozen=True)
class AcrossColumns:
    """Pages whose words are listed across two columns.

    Attributes:
        pages: ids of these pages.
        words: words on them.
        all_words: words on all pages with boxes.
    """

    pages: tuple[str, ...]
    words: int
    all_words: int


def column_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn of pages of two columns whose words are listed across both."""
    across = find_across_columns(corpus.documents)
    if across.words > WORTH_A_WORD * across.all_words:
        share = 100 * across.words / across.all_words
        yield TEXTS["across_columns"].format(
            share=share, n=len(across.pages), first=across.pages[0]
        )


def find_across_columns(documents: Sequence[Document]) -> AcrossColumns:
    """Find the pages of two columns whose words are listed across both."""
    pages: list[str] = []
    n_words = 0
    n_all = 0
    for document in documents:
        boxes = _boxes_of(document)
        n_all += len(boxes)
        if reads_across(boxes):
            pages.append(document.id)
            n_words += len(boxes)
    return AcrossColumns(tuple(pages), n_words, n_all)


def _boxes_of(document: Document) -> Floats:
    """Return the boxes of a page in the order of its words: (n_words, 4)."""
    boxes = [word.box for word in document.words if word.box is not None]
    return np.array(boxes, np.float64).reshape(-1, 4)


def reads_across(boxes: Floats) -> bool:
    """Test whether words are listed across two columns of running text.

    Args:
        boxes: (n_words, 4) x0, y0, x1, y1 of words in their order.
    """
    if len(boxes) < 2 * FEWEST_LINES * RUNNING_TEXT:
        return False
    gap = _find_gap(boxes)
    if gap is None:
        return False
    is_beside = (boxes[:, 2] <= gap) | (boxes[:, 0] >= gap)
    beside = boxes[is_beside]
    is_right = beside[:, 0] >= gap
    lines = _lines_of(beside)
    shared = _shared_lines(lines, is_right)
    if len(shared) < FEWEST_LINES or _is_narrow(beside, lines, shared, is_right):
        return False
    in_shared = np.isin(lines, shared)
    changes = int((np.diff(is_right[in_shared].astype(int)) != 0).sum())
    # Across, each line goes to the right and back; column by column there is one change in all.
    return changes >= len(shared)


def _find_gap(boxes: Floats) -> float | None:
    """Return where the fewest words cross a vertical line in the middle; None where many do."""
    left = boxes[:, 0].min()
    width = boxes[:, 2].max() - left
    places = left + width * np.linspace(*MIDDLE, PLACES)
    crossing = (boxes[:, :1] < places) & (boxes[:, 2:3] > places)
    n_crossing = crossing.sum(axis=0)
    fewest = np.flatnonzero(n_crossing == n_crossing.min())
    gap = float(places[fewest[len(fewest) // 2]])
    on_right = float((boxes[:, 0] >= gap).mean())
    on_left = float((boxes[:, 2] <= gap).mean())
    if n_crossing.min() > MOST_CROSSING * len(boxes) or min(on_left, on_right) < SIDE_SHARE:
        return None
    return gap


def _lines_of(boxes: Floats) -> Ints:
    """Number the lines that words stand on, from above: (n_words,).

    A word is on the line of the one above it where their middles differ by less than half of the
    usual height.
    """
    middles = (boxes[:, 1] + boxes[:, 3]) / 2
    order = np.argsort(middles, kind="stable")
    height = float(np.median(boxes[:, 3] - boxes[:, 1]))
    begins = np.diff(middles[order], prepend=middles[order[:1]]) > height / 2
    lines = np.empty(len(boxes), np.int64)
    lines[order] = np.cumsum(begins)
    return lines


def _shared_lines(lines: Ints, is_right: Bools) -> Ints:
    """Return the lines with words on both sides, where these are running text on most; else none.

    Args:
        lines: (n_words,) number of each word's line.
        is_right: (n_words,) whether it stands in the right column.
    """
    n_lines = int(lines.max()) + 1
    on_right = np.bincount(lines[is_right], minlength=n_lines)
    on_left = np.bincount(lines[~is_right], minlength=n_lines)
    shared = np.flatnonzero((on_left > 0) & (on_right > 0))
    if not len(shared):
        return shared
    fewer = min(np.median(on_left[shared]), np.median(on_right[shared]))
    return shared if fewer >= RUNNING_TEXT else shared[:0]


def _is_narrow(boxes: Floats, lines: Ints, shared: Ints, is_right: Bools) -> bool:
    """Test whether the gap is no wider than one between words on more than a few lines.

    Args:
        boxes: (n_words, 4) boxes of words.
        lines: (n_words,) number of each word's line.
        shared: lines with words on both sides.
        is_right: (n_words,) whether it stands in the right column.
    """
    gaps: list[float] = []
    for line in shared:
        on_line = lines == line
        begin = boxes[on_line & is_right, 0].min()
        end = boxes[on_line & ~is_right, 2].max()
        gaps.append(float(begin - end))
    height = float(np.median(boxes[:, 3] - boxes[:, 1]))
    return float(np.quantile(gaps, FEW_LINES)) < NARROWEST * height
