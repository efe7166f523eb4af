"""Documents of several pages beside one word file: PDFs, and TIFFs of several pages."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from audit.corpus.images import decode, page_count
from audit.errors import ManifestError
from audit.importers.files import files_in
from audit.importers.pages import Page, ids_of, part_of
from audit.importers.pdf import MAX_PAGES, NAMED_PDF, pages_of_pdf
from audit.importers.reading import spend
from audit.importers.source import Source

LEFT_OUT = "PDFs without a word file, left out"
"""Count of PDFs for the report."""
_TIFF = (".tif", ".tiff")


def pages_of_image(source: Source, path: str) -> Iterator[Page]:
    """Yield the page of an image with its words, or all pages of a TIFF of several.

    Args:
        source: the source.
        path: path of the image within it.

    Raises:
        ManifestError: the image or its word file cannot be read.
    """
    is_tiff = PurePosixPath(path).suffix.lower() in _TIFF
    n_pages = page_count(source.at(path)) if is_tiff else 1
    if n_pages == 1:
        yield source.page(path)
        return
    folder = source.scratch / f"tiff-{source.ids[path]}"
    pages = _split_tiff(source.at(path), n_pages, source.ids[path], folder)
    yield from _completed(source, pages, path)


def pages_of_pdfs(source: Source) -> Iterator[Page]:
    """Yield the pages of the PDFs that have a word file, drawn, with the words of that file.

    A PDF whose page lies beside it as an image of its name is not read again.
    """
    for number, (path, name) in enumerate(_pdfs_of(source).items()):
        with source.problems.catch(f"{path}:"):
            if source.find_words(path) is None:
                source.notes[LEFT_OUT] += 1
                continue
            pages = pages_of_pdf(source.at(path), name, source.scratch / f"pdf{number}")
            yield from _completed(source, pages, path)


def _completed(source: Source, pages: list[Page], path: str) -> list[Page]:
    """Add to the pages of a document what lies beside it, and what its path says."""
    source.fill(pages, path)
    for page in pages:
        page.part = part_of(path)
        page.provider = source.provider(None, path)
        page.source = path
    return pages


def _pdfs_of(source: Source) -> Mapping[str, str]:
    """Return the name of each PDF of a source, by its path, without those of an image's name."""
    images = {PurePosixPath(path).with_suffix("") for path in source.ids}
    paths = files_in(source.root, (NAMED_PDF,))
    return ids_of(path for path in paths if PurePosixPath(path).with_suffix("") not in images)


def _split_tiff(path: Path, n_pages: int, name: str, folder: Path) -> list[Page]:
    """Write each page of a TIFF to a file of its own in a new folder; return the pages.

    Raises:
        ManifestError: it has too many pages, or is damaged.
    """
    if n_pages > MAX_PAGES:
        raise ManifestError(
            f"{n_pages:,} pages, and {MAX_PAGES:,} are the most: divide it into several files"
        )
    folder.mkdir()
    pages: list[Page] = []
    for number in range(n_pages):
        picture = decode(path, number)
        spend("pixels", picture.width * picture.height)
        image = folder / f"{number + 1}.png"
        picture.save(image)
        page_name = f"{name}-{number + 1}"
        pages.append(Page(page_name, image, source=path.name, place=page_name))
    return pages
