"""PFL-DocVQA (Tito et al. 2024): records of questions, and a folder of page images.

A record has its page's OCR and provider. The data set is handed out as `.npy` files of pickled
records. Reading a pickle runs whatever code is in it, so docaudit reads the same records as JSON
only: a list (`blue_train.json`) or one record a line (`blue_train.jsonl`), in the folder itself or
in `imdb/`, `imdbs/` or `annotations/`. A record without a question, such as the header each file
begins with, is passed over. Names of keys are those of the records; where versions differ, each is
accepted.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Box, Word
from audit.errors import UsageError
from audit.importers.faults import name_of, problems_of_form
from audit.importers.files import IMAGES, lines_of, open_source, parse_json
from audit.importers.formats.docvqa import Answers, QuestionPages, ask
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part, clean
from audit.importers.source import Source

RECORD_FOLDERS = ("", "imdb", "imdbs", "annotations")
IMAGE_FOLDERS = (("images",), ("imgs",), ("documents",))
NO_RECORDS = ("data_points", "provider_docs")
"""Parts of the names of files that hold indices of records."""
MAX_OVER = 0.01
"""How far a box may reach over the page, as a share of it: as rounding in OCR output does."""

_CONVERSION = (
    "if you trust its origin, write its records as JSON: python -c 'import json, numpy; "
    "[print(json.dumps(r, default=lambda a: a.tolist())) "
    'for r in numpy.load("{name}", allow_pickle=True)]'
    "' > {stem}.jsonl"
)
_LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)
_Name = Annotated[
    str | None, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)
]


@strict_dataclass(frozen=True, config=_LOOSE)
class _Record:
    question: str
    image_name: str
    answers: Answers = Field(validation_alias=AliasChoices("answers", "answer"))
    tokens: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("ocr_tokens", "words")
    )
    boxes: tuple[Box, ...] = Field(
        default=(), validation_alias=AliasChoices("ocr_normalized_boxes", "boxes")
    )
    identifier: _Name = Field(
        default=None, validation_alias=AliasChoices("question_id", "questionId")
    )
    provider: _Name = Field(
        default=None,
        validation_alias=AliasChoices("provider", "data_provider", "provider_name", "provider_id"),
    )
    document: _Name = Field(
        default=None, validation_alias=AliasChoices("docid", "doc_id", "document_id", "docId")
    )


_record_type = TypeAdapter(_Record)


class PFLDocVQA(Importer):
    """One document a page, with its questions and provider.

    Pages of one document stay in one split.

    Officially, the pages of BLUE's training files are the training part; those of its validation
    and test files, and all of RED, were not trained on (RED asks about other documents, also of
    providers that were). Divided by provider, a page may be of any part.
    """

    name = "pfl-docvqa"
    description = "records as JSON, images/"
    tasks = ("question-answering",)
    recognises = False
    marks = tuple((name, '"ocr_tokens":|"image_name":') for name in ("*.json", "*.jsonl"))

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of PFL-DocVQA as it is published."""
        files = {path: _part(path, official=source.official) for path in _files(source)}
        images = source.files_by_stem(IMAGES, *IMAGE_FOLDERS)
        pages = QuestionPages(source)
        firsts: dict[str, _Record] = {}
        for path, part in files.items():
            for line, record in _records(source, path):
                name = _page_name(record.image_name)
                first = firsts.setdefault(name, record)
                page = pages.find(
                    line, name, part, record.document, clean(record.provider or "") or None
                )
                if page is not None:
                    source.problems.add(line, _record_problems(record, first))
                    with source.problems.catch(line):
                        ask(page, record.identifier, record.question, record.answers)

        def fill(page: Page) -> None:
            """Give a page the words and boxes of its first record."""
            first = firsts[page.name]  # unequal numbers are a problem already
            page.words = [
                Word(text, box) for text, box in zip(first.tokens, first.boxes, strict=False)
            ]
            page.unit = "shares"

        yield from pages.filled({"image": images}, fill)


