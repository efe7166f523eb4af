"""Pages with questions, whatever format they came in: divided into splits and reported on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from audit.corpus.answers import stands
from audit.corpus.documents import Document, Question, Split, Task, Word
from audit.corpus.importers.conversion import ImportReport, printing, raise_listed, split_sizes
from audit.corpus.importers.interface import Collected, ImportRequest
from audit.corpus.importers.splits import OfficialPart, copies_of_trained, equal_images
from audit.errors import ManifestError

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
LABEL = "ANSWER"

Answers = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
"""One answer or several, as a source gives them."""


@dataclass(frozen=True)
class Page:
    """One page of a source and what is asked about it.

    Attributes:
        image: the file.
        size: of the image in pixels.
        words: in the order of the source's OCR.
        questions: at least one.
        part: of the source's own division.
        source: the document it is a page of, when the source says so.
        provider: whom the document came from.
    """

    image: Path
    size: tuple[int, int]
    words: tuple[Word, ...]
    questions: tuple[Question, ...]
    part: OfficialPart
    source: str | None = None
    provider: str | None = None


def asked(identifier: str, question: str, answers: Iterable[str]) -> Question:
    """A question of the source: texts without control characters, answers without blank and equal ones.

    Raises:
        ManifestError: the question is blank, or no answer is left.
    """
    accepted = tuple(dict.fromkeys(text for answer in answers if (text := printing(answer).strip())))
    text = printing(question).strip()
    faults = [*([] if text else ["the question is empty"]), *([] if accepted else ["no answer"])]
    if faults:
        raise ManifestError([f"question {identifier}: {fault}" for fault in faults])
    return Question(identifier, text, accepted)


def collect_pages(pages: Mapping[str, Page], request: ImportRequest, notes: Mapping[str, int]) -> Collected:
    """Divide pages: one document a page, its id the page's.

    Args:
        pages: by id, all of the source.
        request: pages drawn at random, or along the source's own parts, or providers drawn at random.
        notes: counts of the importer's own, for the report.

    Raises:
        UsageError: as `ImportRequest.divide`.
        ManifestError: two questions of a page share an id, or an image cannot be decoded.
    """
    raise_listed(
        [
            f"{identifier}: question {name} occurs {count} times"
            for identifier, page in pages.items()
            for name, count in Counter(question.id for question in page.questions).items()
            if count > 1
        ]
    )
    files = {identifier: page.image for identifier, page in pages.items()}
    parts = {identifier: page.part for identifier, page in pages.items()}
    providers = {identifier: page.provider for identifier, page in pages.items()}
    same_image = equal_images(files)
    drawn, more = request.divide(same_image, sources=_by_source(pages), parts=parts, providers=providers)
    if request.rule == "official":
        more = {"copies of training pages": len(copies_of_trained(same_image, parts))}
    documents = [
        Document(
            id=identifier,
            split=drawn[identifier],
            words=page.words,
            image=f"images/{page.image.name}",
            size=page.size,
            provider=page.provider,
            questions=page.questions,
        )
        for identifier, page in pages.items()
        if identifier in drawn
    ]
    report = _report(pages, drawn, same_image, {**notes, **more})
    return Collected(documents, Task(request.task), report, files)


def _by_source(pages: Mapping[str, Page]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for identifier, page in pages.items():
        if page.source is not None:
            groups[page.source].append(identifier)
    return list(groups.values())


def _report(
    pages: Mapping[str, Page],
    drawn: Mapping[str, Split],
    same_image: tuple[tuple[str, ...], ...],
    notes: Mapping[str, int],
) -> ImportReport:
    found: Counter[bool] = Counter()
    absent: list[tuple[str, str, str]] = []
    for identifier, page in pages.items():
        for question in page.questions:
            there = stands(question, page.words)
            found[there] += 1
            if not there:
                absent.append((identifier, question.id, "not found"))
    return ImportReport(
        documents=split_sizes(pages, drawn),
        fields={LABEL: found.total()},
        located={LABEL: {"whole words": found[True]}},
        not_located={LABEL: {"not found": found[False]} if found[False] else {}},
        duplicates=tuple(group for group in same_image if len(group) > 1),
        unlocated=tuple(absent),
        notes=notes,
    )
