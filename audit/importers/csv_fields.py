"""Tables of values: a row for each field (file, key, value), or a row for each page and a column for each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.drafts import DraftField, DraftPage, clean
from audit.importers.gathering.files import csv_rows, provider_of, relative_files
from audit.importers.gathering.labels import category_of
from audit.importers.gathering.parts import check_parts, part_named
from audit.importers.interface import Source
from audit.importers.locating import Location, locate
from audit.importers.pdf import NAMED_PDF, pages_of_pdf
from audit.importers.words.image_pages import ImagePages

FILE = ("file", "file_name", "filename", "image", "image_path", "path", "document", "page")
KEY = ("key", "field", "label", "name", "entity")
VALUE = ("value", "text", "answer", "transcription")
QUESTION = ("question", "query")
SPLIT = ("split", "part", "set", "subset")
CLASS = ("class", "document_class", "document_type")
PROVIDER = ("provider", "issuer", "vendor", "supplier")


class FieldTable(Source):
    """One document a file that the tables name, which holds their values.

    Values are located among the words of a word file beside the image, of any program, or of the PDF itself.
    """

    name = "csv"
    description = "a .csv of file, key and value, or of file and a column for each field; images or PDFs"
    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        root, files = _tables(src)
        problems, reader = Problems(), _Reader(root, request)
        for path in files:
            with problems.catch():
                for place, row in _rows(inside(root.resolve(), path), path):
                    with problems.catch(place):
                        reader.add(row, PurePosixPath(path).parent.as_posix())
        check_parts(src, reader.pages, request)
        return Assembly(self.name, reader.pages, request, problems).contents()


class _Reader:
    """Pages of the files that tables name."""

    def __init__(self, root: Path, request: ImportRequest) -> None:
        self._root, self._request = root, request
        self._images = ImagePages(root, request)
        self._pdfs = relative_files(root, (NAMED_PDF,))
        self._by_pdf: dict[str, list[DraftPage]] = {}

    @property
    def pages(self) -> list[DraftPage]:
        """Every page so far."""
        return [*self._images.pages.values(), *(page for pages in self._by_pdf.values() for page in pages)]

    def add(self, row: Mapping[str, str], folder: str) -> None:
        """Add what a row says of its file's pages.

        Raises:
            ManifestError: there is no such file, or it cannot be read.
        """
        pages = self._pages(row[_column(row, FILE) or ""], folder, row)
        self._describe(pages, row)
        value = _column(row, VALUE)
        if value is not None and (asked := _column(row, QUESTION)):
            pages[0].ask(row[asked], row[value].split("|"))
        elif value is not None and (key := _column(row, KEY)):
            _place(pages, clean(row[key]), row[value])
        elif value is None:
            known = {_column(row, names) for names in (FILE, SPLIT, CLASS, PROVIDER[:1])}
            for name, text in row.items():
                if name not in known:
                    _place(pages, name, text)

    def _describe(self, pages: Sequence[DraftPage], row: Mapping[str, str]) -> None:
        """Split, class and provider, which any row of a page may say."""
        split, kind = _column(row, SPLIT), _column(row, CLASS)
        provider = self._request.options.provider or _column(row, PROVIDER)
        for page in pages:
            if split and clean(row[split]):
                page.part = part_named(row[split]) or page.part
            if kind and clean(row[kind]):
                page.label = clean(row[kind])
            page.provider = page.provider or provider_of(provider, row, None)

    def _pages(self, named: str, folder: str, row: Mapping[str, str]) -> Sequence[DraftPage]:
        if not clean(named):
            raise ManifestError("no file is named")
        if named.lower().endswith(NAMED_PDF):
            return self._pdf(named)
        return [self._images.page(self._images.finder.find(named, folder), row)]

    def _pdf(self, named: str) -> Sequence[DraftPage]:
        name = PurePosixPath(named.replace("\\", "/")).name
        found = [path for path in self._pdfs if PurePosixPath(path).name == name]
        if len(found) != 1:
            raise ManifestError(f"{name}: {len(found)} such files" if found else f"{name}: the file is missing")
        if found[0] not in self._by_pdf:
            number = len(self._by_pdf)
            name = PurePosixPath(name).stem
            self._by_pdf[found[0]] = pages_of_pdf(self._root / found[0], name, self._request.scratch / f"pdf{number}")
        return self._by_pdf[found[0]]


def _place(pages: Sequence[DraftPage], label: str, value: str | None) -> None:
    """Give a value to the first page on which it is found, else to the first of all."""
    text = clean(value or "")
    if not text or not label:
        return
    holds = (
        page
        for page in pages
        if isinstance(locate(text, category_of(label), [word.text for word in page.words]), Location)
    )
    page = pages[0] if len(pages) == 1 else next(holds, pages[0])
    page.fields.append(DraftField(label, value=text))


def _column(row: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The row's column of one of these names."""
    lower = {name.lower(): name for name in reversed([*row])}
    return next((lower[name] for name in names if name in lower), None)


def _tables(src: Path) -> tuple[Path, list[str]]:
    """The folder of the source and its tables; `src` may be the one table itself."""
    if src.is_file():
        return src.parent, [src.name]
    files = relative_files(src, (".csv",))
    if not files:
        raise UsageError(f"{src} holds no .csv", "give the table, or the folder that holds it and the pages")
    return src, files


def _rows(path: Path, name: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The rows of a table, with their places.

    Raises:
        ManifestError: as `csv_rows`; no column names files, or there is none beside it.
    """
    for number, row in csv_rows(path, name):
        if _column(row, FILE) is None or len(row) < 2:
            raise ManifestError(f"{name}: no column {', '.join(FILE[:4])} with another beside it")
        yield f"{name}:{number}:", row
