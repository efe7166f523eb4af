"""DocVQA (Mathew et al. 2021), task 1.

Files of questions, a folder of page images, a folder of OCR results.

Both layouts that it is handed out in: flat (`train_v1.0_withQT.json`, `spdocvqa_images/`,
`spdocvqa_ocr/`) and by part (`train/train_v1.0.json`, `train/documents/`, `train/ocr_results/`).
The test part has no answers and is not read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.errors import ManifestError, UsageError
from audit.importers.faults import name_of
from audit.importers.files import IMAGES, read_json
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part, clean
from audit.importers.source import Source
from audit.importers.words import fill

PARTS: Mapping[str, Part] = {"train": "train", "val": "validation"}
"""By folder or beginning of a file's name, the part."""
IMAGE_FOLDERS = (
    ["spdocvqa_images"],
    ["documents"],
    ["images"],
    ["train/documents", "val/documents"],
)
OCR_FOLDERS = (["spdocvqa_ocr"], ["ocr_results"], ["ocr"], ["train/ocr_results", "val/ocr_results"])
LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)
"""Other keys of a record are passed over, and no value is quoted."""
Answers = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]
"""One answer or several, as a source gives them."""


@strict_dataclass(frozen=True, config=LOOSE)
class _Record:
    question: str
    image: str
    answers: Answers
    identifier: int | str = Field(validation_alias="questionId")
    document: str | None = Field(default=None, validation_alias="ucsf_document_id")


@strict_dataclass(frozen=True, config=LOOSE)
class _File:
    data: tuple[_Record, ...]


_file_type = TypeAdapter(_File)


class DocVQA(Importer):
    """One document a page, named as its image, with its questions.

    Without a folder of OCR results, pages have no words. Pages of one source document stay in one
    split, as equal images do. DocVQA names no providers. Questions have no category: its question
    types say the position of an answer, not its kind.
    """

    name = "docvqa"
    description = "train*.json, val*.json, images; OCR if there is any"
    tasks = ("question-answering",)
    providers = recognises = False
    marks = tuple((name, '"questionId":') for name in ("train*.json", "val*.json"))

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of DocVQA as it is published."""
        files = _files_of_questions(source)
        images = source.files_by_stem(IMAGES, *IMAGE_FOLDERS)
        has_ocr = any((source.root / folder).is_dir() for folder in chain(*OCR_FOLDERS))
        ocr = source.files_by_stem((".json",), *OCR_FOLDERS) if has_ocr else {}
        pages = QuestionPages(source)
        for path, part in files.items():
            with source.problems.catch():
                for number, record in enumerate(read_json(path, _file_type).data):
                    place = f"{name_of(path)} data[{number}]"
                    page = pages.find(
                        place, PurePosixPath(record.image).stem, part, record.document
                    )
                    if page is not None:
                        with source.problems.catch(f"{place}:"):
                            ask(page, str(record.identifier), record.question, record.answers)
        kinds = {"image": images}
        if has_ocr:
            kinds["OCR result"] = ocr
        yield from pages.filled(kinds, lambda page: fill(page, ocr[page.name]) if has_ocr else None)


def _files_of_questions(source: Source) -> dict[Path, Part]:
    """Return the part of each file of questions in the source, by path.

    The one with question types where both versions are there.
    """
    parts: dict[Path, Part] = {}
    for name, part in PARTS.items():
        files: list[Path] = []
        for folder in ("", "spdocvqa_qas", name):
            files += (source.path / folder).glob(f"{name}*.json")
        chosen = [path for path in files if "withqt" in path.name.lower()] or files
        relative = [path.relative_to(source.path) for path in chosen]
        if len(chosen) > 1:
            names = ", ".join(sorted(map(str, relative)))
            raise UsageError(f"several files of questions: {names}", "leave one of them")
        parts |= {source.at(path.as_posix()): part for path in relative}
    if not parts:
        raise UsageError(
            f"{source.path} holds neither train*.json nor val*.json",
            "give the folder that holds them",
        )
    return parts


class QuestionPages:
    """The pages of a source, by name.

    Officially, a page of the training part takes no question of another part.
    """

    def __init__(self, source: Source) -> None:
        """Start with no pages; notes and problems go to the source."""
        self._source = source
        self._pages: dict[str, Page] = {}

    def find(
        self, place: str, name: str, part: Part, document: str | None, provider: str | None = None
    ) -> Page | None:
        """Return the page of this name, made at first use; None for one of another part.

        None where a question is left out.
        """
        if name not in self._pages:
            self._pages[name] = Page(
                name, part=part, source=document, provider=provider, place=place
            )
        page = self._pages[name]
        if page.part != part and self._source.official:
            self._source.notes[
                "questions of another part on pages of the training part, left out"
            ] += 1
            return None
        return page

    def filled(
        self, files: Mapping[str, Mapping[str, Path]], fill: Callable[[Page], None]
    ) -> Iterator[Page]:
        """Yield the pages, each with its image and filled by `fill`.

        Args:
            files: the files of each page, by name: "image", and other kinds.
            fill: adds the words.
        """
        for name, page in sorted(self._pages.items()):
            missing = [kind for kind, paths in files.items() if name not in paths]
            self._source.problems.add(
                f"{page.place}:", (f"the {kind} of its page is missing" for kind in missing)
            )
            if not missing:
                page.image = files["image"][name]
                with self._source.problems.catch(f"{page.place}: OCR:"):
                    fill(page)
                    yield page


def ask(page: Page, identifier: str | None, question: str, answers: Iterable[str]) -> None:
    """Add a benchmark's question to a page; refuse a question without an answer.

    Raises:
        ManifestError: the question is blank, or no answer is left.
    """
    accepted = [*filter(None, map(clean, answers))]
    if clean(question) and not accepted:
        raise ManifestError("no answer")
    page.ask(question, accepted, identifier)
