"""The lines of a page, the bars over its hidden values, and text left under a bar.

See methods/redaction-context.md. A bar is as long as its value, and shows how long that is; or all
bars have one length, and nothing that depends on the length of a value may show: how many lines it
fills, where it ends, or where one begins that is set flush right.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, floor
from statistics import median

import numpy as np
from PIL.Image import Image

from audit.corpus.documents import Box, Corpus, Document, Entity, Mask, Word
from audit.corpus.images import open_image
from audit.corpus.removal import SAME_LINE, runs


def lines_of(words: Sequence[Word]) -> tuple[tuple[int, ...], ...]:
    """Return the indices of the words of every line.

    Lines go from top to bottom, their words from left to right.

    From top to bottom a word joins the first line whose median word it shares `SAME_LINE` of the
    lower one's height with. Words without a box are in no line.
    """
    boxes = {index: word.box for index, word in enumerate(words) if word.box is not None}
    lines: list[list[int]] = []
    for index in sorted(
        boxes, key=lambda index: (boxes[index][1] + boxes[index][3], boxes[index][0], index)
    ):
        line = _line_of(boxes[index], lines, boxes)
        if line is None:
            lines.append([index])
        else:
            line.append(index)
    return tuple(tuple(sorted(line, key=lambda index: (boxes[index][0], index))) for line in lines)


def _line_of(box: Box, lines: Sequence[list[int]], boxes: Mapping[int, Box]) -> list[int] | None:
    """Return the last line that a box belongs to; None where it belongs to none."""
    for line in reversed(lines):
        if _beside(box, [boxes[index] for index in line]):
            return line
    return None


def _beside(box: Box, line: Sequence[Box]) -> bool:
    """Test whether a box is in a line of boxes, as `lines_of` describes it."""
    top = median(line_box[1] for line_box in line)
    bottom = median(line_box[3] for line_box in line)
    shared = min(box[3], bottom) - max(box[1], top)
    return shared > 0 and shared >= SAME_LINE * min(box[3] - box[1], bottom - top)


BLOCK = 2.0
"""Lines whose gap is at most so many heights of the hidden value's line are one block."""
LAYOUT = ("left", "middle", "width", "characters")
"""Begin and depth of the mask, as shares of the page; its width over line height, and over the mean
character."""
# The last two are 0 under masks of one length: their bars are as wide everywhere, and begin behind
# the last readable word before them, or at the page's edge. A value that is set flush right shows
# its length by where it begins.


@dataclass(frozen=True)
class RedactionBar:
    """The width of a value on its page, the height of its line, and the mean width of a character.

    All are in pixels. Where a black bar is as long as the value, anybody can measure it.
    """

    width: float
    height: float
    character: float


