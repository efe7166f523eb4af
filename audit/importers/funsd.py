"""FUNSD (Jaume et al. 2019): `annotations/NAME.json` and `images/NAME.png`, e.g. the folder `training_data`."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Document, Entity, Task, TaskKind, Word
from audit.corpus.problems import Problems
from audit.importers.interface import ImportRequest, MakeDocument, Source, SourceContents
from audit.importers.report import FieldTally
from audit.importers.source_files import clip, page_size, read_json, replace_controls, source_files

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
WITHOUT_TEXT, LINKS, LINKS_LEFT_OUT = "words without text", "links", "links left out"
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

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        annotations = source_files(src, "annotations", (".json",))
        images = source_files(src, "images", (".png", ".jpg", ".jpeg"))
        fields = FieldTally((label.upper() for label in LABELED), ["annotated"])
        notes = Counter(dict.fromkeys((WITHOUT_TEXT, LINKS, LINKS_LEFT_OUT), 0))
        problems, documents = Problems(), dict[str, MakeDocument]()
        problems.add("", (f"annotations/{name}: missing" for name in sorted(images.keys() - annotations.keys())))
        for name, path in annotations.items():
            if name not in images:
                problems.add("", [f"images/{name}: missing"])
                continue
            with problems.catch(f"{name}:"):
                documents[name] = _document(name, read_json(path, _annotation_type), images[name], fields, notes)
        problems.raise_if_any()
        return SourceContents(TASKS[request.task], documents, fields, images, notes=notes)


def _document(name: str, annotation: _Annotation, image: Path, fields: FieldTally, notes: Counter[str]) -> MakeDocument:
    """One form; counts its fields, and its words and links in `notes`."""
    size = page_size(image)
    words: list[Word] = []
    entities: list[Entity] = []
    for item in annotation.form:
        first = len(words)
        texts = [(replace_controls(word.text).strip(), word.box) for word in item.words]
        words += [Word(text, clip(box, size)) for text, box in texts if text]
        notes[WITHOUT_TEXT] += len(item.words) - (len(words) - first)
        if item.label == "other":
            continue
        label = item.label.upper()
        if len(words) == first:
            fields.miss(name, label, "empty")
            continue
        indices = tuple(range(first, len(words)))
        entities.append(Entity(str(item.id), label, "misc", indices, attack=item.label == ATTACKED))
        fields.locate(label, "annotated")
    known = {entity.id for entity in entities}
    every = sorted({(a, b) for item in annotation.form for a, b in item.linking})
    links = tuple((str(a), str(b)) for a, b in every if a != b and str(a) in known and str(b) in known)
    notes[LINKS] += len(links)
    notes[LINKS_LEFT_OUT] += len(every) - len(links)
    return partial(
        Document, image=f"images/{image.name}", size=size, words=tuple(words), entities=tuple(entities), links=links
    )
