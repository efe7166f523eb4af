"""DocVQA (Mathew et al. 2021), task 1: files of questions, a folder of page images, a folder of OCR results.

Both layouts that it is handed out in: flat (`train_v1.0_withQT.json`, `spdocvqa_images/`, `spdocvqa_ocr/`) and by part
(`train/train_v1.0.json`, `train/documents/`, `train/ocr_results/`). The test part has no answers and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.errors import UsageError
from audit.extensions.papers.importers.questions import Answers, QuestionPages, ask, files_by_stem
from audit.importers.files import IMAGES, read_json
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part
from audit.importers.source import Source
from audit.importers.words import fill

FOLDERS: Mapping[Part, str] = {"train": "train", "validation": "val"}
IMAGE_FOLDERS = (("spdocvqa_images",), ("documents",), ("images",), ("train/documents", "val/documents"))
OCR_FOLDERS = (("spdocvqa_ocr",), ("ocr_results",), ("ocr",), ("train/ocr_results", "val/ocr_results"))
_LOOSE = ConfigDict(hide_input_in_errors=True)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Record:
    question: str
    image: str
    answers: Answers
    identifier: int | str = Field(validation_alias="questionId")
    document: str | None = Field(default=None, validation_alias="ucsf_document_id")


@strict_dataclass(frozen=True, config=_LOOSE)
class _File:
    data: tuple[_Record, ...]


_file_type = TypeAdapter(_File)


class DocVQA(Importer):
    """One document a page, named as its image, with its questions.

    Pages of one source document stay in one split, as equal images do. DocVQA names no providers. Questions have no
    category: its question types say the position of an answer, not its kind.
    """

    name = "docvqa"
    description = "train*.json, val*.json, images, OCR"
    tasks = ("question-answering",)
    providers = recognises = False
    marks = tuple((name, '"questionId":') for name in ("train*.json", "val*.json"))

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        files = _files(source)
        images = files_by_stem(source, IMAGE_FOLDERS, IMAGES)
        ocr = files_by_stem(source, OCR_FOLDERS, (".json",))
        pages = QuestionPages(source)
        for part, path in files.items():
            with source.problems.catch():
                for record in read_json(path, _file_type).data:
                    page = pages.find(PurePosixPath(record.image).stem, part, record.document)
                    if page is not None:
                        with source.problems.catch(path.name):
                            ask(page, str(record.identifier), record.question, record.answers)
        yield from pages.filled({"image": images, "OCR result": ocr}, lambda page: fill(page, ocr[page.name]))


def _files(source: Source) -> dict[Part, Path]:
    """The file of questions of each part; the one with question types where both versions are there."""
    found: dict[Part, Path] = {}
    src = source.path
    for part, name in FOLDERS.items():
        folders = [folder for folder in ("", "spdocvqa_qas", name) if (src / folder).is_dir()]
        files = [path for folder in folders for path in sorted((src / folder).glob(f"{name}*.json"))]
        chosen = [path for path in files if "withqt" in path.name.lower()] or files
        if len(chosen) > 1:
            names = ", ".join(str(path.relative_to(src)) for path in chosen)
            raise UsageError(f"several files of questions: {names}", "leave one of them")
        if chosen:
            found[part] = source.at(chosen[0].relative_to(src).as_posix())
    if not found:
        raise UsageError(f"{src} holds neither train*.json nor val*.json", "give the folder that holds them")
    return found
