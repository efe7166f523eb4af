"""Annotated pages like FUNSD's or SROIE's, in folders and with keys and labels of any names."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.documents import Word
from audit.errors import ManifestError, UsageError
from audit.importers.assemble import LINKS_LEFT_OUT
from audit.importers.columns import Columns
from audit.importers.faults import name_of
from audit.importers.files import as_text, parse_json, read_text
from audit.importers.formats.form_collections import ITEMS, forms_in
from audit.importers.formats.form_items import add_items, is_item
from audit.importers.formats.token_lines import DRAWN_LEFT_OUT, read_tokens
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, bounds, clean, line_words, part_of
from audit.importers.reading import check_name
from audit.importers.source import Source, choose_one, group_by_name, person_of
from audit.importers.words import BESIDE_JSON

PROVIDERS = ("company", "provider", "issuer", "vendor", "supplier", "seller")
_CORNERS = {n: re.compile(rf"\s*((?:-?[\d.]+,\s*){{{n - 1}}}-?[\d.]+),(.*)") for n in (8, 4)}
"""A line of text behind so many numbers."""


COPIES = "further pictures of an annotated page (_ann, _ori), left out"
UNNAMED = "images that no form of the source names, left out"
_COPY = re.compile(r"_(ori|ann)$")
"""What the names of DocBank's pictures of a page end with, behind the page's name."""


class Forms(Importer):
    """One document an image.

    Of its .json it has its annotation or its values, of its .txt or .csv its words.

    A .json is a list of items as FUNSD has them ("label", "text", "box", "words", "linking"),
    columns as Hugging Face data sets have them ("words", "bboxes", "ner_tags"), or values by key,
    which are located among the words; or it holds the forms of many pages, as XFUND's. A .txt or
    .csv holds a line of text a row behind the corners of its box, 4 or 8 numbers, as SROIE has
    them, or a token, its box and its label as DocBank.
    """

    name = "forms"
    description = (
        "images, each with a .json as FUNSD's, or .txt boxes and .json values as SROIE's, "
        "in any folders; XFUND, DocBank"
    )
    word_files = BESIDE_JSON
    marks = (
        ("*/annotations/*.json", '"form":'),
        ("*.json", r'"document":\s*\[\s*\{\s*"(box|text|label|words|linking|id)"'),
        ("*.txt", r"(?m)^\S+(\t\d+){7}\t[^\t\n]*\t\w+$"),
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a folder of forms."""
        annotations = _by_stem(source, ".json")
        boxed_texts = _by_stem(source, ".txt", ".csv")
        if not annotations and not boxed_texts:
            hint = "give the folder that holds images and annotations"
            raise UsageError(f"{source.path} holds neither .json nor .txt", hint)
        images = _stems_by_image(source, {*annotations, *boxed_texts})
        stems = {*images.values()}
        collections = _read_collections(source, annotations, stems)
        for path, stem in images.items():
            annotation_files = annotations.get(stem, [])
            line_files = boxed_texts.get(stem, [])
            if collections and not (annotation_files or line_files):
                continue
            with source.problems.catch(f"{path}:"):
                page = source.page(path)
                annotation = _choose_nearest(path, annotation_files)
                lines = _choose_nearest(path, line_files)
                _fill_page(source, page, annotation, lines)
        for files in (annotations, boxed_texts):
            source.problems.add("", _missing_images(files, stems, collections))
        if collections:
            source.notes[UNNAMED] += len(images) - len(source.pages)
        yield from source.pages


def _stems_by_image(source: Source, stems: Set[str]) -> dict[str, str]:
    """Return the stem of its annotation for each image of the source, without further copies.

    It is the image's own, or that without the ending of a copy.

    Args:
        source: the source.
        stems: names of annotations without their endings.
    """
    of_images = {path: PurePosixPath(path).stem for path in source.ids}
    pages = {*of_images.values()}
    chosen: dict[str, str] = {}
    for path, stem in of_images.items():
        page = _COPY.sub("", stem)
        if stem in stems or page not in stems:
            chosen[path] = stem
        elif stem.endswith("_ori") and page not in pages:
            chosen[path] = page
        else:
            source.notes[COPIES] += 1
    return chosen


def _read_collections(
    source: Source, annotations: Mapping[str, Sequence[str]], stems: Set[str]
) -> set[str]:
    """Read the files that hold the forms of many pages; return their paths.

    Args:
        source: the source.
        annotations: paths of .json files by their names without ending.
        stems: names of images without their endings, whose files are no such.
    """
    collections: set[str] = set()
    for stem in annotations.keys() - stems:
        for path in annotations[stem]:
            with source.problems.catch(f"{path}:"):
                if _read_collection(source, path):
                    collections.add(path)
    return collections


def _read_collection(source: Source, path: str) -> bool:
    """Fill the pages of all forms of a file; tell whether there are any."""
    value = parse_json(read_text(source.at(path)), "not JSON")
    folder = PurePosixPath(path).parent.as_posix()
    holds_forms = False
    for form in forms_in(value):
        holds_forms = True
        with source.problems.catch(f"{path}{form.place}:"):
            page = source.page(source.find_image(form.image, folder), form.table)
            page.part = page.part or part_of(path)
            _annotate(source, page, form.table, "a form", form.shape)
    return holds_forms


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
        _add_lines(source, page, source.at(lines))
    if annotation is not None:
        path = source.at(annotation)
        value = parse_json(read_text(path), f"{name_of(path)} is not JSON")
        _annotate(source, page, value, name_of(path))


def _add_lines(source: Source, page: Page, path: Path) -> None:
    """Give a page the words of a file of boxed lines, or of tokens with their labels.

    Raises:
        ManifestError: it has another form.
    """
    tokens = read_tokens(path)
    if tokens is None:
        page.words = [*boxed_lines(path)]
        return
    tokens.fill(page)
    source.notes[DRAWN_LEFT_OUT] += tokens.n_drawn


def _missing_images(
    files: Mapping[str, Sequence[str]], stems: Set[str], collections: Set[str]
) -> Iterator[str]:
    """Yield a problem for each name of files that no image has, but for files of many pages."""
    for stem, paths in files.items():
        if stem not in stems and paths[0] not in collections:
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


def _annotate(
    source: Source, page: Page, value: Any, name: str, shape: tuple[float, float] | None = None
) -> None:
    """Add an annotation to its page.

    Args:
        source: the source.
        page: the page.
        value: the annotation.
        name: what messages call it.
        shape: width and height of the page that its boxes are of, where it says them.

    Raises:
        ManifestError: it has another form.
    """
    items = value
    if isinstance(value, dict):
        items = next((value[key] for key in ITEMS if isinstance(value.get(key), list)), None)
    if isinstance(items, list) and all(map(is_item, items)):
        source.notes[LINKS_LEFT_OUT] += add_items(page, items, shape)
    elif not isinstance(value, dict):
        raise ManifestError(f"{name} is neither a list of items nor an object")
    elif isinstance(value.get("words", value.get("tokens")), list):
        Columns(value, labels=source.options.labels).fill(page, value)
    else:
        _add_values(page, value)
    if isinstance(value, dict):
        _set_names(source, page, value)


def _set_names(source: Source, page: Page, value: Mapping[str, Any]) -> None:
    """Set the provider and the person of a page where its annotation names them."""
    page.provider = page.provider or source.provider(value)
    page.person = page.person or person_of(value)


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
