"""A page of a source before it is a document: words, fields, questions, each as its format has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from audit.corpus.documents import Box, Category
from audit.errors import ManifestError
from audit.importers.gathering.boxes import Unit
from audit.importers.source_files import replace_controls
from audit.importers.splits import OfficialPart


@dataclass(frozen=True)
class DraftWord:
    """A word and its box (x0, y0, x1, y1), in the unit of its page; None where the format has none."""

    text: str
    box: Box | None = None


@dataclass(frozen=True)
class DraftField:
    """A labelled value of a page: its words where they are annotated, else a region, else a value to be located.

    Attributes:
        label: as the model names it.
        words: indices among the words of the page.
        box: a region, in the unit of the page, whose words are the field's.
        value: the transcription; asked for where the model answers questions.
        category: None: guessed from the label.
    """

    label: str
    words: tuple[int, ...] = ()
    box: Box | None = None
    value: str | None = None
    category: Category | None = None


@dataclass(frozen=True)
class DraftQuestion:
    """A question and its accepted answers; `identifier` None: its number on the page."""

    question: str
    answers: tuple[str, ...]
    identifier: str | None = None


@dataclass
class DraftPage:
    """One page of a source.

    Attributes:
        name: the document's id.
        image: None where the source has no image of it.
        words: in the order of the source.
        unit: of all boxes; None: recognised from those of the whole source.
        shape: width and height of the page that the boxes were drawn on, when the source says so, in any unit.
        fields: labelled values.
        questions: with their answers.
        label: the page's class.
        output: what a parsing model writes for the page.
        provider: whom the page came from.
        part: of the source's own division.
        source: the document it is a page of.
        unanswered: questions without an answer, which were left out.
    """

    name: str
    image: Path | None = None
    words: Sequence[DraftWord] = ()
    unit: Unit | None = None
    shape: tuple[float, float] | None = None
    fields: list[DraftField] = field(default_factory=list)
    questions: list[DraftQuestion] = field(default_factory=list)
    label: str | None = None
    output: str | None = None
    provider: str | None = None
    part: OfficialPart | None = None
    source: str | None = None
    unanswered: int = 0

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
        if not accepted:
            self.unanswered += 1
            return
        self.questions.append(DraftQuestion(text, accepted, name))


def clean(text: str) -> str:
    """`text` without control characters and without spaces around it."""
    return replace_controls(text).strip()


def names_of(paths: Iterable[str]) -> Mapping[str, str]:
    """Ids for files, by path: the name without its ending, with its folders ("train-0001") where two share one.

    Args:
        paths: relative, with "/", each once.
    """
    found = sorted(set(paths))
    names = _distinct(found, lambda path: path.stem)
    if len(set(names.values())) < len(found):
        names = _distinct(found, lambda path: "-".join(path.with_suffix("").parts))
    if len(set(names.values())) < len(found):
        names = _distinct(found, lambda path: "-".join(path.parts))
    return names


def _distinct(paths: Sequence[str], name: Callable[[PurePosixPath], str]) -> dict[str, str]:
    return {path: clean(name(PurePosixPath(path))) for path in paths}
