"""FUNSD (Jaume et al. 2019): `annotations/NAME.json` and `images/NAME.png`.

The folder `training_data` is an example.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Word
from audit.importers.assemble import LINKS_LEFT_OUT
from audit.importers.files import read_json
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, clean
from audit.importers.source import Source

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


class FUNSD(Importer):
    """One document a form; answers are what attacks try to reconstruct.

    Words keep the order of the annotation. Words without text are left out, and with them fields
    that have no other word; text labelled "other" is on the page but in no entity; of the links
    those between two entities are kept, once, by the numbers of both: the parent (of an answer its
    question, of a question its header) comes first, as in FUNSD.
    """

    name = "funsd"
    description = "annotations/, images/"
    tasks = ("mlm", "token-classification", "spade-extraction", "spade-linking")
    labels = ("HEADER", "QUESTION", "ANSWER")
    parts = providers = recognises = False
    marks = (("annotations/*.json", '"form":'),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of FUNSD as it is published."""
        annotations = source.files_by_stem((".json",), ["annotations"])
        images = source.files_by_stem((".png", ".jpg", ".jpeg"), ["images"])
        for name in sorted(annotations.keys() | images.keys()):
            for folder, files in (("annotations", annotations), ("images", images)):
                source.problems.add("", [] if name in files else [f"{folder}/{name}: missing"])
            if name in annotations and name in images:
                with source.problems.catch(f"{name}:"):
                    yield _page(source, name, annotations[name], images[name])


def _page(source: Source, name: str, annotation: Path, image: Path) -> Page:
    """Make a page of its annotation, with the links between entities."""
    form = read_json(annotation, _annotation_type).form
    page = Page(name, image, unit="pixels", place=name)
    words = page.words
    entities: set[int] = set()
    links: set[tuple[int, int]] = set()
    for item in form:
        first = len(words)
        words += [Word(word.text, word.box) for word in item.words]
        links.update((parent, child) for parent, child in item.linking)
        if item.label == "other":
            continue
        inside = tuple(range(first, len(words)))
        field = Field(item.label.upper(), inside, category="misc", id=str(item.id))
        page.fields.append(field)
        if any(clean(word.text) for word in item.words):
            entities.add(item.id)
    page.links = tuple(
        (str(parent), str(child))
        for parent, child in sorted(links)
        if parent != child and {parent, child} <= entities
    )
    source.notes[LINKS_LEFT_OUT] += len(links) - len(page.links)
    return page
