"""The pages of an ordinary folder: images and texts, and what lies beside them."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, get_args

from pydantic import TypeAdapter, ValidationError

from audit.corpus.documents import Document, TaskKind
from audit.errors import ManifestError, UsageError
from audit.importers.faults import problems_of_form, shown_path
from audit.importers.files import IMAGES, files_in, parse_json, read_text
from audit.importers.interface import Importer
from audit.importers.pages import (
    Field,
    FieldList,
    Page,
    Part,
    QuestionList,
    WordList,
    ids_of,
    part_named,
    text_words,
)
from audit.importers.sheets import split_image
from audit.importers.source import FOLDER, Source
from audit.progress import steps

TEXT = ".txt"
TABLES = (".jsonl", ".csv")
"""Endings of files that a folder of pages never reads."""
BESIDE = ("", "ocr", "words", "json", "annotations", "labels")
"""Folders, in that of a page or the one above, in which the JSON of its name may lie."""
_document_type = TypeAdapter(Document)


class PageFolder(Importer):
    """One document an image, or a text beside no image.

    Folders say parts, and providers or classes.

    The JSON of a page's name is a list of words, or has any keys of a document. With a folder named
    train, all pages in no folder of a part are public.
    """

    name = "pages"
    description = (
        "page images or .txt files, with .json of words or of a document's keys beside them"
    )
    tasks = get_args(TaskKind)
    whole = True

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a folder, with all that lies beside their images."""
        ids = _ids_of_pages(source)
        places = {path: _place_of(PurePosixPath(path)) for path in ids}
        meaning = _meaning_of_folders(source, places.values())
        has_train = any(place.part == "train" for place in places.values())
        jsons = {*files_in(source.path, (".json",))}
        for path, name in steps("looking at pages", ids.items(), len(ids)):
            with source.problems.catch():
                place = places[path]
                keys = {"id": name}
                if place.folder and meaning != "none":
                    keys[meaning] = place.folder
                for page in _pages_at(source, path, jsons, keys):
                    page.part = place.part or ("public" if has_train else None)
                    _add_class(source, page)
                    yield page


class _Place(NamedTuple):
    """What the folders of a page say: its part, and the last folder that says none."""

    part: Part | None
    folder: str | None


def _ids_of_pages(source: Source) -> Mapping[str, str]:
    """Return the document id of each page by its path, of images and of texts without image.

    Raises:
        UsageError: there is no page.
    """
    images = files_in(source.path, IMAGES)
    stems = {PurePosixPath(path).with_suffix("") for path in images}
    texts = [
        path
        for path in files_in(source.path, (TEXT,))
        if PurePosixPath(path).with_suffix("") not in stems
    ]
    ids = ids_of([*images, *texts])
    if not ids:
        raise UsageError(
            f"{source.path} holds no {', '.join(IMAGES)} or {TEXT}",
            "give the folder of the pages",
        )
    return ids


def unused_beside(folder: Path) -> list[str]:
    """List the files beside the pages of a folder that may describe them, and are not read.

    Such are tables, JSON of no page's name, and texts of an image's name.
    """
    images = files_in(folder, IMAGES)
    texts = files_in(folder, (TEXT,))
    stems = {PurePosixPath(path).with_suffix("") for path in images}
    jsons = {*files_in(folder, (".json",))}
    unused = [path for path in texts if PurePosixPath(path).with_suffix("") in stems]
    beside = {_json_beside(PurePosixPath(path), jsons) for path in (*images, *texts)}
    unused += jsons - beside
    unused += files_in(folder, TABLES)
    return sorted(unused)


def _meaning_of_folders(source: Source, places: Collection[_Place]) -> str:
    """Return the key (label, provider, none) that folders give: the owner's, else the usual."""
    usual = "none"
    if len({place.folder for place in places if place.folder}) > 1:
        usual = "label" if source.task == "document-classification" else "provider"
    return (source.options.provider or usual).replace(FOLDER, "provider")


