"""Acme's export: {"id", "scan", "set", "supplier", "tokens": [{"t", "x", "y", "w", "h"}], "keys": {"total": [3]}}."""

from collections.abc import Iterator

from audit.corpus.documents import Word
from audit.importers.files import form_of
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, part_named
from audit.importers.source import Source


class Invoices(Importer):
    """A document for each scan: its tokens are words, its keys fields."""

    name = "invoices"
    description = "pages.jsonl and the scans that it names"

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages; problems are listed with their lines."""
        for place, row in source.records("pages.jsonl"):
            with source.problems.catch(f"{place}:"), form_of("a scan"):
                words = []
                for token in row["tokens"]:
                    x, y = token["x"], token["y"]
                    words.append(Word(token["t"], (x, y, x + token["w"], y + token["h"])))
                page = Page(row["id"], source.at(row["scan"]), words, provider=row["supplier"])
                page.part = part_named(row["set"])
                page.fields = [Field(key, (*at,)) for key, at in row["keys"].items()]
                yield page
