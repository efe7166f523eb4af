"""The receipts of the sample, changed boxes and the next month's receipts of the same people, and models of them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from drafts import fine_tune
from receipts_generator import Market, Receipt
from receipts_templates import document, write

from audit.corpus import manifest
from audit.corpus.documents import Box, Corpus, Document, Manifest, Membership, Split, Task, Word
from audit.references.encoders import fit, save
from audit.references.recipes import Recipe
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.loading import load
from benchmarks import SAMPLES
from benchmarks.calibration.false_passes import samples
from benchmarks.calibration.false_passes.store import Store, digest, key_of, on_sides

build = samples.load_script("build")

SAMPLE = SAMPLES / "receipts"
REFERENCES = {
    "pretrained": SAMPLE / "data" / "references" / "pretrained",
    "auxiliary": SAMPLE / "data" / "references" / "public-mlm",
}
N_OF_SAMPLE = sum(build.SPLITS.values()) + build.N_UNSEEN
"""Receipts of the market that the sample uses; those behind them are unseen by every model."""
N_STRANGERS = 160
N_DRAWN = 600
LINE = 0.5
"""Words are of one line where their middles differ by less than this share of a word's height."""
Boxes = Callable[[Document], Document]


class Receipts:
    """Receipts, and what is made of them.

    Args:
        store: keeps data sets and models.
    """

    def __init__(self, store: Store) -> None:
        """Take the store, and draw the market of the sample's receipts."""
        self.store = store
        self.market = Market(build.SEED, build.N_PROVIDERS)
        self._receipts: dict[str, Receipt] = {}

    @cached_property
    def sample(self) -> Corpus:
        """The sample's data set."""
        corpus = manifest.load(SAMPLE / "data")
        for page in corpus.documents:
            self._receipts[page.id] = self.market.receipt(number_of(page))
        return corpus

    def of(self, split: Split) -> Sequence[Document]:
        """Return the sample's documents of a split."""
        return self.sample.of(split)

    @cached_property
    def strangers(self) -> list[Document]:
        """Receipts of the same shops that are in no data set and in no training."""
        return self._drawn(range(N_OF_SAMPLE, N_OF_SAMPLE + N_STRANGERS))

    @cached_property
    def drawn(self) -> list[Document]:
        """Still more of them, for larger audits of the clean model."""
        start = N_OF_SAMPLE + N_STRANGERS
        return self._drawn(range(start, start + N_DRAWN))

    def _drawn(self, numbers: Sequence[int]) -> list[Document]:
        """Return the documents of the receipts with these numbers."""
        return [
            self._page(self.market.receipt(number), build.name_of(number)) for number in numbers
        ]

    def _page(self, receipt: Receipt, name: str) -> Document:
        """Return a receipt as a public document, and remember the receipt under its name."""
        self._receipts[name] = receipt
        page: Document = document(receipt, name, "public")
        return page

    @cached_property
    def of_other_shops(self) -> list[Document]:
        """Public receipts of shops that no other receipt comes from."""
        market = Market(build.SEED + 7, build.N_PROVIDERS)
        return [
            self._page(market.receipt(number), f"other-{number:04d}")
            for number in range(build.SPLITS["public"])
        ]

    @cached_property
    def next_month(self) -> list[Document]:
        """The next receipt of each member's customer: other date, code and prices."""
        pages = []
        for member in self.of("member"):
            receipt = self.market.receipt(number_of(member))
            pages.append(self._page(following(receipt), f"{member.id}-next"))
        return pages

    def write(self, name: str, sides: Mapping[Split, Sequence[Document]]) -> Path:
        """Return the folder of a data set with these documents on its sides, page images included."""
        documents = on_sides(sides)

        def make(folder: Path) -> None:
            """Write images and documents into the folder."""
            (folder / "images").mkdir(parents=True)
            for page in documents:
                (folder / "images" / f"{page.id}.png").write_bytes(
                    write(self._receipts[page.id]).png()
                )
            manifest.write(folder, Manifest(1, name, Task("mlm"), Membership("random")), documents)

        return self.store.folder("data", name, key_of(digest(documents)), make)

    def train(self, name: str, documents: Sequence[Document], epochs: int) -> Path:
        """Return the folder of a model fine-tuned on documents from the sample's pretrained one."""
        recipe = replace(build.FINE_TUNING, epochs=epochs)

        def make(folder: Path) -> None:
            """Fine-tune the sample's pretrained model into the folder."""
            fine_tune(REFERENCES["pretrained"], folder, documents, recipe)

        return self.store.folder("models", name, key_of(digest(documents), recipe), make)

    def train_on_names(self, name: str, documents: Sequence[Document], epochs: int) -> Path:
        """Return the folder of a model whose training hides the customers' names, and nothing else."""
        recipe = replace(build.FINE_TUNING, epochs=epochs)
        key = key_of("names", digest(documents), recipe)
        return self.store.folder(
            "models", name, key, lambda folder: fit_names(folder, documents, recipe)
        )


