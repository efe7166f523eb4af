"""The pages of an ordinary folder: images and texts, and what lies beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit.corpus.documents import Document, Split
from audit.corpus.images import ImageFile, read_header
from audit.corpus.problems import Problems
from audit.corpus.validation import form_problems, orientation_problem
from audit.errors import ManifestError, UsageError
from audit.importers.files import IMAGES, files_in, parse_json, read_text
from audit.importers.pages import ids_of, part_named, text_words
from audit.progress import steps

TEXT = ".txt"
BESIDE = ("", "ocr", "words", "json", "annotations", "labels")
"""Folders, in that of a page or the one above, in which the JSON of its name may lie."""
_document_type = TypeAdapter(Document)


@dataclass(frozen=True)
class FoundPage:
    """A page of a folder.

    Attributes:
        id: the file's name without its ending; with its folders where two files have one name.
        path: relative to the folder, with slashes.
        split: as a folder says it; None where none does.
        group: the name of the folder that it lies in, beside those that say a split; None: it lies in none.
        header: of its image; None: it is a text.
        beside: the JSON file that belongs to it, relative to the folder, if there is one.
    """

    id: str
    path: str
    split: Split | None
    group: str | None
    header: ImageFile | None
    beside: str | None


def find_pages(root: Path) -> tuple[FoundPage, ...]:
    """List the images of a folder and of all folders in it, and the texts that lie beside no image, sorted by path.

    Raises:
        UsageError: there is none.
        ManifestError: an image cannot be read, or a file leads out of the folder; all problems are listed.
    """
    images = files_in(root, IMAGES)
    taken = {PurePosixPath(path).with_suffix("") for path in images}
    texts = [path for path in files_in(root, (TEXT,)) if PurePosixPath(path).with_suffix("") not in taken]
    ids = ids_of([*images, *texts])
    if not ids:
        hint = "give the folder of the pages"
        raise UsageError(f"{root} holds no page: neither {', '.join(IMAGES)} nor {TEXT}", hint)
    jsons = {*files_in(root, (".json",))}
    problems, found = Problems(), []
    for path, name in steps("looking at pages", ids.items(), len(ids)):
        with problems.catch(f"{path}:"):
            header = None if path.lower().endswith(TEXT) else read_header(root / path)
            if header is not None and header.orientation != 1:
                raise ManifestError(orientation_problem(header))
            own = PurePosixPath(path)
            places = [folder / inner / f"{own.stem}.json" for folder in own.parents[:2] for inner in BESIDE]
            beside = next((place.as_posix() for place in places if place.as_posix() in jsons), None)
            found.append(FoundPage(name, path, *_place(own), header, beside))
    problems.raise_if_any()
    return tuple(found)


def _place(path: PurePosixPath) -> tuple[Split | None, str | None]:
    """Return the split that the page's folders say, and the last folder that says none."""
    splits = {name: _split_of(name.lower()) for name in path.parts[:-1]}
    others = [name for name, split in splits.items() if not split and name.lower() not in ("images", "img", "pages")]
    return next(filter(None, splits.values()), None), (others[-1] if others else None)


def _split_of(folder: str) -> Split | None:
    if folder in ("train", "training", "member", "members"):
        return "member"
    if folder == "public":
        return "public"
    return "heldout" if folder == "held-out" or (part_named(folder) == "validation" and folder.isalpha()) else None


def read_document(root: Path, page: FoundPage, split: Split, given: Mapping[str, Any]) -> Document:
    """Make the document of a page, of its file and the JSON beside it: a list of words, or any keys of a document.

    Args:
        root: the folder.
        page: of it.
        split: that it goes into.
        given: other values of the document, which outrank those beside it.

    Raises:
        ManifestError: the JSON is of another form.
    """
    where = page.beside or page.path
    content = parse_json(read_text(root / where), f"{where}: not JSON") if page.beside else {}
    if not isinstance(content, list | dict):
        raise ManifestError(f"{where}: neither a list of words nor a table")
    values: dict[str, Any] = {"words": content} if isinstance(content, list) else content
    values |= {**given, "id": page.id, "split": split}
    if page.header is not None:
        values |= {"image": page.path, "size": (page.header.width, page.header.height)}
    elif "words" not in values:
        values["words"] = tuple(text_words(read_text(root / page.path)))
    try:
        return _document_type.validate_python(values)
    except ValidationError as error:
        raise ManifestError([f"{where}: {problem}" for problem in form_problems(error)]) from None
