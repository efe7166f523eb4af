"""Tables of values: a row for each field (file, key, value), or a row for each page and a column for each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from audit.errors import ManifestError
from audit.importers.interface import Importer
from audit.importers.labels import category_of
from audit.importers.locate import Location, locate
from audit.importers.pages import Field, Page, clean, part_named
from audit.importers.pdf import NAMED_PDF, pages_of_pdf
from audit.importers.peek import Peek
from audit.importers.source import Source
from audit.importers.words import SUFFIXES

FILE = ("file", "file_name", "filename", "image", "image_path", "path", "document", "page")
KEY = ("key", "field", "label", "name", "entity")
VALUE = ("value", "text", "answer", "transcription")
QUESTION = ("question", "query")
SPLIT = ("split", "part", "set", "subset")
CLASS = ("class", "document_class", "document_type")
PROVIDER = ("provider", "issuer", "vendor", "supplier")
Row = Mapping[str, str]


class FieldTable(Importer):
    """One document a file that the tables name, which hold their values.

    Values are located among the words of a word file beside the image, of any program, or of the PDF itself.
    """

    name = "csv"
    description = "a .csv of file, key and value, or of file and a column for each field; images or PDFs"
    word_files = SUFFIXES

    def looks_like(self, peek: Peek) -> bool:
        """See `Importer.looks_like`."""
        heads = (head.split("\n")[0].split(",") for head in peek.heads("*.csv", most=20))
        return any({"key", "value"} <= {name.strip().strip('"') for name in head} for head in heads)

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        pdfs: dict[str, list[Page]] = {}
        for path in source.files(".csv", hint="give the table, or the folder that holds it and the pages"):
            with source.problems.catch():
                for place, row in source.records(path):
                    if _column(row, FILE) is None or len(row) < 2:
                        raise ManifestError(f"{path}: no column {', '.join(FILE[:4])} with another beside it")
                    with source.problems.catch(f"{place}:"):
                        _add(source, row, _pages(source, pdfs, row, PurePosixPath(path).parent.as_posix()))
        yield from source.pages
        for pages in pdfs.values():
            yield from pages


def _pages(source: Source, pdfs: dict[str, list[Page]], row: Row, folder: str) -> Sequence[Page]:
    """The pages of the file that a row names."""
    named = row[_column(row, FILE) or ""]
    if not clean(named):
        raise ManifestError("no file is named")
    if not named.lower().endswith(NAMED_PDF):
        return [source.page(source.find_image(named, folder), row)]
    name = PurePosixPath(named.replace("\\", "/")).name
    if name not in pdfs:
        path = source.at(source.find_file(NAMED_PDF, name))
        pdfs[name] = pages_of_pdf(path, path.stem, source.scratch / f"pdf{len(pdfs)}")
    return pdfs[name]


def _add(source: Source, row: Row, pages: Sequence[Page]) -> None:
    """Add what a row says of its file's pages: split, class and provider, and values or a question."""
    split, kind, value = _column(row, SPLIT), _column(row, CLASS), _column(row, VALUE)
    for page in pages:
        page.part = part_named(row[split]) or page.part if split else page.part
        page.label = clean(row[kind]) or page.label if kind else page.label
        page.provider = page.provider or source.provider(row)
        if source.options.provider is None and (named := _column(row, PROVIDER)):
            page.provider = page.provider or " ".join(row[named].split()) or None
    if value is not None and (asked := _column(row, QUESTION)):
        pages[0].ask(row[asked], row[value].split("|"))
    elif value is not None and (key := _column(row, KEY)):
        _place(pages, clean(row[key]), row[value])
    elif value is None:
        known = {_column(row, names) for names in (FILE, SPLIT, CLASS, PROVIDER[:1])}
        for name, text in row.items():
            if name not in known:
                _place(pages, name, text)


def _place(pages: Sequence[Page], label: str, value: str) -> None:
    """Give a value to the first page on which it is found, else to the first of all."""
    text = clean(value)
    if not text or not label:
        return
    category = category_of(label)
    holds = (one for one in pages if isinstance(locate(text, category, [w.text for w in one.words]), Location))
    page = pages[0] if len(pages) == 1 else next(holds, pages[0])
    page.fields.append(Field(label, value=text))


def _column(row: Row, names: Sequence[str]) -> str | None:
    """The row's column of one of these names."""
    lower = {name.lower(): name for name in reversed([*row])}
    return next((lower[name] for name in names if name in lower), None)
