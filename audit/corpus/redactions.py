"""Redacted values and what stays around them (METHODS.md, section 4; papers/redactbuster.txt, section 4.2).

Each value that may be attacked is one span: hidden under a mask, in its sentence, or on a page with boxes in its lines.
The values that stand beside it stay readable, unless the mask is "all".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from audit.corpus.documents import Box, Category, Document, Entity, Mask
from audit.corpus.lines import extent, lines_of
from audit.corpus.sentences import sentence_starts

STAR = "*"
"""Stands for a hidden character (paper, table 1)."""
FIXED = STAR * 5
"""A mask of one length (ours: the paper does not say how long)."""
LINE_END = "\n"
"""Between the lines of a page's context; contexts of running text have none."""
BLOCK = 2.0
"""Lines whose gap is at most so many heights of the hidden value's line are one block (ours)."""
TOLERANCE = 1.0
"""Pixels by which the width of a name and that of a mask may differ (Bland et al. 2023)."""
LAYOUT = ("left", "middle", "width", "characters")
"""What `RedactedSpan.layout` holds: where the mask begins and how far down its middle lies, as shares of the page; its
width over the height of its line, and over the line's average character. The last two are 0 under masks of one length:
their bars are as wide everywhere, and begin behind the last word of their line that stays readable before them, or at
the page's edge: where a value begins that is set flush right tells how long it is."""


@dataclass(frozen=True)
class Bar:
    """How wide a value stands on its page, how high its line is, and how wide the average character, all in pixels.

    Where a black bar is as long as the value, anybody can measure it.
    """

    width: float
    height: float
    character: float


@dataclass(frozen=True)
class RedactedSpan:
    """One hidden value.

    Attributes:
        document: its id.
        entity: the id of the value within the document.
        category: what it is; what an attacker wants to tell.
        before, after: what stays readable around it, words joined by single spaces, lines of a page by `LINE_END`.
        mask: what stands in its place.
        n_characters: of the value, spaces between its words included.
        sentence: the document's id and the number of the sentence, or of the line, from 0.
        layout: the numbers named by `LAYOUT`, on pages with boxes; else empty.
        bar: on pages with boxes, what the value measures there, whatever the mask shows of it.
    """

    document: str
    entity: str
    category: Category
    before: str
    mask: str
    after: str
    n_characters: int
    sentence: tuple[str, int]
    layout: tuple[float, ...] = ()
    bar: Bar | None = None

    @property
    def shown(self) -> Bar | None:
        """The bar, where the mask is as long as the value, and so shows it."""
        return self.bar if any(self.layout[2:]) else None

    @property
    def text(self) -> str:
        """The context with the mask in its place."""
        return self.before + self.mask + self.after


def redacted_spans(documents: Iterable[Document], mask: Mask) -> tuple[RedactedSpan, ...]:
    """Every value with `attack` set, hidden, in the order of documents and of their entities.

    Sentences are divided by `audit.corpus.sentences`, within paragraphs and never inside a value. On pages with boxes
    the context is the value's lines and the nearest line above and below, when they are no further than `BLOCK`. Under
    masks of one length nothing may tell how many lines a value fills: its context is its first line, the one above, and
    the next that has a readable word, however far. A value in several pieces is hidden in all of them; its context is
    that of the first. Values may overlap: what belongs to this one is hidden. Entities without words, or of white space
    alone, are left out.

    Args:
        documents: whose values are looked at.
        mask: "length": `STAR` for each character, the spaces between words included; "fixed": `FIXED`; "all": `FIXED`,
            and every other value of the context that may be attacked is hidden as well.
    """
    return tuple(span for document in documents for span in _spans(document, mask))


def is_page(document: Document) -> bool:
    """Whether the document has boxes: its context then is lines, not sentences."""
    return any(word.box is not None for word in document.words)


def fits(width: float, character: float, lengths: npt.ArrayLike, tolerance: float = TOLERANCE) -> int:
    """How many names of a dictionary are as wide as a mask (Bland et al. 2023).

    A name is taken to be as wide as its characters times the average one beside the mask: for the values of FUNSD's
    scans that is off by 6.6 pixels in the median, so fewer names are kept than an attacker with the typeface keeps.

    Args:
        width: of the mask, pixels.
        character: average width of a character in its line, pixels.
        lengths: (n_names,) characters of each name.
        tolerance: pixels by which the widths may differ.
    """
    return int(np.sum(np.abs(np.asarray(lengths, np.float64) * character - width) <= tolerance))


