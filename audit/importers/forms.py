"""Annotated pages like FUNSD's or SROIE's, in folders and with keys and labels of any names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.documents import Box
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.boxes import bounds
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.drafts import DraftField, DraftPage, DraftWord, clean
from audit.importers.gathering.files import as_text, provider_of, relative_files
from audit.importers.gathering.labels import OUTSIDE, fields_of_tags
from audit.importers.gathering.parts import check_parts
from audit.importers.gathering.records import Columns, box_of
from audit.importers.interface import Source
from audit.importers.source_files import parse_json, read_text
from audit.importers.words.image_pages import ImagePages

ITEMS = ("form", "annotations", "fields", "entities", "items", "valid_line")
PROVIDERS = ("company", "provider", "issuer", "vendor", "supplier", "seller")
_ROW = re.compile(r"^\s*-?[\d.]+(,\s*-?[\d.]+){3}")


class Forms(Source):
    """One document an image: of its .json its annotation or its values, of its .txt or .csv its words.

    A .json is a list of items as FUNSD has them ("label", "text", "box", "words"), columns as Hugging Face data sets
    have them ("words", "bboxes", "ner_tags"), or values by key, which are located among the words. A .txt or .csv holds
    a line of text a row behind the corners of its box, 4 or 8 numbers, as SROIE has them.
    """

    name = "forms"
    description = "images, each with a .json as FUNSD's, or .txt boxes and .json values as SROIE's, in any folders"
    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        problems, images = Problems(), ImagePages(src, request, (".hocr", ".tsv", ".xml"))
        annotations = _by_stem(relative_files(src, (".json",)))
        boxes = _by_stem(relative_files(src, (".txt", ".csv")))
        if not annotations and not boxes:
            raise UsageError(f"{src} holds neither .json nor .txt", "give the folder that holds images and annotations")
        for path in images.finder.paths:
            with problems.catch(f"{path}:"):
                _fill(src, path, images.page(path), annotations, boxes, request)
        pages = [*images.pages.values()]
        stems = {PurePosixPath(path).stem for path in images.finder.paths}
        for kind in (annotations, boxes):
            problems.add("", (f"{own[0]}: its image is missing" for stem, own in kind.items() if stem not in stems))
        check_parts(src, pages, request)
        return Assembly(self.name, pages, request, problems).contents()


def _by_stem(paths: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(PurePosixPath(path).stem, []).append(path)
    return found


def _nearest(image: str, files: Mapping[str, list[str]]) -> str | None:
    """The file of an image's name that shares the most folders with it.

    Raises:
        ManifestError: two share as many.
    """
    own = PurePosixPath(image).parts

    def common(path: str) -> int:
        pairs = zip(own, PurePosixPath(path).parts, strict=False)
        return next((number for number, (a, b) in enumerate(pairs) if a != b), len(own))

    found = sorted(files.get(PurePosixPath(image).stem, []), key=common, reverse=True)
    if len(found) > 1 and common(found[0]) == common(found[1]):
        raise ManifestError(f"several files are of its name: {found[0]}, {found[1]}")
    return found[0] if found else None


def _fill(
    src: Path,
    image: str,
    page: DraftPage,
    annotations: Mapping[str, list[str]],
    boxes: Mapping[str, list[str]],
    request: ImportRequest,
) -> None:
    """Give a page its words and fields.

    Raises:
        ManifestError: it has neither file, or one has another form.
    """
    lines, annotation = _nearest(image, boxes), _nearest(image, annotations)
    if lines is None and annotation is None:
        raise ManifestError("neither a .json nor a .txt has its name")
    if lines is not None:
        page.words = [*_line_words(src / lines)]
    if annotation is not None:
        value = parse_json(read_text(src / annotation), f"{PurePosixPath(annotation).name} is not JSON")
        items = _items(value)
        if items is not None:
            _add_items(page, items)
        elif isinstance(value, dict) and isinstance(value.get("words", value.get("tokens")), list):
            Columns(value, labels=request.options.labels).fill(page, value)
        elif isinstance(value, dict):
            _add_values(page, value)
        else:
            raise ManifestError(f"{PurePosixPath(annotation).name} is neither a list of items nor an object")
        if isinstance(value, dict):
            page.provider = page.provider or provider_of(request.options.provider, value, None)


def _items(value: Any) -> list[Any] | None:
    """The items of an annotation as FUNSD has it; None where it has another form."""
    found = value
    if isinstance(value, dict):
        found = next((value[key] for key in ITEMS if isinstance(value.get(key), list)), None)
    own = isinstance(found, list) and all(
        isinstance(item, dict) and not {"label", "text", "words"}.isdisjoint(item) for item in found
    )
    return found if own else None


def _add_items(page: DraftPage, items: list[Any]) -> None:
    words = [*page.words]
    annotated = not words
    for number, item in enumerate(items):
        first = len(words)
        box = next((item[key] for key in ("box", "bbox", "bounding_box") if key in item), None)
        inner = item.get("words")
        if annotated and isinstance(inner, list):
            words += [_word(one, f"items[{number}].words[{place}]") for place, one in enumerate(inner)]
        elif annotated:
            words += _divided(clean(as_text(item.get("text", ""))), None if box is None else box_of(box, "box"))
        label = clean(as_text(item.get("label", item.get("category", ""))))
        text = clean(as_text(item["text"])) if "text" in item else " ".join(word.text for word in words[first:])
        if label.lower() not in OUTSIDE:
            own = tuple(range(first, len(words)))
            region = box_of(box, f"items[{number}].box") if box is not None and not annotated else None
            page.fields.append(DraftField(_plain(label), own, region, text or None))
    page.words = words


def _plain(label: str) -> str:
    """A label without the prefix of a tag."""
    return fields_of_tags([label])[0][0]


def _word(value: Any, place: str) -> DraftWord:
    if isinstance(value, str):
        return DraftWord(value)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise ManifestError(f"{place}: no text")
    box = next((value[key] for key in ("box", "bbox", "quad") if key in value), None)
    if isinstance(box, dict):  # CORD's quad: x1, y1 to x4, y4
        box = [box[key] for key in ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4") if key in box]
    return DraftWord(value["text"], None if box is None else box_of(box, place))


def _add_values(page: DraftPage, values: Mapping[str, Any]) -> None:
    """Values by key; of nested ones the keys are joined by dots."""
    for key, value in values.items():
        if isinstance(value, dict):
            _add_values(page, {f"{key}.{inner}": one for inner, one in value.items()})
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | int | float) and not isinstance(one, bool) and clean(as_text(one)):
                page.fields.append(DraftField(clean(key), value=clean(as_text(one))))
        if key.lower() in PROVIDERS and isinstance(value, str) and page.provider is None:
            page.provider = " ".join(clean(value).split()) or None


def _line_words(path: Path) -> Iterator[DraftWord]:
    """The words of a file of boxed lines; a line's box is divided by its number of characters.

    Raises:
        ManifestError: a row has another form.
    """
    problems = []
    for number, row in enumerate(read_text(path).split("\n"), start=1):
        if not row.strip():
            continue
        cells = row.split(",")
        count = 8 if len(cells) > 8 and all(_is_number(cell) for cell in cells[:8]) else 4
        if not _ROW.match(row) or len(cells) <= count:
            problems.append(f"{path.name}:{number} is not x1,y1,...,TEXT with 4 or 8 numbers")
            continue
        numbers = [float(cell) for cell in cells[:count]]
        yield from _divided(",".join(cells[count:]), bounds([*zip(numbers[0::2], numbers[1::2], strict=True)]))
    if problems:
        raise ManifestError(problems)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _divided(text: str, box: Box | None) -> Iterator[DraftWord]:
    """The words of a line, its box divided by the number of characters."""
    for match in re.finditer(r"\S+", text):
        if box is None:
            yield DraftWord(match[0])
        else:
            step = (box[2] - box[0]) / len(text)
            yield DraftWord(match[0], (box[0] + match.start() * step, box[1], box[0] + match.end() * step, box[3]))
