"""Pages of a source before they are documents: words, fields, questions, and boxes.

Boxes are in any of three units.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from audit.corpus.documents import Box, Category, Document, Question, Word
from audit.errors import ManifestError
from audit.importers.reading import Counted, spend

Part = Literal["train", "validation", "public"]
"""A part of the source's own division: trained on, not, or known to the attacker."""
Unit = Literal["pixels", "thousandths", "shares"]
"""The unit of boxes: pixels of the image; 0 to 1000 as LayoutLM reads them; 0 to 1."""
Size = tuple[int, int]
"""Width and height of an image in pixels."""
Span = tuple[int, int]
"""The first character of a stretch of a text, and the one behind its last."""
GRID = 1000
SLACK = 2.0
"""Pixels, or thousandths, that rounding may put a corner over the edge
(`validation.BOX_TOLERANCE`)."""
LOWEST_LETTERS = 4
"""A line is wider than its height, times its letters, over this: few letters are so narrow."""
MAX_STRETCH = 0.1
"""How far the shapes (width over height) of a read page and its image may differ: margins cut,
never a turn."""
LINES = "lines without words, whose boxes were divided by their characters"
REGIONS = "texts without lines, whose words have places made of the region's box"
ALTERNATIVES = "texts with alternatives, of which the one that the format prefers was read"
LEFT_OUT = "texts beside words or lines of the same element, left out"
"""Counts of choices that reading a page took, for the report."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TRAINED = frozenset({"train", "training", "member", "members"})
_HELDOUT = frozenset(
    {"test", "testa", "testb", "testing", "val", "valid", "validation", "dev", "eval", "heldout"}
)
_NAMES: Mapping[Part, frozenset[str]] = {
    "train": _TRAINED,
    "validation": _HELDOUT,
    "public": frozenset({"public"}),
}


@dataclass(frozen=True)
class Field:
    """A labelled value of a page.

    It has its words where they are annotated, else a region, else a value to be located.

    Attributes:
        label: label as the model names it.
        words: indices among the words of the page.
        box: a region, in the unit of the page, whose words are the field's.
        value: the transcription; asked for where the model answers questions.
        category: category of the field; None: guessed from the label.
        id: id of its entity, and of the question about it; None: its number.
        phrasings: questions that ask for the value; the first one is asked, the others are
            paraphrases.
        lost: the reason why it has no words, where the source says so.
        person: whose value it is, where the source says that it is not the page's person's.
    """

    label: str
    words: tuple[int, ...] = ()
    box: Box | None = None
    value: str | None = None
    category: Category | None = None
    id: str | None = None
    phrasings: tuple[str, ...] = ()
    lost: str = ""
    person: str | None = None


class WordList(Counted[Word]):
    """The words of a page."""

    @staticmethod
    def weigh(item: Word) -> tuple[int, int]:
        """Count the letters of a word, and the word as one item."""
        return len(item.text), 1


class FieldList(Counted[Field]):
    """The fields of a page; each word that a field names counts as an item."""

    @staticmethod
    def weigh(item: Field) -> tuple[int, int]:
        """Count the letters of a field, and the field and its words as items."""
        return len(item.label) + len(item.value or ""), 1 + len(item.words)


class QuestionList(Counted[Question]):
    """The questions of a page."""

    @staticmethod
    def weigh(item: Question) -> tuple[int, int]:
        """Count the letters of a question, and the question and its answers as items."""
        return len(item.question) + sum(map(len, item.answers)), 1 + len(item.answers)


_COUNTED: Mapping[str, type[Counted[Any]]] = {
    "words": WordList,
    "fields": FieldList,
    "questions": QuestionList,
}


@dataclass
class Page:
    """One page of a source; its words, fields and questions are copied into lists that count.

    Attributes:
        name: the document's id.
        image: image of the page; None where the source has no image of it.
        words: words in the order of the source; boxes in the unit of the page.
        unit: unit of all boxes; None: recognised from those of the whole source.
        shape: width and height of the page that the boxes were drawn on, when the source says so,
            in any unit.
        fields: labelled values.
        links: pairs of ids of fields, the parent first.
        questions: questions with their answers.
        label: the page's class.
        output: the text that a parsing model writes for the page.
        provider: the company that issued the page.
        person: whom the page is about, by the source's own name or number.
        part: part of the source's own division.
        source: the document it is a page of.
        tags: a tag for each word, for models of intents and slots; its fields then are slots.
        intent: intent of an utterance.
        paragraphs: paragraphs, as `Document.paragraphs`.
        unanswered: questions without an answer, which were left out.
        unusable: why no document is made of it, for the report.
        path: path of its file within the source, where it has one of its own.
        place: place in the source, for messages: a file with a line or number, and no value; else
            its number.
        document: document as somebody described it; its words are those of the page.
        notes: counts of choices that reading it took, for the report.
    """

    name: str
    image: Path | None = None
    words: list[Word] = field(default_factory=WordList)
    unit: Unit | None = None
    shape: tuple[float, float] | None = None
    fields: list[Field] = field(default_factory=FieldList)
    links: tuple[tuple[str, str], ...] = ()
    questions: list[Question] = field(default_factory=QuestionList)
    label: str | None = None
    output: str | None = None
    provider: str | None = None
    person: str | None = None
    part: Part | None = None
    source: str | None = None
    tags: tuple[str, ...] | None = None
    intent: str | None = None
    paragraphs: tuple[int, ...] = ()
    unanswered: int = 0
    unusable: str = ""
    path: str = ""
    place: str = ""
    document: Document | None = None
    notes: Counter[str] = field(default_factory=Counter)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; count a list of words, fields or questions against the budget."""
        counted = _COUNTED.get(name)
        if counted is not None and not isinstance(value, counted):
            value = counted(value)
        object.__setattr__(self, name, value)

    @property
    def boxes(self) -> Iterator[Box]:
        """Yield the boxes of all words and fields."""
        items: Iterable[Word | Field] = (*self.words, *self.fields)
        return (item.box for item in items if item.box is not None)

    def ask(self, question: str, answers: Iterable[str], identifier: str | None = None) -> None:
        """Add a question to the page; without an answer only count it.

        Texts lose control characters, answers blank and repeated ones; without any it is counted.

        Raises:
            ManifestError: the question is blank.
        """
        name = f"q{len(self.questions) + 1}" if identifier is None else identifier
        text = clean(question)
        accepted = tuple(dict.fromkeys(filter(None, map(clean, answers))))
        if not text:
            raise ManifestError(f"question {len(self.questions) + 1}: the question is empty")
        if accepted:
            self.questions.append(Question(name, text, accepted))
        else:
            self.unanswered += 1

    def mark(self, text: str, spans: Sequence[Span]) -> Iterator[tuple[int, ...]]:
        """Set the words of a text as the page's; yield the word indices of each span in turn.

        Words are divided where a span begins or ends. Spans may overlap, so that all of their words
        together can be far more than those of the text.

        Raises:
            ManifestError: a span is outside the text, or empty.
        """
        for number, (start, end) in enumerate(spans):
            if not 0 <= start < end <= len(text):
                raise ManifestError(
                    f"span {number}: it is not within a text of {len(text)} characters"
                )
        places = list(split_words(text, spans))
        self.words = [Word(replace_controls(text[start:end])) for start, end in places]
        # No word goes on across the end of a span: those that begin in it are all of it.
        return (_words_within(places, span) for span in spans)


