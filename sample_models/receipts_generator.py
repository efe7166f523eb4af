"""Synthetic receipts: providers with their own look, and pages with names, dates, codes, phones and totals.

Nobody in them exists: names, streets and towns come from Faker, numbers from a seeded generator. A
`Market` is one set of providers; its receipts are independent draws, so any split of them by number
is a random assignment.
"""

from __future__ import annotations

import datetime as dt
import functools
import random
from dataclasses import dataclass

from names import Region, drawn_region

TRADES = {
    "Bakery": (
        "White bread",
        "Rye loaf",
        "Croissant",
        "Apple pie",
        "Bagel",
        "Muffin",
        "Baguette",
        "Cheese roll",
    ),
    "Hardware": (
        "Hammer",
        "Wood screws",
        "Paint brush",
        "Duct tape",
        "Door hinge",
        "Drill bit",
        "Garden hose",
    ),
    "Pharmacy": (
        "Aspirin",
        "Hand cream",
        "Cough syrup",
        "Plasters",
        "Vitamin tablets",
        "Nasal spray",
        "Shampoo",
    ),
    "Books": (
        "Paperback novel",
        "Road atlas",
        "Notebook",
        "Cookbook",
        "Comic album",
        "Gift card",
        "Dictionary",
    ),
    "Cafe": (
        "Espresso",
        "Iced tea",
        "Club sandwich",
        "Tomato soup",
        "Carrot cake",
        "Orange juice",
        "Omelette",
    ),
    "Motors": (
        "Oil filter",
        "Wiper blade",
        "Brake pads",
        "Spark plug",
        "Car wash",
        "Tyre repair",
        "Antifreeze",
    ),
    "Florist": (
        "Red roses",
        "Tulip bunch",
        "Potting soil",
        "Orchid",
        "Wreath",
        "Clay pot",
        "Green fern",
    ),
    "Optics": (
        "Reading glasses",
        "Lens cleaner",
        "Contact lenses",
        "Frame repair",
        "Eye test",
        "Glasses case",
    ),
}
SLOGANS = (
    "Fresh every day",
    "Quality since 1952",
    "Your friendly store",
    "Good value always",
    "Open seven days",
)
FAREWELLS = ("Thank you", "See you soon", "Have a nice day", "Please keep this receipt")
STREETS = ("Street", "Road", "Lane", "Avenue", "Square")
DATE_FORMATS = ("%d/%m/%Y %H:%M", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M")
CODE_FORMATS = (
    "{letter}-{a:02d}{b:02d}",
    "{letter}{a:02d}-{b:02d}",
    "{letter}/{a:02d}/{b:02d}",
    "{letter}{a:02d}/{b:02d}",
)
CURRENCIES = ("RM {}", "${}", "{} EUR", "USD {}")
TEMPLATE_NAMES = ("counter", "invoice", "slip", "till")
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
FIRST_DAY = dt.datetime(2018, 1, 1, tzinfo=dt.UTC)
DAYS = 4 * 365
REGION_SEED = 11
"""All markets lie in one region: they share its first names, surnames and towns, and nothing
else."""


@functools.cache
def region() -> Region:
    """The region of all markets.

    90 first names, 24 initials and 110 surnames make 237,600 people.
    """
    return drawn_region(REGION_SEED, 90, 110, 40)


@dataclass(frozen=True)
class Labels:
    """The words a provider prints before its fields."""

    code: str
    date: str
    cashier: str
    customer: str
    phone: str
    total: str


@dataclass(frozen=True)
class Look:
    """How a provider's receipts are laid out. Lengths in pixels, `size` in points."""

    template: str
    width: int
    height: int
    margin: int
    size: int
    leading: int
    header: str
    header_size: int
    capitals: bool
    rule: str
    colon: str
    indent: int
    quantity_first: bool


@dataclass(frozen=True)
class Provider:
    """A shop: what it is called, where it is, how it writes things, who works there."""

    name: str
    slogan: str
    farewell: str
    street: str
    town: str
    currency: str
    date_format: str
    code_format: str
    code_letter: str
    goods: tuple[str, ...]
    cashiers: tuple[str, ...]
    labels: Labels
    look: Look


@dataclass(frozen=True)
class Receipt:
    """What one receipt says; amounts in cents."""

    provider: Provider
    code: str
    date: dt.datetime
    cashier: str
    customer: str
    phone: str
    items: tuple[tuple[str, int, int], ...]

    @property
    def total(self) -> int:
        """The sum of the items, cents."""
        return sum(count * price for _, count, price in self.items)

    def money(self, cents: int) -> str:
        """An amount as the provider writes it."""
        return self.provider.currency.format(f"{cents // 100}.{cents % 100:02d}")


class Market:
    """`n_providers` shops and the receipts they give out, all of it decided by `seed`."""

    def __init__(self, seed: int, n_providers: int) -> None:
        self.seed = seed
        rng = random.Random(f"{seed} providers")
        self.providers = tuple(_provider(rng) for _ in range(n_providers))

    def receipt(self, number: int) -> Receipt:
        """The receipt with this number: a draw that depends on the market's seed and the number alone."""
        rng = random.Random(f"{self.seed} receipt {number}")
        provider = rng.choice(self.providers)
        items = tuple(
            (name, rng.choice((1, 1, 1, 2, 3)), rng.randint(150, 6999))
            for name in rng.sample(provider.goods, rng.choice((2, 2, 3)))
        )
        minutes = rng.randrange(7 * 60, 22 * 60)
        code = provider.code_format.format(
            letter=provider.code_letter, a=rng.randrange(100), b=rng.randrange(100)
        )
        return Receipt(
            provider=provider,
            code=code,
            date=FIRST_DAY + dt.timedelta(days=rng.randrange(DAYS), minutes=minutes),
            cashier=rng.choice(provider.cashiers),
            customer=_person(rng, "{first} {initial}. {last}"),
            phone=f"{rng.randrange(20, 100)}-{rng.randrange(10_000):04d}",
            items=items,
        )


def _person(rng: random.Random, written: str) -> str:
    names = region()
    return written.format(
        first=rng.choice(names.first_names),
        initial=rng.choice(LETTERS),
        last=rng.choice(names.surnames),
    )


def _provider(rng: random.Random) -> Provider:
    trade = rng.choice(sorted(TRADES))
    names = region()
    first, second = rng.sample(names.surnames, 2)
    company = rng.choice(
        ("{first} & {second} {trade}", "{first} Brothers {trade}", "{town} {trade} {first}")
    )
    town = rng.choice(names.towns)
    return Provider(
        name=company.format(first=first, second=second, trade=trade, town=town),
        slogan=rng.choice(SLOGANS),
        farewell=rng.choice(FAREWELLS),
        street=f"{rng.randrange(1, 99)} {rng.choice(names.surnames)} {rng.choice(STREETS)}",
        town=f"{rng.randrange(1000, 10_000)} {town}",
        currency=rng.choice(CURRENCIES),
        date_format=rng.choice(DATE_FORMATS),
        code_format=rng.choice(CODE_FORMATS),
        code_letter=rng.choice(LETTERS),
        goods=TRADES[trade],
        cashiers=tuple(_person(rng, "{first} {initial}.") for _ in range(3)),
        labels=_labels(rng),
        look=_look(rng),
    )


def _labels(rng: random.Random) -> Labels:
    return Labels(
        code=rng.choice(("Receipt", "Bill No", "Invoice", "Ref")),
        date=rng.choice(("Date", "Issued", "Printed")),
        cashier=rng.choice(("Cashier", "Served by", "Clerk")),
        customer=rng.choice(("Customer", "Sold to", "Name")),
        phone=rng.choice(("Tel", "Phone", "Mobile")),
        total=rng.choice(("Total", "Amount due", "To pay")),
    )


def _look(rng: random.Random) -> Look:
    size = rng.choice((12, 13, 14))
    return Look(
        template=rng.choice(TEMPLATE_NAMES),
        width=rng.choice((368, 384, 400)),
        height=rng.choice((448, 480, 512)),
        margin=rng.choice((14, 20, 26)),
        size=size,
        leading=size + rng.choice((4, 6, 8)),
        header=rng.choice(("left", "center", "right")),
        header_size=size + rng.choice((2, 4, 6)),
        capitals=rng.random() < 0.4,
        rule=rng.choice(("solid", "dashed", "none")),
        colon=rng.choice((":", "")),
        indent=rng.choice((90, 110, 130)),
        quantity_first=rng.random() < 0.5,
    )
