"""The pages of an ordinary folder: images and texts, and what lies beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit.corpus.documents import Document, Split, Word
from audit.corpus.images import ImageFile, read_header
from audit.corpus.paths import reason_refused
from audit.corpus.problems import Problems
from audit.corpus.validation import form_problems, orientation_problem
from audit.errors import ManifestError, UsageError
from audit.importers.boxes import check_shape, in_pixels
from audit.importers.files import IMAGES, parse_json, read_text
from audit.importers.pages import clean
from audit.importers.words import read_service
from audit.progress import steps

TEXT = ".txt"
SPLIT_FOLDERS: Mapping[str, Split] = {
    **dict.fromkeys(("train", "training", "member", "members"), "member"),
    **dict.fromkeys(("test", "testing", "val", "valid", "validation", "dev", "eval", "heldout", "held-out"), "heldout"),
    "public": "public",
}
"""Names of folders that say what a model did with the pages in them; in lower case."""
BESIDE = ("ocr", "words", "json", "annotations", "labels")
"""Folders beside the one of the images in which a page's JSON may lie."""
_OCR = {"WORD", "recognitionResults"}
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
        beside: the JSON file that belongs to it, if there is one.
    """

    id: str
    path: str
    split: Split | None
    group: str | None
    header: ImageFile | None
    beside: Path | None


def find_pages(root: Path) -> tuple[FoundPage, ...]:
    """List the images of a folder and of all folders in it, and the texts that lie beside no image, sorted by path.

    Raises:
        UsageError: there is none.
        ManifestError: an image cannot be read, or a file leads out of the folder; all problems are listed.
    """
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not _hidden(path.relative_to(root))]
    images = [path for path in files if path.suffix.lower() in IMAGES]
    taken = {path.with_suffix("") for path in images}
    pages = sorted(
        [*images, *(path for path in files if path.suffix.lower() == TEXT and path.with_suffix("") not in taken)]
    )
    if not pages:
        raise UsageError(
            f"{root} holds no page: neither {', '.join(IMAGES)} nor {TEXT}", "give the folder of the pages"
        )
    names = Counter(path.stem for path in pages)
    problems, found = Problems(), []
    for path in steps("looking at pages", pages, len(pages)):
        relative = path.relative_to(root).as_posix()
        reason = reason_refused(root, relative)
        problems.add(relative, [] if reason is None else [reason])
        with problems.catch(f"{relative}:"):
            header = read_header(path) if path.suffix.lower() in IMAGES else None
            if header is not None and header.orientation != 1:
                raise ManifestError(orientation_problem(header))
            name = path.stem if names[path.stem] == 1 else PurePosixPath(relative).with_suffix("").as_posix()
            found.append(FoundPage(name.replace("/", "-"), relative, *_place(relative), header, _beside(root, path)))
    problems.raise_if_any()
    return tuple(found)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _place(path: str) -> tuple[Split | None, str | None]:
    """The split that the page's folders say, and the last folder that says none."""
    folders = PurePosixPath(path).parts[:-1]
    splits = [SPLIT_FOLDERS[name.lower()] for name in folders if name.lower() in SPLIT_FOLDERS]
    others = [name for name in folders if name.lower() not in {*SPLIT_FOLDERS, "images", "img", "imgs", "pages"}]
    return (splits[0] if splits else None), (others[-1] if others else None)


def _beside(root: Path, page: Path) -> Path | None:
    name = f"{page.stem}.json"
    places = (page.with_name(name), *(page.parent / folder / name for folder in BESIDE))
    above = () if page.parent == root else tuple(page.parent.parent / folder / name for folder in BESIDE)
    return next((path for path in (*places, *above) if path.is_file()), None)


def read_document(root: Path, page: FoundPage, split: Split, given: Mapping[str, Any]) -> Document:
    """Make the document of a page, of its file and the JSON beside it.

    The JSON is a list of words, a table with any keys of a document, or what an OCR service wrote (`ocr_json`).

    Args:
        root: the folder.
        page: of it.
        split: that it goes into.
        given: other values of the document, which outrank those beside it.

    Raises:
        ManifestError: the JSON is of another form.
    """
    size = None if page.header is None else (page.header.width, page.header.height)
    values: dict[str, Any] = {} if page.beside is None else _content(page.beside, size)
    values |= {**given, "id": page.id, "split": split}
    if page.header is not None:
        values |= {"image": page.path, "size": size}
    elif "words" not in values:
        values["words"] = tuple(Word(word) for word in read_text(root / page.path).split())
    try:
        return _document_type.validate_python(values)
    except ValidationError as error:
        where = page.path if page.beside is None else page.beside.name
        raise ManifestError([f"{where}: {problem}" for problem in form_problems(error)]) from None


def _content(path: Path, size: tuple[int, int] | None) -> dict[str, Any]:
    content = parse_json(read_text(path), f"{path.name}: not JSON")
    if isinstance(content, list):
        return {"words": content}
    if not isinstance(content, dict):
        raise ManifestError(f"{path.name}: neither a list of words nor a table")
    if _OCR & {*content}:
        if size is None:
            raise ManifestError(f"{path.name}: words with places, but there is no image")
        return {"words": _words(content, size)}
    return content


def _words(content: dict[str, Any], size: tuple[int, int]) -> tuple[Word, ...]:
    """The words that an OCR service read on a page of this size, those without text left out."""
    pages = read_service(content)
    if len(pages) != 1:
        raise ManifestError(f"{len(pages)} pages for one image")
    check_shape(pages[0].shape, size)
    words = [(clean(word.text), word.box) for word in pages[0].words]
    return tuple(Word(text, box and in_pixels(box, "shares", size, strict=False)) for text, box in words if text)


def groups_of(pages: Sequence[FoundPage]) -> tuple[str, ...]:
    """Names of the folders that pages lie in, beside those that say a split, where there are two at least; sorted."""
    names = {page.group for page in pages if page.group is not None}
    return tuple(sorted(names)) if len(names) > 1 else ()
