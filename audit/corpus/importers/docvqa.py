"""DocVQA (Mathew et al. 2021), task 1: files of questions, a folder of page images, a folder of OCR results.

Both layouts that it is handed out in: flat (`train_v1.0_withQT.json`, `spdocvqa_images/`, `spdocvqa_ocr/`) and by part
(`train/train_v1.0.json`, `train/documents/`, `train/ocr_results/`). The test part has no answers and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Question
from audit.corpus.importers.conversion import gathered, page_size, raise_listed, read_json
from audit.corpus.importers.interface import Collected, ImportRequest, Rule, Source
from audit.corpus.importers.ocr_json import read_words
from audit.corpus.importers.pages import IMAGES, Answers, Page, asked, collect_pages
from audit.corpus.importers.splits import OfficialPart
from audit.corpus.paths import inside
from audit.errors import ManifestError, UsageError

FOLDERS: Mapping[OfficialPart, str] = {"train": "train", "validation": "val"}
IMAGE_FOLDERS = (("spdocvqa_images",), ("documents",), ("images",), ("train/documents", "val/documents"))
OCR_FOLDERS = (("spdocvqa_ocr",), ("ocr_results",), ("ocr",), ("train/ocr_results", "val/ocr_results"))
_LOOSE = ConfigDict(hide_input_in_errors=True)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Record:
    question: str
    image: str
    answers: Answers
    identifier: int | str = Field(validation_alias="questionId")
    source: str | None = Field(default=None, validation_alias="ucsf_document_id")


@strict_dataclass(frozen=True, config=_LOOSE)
class _File:
    data: tuple[_Record, ...]


_file_type = TypeAdapter(_File)


@dataclass
class _Asked:
    """What the files of questions say about one page."""

    part: OfficialPart
    source: str | None
    questions: list[Question] = field(default_factory=list)


class DocVQA(Source):
    """One document a page, named as its image, with its questions.

    Pages of one source document stay in one split, as equal images do. DocVQA names no providers. Questions have no
    category: its question types say where an answer stands, not what it is.
    """

    name = "docvqa"
    description = "train*.json, val*.json, images, OCR"
    tasks = ("question-answering",)
    divisions = frozenset({"official"})
    holds = "questions and answers"

    def collect(self, src: Path, request: ImportRequest) -> Collected:
        """See `Source.collect`."""
        files = _files(src)
        if request.rule == "official" and len(files) < len(FOLDERS):
            raise UsageError(f"{src} holds one part only; the official division needs train*.json and val*.json")
        images = gathered(src, IMAGE_FOLDERS, IMAGES, "images")
        ocr = gathered(src, OCR_FOLDERS, (".json",), "OCR results")
        problems: list[str] = []
        questions, crossing = _questions(files, request.rule, problems)
        pages = dict(_pages(questions, images, ocr, problems))
        raise_listed(problems)
        note = "questions of the validation part on pages of the training part, left out"
        return collect_pages(pages, request, {note: crossing} if crossing else {})


def _files(src: Path) -> dict[OfficialPart, Path]:
    """The file of questions of each part; the one with question types where both versions are there."""
    found: dict[OfficialPart, Path] = {}
    for part, name in FOLDERS.items():
        folders = [folder for folder in ("", "spdocvqa_qas", name) if (src / folder).is_dir()]
        files = [path for folder in folders for path in sorted((src / folder).glob(f"{name}*.json"))]
        chosen = [path for path in files if "withqt" in path.name.lower()] or files
        if len(chosen) > 1:
            names = ", ".join(str(path.relative_to(src)) for path in chosen)
            raise UsageError(f"several files of questions: {names}", "leave one of them")
        if chosen:
            found[part] = inside(src.resolve(), chosen[0].relative_to(src).as_posix())
    if not found:
        raise UsageError(f"{src} holds neither train*.json nor val*.json", "give the folder that holds them")
    return found


def _questions(files: Mapping[OfficialPart, Path], rule: Rule, problems: list[str]) -> tuple[dict[str, _Asked], int]:
    """What is asked, by name of the page, and how many questions would be held out on a page of the training part."""
    pages: dict[str, _Asked] = {}
    crossing = 0
    for part, path in files.items():
        try:
            records: Sequence[_Record] = read_json(path, _file_type).data
        except ManifestError as error:
            problems += error.problems
            continue
        for record in records:
            name = PurePosixPath(record.image).stem
            page = pages.setdefault(name, _Asked(part, record.source))
            if page.part != part and rule == "official":
                crossing += 1
                continue
            try:
                page.questions.append(asked(str(record.identifier), record.question, record.answers))
            except ManifestError as error:
                problems += [f"{path.name} {problem}" for problem in error.problems]
    return pages, crossing


def _pages(
    questions: Mapping[str, _Asked], images: Mapping[str, Path], ocr: Mapping[str, Path], problems: list[str]
) -> Iterator[tuple[str, Page]]:
    for name, page in sorted(questions.items()):
        missing = [what for what, files in (("image", images), ("OCR result", ocr)) if name not in files]
        if missing:
            problems += [f"{name}: the {what} is missing" for what in missing]
            continue
        try:
            size = page_size(images[name])
        except ManifestError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
            continue
        try:
            words = read_words(ocr[name], size)
        except ManifestError as error:
            problems += [f"{name}: OCR: {problem}" for problem in error.problems]
            continue
        yield name, Page(images[name], size, words, tuple(page.questions), page.part, page.source)
