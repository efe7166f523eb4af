"""Pages with questions, whatever format they came in: divided into splits, reported on, and written as a data set."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from audit.corpus.answers import stands
from audit.corpus.documents import Document, Manifest, Membership, Question, Split, Task, Word
from audit.corpus.importers.conversion import ImportReport, printing, publish, raise_listed, split_sizes
from audit.corpus.importers.providers import ByProvider, divide_by_provider
from audit.corpus.importers.splits import (
    Division,
    Given,
    Part,
    assigned_of,
    copies_of_trained,
    divide,
    equal_images,
    joined,
)
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
    part: Part
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


def write_pages(
    name: str,
    pages: Mapping[str, Page],
    dst: Path,
    shares: Mapping[Split, float],
    seed: int,
    division: Division | ByProvider | Given,
    notes: Mapping[str, int],
) -> ImportReport:
    """Make a data set of pages: one document a page, its id the page's.

    Args:
        name: of the data set.
        pages: by id, all of the source.
        dst: as `conversion.publish` wants it.
        shares: by split, read as `division` says; see `splits.divide` and `providers.divide_by_provider`.
        seed: of the draw.
        division: pages drawn at random, or along the source's own parts, or providers drawn at random.
        notes: counts of the importer's own, for the report.

    Raises:
        UsageError: as `splits.check_division`, or as `providers.divide_by_provider`.
        ManifestError: two questions of a page share an id, an image cannot be decoded, or what was read makes no valid
            data set.
        EngineError: the files cannot be written.
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
    same_image = equal_images(files)
    sources = _by_source(pages)
    drawn: Mapping[str, Split]
    more: Mapping[str, int] = {}
    if isinstance(division, ByProvider):
        providers = {identifier: page.provider for identifier, page in pages.items()}
        found = divide_by_provider(joined([*same_image, *sources]), providers, shares, seed, division)
        drawn, more = found.splits, found.notes
    else:
        drawn = divide(same_image, sources, parts, shares, seed, division)
    if division == "official":
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
    assigned = "by-provider" if isinstance(division, ByProvider) else assigned_of(division)
    manifest = Manifest(1, name, Task("question-answering"), Membership(assigned))
    publish(dst, manifest, documents, files, report)
    return report


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
