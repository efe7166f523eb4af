"""Documents of several pages: PDFs beside one word file, and images of several pages."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from audit.corpus.images import decode_pages, page_count
from audit.errors import ManifestError
from audit.importers.files import files_in
from audit.importers.pages import Page, ids_of, part_of
from audit.importers.pdf import NAMED_PDF, pages_of_pdf
from audit.importers.reading import spend
from audit.importers.source import Source

LEFT_OUT = "PDFs without a word file, left out"
"""Count of PDFs for the report."""
SPLIT = "images of several pages, whose pages are documents"
"""Count of such images for the report."""
_TIFF = (".tif", ".tiff")
_NUMBERED = ("-0", "_0", "-1", "_1")
"""What stands behind the name of a document in that of the file of its first page."""


def pages_of_image(source: Source, path: str) -> Iterator[Page]:
    """Yield the page of an image with its words, or all pages of a TIFF of several.

    Args:
        source: the source.
        path: path of the image within it.

    Raises:
        ManifestError: the image or its word file cannot be read.
    """
    pages = split_image(source, path)
    if pages:
        yield from _completed(source, pages, path)
    else:
        yield source.page(path)


def holds_sheets(folder: Path) -> bool:
    """Test whether a TIFF in a folder has several pages; one that cannot be read has none."""
    for path in files_in(folder, _TIFF):
        with suppress(ManifestError):
            if page_count(folder / path) > 1:
                return True
    return False


def split_image(source: Source, path: str) -> list[Page]:
    """Write each page of a TIFF of several to a file of its own; return the pages.

    Args:
        source: the source.
        path: path of the image within it.

    Returns:
        The pages; none where the image is one page.

    Raises:
        ManifestError: it is damaged, or has too many pages.
    """
    image = source.at(path)
    is_tiff = PurePosixPath(path).suffix.lower() in _TIFF
    if not is_tiff or page_count(image) == 1:
        return []
    name = source.ids[path]
    folder = source.scratch / f"tiff-{name}"
    folder.mkdir()
    pages: list[Page] = []
    for number, picture in enumerate(decode_pages(image), start=1):
        spend("pixels", picture.width * picture.height)
        picture.save(folder / f"{number}.png")
        page_name = f"{name}-{number}"
        pages.append(Page(page_name, folder / f"{number}.png", source=path, place=page_name))
    source.notes[SPLIT] += 1
    return pages


def pages_of_pdfs(source: Source) -> Iterator[Page]:
    """Yield the pages of the PDFs that have a word file, drawn, with the words of that file.

    A PDF whose first page lies beside it as an image is not read again.
    """
    for number, (path, name) in enumerate(_pdfs_of(source).items()):
        with source.problems.catch(f"{path}:"):
            if source.find_words(path) is None and _first_of_pages(source, path) is None:
                source.notes[LEFT_OUT] += 1
                continue
            pages = pages_of_pdf(source.at(path), name, source.scratch / f"pdf{number}")
            yield from _completed(source, pages, path)


def _completed(source: Source, pages: list[Page], path: str) -> list[Page]:
    """Add to the pages of a document what lies beside it or each page, and what its path says.

    Raises:
        ManifestError: a word file cannot be read, or that of a page is missing.
    """
    first = _first_of_pages(source, path)
    if first is None or source.find_words(path) is not None:
        source.fill(pages, path)
    else:
        for number, page in enumerate(pages, start=int(first[1])):
            named = _page_named(path, f"{first[0]}{number}")
            if source.find_words(named) is None:
                raise ManifestError(f"{page.place}: its word file is missing")
            source.fill([page], named)
    for page in pages:
        page.part = part_of(path)
        page.provider = source.provider(None, path)
        page.source = path
    return pages


def _first_of_pages(source: Source, path: str) -> str | None:
    """Return which of `_NUMBERED` the word file of a document's first page has; None without."""
    for ending in _NUMBERED:
        if source.find_words(_page_named(path, ending)) is not None:
            return ending
    return None


def _page_named(path: str, ending: str) -> str:
    """Return the path that the image of a document's page would have."""
    return PurePosixPath(path).with_suffix("").as_posix() + f"{ending}.png"


def _pdfs_of(source: Source) -> Mapping[str, str]:
    """Return the name of each PDF of a source, by its path, without those whose pages are there."""
    images = {PurePosixPath(path).with_suffix("").as_posix() for path in source.ids}
    paths: list[str] = []
    for path in files_in(source.root, (NAMED_PDF,)):
        stem = PurePosixPath(path).with_suffix("").as_posix()
        pictures = {stem, *(f"{stem}{ending}" for ending in _NUMBERED)}
        if pictures.isdisjoint(images):
            paths.append(path)
    return ids_of(paths)