def _words_within(places: Sequence[Span], span: Span) -> tuple[int, ...]:
    """Return the indices of the words whose first letter is in a span."""
    first = bisect_left(places, (span[0], 0))
    end = bisect_left(places, (span[1], 0))
    return tuple(range(first, end))


def replace_controls(text: str) -> str:
    """Replace control characters and lone surrogates by spaces."""
    return _CONTROL.sub(" ", text)


def keep_lines(text: str) -> str:
    """Replace control characters, but for line ends and tabs, which a manifest takes."""
    return re.sub(r"[^\r\n\t]+", lambda run: replace_controls(run[0]), text)


def clean(text: str) -> str:
    """Remove control characters, and the spaces around a text."""
    return replace_controls(text).strip()


def text_words(text: str) -> list[Word]:
    """Return the words of a text, each with the white space behind it."""
    words: list[Word] = []
    for word, space in re.findall(r"(\S+)(\s*)", keep_lines(text)):
        after = re.sub(r"[^ \t\r\n]", " ", space)[:99]
        words.append(Word(word, after=after or " "))
    return words


def split_words(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the place of every word.

    Words stand between white space, and are divided where a span begins or ends.
    """
    edges = sorted({*chain.from_iterable(spans)})
    for token in re.finditer(r"\S+", replace_controls(text)):
        start, end = token.span()
        inside = edges[bisect_right(edges, start) : bisect_left(edges, end)]
        yield from pairwise([start, *inside, end])


def line_words(text: str, box: Box | None) -> Iterator[Word]:
    """Yield the words of a line, its box divided by the number of characters."""
    for match in re.finditer(r"\S+", text):
        if box is None:
            yield Word(match[0])
        else:
            step = (box[2] - box[0]) / len(text)
            yield Word(
                match[0],
                (box[0] + match.start() * step, box[1], box[0] + match.end() * step, box[3]),
            )


def block_words(text: str, box: Box, shape: tuple[float, float]) -> Iterator[Word]:
    """Yield the words of a text that has one box: parts of it where it is that of a line.

    Where the text has several lines, or its box is too high for one, each word gets the whole box.

    Args:
        text: the text.
        box: its box, in shares of the page.
        shape: width and height of the page, in any unit.
    """
    width = (box[2] - box[0]) * shape[0]
    height = (box[3] - box[1]) * shape[1]
    line = text.strip()
    if "\n" not in line and width > height * len(line) / LOWEST_LETTERS:
        yield from line_words(clean(line), box)
    else:
        for word in clean(line).split():
            yield Word(word, box)


def ids_of(paths: Iterable[str]) -> Mapping[str, str]:
    """Return an id for each path: the file's name, with its folders where two share one.

    An id is the name without its ending; where two share one it has its folders ("train-0001"),
    then its ending too.
    """
    files = sorted(map(PurePosixPath, set(paths)))
    names: dict[str, str] = {}
    for depth, with_ending in ((-1, False), (0, False), (0, True)):
        for file in files:
            form = file if with_ending else file.with_suffix("")
            names[file.as_posix()] = clean("-".join(form.parts[depth:]))
        if len(set(names.values())) == len(files):
            break
    return names


def part_named(name: str) -> Part | None:
    """Return the part that a name speaks of.

    Such are "train", "training_data", "test-00000-of-00001", "public".
    """
    words = {*re.split(r"[^a-z]+", name.lower())}
    return next((part for part, names in _NAMES.items() if words & names), None)


def part_of(path: str) -> Part | None:
    """Return the part (train, test, ...) that a path in the source names; None without.

    A word in a folder's name says it, else one in the file's.
    """
    names = (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem)
    return next((part for name in names if (part := part_named(name))), None)


# Boxes


def bounds(points: Sequence[Sequence[float]]) -> Box:
    """Return the upright box around points (x, y)."""
    xs = [float(point[0]) for point in points]
    ys = [float(point[1]) for point in points]
    return (min(xs), min(ys), max(xs), max(ys))


def in_pixels(box: Box, unit: Unit, size: Size, *, strict: bool = True) -> Box:
    """Convert a box to pixels of a page of this size, cut at its edges.

    Args:
        box: the box as x0, y0, x1, y1.
        unit: unit of the box.
        size: size of the page.
        strict: whether a box that is no box of this page is refused; else its corners are put in
            order.

    Raises:
        ManifestError: its corners are out of order (x, y, width and height in place of them), or it
            is off the page.
    """
    x0, y0, x1, y1 = box
    if strict and not (x0 <= x1 and y0 <= y1):  # written so that NaN fails
        raise ManifestError("a box's corners are out of order: x0, y0, x1, y1 are expected")
    across, down = {
        "pixels": (1.0, 1.0),
        "thousandths": (size[0] / GRID, size[1] / GRID),
        "shares": size,
    }[unit]
    right = x1 * across
    bottom = y1 * down
    most_right = size[0] * (1 + MAX_STRETCH) + SLACK
    most_bottom = size[1] * (1 + MAX_STRETCH) + SLACK
    if strict and (right > most_right or bottom > most_bottom):
        raise ManifestError(f"a box is outside the page of {size[0]} x {size[1]} pixels")
    return clip((x0 * across, y0 * down, right, bottom), size)


def clip(box: Sequence[float], size: Size) -> Box:
    """Cut a box at the edges of the page.

    Its corners are put in order, and rounded to a tenth of a pixel.
    """
    xs = sorted(min(max(x, 0.0), float(size[0])) for x in (box[0], box[2]))
    ys = sorted(min(max(y, 0.0), float(size[1])) for y in (box[1], box[3]))
    return (round(xs[0], 1), round(ys[0], 1), round(xs[1], 1), round(ys[1], 1))


def words_inside(words: Sequence[Word], region: Box) -> list[int]:
    """List the indices of the words whose boxes have their middle inside a region."""
    spend("comparisons", len(words))
    return [index for index, word in enumerate(words) if word.box and _is_inside(word.box, region)]


def _is_inside(box: Box, region: Box) -> bool:
    """Test whether the middle of a word's box is inside a region."""
    x = (box[0] + box[2]) / 2
    y = (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]


def shares_of(box: Sequence[float], shape: tuple[float, float]) -> Box:
    """Convert a box x0, y0, x1, y1 to shares of a page.

    Raises:
        ManifestError: the page has no extent.
    """
    check_extent(shape)
    return (box[0] / shape[0], box[1] / shape[1], box[2] / shape[0], box[3] / shape[1])


def check_extent(shape: tuple[float, float], size: Size | None = None) -> None:
    """Refuse a shape without extent, or one that differs from the image's proportions.

    Raises:
        ManifestError: width or height is not above 0, or the shapes differ by more than
            `MAX_STRETCH`.
    """
    if not (shape[0] > 0 and shape[1] > 0):
        raise ManifestError("the page that the words were read from has no width or height")
    if size is not None and not abs(size[0] / shape[0] / (size[1] / shape[1]) - 1) <= MAX_STRETCH:
        raise ManifestError(
            f"the words were read from a page of {shape[0]:g} x {shape[1]:g}, but the image has "
            f"{size[0]} x {size[1]} pixels"
        )
