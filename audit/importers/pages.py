"""Pages of a source as its format has them: words, fields and questions, before they are documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Literal

from audit.corpus.documents import Box, Category, Question, Word
from audit.errors import ManifestError

Part = Literal["train", "validation"]
"""A part of the source's own division: trained on, or not."""
Unit = Literal["pixels", "thousandths", "shares"]
"""The unit of boxes: pixels of the image; 0 to 1000 as LayoutLM reads them; 0 to 1."""
Span = tuple[int, int]
"""The first character of a stretch of a text, and the one behind its last."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TRAINED = frozenset({"train", "training"})
_KEPT = frozenset({"test", "testing", "val", "valid", "validation", "dev", "eval", "heldout"})


@dataclass(frozen=True)
class Field:
    """A labelled value of a page: its words where they are annotated, else a region, else a value to be located.

    Attributes:
        label: as the model names it.
        words: indices among the words of the page.
        box: a region, in the unit of the page, whose words are the field's.
        value: the transcription; asked for where the model answers questions.
        category: None: guessed from the label.
        id: of its entity, and of the question about it; None: its number.
        phrasings: questions that ask for the value; the first one is asked, the others are paraphrases.
        lost: the reason why it has no words, where the source says so.
    """

    label: str
    words: tuple[int, ...] = ()
    box: Box | None = None
    value: str | None = None
    category: Category | None = None
    id: str | None = None
    phrasings: tuple[str, ...] = ()
    lost: str = ""


@dataclass
class Page:
    """One page of a source.

    Attributes:
        name: the document's id.
        image: None where the source has no image of it.
        words: in the order of the source; boxes in the unit of the page.
        unit: of all boxes; None: recognised from those of the whole source.
        shape: width and height of the page that the boxes were drawn on, when the source says so, in any unit.
        fields: labelled values.
        links: pairs of ids of fields, the parent first.
        questions: with their answers.
        label: the page's class.
        output: the text that a parsing model writes for the page.
        provider: the company that issued the page.
        part: of the source's own division.
        source: the document it is a page of.
        tags: a tag for each word, for models of intents and slots; its fields then are slots.
        intent: of an utterance.
        paragraphs: as `Document.paragraphs`.
        unanswered: questions without an answer, which were left out.
        unusable: why no document is made of it, for the report.
    """

    name: str
    image: Path | None = None
    words: Sequence[Word] = ()
    unit: Unit | None = None
    shape: tuple[float, float] | None = None
    fields: list[Field] = field(default_factory=list)
    links: tuple[tuple[str, str], ...] = ()
    questions: list[Question] = field(default_factory=list)
    label: str | None = None
    output: str | None = None
    provider: str | None = None
    part: Part | None = None
    source: str | None = None
    tags: tuple[str, ...] | None = None
    intent: str | None = None
    paragraphs: tuple[int, ...] = ()
    unanswered: int = 0
    unusable: str = ""

    def ask(self, question: str, answers: Iterable[str], identifier: str | None = None) -> None:
        """Add a question; texts lose control characters, answers blank and repeated ones; without any it is counted.

        Raises:
            ManifestError: the question is blank.
        """
        name = f"q{len(self.questions) + 1}" if identifier is None else identifier
        text = clean(question)
        accepted = tuple(dict.fromkeys(filter(None, map(clean, answers))))
        if not text:
            raise ManifestError(f"question {name}: the question is empty")
        if accepted:
            self.questions.append(Question(name, text, accepted))
        else:
            self.unanswered += 1

    def mark(self, text: str, spans: Sequence[Span]) -> list[tuple[int, ...]]:
        """Take the words of a text, divided where a span begins or ends, and give the words of each span.

        Raises:
            ManifestError: a span is outside the text, or empty.
        """
        for number, (start, end) in enumerate(spans):
            if not 0 <= start < end <= len(text):
                raise ManifestError(f"span {number}: {start} to {end} are no characters of a text of {len(text)}")
        places = list(divided_at(text, spans))
        self.words = [Word(replace_controls(text[start:end])) for start, end in places]
        return [tuple(n for n, (a, b) in enumerate(places) if start <= a and b <= end) for start, end in spans]


def replace_controls(text: str) -> str:
    """`text` with control characters and lone surrogates replaced by spaces."""
    return _CONTROL.sub(" ", text)


def clean(text: str) -> str:
    """`text` without control characters and without spaces around it."""
    return replace_controls(text).strip()


def divided_at(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the place of every word: between white space, and divided where a span begins or ends."""
    edges = sorted({edge for span in spans for edge in span})
    for token in re.finditer(r"\S+", replace_controls(text)):
        yield from pairwise([token.start(), *(e for e in edges if token.start() < e < token.end()), token.end()])


def line_words(text: str, box: Box | None) -> Iterator[Word]:
    """Yield the words of a line, its box divided by the number of characters."""
    for match in re.finditer(r"\S+", text):
        if box is None:
            yield Word(match[0])
        else:
            step = (box[2] - box[0]) / len(text)
            yield Word(match[0], (box[0] + match.start() * step, box[1], box[0] + match.end() * step, box[3]))


def bounds(points: Sequence[Sequence[float]]) -> Box:
    """The upright box around points (x, y)."""
    xs, ys = [float(point[0]) for point in points], [float(point[1]) for point in points]
    return (min(xs), min(ys), max(xs), max(ys))


def ids_of(paths: Iterable[str]) -> Mapping[str, str]:
    """Ids for files, by path: the name without its ending, with its folders ("train-0001") where two share one."""
    found = sorted(map(PurePosixPath, set(paths)))
    names: dict[PurePosixPath, str] = {}
    for depth, ending in ((-1, False), (0, False), (0, True)):
        names = {path: clean("-".join((path if ending else path.with_suffix("")).parts[depth:])) for path in found}
        if len(set(names.values())) == len(found):
            break
    return {path.as_posix(): name for path, name in names.items()}


def part_named(name: str) -> Part | None:
    """The part that a name speaks of: "train", "training_data", "test-00000-of-00001"."""
    words = {*re.split(r"[^a-z]+", name.lower())}
    if words & _TRAINED:
        return "train"
    return "validation" if words & _KEPT else None


def part_of(path: str) -> Part | None:
    """The part that a path within the source speaks of, by a word in a folder's name, else in the file's."""
    names = (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem)
    return next((part for name in names if (part := part_named(name))), None)
