"""Tables of values: a row for each field (file, key, value), or a row for each page and a column for each field."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from audit.errors import ManifestError
from audit.importers.columns import Columns, category_of
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
        """See `Importer.pages`."""
        pdfs: dict[str, list[Page]] = {}
        rows: list[tuple[str, Row, Mapping[str, str], Sequence[Page]]] = []
        for path in source.files(
            ".csv", hint="give the table, or the folder that holds it and the pages"
        ):
            with source.problems.catch():
                for place, row in source.records(path):
                    known = _columns_by_meaning(row, source.options.columns)
                    if "file" not in known or len(row) < 2:
                        names = ", ".join(NAMES["table"]["file"][:4])
                        wanted = f"no column {names} with another beside it"
                        columns = Columns(row, named=source.options.columns)
                        raise columns.refusal(
                            shown_path(path), wanted, "file", "key", "value", of="table"
                        )
                    with source.problems.catch(f"{place}:"):
                        folder = PurePosixPath(path).parent.as_posix()
                        rows.append(
                            (
                                place,
                                row,
                                known,
                                _pages(source, pdfs, row, row[known["file"]], folder),
                            )
                        )
        pages = [*source.pages, *(page for own in pdfs.values() for page in own)]
        source.read_words(pages)
        for place, row, meanings, own in rows:
            with source.problems.catch(f"{place}:"):
                _add(source, row, meanings, own)
        yield from pages


def _columns_by_meaning(row: Row, named: Mapping[str, str]) -> dict[str, str]:
    """Map each known meaning to the row's column of it."""
    lower = {name.lower(): name for name in reversed([*row])}
    names = {**NAMES["table"], **{meaning: [name.lower()] for meaning, name in named.items()}}
    found = {
        meaning: [lower[name] for name in known if name in lower]
        for meaning, known in names.items()
    }
    return {meaning: columns[0] for meaning, columns in found.items() if columns}


def _pages(
    source: Source, pdfs: dict[str, list[Page]], row: Row, named: str, folder: str
) -> Sequence[Page]:
    """Return the pages of the file that a row names."""
    if not clean(named):
        raise ManifestError("no file is named")
    if not named.lower().endswith(NAMED_PDF):
        return [source.page(source.find_image(named, folder), row)]
    name = PurePosixPath(named.replace("\\", "/")).name
    if name not in pdfs:
        files = files_in(source.root, (NAMED_PDF,))
        path = source.at(
            choose_one([one for one in files if PurePosixPath(one).name == name], "its PDF")
        )
        pdfs[name] = pages_of_pdf(path, path.stem, source.scratch / f"pdf{len(pdfs)}")
    return pdfs[name]


def _add(source: Source, row: Row, known: Mapping[str, str], pages: Sequence[Page]) -> None:
    """Add a row to its file's pages: split, class and provider, and values or a question."""
    values = {meaning: clean(row[column]) for meaning, column in known.items()}
    named = (
        None if source.options.provider else " ".join(values.get("provider", "").split()) or None
    )
    for page in pages:
        page.part = part_named(values.get("split", "")) or page.part
        page.label = values.get("class") or page.label
        page.provider = page.provider or source.provider(row) or named
    if "value" not in known:
        fixed = {known.get(meaning) for meaning in ("file", "split", "class", "provider")}
        for name, text in row.items():
            if name not in fixed:
                _add_value(pages, name, clean(text))
    elif "question" in known:
        pages[0].ask(values["question"], row[known["value"]].split("|"))
    elif "key" in known:
        _add_value(pages, values["key"], values["value"])


def _add_value(pages: Sequence[Page], label: str, value: str) -> None:
    """Give a value to the first page on which it is found, else to the first of all."""
    if value and label:
        category = category_of(label)
        texts = ([word.text for word in page.words] for page in pages)
        found = (
            number
            for number, words in enumerate(texts)
            if isinstance(locate(value, category, words), Location)
        )
        pages[next(found, 0) if len(pages) > 1 else 0].fields.append(Field(label, value=value))
