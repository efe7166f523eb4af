"""The pages of an ordinary folder: images and texts, and what lies beside them."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from audit.corpus.documents import Document, TaskKind
from audit.errors import ManifestError, UsageError
from audit.importers.faults import problems_of_form, shown_path
from audit.importers.files import IMAGES, files_in, parse_json, read_text
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, Part, WordList, ids_of, part_named, text_words
from audit.importers.source import FOLDER, Source
from audit.progress import steps

TEXT = ".txt"
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
        """See `Importer.pages`."""
        images = files_in(source.path, IMAGES)
        taken = {PurePosixPath(path).with_suffix("") for path in images}
        texts = [
            path
            for path in files_in(source.path, (TEXT,))
            if PurePosixPath(path).with_suffix("") not in taken
        ]
        ids = ids_of([*images, *texts])
        if not ids:
            raise UsageError(
                f"{source.path} holds no {', '.join(IMAGES)} or {TEXT}",
                "give the folder of the pages",
            )
        jsons = {*files_in(source.path, (".json",))}
        places = {path: _place(PurePosixPath(path)) for path in ids}
        rest: Part | None = (
            "public" if any(part == "train" for part, _ in places.values()) else None
        )
        usual = "label" if source.task == "document-classification" else "provider"
        several = len({group for _, group in places.values() if group}) > 1
        meaning = (source.options.provider or (usual if several else "none")).replace(
            FOLDER, "provider"
        )
        for path, name in steps("looking at pages", ids.items(), len(ids)):
            with source.problems.catch():
                part, group = places[path]
                named = {meaning: group} if group and meaning != "none" else {}
                document = _read(source, path, jsons, {"id": name, **named})
                page = Page(
                    name,
                    None if path.lower().endswith(TEXT) else source.root / path,
                    path=path,
                    place=path,
                )
                page.part = part or rest
                page.document = document
                page.words = WordList(document.words)
                page.fields = [Field(entity.label, entity.words) for entity in document.entities]
                page.questions, page.provider = [*document.questions], document.provider
                page.label, page.output = document.label, document.output
                if page.label is not None and source.task == "document-classification":
                    source.tags = tuple(sorted({*source.tags, page.label}))
                yield page


def _place(path: PurePosixPath) -> tuple[Part | None, str | None]:
    """Return the part that the page's folders say, and the last folder that says none."""
    parts = {name: _part_of(name) for name in path.parts[:-1]}
    others = [
        name
        for name, part in parts.items()
        if not part and name.lower() not in ("images", "img", "pages")
    ]
    return next(filter(None, parts.values()), None), (others[-1] if others else None)


def _part_of(folder: str) -> Part | None:
    """Return the part that is the whole name of a folder: "Test Ltd." is a company."""
    name = folder.lower().replace("-", "")
    return part_named(name) if name.isalpha() else None


def _read(source: Source, path: str, jsons: Collection[str], given: Mapping[str, Any]) -> Document:
    """Make the document of a page, of its file and the JSON beside it.

    `given` outranks what that says.

    Raises:
        ManifestError: the JSON is of another form.
    """
    own = PurePosixPath(path)
    places = (
        (folder / inner / f"{own.stem}.json").as_posix()
        for folder in own.parents[:2]
        for inner in BESIDE
    )
    beside = next((place for place in places if place in jsons), None)
    content = parse_json(read_text(source.at(beside)), f"{beside}: not JSON") if beside else {}
    if not isinstance(content, list | dict):
        raise ManifestError(f"{beside}: neither a list of words nor a table")
    values: dict[str, Any] = {"words": content} if isinstance(content, list) else content
    values |= {**given, "split": "public"}
    if "words" not in values and own.suffix.lower() == TEXT:
        values["words"] = tuple(text_words(read_text(source.at(path))))
    try:
        return _document_type.validate_python(values)
    except ValidationError as error:
        raise ManifestError(
            [f"{shown_path(beside or path)}: {text}" for text in problems_of_form(error)]
        ) from None