def _files(source: Source) -> list[Path]:
    """List the source's files of records, those for training first.

    So a page of several parts counts as trained on.

    Raises:
        UsageError: there is none, or one holds pickled records only.
    """
    records = _possible_files(source.path)
    readable = [path for path in records if path.suffix in (".json", ".jsonl")]
    converted = {path.stem for path in readable}
    pickled = [path for path in records if path.suffix == ".npy" and path.stem not in converted]
    if pickled:
        raise _refuse_pickles(source.path, pickled)
    if not readable:
        raise UsageError(
            f"{source.path} holds no records as .json or .jsonl", "give the folder that holds them"
        )
    checked = [source.at(path.relative_to(source.path).as_posix()) for path in readable]
    return sorted(checked, key=lambda path: (_part_named_in(path) != "train", path))


def _possible_files(root: Path) -> list[Path]:
    """List the files in the folders of records; indices of records are left out."""
    files: list[Path] = []
    for folder in RECORD_FOLDERS:
        if (root / folder).is_dir():
            files += [path for path in sorted((root / folder).iterdir()) if path.is_file()]
    return [path for path in files if not _is_index(path)]


def _is_index(path: Path) -> bool:
    """Test whether a file lists records instead of holding them."""
    return any(name in path.stem for name in NO_RECORDS)


def _refuse_pickles(root: Path, pickled: Sequence[Path]) -> UsageError:
    """Return the error that pickled records are not read, with how to convert them."""
    first = pickled[0]
    problems = [
        f"{path.relative_to(root)} holds pickled records: reading them would run code from it"
        for path in pickled
    ]
    hint = _CONVERSION.replace("{name}", first.name).replace("{stem}", first.stem)
    return UsageError(problems, hint)


def _part_named_in(path: Path) -> Part | None:
    """Return the part that the name of a file speaks of."""
    words = {*re.split(r"[^a-z]+", path.stem.lower())}
    if words & {"red", "val", "valid", "validation", "test"}:
        return "validation"
    return "train" if words & {"train", "client"} else None


def _part(path: Path, *, official: bool) -> Part:
    """Return the part that a file's name says; "train" without one, unless `official`.

    Raises:
        UsageError: the official division is asked for, and its name says none.
    """
    part = _part_named_in(path)
    if part is None and official:
        hint = (
            "the official division reads it from train, client, val, valid, validation, test or "
            "red in the name"
        )
        raise UsageError(f"{path.name}: the name does not say which part its records are of", hint)
    return part or "train"  # a draw at random does not ask


def _records(source: Source, path: Path) -> Iterator[tuple[str, _Record]]:
    """Yield (line, record) for the records of a file that have a question.

    Faulty ones are problems of the source.
    """
    with source.problems.catch():
        for line, value in _json_values(source, path):
            if not isinstance(value, dict) or not {"question", "answers", "answer"}.isdisjoint(
                value
            ):
                try:
                    yield line, _record_type.validate_python(value)
                except ValidationError as error:
                    source.problems.add(line, problems_of_form(error))


def _json_values(source: Source, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (line, JSON value) for each value of a file."""
    if path.suffix != ".jsonl":
        yield from source.records(path.relative_to(source.root.resolve()).as_posix())
        return
    with open_source(path) as stream:  # a line at a time: each record repeats the words of its page
        for number, content in enumerate(lines_of(stream), start=1):
            if content.strip():
                line = f"{name_of(path)}:{number}"
                with source.problems.catch():
                    yield line, parse_json(content, f"{line} is not JSON")


def _record_problems(record: _Record, first: _Record) -> Iterator[str]:
    """Yield the problems of a record's page, alone and against the page's first record."""
    if len(record.tokens) != len(record.boxes):
        yield f"{len(record.tokens)} OCR tokens, but {len(record.boxes)} boxes"
    corners = chain(*record.boxes)
    if any(not -MAX_OVER <= corner <= 1 + MAX_OVER for corner in corners):
        yield "ocr_normalized_boxes: not shares of the page between 0 and 1"
    if (record.tokens, record.boxes) != (first.tokens, first.boxes):
        yield "the page's words differ from those of an earlier record"
    if record.provider != first.provider:
        yield "the page's provider differs from that of an earlier record"


def _page_name(image_name: str) -> str:
    """Return a page's name without the suffix or folder that some records give with it."""
    path = PurePosixPath(image_name)
    return path.stem if path.suffix.lower() in IMAGES else path.name