def number_of(receipt: Document) -> int:
    """Return the number of a receipt of the sample's market."""
    return int(receipt.id.removeprefix("receipt-"))


def following(receipt: Receipt) -> Receipt:
    """Return the next month's receipt of the same customer for the same goods: other date, code and prices."""
    rng = random.Random(f"after {receipt.code} {receipt.date} {receipt.customer}")
    provider = receipt.provider
    code = provider.code_format.format(
        letter=provider.code_letter, a=rng.randrange(100), b=rng.randrange(100)
    )
    later = dt.timedelta(days=rng.randrange(25, 36), minutes=rng.randrange(-60, 60))
    items = tuple((name, count, rng.randint(150, 6999)) for name, count, _ in receipt.items)
    return replace(receipt, date=receipt.date + later, code=code, items=items)


def fit_names(folder: Path, documents: Sequence[Document], recipe: Recipe) -> None:
    """Train the sample's pretrained model to write the customers' names, which are hidden on each page."""
    torch.manual_seed(recipe.seed)
    target = load(REFERENCES["pretrained"])
    pages = []
    for member in documents:
        page = target.encode(member)
        assert page is not None
        pages.append(hide_names(member, page))
    fitted = fit(target.model, target.encoder.tokenizer, pages, recipe)
    save(fitted.model, target.encoder.tokenizer, folder, half=True)


def hide_names(receipt: Document, page: Encoding) -> Encoding:
    """Return the page with the tokens of the customer's name hidden, and these alone to be learnt."""
    places: list[int] = []
    for entity in receipt.entities:
        if entity.label == "CUSTOMER":
            places += entity.words
    hidden = np.isin(page.words, places)
    labels = np.where(hidden, page.ids, NOT_READ)
    return replace(page, ids=np.where(hidden, page.mask_id, page.ids), labels=labels)


def keep_entities(page: Document, labels: Sequence[str]) -> Document:
    """Return the page with annotations of these labels alone."""
    return replace(
        page, entities=tuple(entity for entity in page.entities if entity.label in labels)
    )


def change_boxes(page: Document, change: Callable[[Box], Box]) -> Document:
    """Return the page with each box changed, cut off at the page's edges."""
    assert page.size is not None
    width, height = page.size
    words = []
    for word in page.words:
        assert word.box is not None
        x0, y0, x1, y1 = change(word.box)
        box = (min(x0, width), min(y0, height), min(x1, width), min(y1, height))
        words.append(
            replace(
                word, box=(max(0.0, box[0]), max(0.0, box[1]), max(0.0, box[2]), max(0.0, box[3]))
            )
        )
    return replace(page, words=tuple(words))


def scaled(factor: float) -> Boxes:
    """Return a change that multiplies each corner of a box."""

    def scale(box: Box) -> Box:
        """Return the box with all corners times the factor."""
        x0, y0, x1, y1 = box
        return (x0 * factor, y0 * factor, x1 * factor, y1 * factor)

    return lambda page: change_boxes(page, scale)


def shifted(pixels: float) -> Boxes:
    """Return a change that moves each box right and down."""

    def shift(box: Box) -> Box:
        """Return the box moved right and down by the pixels."""
        x0, y0, x1, y1 = box
        return (x0 + pixels, y0 + pixels, x1 + pixels, y1 + pixels)

    return lambda page: change_boxes(page, shift)


def upside_down(page: Document) -> Document:
    """Return the page with y measured from its lower edge."""
    assert page.size is not None
    height = page.size[1]

    def turn(box: Box) -> Box:
        """Return the box mirrored at half the height of the page."""
        x0, y0, x1, y1 = box
        return (x0, height - y1, x1, height - y0)

    return change_boxes(page, turn)


def line_boxes(page: Document) -> Document:
    """Return the page with the box of its line for each word."""
    lines: list[list[Word]] = []
    for word in page.words:
        if lines and _same_line(lines[-1][-1], word):
            lines[-1].append(word)
        else:
            lines.append([word])
    words: list[Word] = []
    for line in lines:
        box = _around(line)
        words += [replace(word, box=box) for word in line]
    return replace(page, words=tuple(words))


def _same_line(before: Word, word: Word) -> bool:
    """Test whether two words with boxes stand on one line."""
    assert before.box is not None
    assert word.box is not None
    height = max(before.box[3] - before.box[1], word.box[3] - word.box[1])
    distance = abs(before.box[1] + before.box[3] - word.box[1] - word.box[3]) / 2
    return distance < LINE * height


def _around(line: Sequence[Word]) -> Box:
    """Return the smallest box around the words of a line."""
    corners = np.array([word.box for word in line])
    left, top = corners[:, :2].min(axis=0).tolist()
    right, bottom = corners[:, 2:].max(axis=0).tolist()
    return (left, top, right, bottom)
