"""PFL-DocVQA (Tito et al. 2024): records of questions with their page's OCR and provider, and a folder of page images.

The data set is handed out as `.npy` files of pickled records. Reading a pickle runs whatever code is in it, so docaudit
reads the same records as JSON only: a list (`blue_train.json`) or one record a line (`blue_train.jsonl`), in the folder
itself or in `imdb/`, `imdbs/` or `annotations/`. A record without a question, such as the header each file begins with,
is passed over. Names of keys are those of the records; where versions differ, each is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Box, Question, Word
from audit.corpus.importers.conversion import (
    clipped,
    form_problems,
    gathered,
    page_size,
    printing,
    raise_listed,
    read_text,
)
from audit.corpus.importers.interface import Collected, ImportRequest, Rule, Source
from audit.corpus.importers.pages import IMAGES, Answers, Page, asked, collect_pages
from audit.corpus.importers.splits import OfficialPart
from audit.corpus.paths import inside
from audit.errors import ManifestError, UsageError

RECORD_FOLDERS = ("", "imdb", "imdbs", "annotations")
IMAGE_FOLDERS = (("images",), ("imgs",), ("documents",))
NO_RECORDS = ("data_points", "provider_docs")  # parts of the names of files that hold indices of records
MAX_OVER = 0.01  # how far a box may stand over the page, as a share of it; ours: what rounding in OCR output does

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


@dataclass
class _Asked:
    """What the records say about one page; all of them repeat its words and its provider."""

    part: OfficialPart
    tokens: tuple[str, ...]
    boxes: tuple[Box, ...]
    provider: str | None
    source: str | None
    questions: list[Question] = field(default_factory=list)


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

    def collect(self, src: Path, request: ImportRequest) -> Collected:
        """See `Source.collect`."""
        files = _files(src)
        parts = {path: _part(path, request.rule) for path in files}
        images = gathered(src, IMAGE_FOLDERS, IMAGES, "images")
        problems: list[str] = []
        questions: dict[str, _Asked] = {}
        crossing = 0
        for path, part in parts.items():
            for place, record in _records(path, problems):
                new = _Asked(part, record.tokens, record.boxes, record.provider, record.source)
                page = questions.setdefault(_stem(record.image_name), new)
                if page.part != part and request.rule == "official":
                    crossing += 1
                else:
                    problems += [f"{place} {problem}" for problem in _taken(page, record)]
        pages = dict(_pages(questions, images, problems))
        raise_listed(problems)
        note = "questions of another part on pages of the training part, left out"
        return collect_pages(pages, request, {note: crossing} if crossing else {})


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


def _records(path: Path, problems: list[str]) -> Iterator[tuple[str, _Record]]:
    """The records of a file that have a question, with their places; what is wrong is added to `problems`."""
    for place, value in _values(path, problems):
        if isinstance(value, dict) and "question" not in value and "answers" not in value and "answer" not in value:
            continue
        try:
            yield place, _record_type.validate_python(value)
        except ValidationError as error:
            problems += [f"{place} {problem}" for problem in form_problems(error)]


def _values(path: Path, problems: list[str]) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".jsonl":  # a line at a time: each record repeats the words of its page
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield from _parsed(line, f"{path.name}:{number}", problems)
        return
    for _, content in _parsed(read_text(path), path.name, problems):
        values = content.get("data") if isinstance(content, dict) else content
        if isinstance(values, list):
            yield from ((f"{path.name}[{number}]", value) for number, value in enumerate(values))
        else:
            problems.append(f"{path.name} is not a list of records")


def _parsed(content: str | bytes, place: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    try:
        value = json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        problems.append(f"{place} is not JSON")
        return
    yield place, value


def _taken(page: _Asked, record: _Record) -> Iterator[str]:
    """Adds the record's question to its page, and gives what is wrong with it."""
    if len(record.tokens) != len(record.boxes):
        yield f"{len(record.tokens)} OCR tokens, but {len(record.boxes)} boxes"
    if any(not -MAX_OVER <= corner <= 1 + MAX_OVER for box in record.boxes for corner in box):
        yield "ocr_normalized_boxes: not shares of the page between 0 and 1"
    if (record.tokens, record.boxes) != (page.tokens, page.boxes):
        yield "the page's words are others than in an earlier record"
    if record.provider != page.provider:
        yield "the page's provider is another than in an earlier record"
    identifier = record.identifier if record.identifier is not None else f"q{len(page.questions) + 1}"
    try:
        page.questions.append(asked(identifier, record.question, record.answers))
    except ManifestError as error:
        yield from error.problems


def _pages(
    questions: Mapping[str, _Asked], images: Mapping[str, Path], problems: list[str]
) -> Iterator[tuple[str, Page]]:
    for name, page in sorted(questions.items()):
        if name not in images:
            problems.append(f"{name}: the image is missing")
            continue
        try:
            size = page_size(images[name])
        except ManifestError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
            continue
        provider = printing(page.provider or "").strip() or None
        words = tuple(_words(page, size))
        yield name, Page(images[name], size, words, tuple(page.questions), page.part, page.source, provider)


def _words(page: _Asked, size: tuple[int, int]) -> Iterator[Word]:
    width, height = size
    for token, (x0, y0, x1, y1) in zip(page.tokens, page.boxes, strict=False):  # unequal ones are a problem already
        text = printing(token).strip()
        if text:
            yield Word(text, clipped((x0 * width, y0 * height, x1 * width, y1 * height), size))


def _stem(image_name: str) -> str:
    """The name of a page: that of its image file, which some records give with its suffix or folder."""
    path = PurePosixPath(image_name)
    return path.stem if path.suffix.lower() in IMAGES else path.name