def bar_start(document: Document, entity: Entity, unread: Collection[int]) -> float:
    """Where a bar of one length begins on a page with boxes, in pixels; see `LAYOUT`.

    Args:
        document: with boxes.
        entity: the value.
        unread: the words that are hidden, its own and others.
    """
    return _Page(document).start(entity, unread)


def _spans(document: Document, mask: Mask) -> Iterator[RedactedSpan]:
    attacked = [entity for entity in document.entities if entity.attack and _visible(document, entity)]
    if not attacked:
        return
    page = _Page(document) if is_page(document) else _Text(document, attacked)
    for entity in attacked:
        words = frozenset(entity.words)
        others = [frozenset(other.words) - words for other in attacked if other is not entity] if mask == "all" else []
        unread = words.union(*others)
        number, context = page.around(entity, mask, unread)
        before, hidden, after = _hidden(document, context, words, mask, others)
        layout, bar = page.layout(entity, mask, unread)
        yield RedactedSpan(
            document=document.id,
            entity=entity.id,
            category=entity.category,
            before=before,
            mask=hidden,
            after=after,
            n_characters=len(document.text_of(entity)),
            sentence=(document.id, number),
            layout=layout,
            bar=bar,
        )


def _visible(document: Document, entity: Entity) -> bool:
    return bool(document.text_of(entity).strip())


def _runs(indices: Iterable[int]) -> list[list[int]]:
    """Ascending indices in runs without a gap."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


class _Text:
    """A running text, in sentences."""

    def __init__(self, document: Document, attacked: Sequence[Entity]) -> None:
        self.document = document
        whole = {index for entity in attacked for run in _runs(entity.words) for index in run[1:]}
        hidden = {index for entity in attacked for index in entity.words}
        # Where sentences begin must not tell what is hidden: a capital, or a full stop.
        words = ["X" if index in hidden else word.text for index, word in enumerate(document.words)]
        starts = sentence_starts(words, frozenset(document.paragraphs), whole)
        self.sentences = [range(start, end) for start, end in pairwise((*starts, len(words)))]
        self.number = {index: number for number, sentence in enumerate(self.sentences) for index in sentence}

    def around(self, entity: Entity, mask: Mask, unread: Collection[int]) -> tuple[int, list[list[int]]]:
        """The number of the entity's sentence, and its words, as one line."""
        number = self.number[min(entity.words)]
        return number, [list(self.sentences[number])]

    def layout(self, entity: Entity, mask: Mask, unread: Collection[int]) -> tuple[tuple[float, ...], Bar | None]:
        return (), None


class _Page:
    """A page with boxes, in lines."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lines = lines_of(document.words)
        self.number = {index: number for number, line in enumerate(self.lines) for index in line}

    def around(self, entity: Entity, mask: Mask, unread: Collection[int]) -> tuple[int, list[list[int]]]:
        """The number of the entity's first line, and the lines of its context; the words of `unread` are hidden."""
        numbers = self._numbers(entity)
        first = numbers[0]
        last = _runs(numbers)[0][-1] if mask == "length" else first  # lines that follow each other: its first piece
        lines = [*range(first, last + 1)]
        measured = () if mask == "length" else unread
        if first and self._near(first, first - 1, first, measured):
            lines.insert(0, first - 1)
        if mask == "length":
            lines += [last + 1] if last + 1 < len(self.lines) and self._near(first, last, last + 1, ()) else []
        else:
            readable = (line for line in range(last + 1, len(self.lines)) if not {*self.lines[line]} <= {*unread})
            lines += [*islice(readable, 1)]
        return first, [list(self.lines[line]) for line in lines]

    def _near(self, own: int, upper: int, lower: int, unread: Collection[int]) -> bool:
        """Whether the gap between two lines is at most `BLOCK` heights of the entity's own line."""
        top, bottom = self._extent(own, unread)
        return self._extent(lower, unread)[0] - self._extent(upper, unread)[1] <= BLOCK * (bottom - top)

    def _extent(self, line: int, unread: Collection[int]) -> tuple[float, float]:
        """Where a line's readable type begins and ends, from top to bottom; all of it, where none is readable."""
        words = self.lines[line]
        return extent(self.document.words, [index for index in words if index not in unread] or words)

    def layout(self, entity: Entity, mask: Mask, unread: Collection[int]) -> tuple[tuple[float, ...], Bar | None]:
        """The numbers of `LAYOUT`, and what the value measures."""
        numbers = self._numbers(entity)
        pieces = [self._boxes(index for index in self.lines[number] if index in entity.words) for number in numbers]
        assert self.document.size is not None  # validated: documents with boxes have one
        width, height = self.document.size
        top, bottom = self._extent(numbers[0], ())
        bar = Bar(
            sum(max(box[2] for box in piece) - min(box[0] for box in piece) for piece in pieces),
            max(bottom - top, 1.0),
            self._character(numbers, entity),
        )
        if mask == "length":
            left = min(box[0] for box in pieces[0])
            return (left / width, (top + bottom) / 2 / height, bar.width / bar.height, bar.width / bar.character), bar
        top, bottom = self._extent(numbers[0], unread)
        return (self.start(entity, unread) / width, (top + bottom) / 2 / height, 0.0, 0.0), bar

    def start(self, entity: Entity, unread: Collection[int]) -> float:
        """Where a bar of one length begins in the entity's first line, see `LAYOUT`, in pixels."""
        line = self.lines[self._numbers(entity)[0]]
        first = next(place for place, index in enumerate(line) if index in entity.words)
        return max((box[2] for box in self._boxes(index for index in line[:first] if index not in unread)), default=0.0)

    def _numbers(self, entity: Entity) -> list[int]:
        """The lines the entity stands in, ascending."""
        return sorted({self.number[index] for index in entity.words})

    def _boxes(self, indices: Iterable[int]) -> list[Box]:
        return [box for index in indices if (box := self.document.words[index].box) is not None]

    def _character(self, numbers: Sequence[int], entity: Entity) -> float:
        """The average width of a character in these lines, pixels; never under one.

        What stands under the mask cannot be measured. Where nothing else stands in its lines, all of the page counts;
        a page with nothing else gives one pixel.
        """
        beside = [index for number in numbers for index in self.lines[number] if index not in entity.words]
        indices = beside or [index for line in self.lines for index in line if index not in entity.words]
        width = sum(box[2] - box[0] for box in self._boxes(indices))
        return max(width / max(sum(len(self.document.words[index].text) for index in indices), 1), 1.0)


