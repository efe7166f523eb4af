"""Annotated pages like FUNSD's or SROIE's, in folders and with keys and labels of any names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError, UsageError
from audit.importers.columns import OUTSIDE, Columns, fields_of_tags, read_box
from audit.importers.faults import name_of
from audit.importers.files import as_text, form_of, parse_json, read_text
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, bounds, clean, line_words
from audit.importers.reading import check_name
from audit.importers.source import Source, choose_one, group_by_name
from audit.importers.words import BESIDE_JSON

ITEMS = ("form", "annotations", "fields", "entities", "items", "valid_line")
PROVIDERS = ("company", "provider", "issuer", "vendor", "supplier", "seller")
_CORNERS = {n: re.compile(rf"\s*((?:-?[\d.]+,\s*){{{n - 1}}}-?[\d.]+),(.*)") for n in (8, 4)}
"""A line of text behind so many numbers."""


class Forms(Importer):
    """One document an image.

    Of its .json it has its annotation or its values, of its .txt or .csv its words.

    A .json is a list of items as FUNSD has them ("label", "text", "box", "words"), columns as
    Hugging Face data sets have them ("words", "bboxes", "ner_tags"), or values by key, which are
    located among the words. A .txt or .csv holds a line of text a row behind the corners of its
    box, 4 or 8 numbers, as SROIE has them.
    """

    name = "forms"
    description = (
        "images, each with a .json as FUNSD's, or .txt boxes and .json values as SROIE's, "
        "in any folders"
    )
    word_files = BESIDE_JSON
    marks = (("*/annotations/*.json", '"form":'),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a folder of forms."""
        annotations = _by_stem(source, ".json")
        boxed_texts = _by_stem(source, ".txt", ".csv")
        if not annotations and not boxed_texts:
            hint = "give the folder that holds images and annotations"
            raise UsageError(f"{source.path} holds neither .json nor .txt", hint)
        for path in source.ids:
            with source.problems.catch(f"{path}:"):
                page = source.page(path)
                stem = PurePosixPath(path).stem
                annotation = _choose_nearest(path, annotations.get(stem, []))
                lines = _choose_nearest(path, boxed_texts.get(stem, []))
                _fill_page(source, page, annotation, lines)
        stems = {PurePosixPath(path).stem for path in source.ids}
        for files in (annotations, boxed_texts):
            source.problems.add("", _missing_images(files, stems))
        yield from source.pages


def _fill_page(source: Source, page: Page, annotation: str | None, lines: str | None) -> None:
    """Fill a page from its annotation and its file of boxed lines, where they exist.

    Args:
        source: the source of the files.
        page: the page of an image.
        annotation: its .json, if there is one.
        lines: its boxed lines, if there are any.

    Raises:
        ManifestError: there is neither, or one has another form.
    """
    if lines is None and annotation is None:
        raise ManifestError("neither a .json nor a .txt has its name")
    if lines is not None:
        page.words = [*boxed_lines(source.at(lines))]
    if annotation is not None:
        _annotate(source, page, source.at(annotation))


def _missing_images(files: Mapping[str, Sequence[str]], stems: Set[str]) -> Iterator[str]:
    """Yield a problem for each name of files that no image has."""
    for stem, paths in files.items():
        if stem not in stems:
            yield f"{paths[0]}: its image is missing"


def _by_stem(source: Source, *endings: str) -> Mapping[str, Sequence[str]]:
    """Return the files with these endings, grouped by their name without ending."""
    return group_by_name(source.files(*endings), lambda path: {path.stem})


def _choose_nearest(image: str, files: Sequence[str]) -> str | None:
    """Choose, of several files of an image's name, the file that shares the most folders with it.

    Raises:
        ManifestError: two share as many.
    """
    if not files:
        return None
    folders = {*PurePosixPath(image).parents}
    n_shared = {path: len(folders.intersection(PurePosixPath(path).parents)) for path in files}
    most = max(n_shared.values())
    return choose_one([path for path in files if n_shared[path] == most], "its annotation")


def boxed_lines(path: Path, numbers: Sequence[int] = (8, 4)) -> Iterator[Word]:
    """Yield the words of a file of boxed lines.

    A line's box is divided by its number of characters.

    Args:
        path: path of a text file.
        numbers: number of numbers that the corners of a line's box are.

    Raises:
        ManifestError: a row has another form.
    """
    problems = []
    for number, row in enumerate(read_text(path).split("\n"), start=1):
        line = _read_boxed_line(row, numbers)
        if line is not None:
            yield from line
        elif row.strip():
            counts = " or ".join(map(str, sorted(numbers)))
            problems.append(f"{name_of(path)}:{number} is not x1,y1,...,TEXT with {counts} numbers")
    if problems:
        raise ManifestError(problems)


