"""FUNSD (Jaume et al. 2019): `annotations/NAME.json` and `images/NAME.png`, e.g. the folder `training_data`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Document, Entity, Split, Task, TaskKind, Word
from audit.corpus.importers.conversion import (
    ImportReport,
    clipped,
    page_size,
    printing,
    raise_listed,
    read_json,
    source_files,
    split_sizes,
)
from audit.corpus.importers.interface import Collected, ImportRequest, Source
from audit.corpus.importers.splits import equal_images
from audit.errors import ManifestError

ATTACKED = "answer"
LABELED = ("header", "question", "answer")
TASKS: dict[TaskKind, Task] = {
    "mlm": Task("mlm"),
    "token-classification": Task(
        "token-classification", ("O", *(f"{prefix}-{name.upper()}" for name in LABELED for prefix in "BI"))
    ),
    "spade-extraction": Task("spade-extraction", ("O", *(name.upper() for name in LABELED))),
    "spade-linking": Task("spade-linking"),
}
_ANNOTATION = ConfigDict(hide_input_in_errors=True)


@strict_dataclass(frozen=True, config=_ANNOTATION)
class _Word:
    text: str
    box: tuple[float, float, float, float]


@strict_dataclass(frozen=True, config=_ANNOTATION)
class _Item:
    id: int
    label: Literal["header", "question", "answer", "other"]
    words: tuple[_Word, ...]
    linking: tuple[tuple[int, int], ...] = ()


@strict_dataclass(frozen=True, config=_ANNOTATION)
class _Annotation:
    form: tuple[_Item, ...]


@dataclass(frozen=True)
class _Form:
    """One form of the source: what its document will hold, and how often each label had no word."""

    image: Path
    size: tuple[int, int]
    words: tuple[Word, ...]
    entities: tuple[Entity, ...]
    links: tuple[tuple[str, str], ...]
    empty: tuple[str, ...]
    empty_words: int
    links_left_out: int


_annotation_type = TypeAdapter(_Annotation)


class FUNSD(Source):
    """One document a form; answers are what attacks try to reconstruct.

    Words keep the order of the annotation. Words without text are left out, and with them fields that have no other
    word; text labelled "other" is on the page but in no entity; of the links those between two entities are kept, once,
    by the numbers of both: the parent (of an answer its question, of a question its header) comes first, as in FUNSD.
    """

    name = "funsd"
    description = "annotations/, images/"
    tasks = tuple(TASKS)

    def collect(self, src: Path, request: ImportRequest) -> Collected:
        """See `Source.collect`."""
        forms = _forms(src)
        images = {name: form.image for name, form in forms.items()}
        groups = equal_images(images)
        drawn, _ = request.divide(groups)
        documents = [
            Document(
                id=name,
                split=drawn[name],
                image=f"images/{form.image.name}",
                size=form.size,
                words=form.words,
                entities=form.entities,
                links=form.links,
            )
            for name, form in forms.items()
            if name in drawn
        ]
        return Collected(documents, TASKS[request.task], _report(forms, drawn, groups), images)


def _forms(src: Path) -> dict[str, _Form]:
    annotations = source_files(src, "annotations", (".json",))
    images = source_files(src, "images", (".png", ".jpg", ".jpeg"))
    problems = [f"annotations/{name}: missing" for name in sorted(images.keys() - annotations.keys())]
    forms: dict[str, _Form] = {}
    for name, path in annotations.items():
        if name not in images:
            problems.append(f"images/{name}: missing")
            continue
        try:
            forms[name] = _form(read_json(path, _annotation_type), images[name])
        except ManifestError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    raise_listed(problems)
    return forms


def _form(annotation: _Annotation, image: Path) -> _Form:
    size = page_size(image)
    words: list[Word] = []
    entities: list[Entity] = []
    empty: list[str] = []
    for item in annotation.form:
        first = len(words)
        texts = [(printing(word.text).strip(), word.box) for word in item.words]
        words += [Word(text, clipped(box, size)) for text, box in texts if text]
        if item.label == "other":
            continue
        label = item.label.upper()
        if len(words) == first:
            empty.append(label)
            continue
        indices = tuple(range(first, len(words)))
        entities.append(Entity(str(item.id), label, "misc", indices, attack=item.label == ATTACKED))
    known = {entity.id for entity in entities}
    every = sorted({(a, b) for item in annotation.form for a, b in item.linking})
    links = tuple((str(a), str(b)) for a, b in every if a != b and str(a) in known and str(b) in known)
    empty_words = sum(len(item.words) for item in annotation.form) - len(words)
    return _Form(image, size, tuple(words), tuple(entities), links, tuple(empty), empty_words, len(every) - len(links))


def _report(
    forms: Mapping[str, _Form], drawn: Mapping[str, Split], groups: tuple[tuple[str, ...], ...]
) -> ImportReport:
    labels = [label.upper() for label in LABELED]
    located = Counter(entity.label for form in forms.values() for entity in form.entities)
    unlocated = tuple((name, label, "empty") for name, form in forms.items() for label in form.empty)
    empty = Counter(label for _, label, _ in unlocated)
    return ImportReport(
        documents=split_sizes(forms, drawn),
        fields={label: located[label] + empty[label] for label in labels},
        located={label: {"annotated": located[label]} for label in labels},
        not_located={label: {"empty": empty[label]} if empty[label] else {} for label in labels},
        duplicates=tuple(group for group in groups if len(group) > 1),
        unlocated=unlocated,
        notes={
            "words without text": sum(form.empty_words for form in forms.values()),
            "links": sum(len(form.links) for form in forms.values()),
            "links left out": sum(form.links_left_out for form in forms.values()),
        },
    )
