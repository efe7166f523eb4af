"""Pages of canaries: one more line on blank paper of a carrier, or a document by itself.

The line is outside all word boxes. Letters of a line have one width: a word's box then says how
many letters it may have and nothing else. A completion's word is given the width of the longest
candidate, so that no box distinguishes completions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np
from PIL import ImageDraw, ImageFont
from PIL.Image import Image

from audit.arrays import Bools, Ints
from audit.corpus.canaries.schema import CATEGORY, LABEL, PATTERNS, TAGS, Canary, load_canaries
from audit.corpus.documents import Box, Corpus, Document, Entity, Question, Word
from audit.corpus.images import PageView, open_image


def page_of(corpus: Corpus, canary: Canary, completion: Sequence[str]) -> Document:
    """Make the document that holds the canary with this completion.

    Its id is the canary's, no document's.

    An utterance has tags and an intent, other documents an entity labelled `LABEL`, which follows
    those of the carrier; no entity of it is for other attacks to try. A data set of questions asks
    for the completion and nothing else. Its image is the carrier's, which `open_page` opens with
    the prefix in it and the completion's space blank.

    Args:
        corpus: the data set that has the canary; one without it will do when it has the carrier.
        canary: whether it is included makes no difference.
        completion: words, as many as the canary's.

    Raises:
        ValueError: another number of words.
        KeyError: the data set has no such carrier.
    """
    if len(completion) != len(canary.completion):
        raise ValueError(f"{len(completion)} words for a completion of {len(canary.completion)}")
    shown = tuple(completion) if canary.printed else ()
    texts = (*canary.prefix, *shown)
    page, words = _page_and_line(corpus, canary, texts, completion)
    changed = replace(page, id=canary.id, split="member", words=(*page.words, *words))
    if page.paragraphs:
        changed = replace(changed, paragraphs=(*page.paragraphs, len(page.words)))
    tags = _tags_of(canary, len(shown))
    kind = corpus.manifest.task.kind
    if kind == "intent-slots":
        return replace(changed, tags=tags, intent=PATTERNS[canary.pattern].intent)
    entities = tuple(replace(entity, attack=False) for entity in page.entities)
    if shown:
        start = len(page.words) + len(canary.prefix)
        indices = tuple(range(start, start + len(shown)))
        entities += (Entity(LABEL, LABEL, CATEGORY, indices, attack=False),)
    changed = replace(changed, entities=entities, questions=())
    if page.tags is not None:
        changed = replace(changed, tags=(*page.tags, *tags))
    if kind == "question-answering":
        changed = replace(changed, questions=(_question_for(canary, completion),))
    return changed


def _page_and_line(
    corpus: Corpus, canary: Canary, texts: Sequence[str], completion: Sequence[str]
) -> tuple[Document, tuple[Word, ...]]:
    """Return the page that carries a canary, and the words of its line.

    Args:
        corpus: the data set that has the carrier.
        canary: the canary; without a carrier it has a page of its own, of the first class by name.
        texts: words that are shown.
        completion: words for which there is space in the line.
    """
    if canary.carrier is None or canary.box is None:
        labels = (member.label for member in corpus.of("member") if member.label is not None)
        page = Document(canary.id, "member", label=min(labels, default=None))
        return page, tuple(map(Word, texts))
    boxes = word_boxes(canary.box, _cells(canary, completion))[: len(texts)]
    words = tuple(Word(text, box) for text, box in zip(texts, boxes, strict=True))
    return corpus.document(canary.carrier), words


def _tags_of(canary: Canary, n_shown: int) -> tuple[str, ...]:
    """Return the tags of a canary's words, of which so many are its completion's."""
    tags = ("O",) * len(canary.prefix)
    if n_shown:
        tags += TAGS[:1] + TAGS[1:] * (n_shown - 1)
    return tags


def _question_for(canary: Canary, completion: Sequence[str]) -> Question:
    """Return the question that asks for a canary's completion.

    It belongs to the canary's entity where the completion is on the page.
    """
    answers = (" ".join(completion),)
    if canary.printed and completion:
        return Question(LABEL, question_of(canary), answers, LABEL, None)
    return Question(LABEL, question_of(canary), answers, None, CATEGORY)


def positions_of(canary: Canary, document: Document) -> tuple[int, ...]:
    """Return the indices of the completion's words on the page of a canary that prints them.

    They are the last ones.
    """
    return tuple(range(len(document.words) - len(canary.completion), len(document.words)))


def sheet_of(corpus: Corpus, canary: Canary) -> PageView:
    """Show the canary's page without its completion, as a model that answers questions sees it.

    The image is drawn when it is first asked for. Arguments are those of `page_of`.
    """
    page = page_of(corpus, canary, canary.completion)
    words = page.words[: -len(canary.completion)] if canary.printed else page.words
    opener = None if page.image is None else partial(image_of, corpus, canary, None)
    return PageView(words, page.size, opener)


def image_of(corpus: Corpus, canary: Canary, completion: Sequence[str] | None) -> Image:
    """Draw the line into the carrier's image, RGB; None leaves the completion's space blank.

    Raises:
        ManifestError: the carrier's image cannot be opened.
        ValueError: the carrier has no image.
    """
    if canary.carrier is None or canary.box is None:
        raise ValueError(f"canary {canary.id} is on no page")
    return draw_line(
        open_image(corpus, corpus.document(canary.carrier)), canary.box, _cells(canary, completion)
    )


def open_page(corpus: Corpus, document: Document) -> Image:
    """Open a document's image; for a canary draw its page with the secret completion left blank.

    On a canary's page the prefix is drawn, as in the documents that were put in, and the space of
    its completion is blank: no pixel gives it away.

    Raises:
        ManifestError: the image cannot be opened.
        ValueError: the document has no image.
    """
    canary_set = load_canaries(corpus)
    # No document of the data set has the id of a canary: `set_problems`.
    for canary in () if canary_set is None else canary_set.canaries:
        if canary.id == document.id:
            return image_of(corpus, canary, None)
    return open_image(corpus, document)


def question_of(canary: Canary) -> str:
    """Return the question about the canary, in a data set of questions.

    Raises:
        ValueError: the canary's prefix has no word of its own.
    """
    pattern = PATTERNS[canary.pattern]
    name = pattern.name_in(canary.prefix)
    if name is None:
        raise ValueError(f"canary {canary.id} has no name to ask for")
    return pattern.question(name)


def _cells(canary: Canary, completion: Sequence[str] | None) -> tuple[WordCell, ...]:
    """Return the words of the canary's line, the completion's with room for any candidate."""
    return cells_of(canary.pattern, canary.prefix, completion or (None,) * len(canary.completion))


def cells_of(
    pattern: str, prefix: Sequence[str], completion: Sequence[str | None]
) -> tuple[WordCell, ...]:
    """Return the words of a line; those of the completion have room for any candidate."""
    candidates = PATTERNS[pattern].candidates
    return (
        *(WordCell(word, (word,)) for word in prefix),
        *(WordCell(word, candidates) for word in completion),
    )


LEADING = 1.25
"""The line's height over the size of its letters: ascent and descent of Pillow's own font."""
ADVANCE = 0.6
"""The width of a letter's cell over the size of the letters, as in fonts of one width."""
_BASELINE = 1 / LEADING
_SHRINKING = 0.95
"""Of letters that are too wide for a cell, again and again."""
_DARK = 128
"""Mean luminance, 0 to 255, under which the paper is dark and is written on in white."""


