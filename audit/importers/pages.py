"""Pages with questions, whatever format they came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from audit.corpus.answers import is_on_page
from audit.corpus.documents import Document, Question, Task, Word
from audit.corpus.problems import Problems
from audit.errors import ManifestError
from audit.importers.interface import ImportRequest, MakeDocument, SourceContents
from audit.importers.report import FieldTally
from audit.importers.source_files import page_size, replace_controls
from audit.importers.splits import OfficialPart

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
LABEL = "ANSWER"
ON_PAGE = "whole words"

Answers = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
"""One answer or several, as a source gives them."""
ReadWords = Callable[[str, tuple[int, int]], Iterable[Word]]
"""Gives the words of a page, by its name and the size of its image in pixels, in the order of the source's OCR."""


@dataclass
class Page:
    """One page of a source and what is asked about it.

    Attributes:
        part: of the source's own division.
        source: the document it is a page of, when the source says so.
        provider: whom the document came from.
        questions: in the order of the source.
    """

    part: OfficialPart
    source: str | None
    provider: str | None = None
    questions: list[Question] = field(default_factory=list)

    def ask(self, identifier: str | None, question: str, answers: Iterable[str]) -> None:
        """Add a question: texts without control characters, answers without blank and equal ones.

        Args:
            identifier: None: the number of the question on its page.
            question: as the source has it.
            answers: as the source has them.

        Raises:
            ManifestError: the question is blank, or no answer is left.
        """
        name = f"q{len(self.questions) + 1}" if identifier is None else identifier
        accepted = tuple(dict.fromkeys(text for answer in answers if (text := replace_controls(answer).strip())))
        text = replace_controls(question).strip()
        faults = [*([] if text else ["the question is empty"]), *([] if accepted else ["no answer"])]
        if faults:
            raise ManifestError([f"question {name}: {fault}" for fault in faults])
        self.questions.append(Question(name, text, accepted))


class QuestionPages:
    """The pages of a source, filled question by question.

    Args:
        official: a page of the training part takes no question of another part.
    """

    def __init__(self, *, official: bool) -> None:
        self.official = official
        self.pages: dict[str, Page] = {}
        self.n_crossing = 0
        """Questions of another part on pages of the training part, which were left out."""

    def find(self, name: str, new: Page) -> Page | None:
        """The page with this name, at first `new`; None where its question is left out."""
        page = self.pages.setdefault(name, new)
        if page.part != new.part and self.official:
            self.n_crossing += 1
            return None
        return page

    def contents(
        self,
        request: ImportRequest,
        files: Mapping[str, Mapping[str, Path]],
        read_words: ReadWords,
        crossing: str,
        problems: Problems,
    ) -> SourceContents:
        """Make one document a page, its id the page's name.

        Args:
            request: as for `Source.read`.
            files: what each page needs, by name: "image", and other kinds of files.
            read_words: gives the words of a page.
            crossing: label of `n_crossing` in the report.
            problems: of the source so far; with those of the pages they are raised.

        Raises:
            ManifestError: there are problems, or two questions of a page share an id.
        """
        images, documents = files["image"], dict[str, MakeDocument]()
        fields = FieldTally([LABEL], [ON_PAGE])
        repeated = Problems()
        for name, page in sorted(self.pages.items()):
            missing = [kind for kind, paths in files.items() if name not in paths]
            problems.add("", (f"{name}: the {kind} is missing" for kind in missing))
            if missing:
                continue
            with problems.catch(f"{name}:"):
                documents[name] = _document(name, page, images[name], read_words, fields)
            counts = Counter(question.id for question in page.questions)
            again = (f"{name}: question {id_} occurs {count} times" for id_, count in counts.items() if count > 1)
            repeated.add("", again)
        problems.raise_if_any()
        repeated.raise_if_any()
        return SourceContents(
            Task(request.task),
            documents,
            fields,
            images={name: images[name] for name in documents},
            sources={name: page.source for name, page in self.pages.items() if page.source is not None},
            parts={name: page.part for name, page in self.pages.items()},
            providers={name: page.provider for name, page in self.pages.items()},
            notes={crossing: self.n_crossing} if self.n_crossing else {},
        )


def _document(name: str, page: Page, image: Path, read_words: ReadWords, fields: FieldTally) -> MakeDocument:
    size = page_size(image)
    try:
        words = tuple(read_words(name, size))
    except ManifestError as error:
        raise ManifestError([f"OCR: {problem}" for problem in error.problems]) from None
    for question in page.questions:
        if is_on_page(question, words):
            fields.locate(LABEL, ON_PAGE)
        else:
            fields.miss(name, LABEL, "not found", question.id)
    return partial(
        Document,
        words=words,
        image=f"images/{image.name}",
        size=size,
        provider=page.provider,
        questions=tuple(page.questions),
    )
