"""SROIE (ICDAR 2019, task 3): `img/NNN.jpg`, `box/NNN.csv` (one text line a row), `key/NNN.json` (four values)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from audit.corpus.documents import Category, Document, Entity, Question, Task, TaskKind, Word
from audit.corpus.folding import fold
from audit.corpus.problems import Problems
from audit.errors import ManifestError
from audit.importers.interface import ImportRequest, MakeDocument, Source, SourceContents
from audit.importers.locating import Location, NotLocated, locate
from audit.importers.receipt_questions import question_of
from audit.importers.report import FieldTally
from audit.importers.source_files import clip, page_size, parse_json, read_text, replace_controls, source_files

FIELDS: Mapping[str, Category] = {
    "company": "organization",
    "date": "datetime",
    "address": "location",
    "total": "amount",
}
TASKS: dict[TaskKind, Task] = {
    "mlm": Task("mlm"),
    "token-classification": Task(
        "token-classification", ("O", *(f"{prefix}-{name.upper()}" for name in FIELDS for prefix in "BI"))
    ),
    "spade-extraction": Task("spade-extraction", ("O", *(name.upper() for name in FIELDS))),
    "question-answering": Task("question-answering"),
}
_IMAGES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class _Receipt:
    """One receipt of the source: its image, its words, and its values by key (those that are there and not empty)."""

    image: Path
    size: tuple[int, int]
    words: tuple[Word, ...]
    values: Mapping[str, str]


class SROIE(Source):
    """One document a receipt, its id the name of its files; the company is the provider.

    For question-answering every value of a receipt, found on the page or not, becomes a question (`asking`).
    """

    name = "sroie"
    description = "img/, box/, key/"
    tasks = tuple(TASKS)
    divisions = frozenset({"by-provider"})
    lacks = "neither labels nor links"

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        receipts = _receipts(src)
        companies = {name: receipt.values.get("company") for name, receipt in receipts.items()}
        spellings = _spellings(company for company in companies.values() if company is not None)
        fields = FieldTally(key.upper() for key in FIELDS)
        documents: dict[str, MakeDocument] = {}
        for name, receipt in receipts.items():
            located = _locate_fields(receipt)
            for key, found in located.items():
                if isinstance(found, Location):
                    fields.locate(key.upper(), found.rule, name, found.score)
                else:
                    fields.miss(name, key.upper(), found.reason)
            company = companies[name]
            documents[name] = partial(
                Document,
                image=f"images/{receipt.image.name}",
                size=receipt.size,
                provider=None if company is None else spellings[fold(company)],
                words=receipt.words,
                entities=tuple(
                    Entity(id=key, label=key.upper(), category=FIELDS[key], words=found.words)
                    for key, found in located.items()
                    if isinstance(found, Location)
                ),
                questions=tuple(_questions(name, receipt, located, request.seed))
                if request.task == "question-answering"
                else (),
            )
        images = {name: receipt.image for name, receipt in receipts.items()}
        return SourceContents(TASKS[request.task], documents, fields, images, providers=companies)


def _receipts(src: Path) -> dict[str, _Receipt]:
    images = source_files(src, "img", _IMAGES)
    boxes, keys = source_files(src, "box", (".csv", ".txt")), source_files(src, "key", (".json", ".txt"))
    problems, receipts = Problems(), dict[str, _Receipt]()
    for name in sorted(images.keys() & boxes.keys() & keys.keys()):
        with problems.catch(f"{name}:"):
            size = page_size(images[name])
            receipts[name] = _Receipt(images[name], size, _words(boxes[name], size), _values(keys[name]))
    names = sorted(images.keys() | boxes.keys() | keys.keys())
    for folder, files in (("box", boxes), ("img", images), ("key", keys)):
        problems.add("", (f"{folder}/{name}: missing" for name in names if name not in files))
    problems.raise_if_any()
    return receipts


def _words(path: Path, size: tuple[int, int]) -> tuple[Word, ...]:
    """The words of a box file: a line is split at spaces and its box divided by the number of characters."""
    words: list[Word] = []
    problems: list[str] = []
    for number, row in enumerate(read_text(path).split("\n"), start=1):
        if not row.strip():
            continue
        try:
            *corners, text = row.split(",", 8)
            x1, y1, x2, y2, x3, y3, x4, y4 = (float(corner) for corner in corners)
        except ValueError:
            problems.append(f"{path.name}:{number} is not x1,y1,x2,y2,x3,y3,x4,y4,TEXT")
            continue
        left, right = min(x1, x2, x3, x4), max(x1, x2, x3, x4)
        top, bottom = min(y1, y2, y3, y4), max(y1, y2, y3, y4)
        step = (right - left) / max(len(text), 1)
        words += [
            Word(match[0], clip((left + match.start() * step, top, left + match.end() * step, bottom), size))
            for match in re.finditer(r"\S+", text)
        ]
    if problems:
        raise ManifestError(problems)
    return tuple(words)


def _values(path: Path) -> dict[str, str]:
    table = parse_json(read_text(path), f"{path.name} is not JSON")
    if not isinstance(table, dict):
        raise ManifestError(f"{path.name} is not an object with the keys {', '.join(FIELDS)}")
    wrong = [key for key in FIELDS if not isinstance(table.get(key, ""), str)]
    if wrong:
        raise ManifestError([f"{path.name} {key}: must be a text" for key in wrong])
    values = {key: replace_controls(table.get(key, "")).strip() for key in FIELDS}
    return {key: value for key, value in values.items() if value}


def _locate_fields(receipt: _Receipt) -> dict[str, Location | NotLocated]:
    """Each of the four fields: its words, or why there are none. No word serves two fields."""
    texts = [word.text for word in receipt.words]
    taken: set[int] = set()
    fields: dict[str, Location | NotLocated] = {}
    for key, category in FIELDS.items():
        value = receipt.values.get(key)
        found = NotLocated("absent") if value is None else locate(value, category, texts, taken)
        fields[key] = found
        if isinstance(found, Location):
            taken.update(found.words)
    return fields


def _spellings(companies: Iterable[str]) -> dict[str, str]:
    """One name for companies that differ in case or spacing only: the most frequent spelling, by folded name."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for company in companies:
        spellings[fold(company)][company] += 1
    return {
        folded: min(counts, key=lambda spelling: (-counts[spelling], spelling)) for folded, counts in spellings.items()
    }


def _questions(
    name: str, receipt: _Receipt, located: Mapping[str, Location | NotLocated], seed: int
) -> Iterator[Question]:
    for key, value in receipt.values.items():
        found = located[key]
        held = None
        if isinstance(found, Location):
            held = (" ".join(receipt.words[index].text for index in found.words), found.rule)
        yield question_of(name, key, FIELDS[key], value, held, seed)
