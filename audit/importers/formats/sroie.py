"""SROIE (ICDAR 2019, task 3): `img/NNN.jpg`, `box/NNN.csv` and `key/NNN.json`.

A .csv has one text line a row, a .json four values.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from audit.corpus.documents import Category
from audit.errors import ManifestError
from audit.files import table_beside
from audit.importers.faults import name_of
from audit.importers.files import parse_json, read_text
from audit.importers.formats.forms import boxed_lines
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, clean
from audit.importers.source import Source

FIELDS: Mapping[str, Category] = {
    "company": "organization",
    "date": "datetime",
    "address": "location",
    "total": "amount",
}
PHRASINGS: Mapping[str, Sequence[str]] = table_beside(__file__, "sroie_phrasings.toml")
"""Questions that ask for a field, by its key."""


class SROIE(Importer):
    """One document a receipt, its id the name of its files; the company is the provider.

    For question-answering every value of a receipt, found on the page or not, becomes a question
    (`phrasings_for`).
    """

    name = "sroie"
    description = "img/, box/, key/"
    tasks = ("mlm", "token-classification", "spade-extraction", "question-answering")
    labels = tuple(map(str.upper, FIELDS))
    parts = False
    recognises = False
    marks = (("key/*", ""),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of SROIE as it is published."""
        files = {
            "img": source.files_by_stem((".jpg", ".jpeg", ".png"), ["img"]),
            "box": source.files_by_stem((".csv", ".txt"), ["box"]),
            "key": source.files_by_stem((".json", ".txt"), ["key"]),
        }
        for name in sorted({*files["img"], *files["box"], *files["key"]}):
            missing = [folder for folder, paths in files.items() if name not in paths]
            source.problems.add("", (f"{folder}/{name}: missing" for folder in missing))
            if not missing:
                with source.problems.catch(f"{name}:"):
                    words = [*boxed_lines(files["box"][name], numbers=[8])]
                    values = _values_of_fields(files["key"][name])
                    page = Page(
                        name,
                        files["img"][name],
                        words,
                        "pixels",
                        provider=values["company"] or None,
                        place=name,
                    )
                    for key, value in values.items():
                        field = Field(
                            key.upper(),
                            value=value,
                            category=FIELDS[key],
                            id=key,
                            phrasings=phrasings_for(name, key, source.seed),
                        )
                        page.fields.append(field)
                    yield page


def _values_of_fields(path: Path) -> dict[str, str]:
    """Return the values of SROIE's fields in a JSON file, by key; empty where one is missing."""
    table = parse_json(read_text(path), f"{name_of(path)} is not JSON")
    if not isinstance(table, dict):
        raise ManifestError(f"{name_of(path)} is not an object with the keys {', '.join(FIELDS)}")
    wrong = [key for key in FIELDS if not isinstance(table.get(key, ""), str)]
    if wrong:
        raise ManifestError([f"{name_of(path)} {key}: must be a text" for key in wrong])
    return {key: clean(table.get(key, "")) for key in FIELDS}


def phrasings_for(document: str, key: str, seed: int) -> tuple[str, ...]:
    """Return the phrasings that ask for a key, in an order drawn for this document.

    The first is the question about the receipt, the others are its paraphrases.

    Which phrasing is the question follows from the seed, the document and the key alone; the
    others, which the model did not hear about this receipt, come in the order of `PHRASINGS`.
    """
    phrasings = PHRASINGS[key]
    chosen = random.Random(f"{seed}/{document}/{key}").randrange(len(phrasings))
    return (phrasings[chosen], *phrasings[:chosen], *phrasings[chosen + 1 :])