class BarredPage:
    """A page with boxes, in lines."""

    def __init__(self, document: Document) -> None:
        """Divide the words of a document into lines, and number the line of each word."""
        self.document = document
        self.lines = lines_of(document.words)
        self.number: dict[int, int] = {}
        for number, line in enumerate(self.lines):
            self.number |= dict.fromkeys(line, number)

    def around(
        self, entity: Entity, mask: Mask, unread: Collection[int]
    ) -> tuple[int, list[list[int]]]:
        """Return the number of the entity's first line, and its context by line.

        The words of `unread` are hidden.
        """
        numbers = self._numbers(entity)
        first = numbers[0]
        last = first
        if mask == "length":  # lines that follow each other: its first piece
            last = runs(numbers)[0][-1]
        lines = [*range(first, last + 1)]
        measured = () if mask == "length" else unread
        if first and self._near(first, first - 1, first, measured):
            lines.insert(0, first - 1)
        if mask != "length":
            lines += self._next_readable(last, unread)
        elif last + 1 < len(self.lines) and self._near(first, last, last + 1, ()):
            lines.append(last + 1)
        return first, [list(self.lines[line]) for line in lines]

    def _next_readable(self, line: int, unread: Collection[int]) -> list[int]:
        """Return the next line below that has a word to read; none where there is none."""
        for lower in range(line + 1, len(self.lines)):
            if not {*self.lines[lower]} <= {*unread}:
                return [lower]
        return []

    def _near(self, line: int, upper: int, lower: int, unread: Collection[int]) -> bool:
        """Test whether the gap of two lines is at most `BLOCK` heights of the entity's line."""
        top, bottom = self._extent(line, unread)
        return self._extent(lower, unread)[0] - self._extent(upper, unread)[1] <= BLOCK * (
            bottom - top
        )

    def _extent(self, line: int, unread: Collection[int]) -> tuple[float, float]:
        """Return where a line's readable type begins and ends, medians over its words.

        All of it, where none is readable.
        """
        words = self.lines[line]
        boxes = self._boxes([index for index in words if index not in unread] or words)
        return median(box[1] for box in boxes), median(box[3] for box in boxes)

    def layout(
        self, entity: Entity, mask: Mask, unread: Collection[int]
    ) -> tuple[tuple[float, ...], RedactionBar | None]:
        """Return the numbers that `LAYOUT` names for a value, and its bar where it has one."""
        numbers = self._numbers(entity)
        pieces = [
            self._boxes(index for index in self.lines[number] if index in entity.words)
            for number in numbers
        ]
        assert self.document.size is not None  # validated: documents with boxes have one
        width, height = self.document.size
        top, bottom = self._extent(numbers[0], ())
        value_width = sum(map(_width_of, pieces))
        bar = RedactionBar(value_width, max(bottom - top, 1.0), self._character(numbers, entity))
        if mask == "length":
            left = min(box[0] for box in pieces[0])
            return (
                left / width,
                (top + bottom) / 2 / height,
                bar.width / bar.height,
                bar.width / bar.character,
            ), bar
        top, bottom = self._extent(numbers[0], unread)
        return (self.start(entity, unread) / width, (top + bottom) / 2 / height, 0.0, 0.0), bar

    def start(self, entity: Entity, unread: Collection[int]) -> float:
        """Return where a bar of one length begins in the entity's first line, in pixels.

        See `LAYOUT`.
        """
        line = self.lines[self._numbers(entity)[0]]
        first = next(position for position, index in enumerate(line) if index in entity.words)
        readable = self._boxes(index for index in line[:first] if index not in unread)
        return max((box[2] for box in readable), default=0.0)

    def _numbers(self, entity: Entity) -> list[int]:
        """Return the lines of the entity, ascending."""
        return sorted({self.number[index] for index in entity.words})

    def _boxes(self, indices: Iterable[int]) -> list[Box]:
        """Return the boxes of these words that have one."""
        return [box for index in indices if (box := self.document.words[index].box) is not None]

    def _character(self, numbers: Sequence[int], entity: Entity) -> float:
        """Return the average width of a character in these lines, pixels; never under one.

        The text under the mask cannot be measured. Where nothing else is in its lines, all of the
        page counts; a page with nothing else gives one pixel.
        """
        indices = self._outside(entity, [self.lines[number] for number in numbers])
        if not indices:
            indices = self._outside(entity, self.lines)
        width = sum(box[2] - box[0] for box in self._boxes(indices))
        n_characters = sum(len(self.document.words[index].text) for index in indices)
        return max(width / max(n_characters, 1), 1.0)

    def _outside(self, entity: Entity, lines: Iterable[Sequence[int]]) -> list[int]:
        """Return the words of these lines that are none of the entity's."""
        return [index for index in chain.from_iterable(lines) if index not in entity.words]


def _width_of(boxes: Sequence[Box]) -> float:
    """Return the width of the box around boxes."""
    return max(box[2] for box in boxes) - min(box[0] for box in boxes)


MARGIN = 0.15
"""Share of a box's height that is left out on every side: a painted box may be smaller than its
word's."""
NOISE = 24
"""Greys, of 256, by which a painted box may differ within itself: JPEG makes so many of one colour,
print more."""


@dataclass(frozen=True)
class Covered:
    """How many values were looked at on their page's image, and how many of them are painted over.

    Painted over means: in one colour.
    """

    seen: int
    painted: int


def count_covered(corpus: Corpus, advance: Callable[[], object] = lambda: None) -> Covered:
    """Count the values whose text is still in the data set although their page hides it.

    Only values that may be attacked count.

    A value counts as painted over when all of its words are, each in one colour. Images are opened
    one at a time.

    Args:
        corpus: the data set; documents without an image or without boxes are passed over.
        advance: function that is called after each document.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    seen = painted = 0
    for document in corpus.documents:
        values = [boxes for entity in document.entities if (boxes := _boxes(document, entity))]
        if values and document.image is not None:
            page = open_image(corpus, document)
            seen += len(values)
            for boxes in values:
                painted += all(_painted(page, box) for box in boxes)
        advance()
    return Covered(seen, painted)


def _boxes(document: Document, entity: Entity) -> Sequence[Box]:
    """Return the boxes of a value that may be attacked and has text.

    None where a word lacks one.
    """
    if not entity.attack or not document.text_of(entity).strip():
        return ()
    boxes = [document.words[index].box for index in entity.words]
    return [box for box in boxes if box is not None] if None not in boxes else ()


def _painted(page: Image, box: Box) -> bool:
    """Test whether the inner part of a box is of one colour; a box too small to have one is not."""
    margin = MARGIN * (box[3] - box[1])
    x0, y0, x1, y1 = (
        ceil(box[0] + margin),
        ceil(box[1] + margin),
        floor(box[2] - margin),
        floor(box[3] - margin),
    )
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, page.width), min(y1, page.height)
    if x0 >= x1 or y0 >= y1:
        return False
    colours = np.asarray(page.crop((x0, y0, x1, y1)), np.int16).reshape(-1, 3)
    return bool((np.ptp(colours, axis=0) <= NOISE).all())
