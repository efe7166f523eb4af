"""Tables of values: a row for each field (file, key, value), or a row for each page.

In the second form each field has a column.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from audit.errors import ManifestError
from audit.importers.columns import Columns, add_ground_truth, category_of
from audit.importers.faults import NAMES, shown_path
from audit.importers.files import files_in
from audit.importers.interface import Importer
from audit.importers.locate import Location, locate
from audit.importers.pages import Field, Page, clean, part_named
from audit.importers.pdf import NAMED_PDF, pages_of_pdf
from audit.importers.source import Source, choose_one
from audit.importers.words import SUFFIXES

Row = Mapping[str, str]


class FieldTable(Importer):
    """One document a file that the tables name, which hold their values.

    Values are located among the words of a word file beside the image, of any program, or of the
    PDF itself.
    """

    name = "csv"
    description = (
        "a .csv of file, key and value, or of file and a column for each field; images or PDFs"
    )
    word_files = SUFFIXES
    marks = (
        ("*.csv", r"(?i)^[^\n]{0,500}\bkey\b[^\n]{0,500}\bvalue\b"),
        ("*.csv", r"(?i)^\W?(file|image|document|page)(_?(name|path))?\W?[,;\t]"),
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a table with a column a field."""
        pdfs = _PDFs(source)
        rows: list[_PlacedRow] = []
        hint = "give the table, or the folder that holds it and the pages"
        for path in source.files(".csv", hint=hint):
            folder = PurePosixPath(path).parent.as_posix()
            with source.problems.catch():
                for place, row in source.records(path):
                    columns = _checked_columns(source, path, row)
                    _note_unread(source, row, columns)
                    with source.problems.catch(f"{place}:"):
                        pages = pdfs.pages_of(row, row[columns["file"]], folder)
                        rows.append(_PlacedRow(place, row, columns, pages))
        all_pages = [*source.pages, *pdfs.pages]
        source.read_words(all_pages)
        for placed_row in rows:
            with source.problems.catch(f"{placed_row.place}:"):
                _add_row(source, placed_row)
        yield from all_pages


class _PlacedRow(NamedTuple):
    """A row of a table.

    Attributes:
        place: place of the row, for messages.
        values: its values by column.
        columns: the columns that have a meaning, by meaning.
        pages: the pages of the file that it names.
    """

    place: str
    values: Row
    columns: Mapping[str, str]
    pages: Sequence[Page]


def _checked_columns(source: Source, path: str, row: Row) -> dict[str, str]:
    """Return the columns of a table by meaning; refuse a table without files or without values.

    Raises:
        UsageError: none of them names a file, or there is no other.
    """
    columns = _columns_by_meaning(row, source.options.columns)
    if "file" in columns and len(row) >= 2:
        return columns
    names = ", ".join(NAMES["table"]["file"][:4])
    reason = f"no column {names} with another beside it"
    raise Columns(row, named=source.options.columns).refusal(
        shown_path(path), reason, "file", "key", "value", of="table"
    )


def _columns_by_meaning(row: Row, named: Mapping[str, str]) -> dict[str, str]:
    """Map each known meaning to the row's column of it."""
    lower = {name.lower(): name for name in reversed([*row])}
    names = {**NAMES["table"], **{meaning: [name.lower()] for meaning, name in named.items()}}
    columns: dict[str, str] = {}
    for meaning, usual_names in names.items():
        column = next((lower[name] for name in usual_names if name in lower), None)
        if column is not None:
            columns[meaning] = column
    return columns


def _note_unread(source: Source, row: Row, columns: Mapping[str, str]) -> None:
    """Note the columns without a meaning of a table with a value a row; each is a field else."""
    if "value" in columns:
        source.unread.note(row, {*columns.values(), source.options.provider or ""}, row)


class _PDFs:
    """Reads the files that rows name; each PDF once.

    Attributes:
        source: the folder of the files.
    """

    def __init__(self, source: Source) -> None:
        """Start with no PDF rendered; pages of one file are rendered once and kept."""
        self.source = source
        self._pages: dict[str, list[Page]] = {}

    @property
    def pages(self) -> list[Page]:
        """List the pages of all PDFs rendered up to now."""
        return list(chain.from_iterable(self._pages.values()))

    def pages_of(self, row: Row, file: str, folder: str) -> Sequence[Page]:
        """Return the pages of the file that a row names; a PDF is rendered once.

        Args:
            row: the row, which may name the provider.
            file: name of the file.
            folder: folder of the table.

        Raises:
            ManifestError: no file is named, or it is missing or cannot be read.
        """
        source = self.source
        if not clean(file):
            raise ManifestError("no file is named")
        if not file.lower().endswith(NAMED_PDF):
            return [source.page(source.find_image(file, folder), row)]
        name = PurePosixPath(file.replace("\\", "/")).name
        if name not in self._pages:
            files = files_in(source.root, (NAMED_PDF,))
            same_name = [path for path in files if PurePosixPath(path).name == name]
            path = source.at(choose_one(same_name, "its PDF"))
            scratch = source.scratch / f"pdf{len(self._pages)}"
            self._pages[name] = pages_of_pdf(path, path.stem, scratch)
        return self._pages[name]


def _add_row(source: Source, row: _PlacedRow) -> None:
    """Add a row to its file's pages: split, class, provider, and its values or its question."""
    values = {meaning: clean(row.values[column]) for meaning, column in row.columns.items()}
    _set_keys(source, row, values)
    if "value" not in values:
        _add_columns(row)
    elif "question" in values:
        answers = row.values[row.columns["value"]].split("|")
        row.pages[0].ask(values["question"], answers)
    elif "key" in values:
        _add_value(row.pages, values["key"], values["value"], _person_in(values))
    elif values["value"]:
        add_ground_truth(row.pages[0], row.values[row.columns["value"]])


_FIXED = ("file", "split", "class", "provider", "person")
"""Meanings of columns that hold no field of a page."""


def _set_keys(source: Source, row: _PlacedRow, values: Mapping[str, str]) -> None:
    """Set split, class, provider and person of a row's pages where the row names them.

    A row with a value of its own says whose that value is, and not the page.
    """
    provider = None
    if not source.options.provider:
        provider = " ".join(values.get("provider", "").split()) or None
    for page in row.pages:
        page.part = part_named(values.get("split", "")) or page.part
        page.label = values.get("class") or page.label
        page.provider = page.provider or source.provider(row.values) or provider
        if "value" in values:
            page.person = None
        else:
            page.person = page.person or _person_in(values)


def _add_columns(row: _PlacedRow) -> None:
    """Add the values of a row that has a column for each field to its pages."""
    fixed = {row.columns.get(meaning) for meaning in _FIXED}
    for name, text in row.values.items():
        if name not in fixed:
            _add_value(row.pages, name, clean(text))


def _person_in(values: Mapping[str, str]) -> str | None:
    """Return whose a row is, by the name or number in it; None where it says nothing."""
    return " ".join(values.get("person", "").split()) or None


def _add_value(pages: Sequence[Page], label: str, value: str, person: str | None = None) -> None:
    """Give a value to the first page on which it is found, else to the first of all."""
    if value and label:
        page = _page_with(pages, value, label) if len(pages) > 1 else pages[0]
        page.fields.append(Field(label, value=value, person=person))


def _page_with(pages: Sequence[Page], value: str, label: str) -> Page:
    """Return the first page on which a value is found, else the first of all."""
    category = category_of(label)
    for page in pages:
        words = [word.text for word in page.words]
        if isinstance(locate(value, category, words), Location):
            return page
    return pages[0]
