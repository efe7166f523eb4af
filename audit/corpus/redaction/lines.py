"""The lines of a page, from the boxes of its words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from audit.corpus.documents import Box, Word
from audit.corpus.removal.redact import SAME_LINE


def lines_of(words: Sequence[Word]) -> tuple[tuple[int, ...], ...]:
    """The indices of the words of every line: lines from top to bottom, their words from left to right.

    From top to bottom a word joins the first line whose median word it shares `SAME_LINE` of the lower one's height
    with. Words without a box are in no line.
    """
    boxes = {index: word.box for index, word in enumerate(words) if word.box is not None}
    lines: list[list[int]] = []
    for index in sorted(boxes, key=lambda index: (boxes[index][1] + boxes[index][3], boxes[index][0], index)):
        line = next((line for line in reversed(lines) if _beside(boxes[index], [boxes[other] for other in line])), None)
        if line is None:
            lines.append([index])
        else:
            line.append(index)
    return tuple(tuple(sorted(line, key=lambda index: (boxes[index][0], index))) for line in lines)


def extent(words: Sequence[Word], line: Sequence[int]) -> tuple[float, float]:
    """Top and bottom of a line's type, pixels: medians over its words."""
    boxes = [box for index in line if (box := words[index].box) is not None]
    return median(box[1] for box in boxes), median(box[3] for box in boxes)


def runs(indices: Iterable[int]) -> list[list[int]]:
    """Ascending indices in runs without a gap."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _beside(box: Box, line: Sequence[Box]) -> bool:
    top, bottom = median(other[1] for other in line), median(other[3] for other in line)
    shared = min(box[3], bottom) - max(box[1], top)
    return shared > 0 and shared >= SAME_LINE * min(box[3] - box[1], bottom - top)
