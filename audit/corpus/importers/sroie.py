"""SROIE (ICDAR 2019, task 3): `img/NNN.jpg`, `box/NNN.csv` (one text line a row), `key/NNN.json` (four values)."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from audit.corpus.documents import Category, Document, Entity, Split, Task, TaskKind, Word
from audit.corpus.folding import fold
from audit.corpus.importers.conversion import (
    ImportReport,
    clipped,
    page_size,
    printing,
    raise_listed,
    read_text,
    source_files,
    split_sizes,
)
from audit.corpus.importers.interface import Collected, ImportRequest, Source
from audit.corpus.importers.locating import Location, locate
from audit.corpus.importers.receipt_questions import question_of
from audit.corpus.importers.splits import equal_images
from audit.errors import ManifestError

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

    def collect(self, src: Path, request: ImportRequest) -> Collected:
        """See `Source.collect`."""
        receipts = _receipts(src)
        images = {name: receipt.image for name, receipt in receipts.items()}
        groups = equal_images(images)
        companies = {name: receipt.values.get("company") for name, receipt in receipts.items()}
        drawn, notes = request.divide(groups, providers=companies)
        providers = _providers([company for company in companies.values() if company is not None])
        fields: dict[str, dict[str, Location | str]] = {name: _fields(receipt) for name, receipt in receipts.items()}
        documents = [
            _document(name, drawn[name], receipts[name], fields[name], providers) for name in receipts if name in drawn
        ]
        if request.task == "question-answering":
            documents = [
                _with_questions(document, receipts[document.id], fields[document.id], request.seed)
                for document in documents
            ]
        report = dataclasses.replace(_report(receipts, fields, drawn, groups), notes=notes)
        return Collected(documents, TASKS[request.task], report, images)


def _receipts(src: Path) -> dict[str, _Receipt]:
    images = source_files(src, "img", _IMAGES)
    boxes, keys = source_files(src, "box", (".csv", ".txt")), source_files(src, "key", (".json", ".txt"))
    problems = [
        f"{folder}/{name}: missing"
        for folder, files in (("img", images), ("box", boxes), ("key", keys))
        for name in sorted((images.keys() | boxes.keys() | keys.keys()) - files.keys())
    ]
    receipts: dict[str, _Receipt] = {}
    for name in images.keys() & boxes.keys() & keys.keys():
        try:
            size = page_size(images[name])
            receipts[name] = _Receipt(images[name], size, _words(boxes[name], size), _values(keys[name]))
        except ManifestError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    raise_listed(sorted(problems))
    return {name: receipts[name] for name in sorted(receipts)}


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
            Word(match[0], clipped((left + match.start() * step, top, left + match.end() * step, bottom), size))
            for match in re.finditer(r"\S+", text)
        ]
    if problems:
        raise ManifestError(problems)
    return tuple(words)


def _values(path: Path) -> dict[str, str]:
    try:
        table = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError):
        raise ManifestError(f"{path.name} is not JSON") from None
    if not isinstance(table, dict):
        raise ManifestError(f"{path.name} is not an object with the keys {', '.join(FIELDS)}")
    wrong = [key for key in FIELDS if not isinstance(table.get(key, ""), str)]
    if wrong:
        raise ManifestError([f"{path.name} {key}: must be a text" for key in wrong])
    values = {key: printing(table.get(key, "")).strip() for key in FIELDS}
    return {key: value for key, value in values.items() if value}


def _fields(receipt: _Receipt) -> dict[str, Location | str]:
    """Each of the four fields: its words, or why there are none. No word serves two fields."""
    texts = [word.text for word in receipt.words]
    taken: set[int] = set()
    fields: dict[str, Location | str] = {}
    for key, category in FIELDS.items():
        if key not in receipt.values:
            fields[key] = "absent"
            continue
        place = locate(receipt.values[key], category, texts, taken)
        if isinstance(place, Location):
            taken.update(place.words)
            fields[key] = place
        else:
            fields[key] = place.reason
    return fields


def _providers(companies: list[str]) -> dict[str, str]:
    """One name for companies that differ in case or spacing only: the most frequent spelling, by folded name."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for company in companies:
        spellings[fold(company)][company] += 1
    return {
        folded: min(counts, key=lambda spelling: (-counts[spelling], spelling)) for folded, counts in spellings.items()
    }


def _document(
    name: str, split: Split, receipt: _Receipt, fields: Mapping[str, Location | str], providers: Mapping[str, str]
) -> Document:
    company = receipt.values.get("company")
    return Document(
        id=name,
        split=split,
        image=f"images/{receipt.image.name}",
        size=receipt.size,
        provider=None if company is None else providers[fold(company)],
        words=receipt.words,
        entities=tuple(
            Entity(id=key, label=key.upper(), category=FIELDS[key], words=place.words)
            for key, place in fields.items()
            if isinstance(place, Location)
        ),
    )


def _with_questions(document: Document, receipt: _Receipt, fields: Mapping[str, Location | str], seed: int) -> Document:
    found = {entity.id: document.text_of(entity) for entity in document.entities}
    questions = []
    for key, value in receipt.values.items():
        place = fields[key]
        held = (found[key], place.rule) if isinstance(place, Location) else None
        questions.append(question_of(document.id, key, FIELDS[key], value, held, seed))
    return dataclasses.replace(document, questions=tuple(questions))


def _report(
    receipts: Mapping[str, _Receipt],
    fields: Mapping[str, Mapping[str, Location | str]],
    drawn: Mapping[str, Split],
    groups: tuple[tuple[str, ...], ...],
) -> ImportReport:
    located: dict[str, Counter[str]] = {key.upper(): Counter() for key in FIELDS}
    not_located: dict[str, Counter[str]] = {key.upper(): Counter() for key in FIELDS}
    unlocated: list[tuple[str, str, str]] = []
    for name, found in fields.items():
        for key, place in found.items():
            if isinstance(place, Location):
                located[key.upper()][place.rule] += 1
            else:
                not_located[key.upper()][place] += 1
                unlocated.append((name, key.upper(), place))
    return ImportReport(
        documents=split_sizes(receipts, drawn),
        fields={key.upper(): len(receipts) for key in FIELDS},
        located={label: dict(counts) for label, counts in located.items()},
        not_located={label: dict(counts) for label, counts in not_located.items()},
        duplicates=tuple(group for group in groups if len(group) > 1),
        unlocated=tuple(unlocated),
        notes={},
    )