def _read_boxed_line(row: str, numbers: Sequence[int]) -> Iterator[Word] | None:
    """Return the words of a line "x0,y0,...,text" with its box; None of another form.

    Args:
        row: the line.
        numbers: numbers, see `boxed_lines`.
    """
    matches = (_CORNERS[count].fullmatch(row) for count in numbers)
    match = next((match for match in matches if match), None)
    if match is None:
        return None
    try:
        corners = [float(cell) for cell in match[1].split(",")]
    except ValueError:
        return None
    return line_words(match[2], bounds([*zip(corners[0::2], corners[1::2], strict=True)]))


def _annotate(source: Source, page: Page, path: Path) -> None:
    """Add an annotation to its page.

    Raises:
        ManifestError: it has another form.
    """
    value = parse_json(read_text(path), f"{name_of(path)} is not JSON")
    table = value if isinstance(value, dict) else {}
    items = value
    if table:
        items = next((table[key] for key in ITEMS if isinstance(table.get(key), list)), None)
    if isinstance(items, list) and all(map(_is_item, items)):
        _add_items(page, items)
    elif not isinstance(value, dict):
        raise ManifestError(f"{name_of(path)} is neither a list of items nor an object")
    elif isinstance(value.get("words", value.get("tokens")), list):
        Columns(value, labels=source.options.labels).fill(page, value)
    else:
        _add_values(page, value)
    page.provider = page.provider or source.provider(table)


def _is_item(item: Any) -> bool:
    """Test whether a value is an item of a form as FUNSD has them."""
    return isinstance(item, dict) and not {"label", "text", "words"}.isdisjoint(item)


def _add_items(page: Page, items: list[dict[str, Any]]) -> None:
    """Add the items of a form to a page: fields, and words where the page has none.

    On a page that has words they are added with their boxes, and texts to be located.
    """
    words = [*page.words]
    brings_words = not words
    for number, item in enumerate(items):
        first = len(words)
        place = f"items[{number}]"
        box = None
        if brings_words:
            words += _item_words(item, place)
        else:
            box = _item_box(item, place)
        label = clean(as_text(item.get("label", item.get("category", ""))))
        text = clean(as_text(item.get("text", " ".join(word.text for word in words[first:]))))
        if label.lower() not in OUTSIDE:
            plain = fields_of_tags([label])[0][0]
            inside = tuple(range(first, len(words)))
            page.fields.append(Field(plain, inside, box, text or None))
    page.words = words


def _item_box(item: Mapping[str, Any], place: str) -> Box | None:
    """Return the box of an item, where it has one.

    Raises:
        ManifestError: it has another form.
    """
    for key in ("box", "bbox", "bounding_box"):
        if key in item:
            return None if item[key] is None else read_box(item[key], f"{place}.box")
    return None


def _item_words(item: Mapping[str, Any], place: str) -> Iterable[Word]:
    """Return the words of an item: its own, or those of its text.

    Raises:
        ManifestError: they, or its box, have another form.
    """
    inner = item.get("words")
    if not isinstance(inner, list):
        box = _item_box(item, place)
        return line_words(clean(as_text(item.get("text", ""))), box)
    return [_read_word(word, f"{place}.words[{index}]") for index, word in enumerate(inner)]


def _read_word(value: Any, place: str) -> Word:
    """Read a word: its text, or with its box.

    Raises:
        ManifestError: it has another form.
    """
    if isinstance(value, str):
        return Word(value)
    with form_of(f"a word: {place}"):
        box = next((value[key] for key in ("box", "bbox", "quad") if key in value), None)
        if isinstance(box, dict):  # CORD's quad
            quad = box
            box = []
            for corner in range(1, 5):
                box += [quad[f"x{corner}"], quad[f"y{corner}"]]
        return Word(value["text"], None if box is None else read_box(box, place))


def _add_values(page: Page, values: Mapping[str, Any], before: str = "") -> None:
    """Add the values of a JSON object to a page as fields, labelled by their keys.

    Of nested ones the keys are joined by dots, `before` the keys around them.
    """
    for key, value in values.items():
        if isinstance(value, dict):
            _add_values(page, value, check_name(f"{before}{key}."))
            continue
        texts = _texts_of(value)
        page.fields += (Field(clean(before + key), value=text) for text in texts if text)
        if not before and key.lower() in PROVIDERS and texts:
            page.provider = page.provider or " ".join(texts[0].split()) or None


def _texts_of(value: Any) -> list[str]:
    """Return a value as a list of texts; the values of a list one by one."""
    entries = value if isinstance(value, list) else [value]
    return [clean(as_text(entry)) for entry in entries if _is_value(entry)]


def _is_value(entry: Any) -> bool:
    """Test whether an entry of a form is a text or a number, which makes a field."""
    return isinstance(entry, str | int | float) and not isinstance(entry, bool)