@dataclass(frozen=True)
class WordCell:
    """The cell of one word in a line.

    Attributes:
        text: what is written there; None leaves it blank.
        fitting: what may be written there: the cell is as wide as the longest.
    """

    text: str | None
    fitting: tuple[str, ...]

    @property
    def letters(self) -> int:
        """Return the width of the cell in letters."""
        return max(map(len, self.fitting))


def line_width(cells: Sequence[WordCell], height: float) -> int:
    """Return the width of a line of this height, in whole pixels.

    Words are one letter's width apart.
    """
    return math.ceil(_letters(cells) * ADVANCE * height / LEADING)


def word_boxes(box: Box, cells: Sequence[WordCell]) -> tuple[Box, ...]:
    """Compute the box of each word of a line that fills `box`, to a tenth of a pixel.

    It is the same whatever is written.
    """
    x0, y0, x1, y1 = box
    step = (x1 - x0) / _letters(cells)
    boxes = []
    start = 0
    for cell in cells:
        left = x0 + start * step
        right = x0 + (start + cell.letters) * step
        boxes.append((round(left, 1), y0, round(right, 1), y1))
        start += cell.letters + 1
    return tuple(boxes)


def draw_line(page: Image, box: Box, cells: Sequence[WordCell]) -> Image:
    """Draw the line into `box` of a copy of `page`: no pixel outside it changes.

    Args:
        page: RGB.
        box: box of the whole line, pixels of the page.
        cells: the words, left to right.
    """
    x0 = math.floor(box[0])
    y0 = math.floor(box[1])
    x1 = math.ceil(box[2])
    y1 = math.ceil(box[3])
    strip = page.crop((x0, y0, x1, y1))
    colour = "black" if strip.convert("L").resize((1, 1)).tobytes()[0] >= _DARK else "white"
    brush = ImageDraw.Draw(strip)
    font = _font(box, cells)
    baseline = box[1] - y0 + _BASELINE * (box[3] - box[1])
    for cell, (left, *_) in zip(cells, word_boxes(box, cells), strict=True):
        if cell.text is not None:
            brush.text((left - x0, baseline), cell.text, fill=colour, font=font, anchor="ls")
    copy = page.copy()
    copy.paste(strip, (x0, y0))
    return copy


