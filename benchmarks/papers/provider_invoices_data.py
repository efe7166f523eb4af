"""The invoices of `provider_invoices.py`: two thirds of a thousand shops, half of them in, drawn at random by shop."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from receipts_generator import LETTERS, TRADES, Market, Provider, Receipt, region
from receipts_page import font
from receipts_templates import CASHIER, COMPANY, TOTAL, document, write

from audit.corpus import manifest
from audit.corpus.documents import (
    Document,
    Manifest,
    Membership,
    Question,
    ReferencePaths,
    Split,
    Task,
    TrainingRecipe,
)
from audit.corpus.folding import fold

SEED = 20_245
HEADER_SIZES = range(28, 11, -1)
"""Points: letterheads are so large, where the page's width allows it, that a model which sees it at less than a third
of its size can learn to read them."""
HEIGHT = 420
"""Pixels: what the longest invoice fills; the generator's pages are up to 512 high."""
MEMBER_DOCUMENTS = 2
"""Of every provider that is in."""
KEPT_ASIDE = (3, 4)
"""Documents that the attacker holds of every provider, in and out: drawn from these."""
ASKED = (1, 2, 3, 4)
"""Questions about a kept-aside document: drawn from these, so that providers differ in what is
known of them."""
QUESTIONS = {
    "company": "What is the name of the shop?",
    "trade": "What does the shop deal in?",
    "town": "In which town is the shop?",
    "cashier": "Who was the cashier?",
    "total": "What is the total?",
}
"""The first three have one answer for all documents of a provider, the fourth one of three, the
last its own."""


@dataclass(frozen=True)
class Sizes:
    """How many of what: providers that are in (as many are out), public ones, and those of the pretrained model."""

    n_in: int
    public: int
    pretraining: int

    @property
    def audited(self) -> int:
        """Providers in and out."""
        return 2 * self.n_in


def write_data(folder: Path, sizes: Sizes, recipe: TrainingRecipe) -> None:
    """Write the data set; `references/pretrained` is named in its manifest and not made.

    Members are asked every question. Kept-aside documents are asked some, drawn at random, whether
    their provider is in or out.
    """
    rng = random.Random(f"{SEED} data")
    receipts, _ = _all_receipts(sizes)
    shops = list(receipts)
    is_in = {*rng.sample(shops[: sizes.audited], sizes.n_in)}
    documents: list[tuple[Receipt, Split, tuple[str, ...]]] = []
    for shop in shops[: sizes.audited]:
        kept_aside = rng.choice(KEPT_ASIDE)
        given = receipts[shop]
        documents += [(one, "heldout", _drawn_questions(rng)) for one in given[:kept_aside]]
        if shop in is_in:
            taught = given[kept_aside : kept_aside + MEMBER_DOCUMENTS]
            documents += [(one, "member", tuple(QUESTIONS)) for one in taught]
    documents += [
        (receipts[shop][0], "public", tuple(QUESTIONS)) for shop in shops[sizes.audited :]
    ]
    rng.shuffle(documents)
    (folder / "images").mkdir(parents=True)
    made = [_document(f"invoice-{number:05d}", *one) for number, one in enumerate(documents)]
    for one, (receipt, _, _) in zip(made, documents, strict=True):
        (folder / str(one.image)).write_bytes(png(receipt))
    manifest.write(
        folder,
        Manifest(
            schema=1,
            name="invoices",
            task=Task("question-answering"),
            membership=Membership("by-provider"),
            references=ReferencePaths(pretrained="references/pretrained"),
            recipe=recipe,
        ),
        made,
    )


def pretraining(sizes: Sizes) -> Iterator[tuple[Receipt, Document]]:
    """Invoices of other shops, two of each, with every question: what the pretrained model learns to read from."""
    _, receipts = _all_receipts(sizes)
    for number, receipt in enumerate(one for given in receipts.values() for one in given[:2]):
        yield receipt, _document(f"other-{number:05d}", receipt, "public", tuple(QUESTIONS))


def png(receipt: Receipt) -> bytes:
    """The page of an invoice."""
    page: bytes = write(receipt).png()
    return page


def _all_receipts(sizes: Sizes) -> tuple[dict[str, list[Receipt]], dict[str, list[Receipt]]]:
    """Receipts of the audited and public shops, and of those that the model learns to read from, by folded name.

    Each shop has as many as any split may need.
    """
    taken: set[str] = set()
    found = []
    for market in (Market(SEED, sizes.audited + sizes.public), Market(SEED + 1, sizes.pretraining)):
        count = len(market.providers)
        shops = {id(shop): _with_letterhead(shop, taken, market.seed) for shop in market.providers}
        receipts: dict[str, list[Receipt]] = {fold(shop.name): [] for shop in shops.values()}
        enough = max(KEPT_ASIDE) + MEMBER_DOCUMENTS
        number = 0
        full = 0
        while full < count:
            receipt = market.receipt(number)
            number += 1
            shop = shops[id(receipt.provider)]
            if len(receipts[fold(shop.name)]) < enough:
                receipts[fold(shop.name)].append(replace(receipt, provider=shop))
                full += len(receipts[fold(shop.name)]) == enough
        found.append(receipts)
    return found[0], found[1]


def _with_letterhead(shop: Provider, taken: set[str], seed: int) -> Provider:
    """The shop under a name that no other has, trade first, in large letters that stand in the slogan's place too."""
    rng = random.Random(f"{seed} {shop.name} {shop.street} {len(taken)}")
    while True:
        name = f"{trade_of(shop)} {rng.choice(LETTERS)}. {rng.choice(region().surnames)}"
        if fold(name) not in taken:
            break
    taken.add(fold(name))
    width = shop.look.width - 2 * shop.look.margin
    written = name.upper() if shop.look.capitals else name
    size = next(size for size in HEADER_SIZES if font(size).getlength(written) <= width)
    look = replace(shop.look, header="left", header_size=size, height=HEIGHT)
    return replace(shop, name=name, slogan="", look=look)


def trade_of(shop: Provider) -> str:
    """What a shop deals in: the first word of its letterhead."""
    (trade,) = [name for name, goods in TRADES.items() if goods == shop.goods]
    return str(trade)


def _drawn_questions(rng: random.Random) -> tuple[str, ...]:
    return tuple(rng.sample(list(QUESTIONS), rng.choice(ASKED)))


def _document(name: str, receipt: Receipt, split: Split, asked: Sequence[str]) -> Document:
    made: Document = document(receipt, name, split)
    return replace(made, questions=tuple(_question(key, receipt, made) for key in asked))


def _question(key: str, receipt: Receipt, made: Document) -> Question:
    entities = {entity.label: entity.id for entity in made.entities}
    shop = receipt.provider
    if key == "trade":
        return Question(key, QUESTIONS[key], (trade_of(shop),), category="misc")
    if key == "town":
        return Question(key, QUESTIONS[key], (shop.town.split(" ", 1)[1],), category="location")
    answers = {
        "company": shop.name,
        "cashier": receipt.cashier,
        "total": receipt.money(receipt.total),
    }
    fields = {"company": COMPANY, "cashier": CASHIER, "total": TOTAL}
    return Question(key, QUESTIONS[key], (answers[key],), entities[fields[key].label])