def _add_class(source: Source, page: Page) -> None:
    """Add the class of a page to the names of the model's classes, where it has classes."""
    if page.label is not None and source.task == "document-classification":
        source.tags = tuple(sorted({*source.tags, page.label}))


def _pages_at(
    source: Source, path: str, jsons: Collection[str], keys: Mapping[str, Any]
) -> Iterator[Page]:
    """Yield the page of a file, or all pages of an image of several.

    Args: see `_read_document`.

    Raises:
        ManifestError: a file cannot be read, or JSON of one page lies beside an image of several.
    """
    sheets = [] if path.lower().endswith(TEXT) else split_image(source, path)
    if not sheets:
        document = _read_document(source, path, jsons, keys)
        image = None if path.lower().endswith(TEXT) else source.root / path
        yield _page_of(document, image, path)
        return
    beside = _json_beside(PurePosixPath(path), jsons)
    if beside:
        raise ManifestError(f"{beside}: of one page, but the image has {len(sheets)}")
    for sheet in sheets:
        values = {**keys, "id": sheet.name, "split": "public"}
        page = _page_of(_document_type.validate_python(values), sheet.image, "")
        page.place = sheet.place
        page.source = path
        yield page


def _page_of(document: Document, image: Path | None, path: str) -> Page:
    """Make the page of a document that somebody described.

    Args:
        document: the document.
        image: its image, None of a text.
        path: path of its file within the source; empty where it shares its file.
    """
    return Page(
        document.id,
        image,
        path=path,
        place=path,
        document=document,
        words=WordList(document.words),
        fields=FieldList(Field(entity.label, entity.words) for entity in document.entities),
        questions=QuestionList(document.questions),
        provider=document.provider,
        person=document.person,
        label=document.label,
        output=document.output,
    )


def _place_of(path: PurePosixPath) -> _Place:
    """Return the part, and the last other folder, that the folders above a page name."""
    part: Part | None = None
    group = None
    for folder in dict.fromkeys(path.parts[:-1]):
        folder_part = _part_of(folder)
        part = part or folder_part
        if not folder_part and folder.lower() not in ("images", "img", "pages"):
            group = folder
    return _Place(part, group)


def _part_of(folder: str) -> Part | None:
    """Return the part that is the whole name of a folder: "Test Ltd." is a company."""
    name = folder.lower().replace("-", "")
    return part_named(name) if name.isalpha() else None


def _read_document(
    source: Source, path: str, jsons: Collection[str], keys: Mapping[str, Any]
) -> Document:
    """Make the document of a page from its own files and the JSON beside it.

    Args:
        source: the folder.
        path: path of the page within it.
        jsons: paths of all JSON files within it.
        keys: keys of the document, which outrank what the JSON says.

    Raises:
        ManifestError: the JSON is of another form.
    """
    beside = _json_beside(PurePosixPath(path), jsons)
    content = parse_json(read_text(source.at(beside)), f"{beside}: not JSON") if beside else {}
    if not isinstance(content, list | dict):
        raise ManifestError(f"{beside}: neither a list of words nor a table")
    values: dict[str, Any] = {"words": content} if isinstance(content, list) else content
    values |= {**keys, "split": "public"}
    if "words" not in values and PurePosixPath(path).suffix.lower() == TEXT:
        values["words"] = tuple(text_words(read_text(source.at(path))))
    try:
        return _document_type.validate_python(values)
    except ValidationError as error:
        raise ManifestError(
            [f"{shown_path(beside or path)}: {text}" for text in problems_of_form(error)]
        ) from None


def _json_beside(path: PurePosixPath, jsons: Collection[str]) -> str | None:
    """Return the JSON file of a page's name, in its folder or the one above; None without one."""
    for folder in path.parents[:2]:
        for inner in BESIDE:
            place = (folder / inner / f"{path.stem}.json").as_posix()
            if place in jsons:
                return place
    return None