def _letters(cells: Sequence[WordCell]) -> int:
    """Count the letters of a line: its cells, with one space between them."""
    return sum(cell.letters for cell in cells) + len(cells) - 1


def _font(box: Box, cells: Sequence[WordCell]) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Choose letters as large as the line allows.

    Smaller where a word of wide letters would leave its cell.
    """
    size = (box[3] - box[1]) / LEADING
    placed = zip(cells, word_boxes(box, cells), strict=True)
    rooms = [(text, right - left) for cell, (left, _, right, _) in placed for text in cell.fitting]
    font = ImageFont.load_default(size)
    # Widths are those of hinted letters: they do not shrink evenly with the size.
    while size > 1 and any(font.getbbox(text, anchor="ls")[2] > room for text, room in rooms):
        size *= _SHRINKING
        font = ImageFont.load_default(size)
    return font


SHARES = (1.0, 0.8, 0.65, 0.5)
"""Heights that are tried, as shares of the median height of the page's words."""
MIN_HEIGHT = 10
"""Pixels; letters of 8 pixels are the smallest that are drawn."""
CONTRAST = 48
"""Difference of a pixel's luminance, 0 to 255, from the paper's (the page's median) that makes it
ink."""
SPECKS = 0.002
"""The share of a box that may be ink: dust of a scan. A rule across the box is more."""
_STEPS = 4
"""Positions are tried in steps of the line's height over this number."""


def find_blank_box(
    document: Document, page: Image | None, cells: Sequence[WordCell], rng: np.random.Generator
) -> Box | None:
    """Draw a blank box for a line from all there are of the largest height that has any.

    Args:
        document: has boxes and a size.
        page: its image; None: only the boxes show what is blank.
        cells: the words of the line.
        rng: random generator for the draw.

    Returns:
        The line's box in whole pixels, a quarter of its height away from all else; None where there
        is no room.
    """
    if document.size is None:
        return None
    boxes = [word.box for word in document.words if word.box is not None]
    ink = None
    if page is not None:  # the pixels that are not paper: (height, width)
        pixels = np.asarray(page.convert("L"), np.int16)
        ink = np.abs(pixels - np.median(pixels)) > CONTRAST
    usual = median(box[3] - box[1] for box in boxes) if boxes else 0.0
    for height in sorted({max(MIN_HEIGHT, round(usual * share)) for share in SHARES}, reverse=True):
        box = _free_box(document.size, boxes, ink, (line_width(cells, height), height), rng)
        if box is not None:
            return box
    return None


def _free_box(
    size: tuple[int, int],
    boxes: Sequence[Box],
    ink: Bools | None,
    line: tuple[int, int],
    rng: np.random.Generator,
) -> Box | None:
    """Find a box for a line of this width and height.

    One cell of the grid stays free on each side of it.
    """
    step = max(1, line[1] // _STEPS)
    shape = (size[1] // step, size[0] // step)
    needed = (math.ceil(line[1] / step) + 2, math.ceil(line[0] / step) + 2)
    if needed[0] > shape[0] or needed[1] > shape[1]:
        return None
    occupied = np.zeros(shape, np.int64)
    for x0, y0, x1, y1 in boxes:
        occupied[_span(y0, y1, step), _span(x0, x1, step)] = 1
    free = _sums(occupied, needed) == 0
    if ink is not None:
        cells = ink[: shape[0] * step, : shape[1] * step]
        counts = cells.reshape(shape[0], step, shape[1], step).sum(axis=(1, 3), dtype=np.int64)
        free &= _sums(counts, needed) <= SPECKS * step**2 * needed[0] * needed[1]
    corners = np.argwhere(free)
    if not len(corners):
        return None
    row, column = corners[rng.integers(len(corners))]
    x0 = (column + 1) * step
    y0 = (row + 1) * step
    return float(x0), float(y0), float(x0 + line[0]), float(y0 + line[1])


def _span(start: float, end: float, step: int) -> slice:
    """Return the slice of whole steps that the range from `start` to `end` touches."""
    return slice(max(math.floor(start / step), 0), max(math.ceil(end / step), 0))


def _sums(counts: Ints, window: tuple[int, int]) -> Ints:
    """Sum the counts in every window of shape `window`, by its upper left corner."""
    sums: Ints = np.lib.stride_tricks.sliding_window_view(counts, window).sum(axis=(2, 3))
    return sums
