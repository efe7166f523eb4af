"""PFL-DocVQA (Tito et al. 2024): records of questions with their page's OCR and provider, and a folder of page images.

The data set is handed out as `.npy` files of pickled records. Reading a pickle runs whatever code is in it, so docaudit
reads the same records as JSON only: a list (`blue_train.json`) or one record a line (`blue_train.jsonl`), in the folder
itself or in `imdb/`, `imdbs/` or `annotations/`. A record without a question, such as the header each file begins with,
is passed over. Names of keys are those of the records; where versions differ, each is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Box, Word
from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import UsageError
from audit.importers.interface import ImportRequest, Rule, Source, SourceContents
from audit.importers.pages import IMAGES, Answers, Page, QuestionPages
from audit.importers.source_files import (
    clip,
    find_files,
    open_source,
    parse_json,
    read_text,
    replace_controls,
    source_problems,
)
from audit.importers.splits import OfficialPart

RECORD_FOLDERS = ("", "imdb", "imdbs", "annotations")
IMAGE_FOLDERS = (("images",), ("imgs",), ("documents",))
NO_RECORDS = ("data_points", "provider_docs")  # parts of the names of files that hold indices of records
MAX_OVER = 0.01  # how far a box may reach over the page, as a share of it; ours: what rounding in OCR output does

_CONVERSION = (
    "if you trust where it comes from, write its records as JSON: python -c 'import json, numpy; "
    '[print(json.dumps(r, default=lambda a: a.tolist())) for r in numpy.load("{name}", allow_pickle=True)]'
    "' > {stem}.jsonl"
)
_LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)
_Name = Annotated[str | None, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]


@strict_dataclass(frozen=True, config=_LOOSE)
class _Record:
    question: str
    image_name: str
    answers: Answers = Field(validation_alias=AliasChoices("answers", "answer"))
    tokens: tuple[str, ...] = Field(validation_alias=AliasChoices("ocr_tokens", "words"))
    boxes: tuple[Box, ...] = Field(validation_alias=AliasChoices("ocr_normalized_boxes", "boxes"))
    identifier: _Name = Field(default=None, validation_alias=AliasChoices("question_id", "questionId"))
    provider: _Name = Field(
        default=None, validation_alias=AliasChoices("provider", "data_provider", "provider_name", "provider_id")
    )
    source: _Name = Field(default=None, validation_alias=AliasChoices("docid", "doc_id", "document_id", "docId"))


_record_type = TypeAdapter(_Record)


class PFLDocVQA(Source):
    """One document a page, with its questions and provider; pages of one document stay in one split.

    Officially, the pages of BLUE's training files are the training part; those of its validation and test files, and
    all of RED, were not trained on (RED asks about other documents, also of providers that were). Divided by provider,
    a page may be of any part.
    """

    name = "pfl-docvqa"
    description = "records as JSON, images/"
    tasks = ("question-answering",)
    divisions = frozenset({"official", "by-provider"})
    holds = "questions and answers"

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        files = _files(src)
        parts = {path: _part(path, request.rule) for path in files}
        images = find_files(src, IMAGE_FOLDERS, IMAGES, "images")
        problems, pages = Problems(), QuestionPages(official=request.rule == "official")
        firsts: dict[str, _Record] = {}
        for path, part in parts.items():
            for line, record in _records(path, problems):
                name = _stem(record.image_name)
                first = firsts.setdefault(name, record)
                provider = replace_controls(record.provider or "").strip() or None
                page = pages.find(name, Page(part, record.source, provider))
                if page is not None:
                    problems.add(line, _contradictions(record, first))
                    with problems.catch(line):
                        page.ask(record.identifier, record.question, record.answers)
        crossing = "questions of another part on pages of the training part, left out"
        return pages.contents(
            request, {"image": images}, lambda name, size: _words(firsts[name], size), crossing, problems
        )


def _files(src: Path) -> list[Path]:
    """The files of records, training ones first, so that a page of several parts counts as trained on."""
    folders = [src / folder for folder in RECORD_FOLDERS if (src / folder).is_dir()]
    every = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    records = [path for path in every if not any(name in path.stem for name in NO_RECORDS)]
    found = [path for path in records if path.suffix in (".json", ".jsonl")]
    converted = {path.stem for path in found}
    pickled = [path for path in records if path.suffix == ".npy" and path.stem not in converted]
    if pickled:
        first = pickled[0]
        raise UsageError(
            [f"{path.relative_to(src)} holds pickled records: reading them would run code from it" for path in pickled],
            _CONVERSION.replace("{name}", first.name).replace("{stem}", first.stem),
        )
    if not found:
        raise UsageError(f"{src} holds no records as .json or .jsonl", "give the folder that holds them")
    root = src.resolve()
    checked = [inside(root, path.relative_to(src).as_posix()) for path in found]
    return sorted(checked, key=lambda path: (_named_part(path) != "train", path))


def _named_part(path: Path) -> OfficialPart | None:
    """The part that the name of a file speaks of."""
    tokens = re.split(r"[^a-z]+", path.stem.lower())
    if any(token in ("red", "val", "valid", "validation", "test") for token in tokens):
        return "validation"
    return "train" if any(token in ("train", "client") for token in tokens) else None


def _part(path: Path, rule: Rule) -> OfficialPart:
    part = _named_part(path)
    if part is None and rule == "official":
        raise UsageError(
            f"{path.name}: the name does not say which part its records are of",
            "the official division reads it from train, client, val, valid, validation, test or red in the name",
        )
    return part or "train"  # a draw at random does not ask


def _records(path: Path, problems: Problems) -> Iterator[tuple[str, _Record]]:
    """The records of a file that have a question, with their lines; faulty ones are added to `problems`."""
    for line, value in _values(path, problems):
        if isinstance(value, dict) and "question" not in value and "answers" not in value and "answer" not in value:
            continue
        try:
            yield line, _record_type.validate_python(value)
        except ValidationError as error:
            problems.add(line, source_problems(error))


def _values(path: Path, problems: Problems) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".jsonl":  # a line at a time: each record repeats the words of its page
        with problems.catch(), open_source(path) as stream:
            for number, content in enumerate(stream, start=1):
                if content.strip():
                    line = f"{path.name}:{number}"
                    with problems.catch():
                        yield line, parse_json(content, f"{line} is not JSON")
        return
    with problems.catch():
        table = parse_json(read_text(path), f"{path.name} is not JSON")
        values = table.get("data") if isinstance(table, dict) else table
        if isinstance(values, list):
            yield from ((f"{path.name}[{number}]", value) for number, value in enumerate(values))
        else:
            problems.add("", [f"{path.name} is not a list of records"])


def _contradictions(record: _Record, first: _Record) -> Iterator[str]:
    """What is wrong with a record's page, by itself and beside the page's first record."""
    if len(record.tokens) != len(record.boxes):
        yield f"{len(record.tokens)} OCR tokens, but {len(record.boxes)} boxes"
    if any(not -MAX_OVER <= corner <= 1 + MAX_OVER for box in record.boxes for corner in box):
        yield "ocr_normalized_boxes: not shares of the page between 0 and 1"
    if (record.tokens, record.boxes) != (first.tokens, first.boxes):
        yield "the page's words are others than in an earlier record"
    if record.provider != first.provider:
        yield "the page's provider is another than in an earlier record"


def _words(record: _Record, size: tuple[int, int]) -> Iterator[Word]:
    width, height = size
    for token, (x0, y0, x1, y1) in zip(record.tokens, record.boxes, strict=False):  # unequal ones are a problem already
        text = replace_controls(token).strip()
        if text:
            yield Word(text, clip((x0 * width, y0 * height, x1 * width, y1 * height), size))


def _stem(image_name: str) -> str:
    """The name of a page: that of its image file, which some records give with its suffix or folder."""
    path = PurePosixPath(image_name)
    return path.stem if path.suffix.lower() in IMAGES else path.name