def _hidden(
    document: Document,
    context: Sequence[Sequence[int]],
    words: Collection[int],
    mask: Mask,
    others: Iterable[Collection[int]],
) -> tuple[str, str, str]:
    """The context before the value, its mask, and what comes after.

    Where a value goes on after a mask of one length with nothing readable between, no other mask follows, and no line
    that would be empty: how many lines a value fills does not show.

    Args:
        document: the text or page.
        context: indices of words, by line.
        words: of the value.
        mask: how it is hidden.
        others: words of the values that are hidden with it; of those that share a word, the first one's mask stands.
    """
    owner: dict[int, int] = dict.fromkeys(words, 0)
    for number, other in enumerate(others, start=1):
        for index in other:
            owner.setdefault(index, number)
    pieces: list[list[str]] = [[], []]
    hidden: str | None = None
    last: int | None = None  # whose mask was the last to be shown, nothing readable after it
    for line_number, line in enumerate(context):
        ended = line_number == 0
        for run, owned in _pieces(line, owner):
            if owned is not None and owned == last and mask != "length":
                continue
            if not ended:
                pieces[hidden is not None].append(LINE_END)
                ended = True
            last = owned
            texts = [document.words[index].text for index in run]
            if owned is None:
                pieces[hidden is not None] += texts
            elif owned == 0 and hidden is None:
                hidden = _mask(texts, mask)
            else:
                pieces[hidden is not None].append(_mask(texts, mask))
    assert hidden is not None
    return _joined(pieces[0], closed=True), hidden, _joined(pieces[1], closed=False)


def _pieces(line: Sequence[int], owner: Mapping[int, int]) -> Iterator[tuple[list[int], int | None]]:
    """The words of a line in runs that belong to the same value, or to none."""
    run: list[int] = []
    for index in line:
        if run and owner.get(index) != owner.get(run[-1]):
            yield run, owner.get(run[-1])
            run = []
        run.append(index)
    if run:
        yield run, owner.get(run[-1])


def _mask(texts: Sequence[str], mask: Mask) -> str:
    return STAR * len(" ".join(texts)) if mask == "length" else FIXED


def _joined(texts: Sequence[str], *, closed: bool) -> str:
    """Words joined by single spaces, lines by their ends alone, with a space on the mask's side."""
    text = " ".join(texts).replace(f" {LINE_END}", LINE_END).replace(f"{LINE_END} ", LINE_END)
    if closed:
        return text if not text or text.endswith(LINE_END) else f"{text} "
    return text if not text or text.startswith(LINE_END) else f" {text}"
