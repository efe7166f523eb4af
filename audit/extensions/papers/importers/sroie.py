"""SROIE (ICDAR 2019, task 3): `img/NNN.jpg`, `box/NNN.csv` (one text line a row), `key/NNN.json` (four values)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from audit.corpus.documents import Category
from audit.errors import ManifestError
from audit.extensions.papers.importers.questions import files_by_stem
from audit.importers.files import parse_json, read_text
from audit.importers.forms import boxed_lines
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, clean
from audit.importers.source import Source

FIELDS: Mapping[str, Category] = {
    "company": "organization",
    "date": "datetime",
    "address": "location",
    "total": "amount",
}
PHRASINGS: Mapping[str, tuple[str, ...]] = {
    "company": (
        "What is the name of the company?",
        "Which company issued this receipt?",
        "Who is the seller on this receipt?",
        "What is the shop called?",
        "Which business was the purchase made from?",
        "Who is the receipt from?",
    ),
    "date": (
        "What is the date of the receipt?",
        "When was this receipt issued?",
        "On which day was the purchase made?",
        "What date is printed on the receipt?",
        "Which date does the transaction bear?",
        "When did the customer pay?",
    ),
    "address": (
        "What is the address of the company?",
        "Where is the shop located?",
        "At which address was the purchase made?",
        "What address is printed on the receipt?",
        "Where can the seller be found?",
        "Which address does the business give?",
    ),
    "total": (
        "What is the total amount?",
        "How much was paid in total?",
        "What is the total of the receipt?",
        "Which sum had the customer to pay?",
        "How much does the whole purchase cost?",
        "What amount is due?",
    ),
}
"""By key of SROIE: no phrasing names anything of a receipt, and any of them may be the one that is trained on."""


class SROIE(Importer):
    """One document a receipt, its id the name of its files; the company is the provider.

    For question-answering every value of a receipt, found on the page or not, becomes a question (`phrasings_for`).
    """

    name = "sroie"
    description = "img/, box/, key/"
    tasks = ("mlm", "token-classification", "spade-extraction", "question-answering")
    labels = tuple(map(str.upper, FIELDS))
    parts = False
    recognises = False
    marks = (("key/*", ""),)

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        images = files_by_stem(source, [["img"]], (".jpg", ".jpeg", ".png"))
        boxes = files_by_stem(source, [["box"]], (".csv", ".txt"))
        keys = files_by_stem(source, [["key"]], (".json", ".txt"))
        names = sorted(images.keys() | boxes.keys() | keys.keys())
        for name in names:
            missing = [
                folder for folder, files in (("box", boxes), ("img", images), ("key", keys)) if name not in files
            ]
            source.problems.add("", (f"{folder}/{name}: missing" for folder in missing))
            if not missing:
                with source.problems.catch(f"{name}:"):
                    words, values = [*boxed_lines(boxes[name], numbers=[8])], _values(keys[name])
                    page = Page(name, images[name], words, "pixels", provider=values["company"] or None)
                    for key, value in values.items():
                        asked = phrasings_for(name, key, source.seed)
                        field = Field(key.upper(), value=value, category=FIELDS[key], id=key, phrasings=asked)
                        page.fields.append(field)
                    yield page


def _values(path: Path) -> dict[str, str]:
    table = parse_json(read_text(path), f"{path.name} is not JSON")
    if not isinstance(table, dict):
        raise ManifestError(f"{path.name} is not an object with the keys {', '.join(FIELDS)}")
    wrong = [key for key in FIELDS if not isinstance(table.get(key, ""), str)]
    if wrong:
        raise ManifestError([f"{path.name} {key}: must be a text" for key in wrong])
    return {key: clean(table.get(key, "")) for key in FIELDS}


def phrasings_for(document: str, key: str, seed: int) -> tuple[str, ...]:
    """Order the phrasings of a key: the first is the question about one receipt, the others are its paraphrases.

    Which phrasing is the question follows from the seed, the document and the key alone; the others, which the model
    did not hear about this receipt, come in the order of `PHRASINGS`.
    """
    phrasings = PHRASINGS[key]
    chosen = random.Random(f"{seed}/{document}/{key}").randrange(len(phrasings))
    return (phrasings[chosen], *phrasings[:chosen], *phrasings[chosen + 1 :])
