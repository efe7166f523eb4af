"""DocVQA (Mathew et al. 2021), task 1: files of questions, a folder of page images, a folder of OCR results.

Both layouts that it is handed out in: flat (`train_v1.0_withQT.json`, `spdocvqa_images/`, `spdocvqa_ocr/`) and by part
(`train/train_v1.0.json`, `train/documents/`, `train/ocr_results/`). The test part has no answers and is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import UsageError
from audit.importers.interface import ImportRequest, Source, SourceContents
from audit.importers.ocr_json import read_words
from audit.importers.pages import IMAGES, Answers, Page, QuestionPages
from audit.importers.source_files import find_files, read_json
from audit.importers.splits import OfficialPart

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


class DocVQA(Source):
    """One document a page, named as its image, with its questions.

    Pages of one source document stay in one split, as equal images do. DocVQA names no providers. Questions have no
    category: its question types say the position of an answer, not its kind.
    """

    name = "docvqa"
    description = "train*.json, val*.json, images, OCR"
    tasks = ("question-answering",)
    divisions = frozenset({"official"})
    holds = "questions and answers"

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        files = _files(src)
        if request.rule == "official" and len(files) < len(FOLDERS):
            raise UsageError(f"{src} holds one part only; the official division needs train*.json and val*.json")
        images = find_files(src, IMAGE_FOLDERS, IMAGES, "images")
        ocr = find_files(src, OCR_FOLDERS, (".json",), "OCR results")
        problems, pages = Problems(), QuestionPages(official=request.rule == "official")
        for part, path in files.items():
            with problems.catch():
                for record in read_json(path, _file_type).data:
                    page = pages.find(PurePosixPath(record.image).stem, Page(part, record.source))
                    if page is not None:
                        with problems.catch(path.name):
                            page.ask(str(record.identifier), record.question, record.answers)
        crossing = "questions of the validation part on pages of the training part, left out"
        found = {"image": images, "OCR result": ocr}
        return pages.contents(request, found, lambda name, size: read_words(ocr[name], size), crossing, problems)


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
