"""Pages that a benchmark asks questions about, filled question by question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from audit.errors import ManifestError, UsageError
from audit.importers.pages import Page, Part, clean
from audit.importers.source import Source

Answers = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
"""One answer or several, as a source gives them."""
CROSSING = "questions of another part on pages of the training part, left out"


class QuestionPages:
    """The pages of a source, by name. Officially, a page of the training part takes no question of another part."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pages: dict[str, Page] = {}

    def find(self, name: str, part: Part, document: str | None, provider: str | None = None) -> Page | None:
        """Find the page of this name, new at first; None where its question is left out."""
        page = self._pages.setdefault(name, Page(name, part=part, source=document, provider=provider))
        if page.part != part and self._source.official:
            self._source.notes[CROSSING] += 1
            return None
        return page

    def filled(self, files: Mapping[str, Mapping[str, Path]], fill: Callable[[Page], None]) -> Iterator[Page]:
        """Yield the pages with their images.

        Args:
            files: the files of each page, by name: "image", and other kinds.
            fill: adds the words.
        """
        for name, page in sorted(self._pages.items()):
            missing = [kind for kind, paths in files.items() if name not in paths]
            self._source.problems.add("", (f"{name}: the {kind} is missing" for kind in missing))
            if not missing:
                page.image = files["image"][name]
                with self._source.problems.catch(f"{name}: OCR:"):
                    fill(page)
                    yield page


def ask(page: Page, identifier: str | None, question: str, answers: Iterable[str]) -> None:
    """Add a question of a benchmark, which has an answer.

    Raises:
        ManifestError: the question is blank, or no answer is left.
    """
    name = f"q{len(page.questions) + 1}" if identifier is None else identifier
    accepted = [*filter(None, map(clean, answers))]
    if clean(question) and not accepted:
        raise ManifestError(f"question {name}: no answer")
    page.ask(question, accepted, name)


def files_by_stem(source: Source, layouts: Sequence[Sequence[str]], suffixes: Sequence[str]) -> dict[str, Path]:
    """List the files with one of these suffixes in the first layout that a source has, by stem, sorted.

    Args:
        source: the folder.
        layouts: each the folders that hold the files in it; of a layout, those that exist are read.
        suffixes: in lower case, with their dots.

    Raises:
        UsageError: there is no such folder, or nothing in it.
        ManifestError: two files share a stem, or one leads out of the source through a symbolic link.
    """
    for layout in layouts:
        found: dict[str, Path] = {}
        problems = []
        for folder in layout:
            place = source.root / folder
            for path in sorted(place.iterdir()) if place.is_dir() else ():
                if path.suffix.lower() in suffixes:
                    if path.stem in found:
                        problems.append(f"{folder}/{path.name}: another file of this name is there")
                    found[path.stem] = source.at(f"{folder}/{path.name}")
        if problems:
            raise ManifestError(problems)
        if found:
            return found
    names = ", ".join(f"{folder}/" for layout in layouts for folder in layout)
    raise UsageError(
        f"{source.path} has no folder {names} with a file of type {', '.join(suffixes)}",
        "give the folder that holds it; pages in other folders: docaudit import forms, see --help",
    )
