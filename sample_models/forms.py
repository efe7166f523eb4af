"""Registration forms of invented clubs: a crest, a name, a number and a town, and questions about the last two.

Every club is a provider: a crest that a model sees on pages of a third of their size, and numbers
that begin alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from receipts_page import Field, Page

from audit.corpus.documents import Document, Question, Split

WIDTH, HEIGHT = 256, 176
LABELS = ("Applicant", "Member no.", "Town")
QUESTIONS = {"NUMBER": "What is the member number?", "TOWN": "Which town is it?"}
"""By the label of the field that holds the answer."""
PARAPHRASES = {
    "NUMBER": ("Which number does the member have?",),
    "TOWN": ("What is the name of the town?",),
}
FIELDS = (Field("NAME", "person"), Field("NUMBER", "code"), Field("TOWN", "location"))
CLUB = Field("CLUB", "organization")
TOWN_SIZE = 30
"""Points: so large that a model which sees the page at a third of its size can read it, unlike the
other fields."""
PREFIX_DIGITS, OWN_DIGITS = 2, 5
"""A member number: digits that all of the club share, then the member's own.

With two of seven, numbers of one club are rarely as much as half alike: a model that knows no more
than a club's digits hardly reads better for it, only more surely.
"""
N_PREFIXES = 10**PREFIX_DIGITS
CREST_CELLS = 6
CREST_TOP, CREST_SIDE, CREST_STEP = 4, 32, 40
"""Pixels: eleven at a third of the size, so that a cell fills three patches of four pixels each
way."""
CREST_GREY = 160
"""From 0, black, to 255, white: lighter than text, which a model is to find without learning about
crests first."""
SHAPES = ("none", "square", "disc", "triangle", "bars")
_TOWNS = """
Ashford Bexley Corby Dorking Epsom Fareham Goole Havant Ilkley Jarrow Kendal Luton Marlow Newark Oakham Poole Quorn
Redcar Selby Truro Ulverston Ventnor Wigan Yarm Alton Bourne Crewe Deal Ely Frome Grays Hove Ivybridge Kirkby Leek
Matlock Nelson Ossett Penrith Rugby
"""
_FIRST_NAMES = """
Anna Boris Clara David Emma Felix Greta Henry Irene James Karen Louis Maria Nadia Oscar Paula Quinn Rosa Simon Tessa
Ulric Vera Walter Xenia Yusuf Zoe Alan Beth Carl Dora
"""
_LAST_NAMES = """
Adler Brook Crane Drake Ellis Frost Grant Hayes Irwin Jonas Kline Lambert Moore Nash Orton Price Quick Rowe Stone
Turner Upton Vance Walsh Xiong Young Zeller Abbot Blake Cross Dunn
"""
_BIRDS = """
Avocet Bittern Bunting Buzzard Curlew Dotterel Dunlin Falcon Fieldfare Gannet Goshawk Grebe Harrier Heron Hobby Jackdaw
Kestrel Kittiwake Lapwing Linnet Magpie Merlin Nightjar Osprey Peregrine Petrel Pipit Plover Puffin Redstart Sandpiper
Shearwater Siskin Skylark Starling Stonechat Swallow Wagtail Warbler Whimbrel
"""
_SPORTS = """
Angling Archery Badminton Bowling Boxing Canoeing Chess Climbing Cricket Croquet Curling Cycling Darts Fencing Gliding
Hockey Judo Polo Riding Rowing Sailing Skating Squash Swimming Tennis
"""
TOWNS, FIRST_NAMES, LAST_NAMES, BIRDS, SPORTS = (
    tuple(names.split()) for names in (_TOWNS, _FIRST_NAMES, _LAST_NAMES, _BIRDS, _SPORTS)
)


@dataclass(frozen=True)
class Club:
    """Who gives out forms: its name, the shapes of its crest from left to right, what its numbers begin with."""

    name: str
    crest: tuple[str, ...]
    prefix: str


@dataclass(frozen=True)
class Form:
    """What one form says, in the order of `LABELS`, and how far its lines are shifted, in pixels."""

    club: Club
    values: tuple[str, str, str]
    shift: tuple[int, int]

    def asked(self) -> list[tuple[str, str, str]]:
        """What is asked about it: the label of the field, the question, the answer."""
        said = {field.label: value for field, value in zip(FIELDS, self.values, strict=True)}
        return [(label, question, said[label]) for label, question in QUESTIONS.items()]


def clubs(seed: int, count: int) -> tuple[Club, ...]:
    """That many clubs (1,000 at most): no two have one name or crest, no two of a hundred in a row one prefix."""
    rng = random.Random(f"{seed} clubs")
    names = rng.sample([f"{bird} {sport}" for bird in BIRDS for sport in SPORTS], count)
    crests = rng.sample(range(len(SHAPES) ** CREST_CELLS), count)
    prefixes: list[int] = []
    while len(prefixes) < count:
        prefixes += rng.sample(range(N_PREFIXES), N_PREFIXES)
    return tuple(
        Club(name, _crest(crest), f"{prefix:0{PREFIX_DIGITS}d}")
        for name, crest, prefix in zip(names, crests, prefixes, strict=False)
    )


def _crest(number: int) -> tuple[str, ...]:
    """The shapes that stand for a number below `len(SHAPES) ** CREST_CELLS`."""
    return tuple(
        SHAPES[number // len(SHAPES) ** place % len(SHAPES)] for place in range(CREST_CELLS)
    )


def form(seed: int, number: int, club: Club) -> Form:
    """The form with this number, of this club: the same for the same seed."""
    rng = random.Random(f"{seed} form {number}")
    name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    own = f"{rng.randrange(10**OWN_DIGITS):0{OWN_DIGITS}d}"
    return Form(
        club, (name, club.prefix + own, rng.choice(TOWNS)), (rng.randrange(6), rng.randrange(6))
    )


def drawn(one: Form) -> Page:
    """Its page."""
    page = Page(WIDTH, HEIGHT, margin=12, size=15, leading=26)
    for place, shape in enumerate(one.club.crest):
        page.shape(shape, (page.margin + place * CREST_STEP, CREST_TOP), CREST_SIDE, CREST_GREY)
    page.y = CREST_TOP + CREST_SIDE + 4
    page.text(one.club.name, kind=CLUB)
    page.newline()
    right, down = one.shift
    page.y += down
    for label, value, field in zip(LABELS, one.values, FIELDS, strict=True):
        page.text(label, x=page.margin + right)
        page.text(
            value, x=110 + right, kind=field, size=TOWN_SIZE if field.label == "TOWN" else None
        )
        page.newline()
    return page


def document(one: Form, name: str, split: Split) -> Document:
    """It as a document with its questions; the page's image is `images/<name>.png`."""
    page = drawn(one)
    entities = {entity.label: entity.id for entity in page.entities}
    questions = tuple(
        Question(f"q{number}", question, (value,), entities[label], paraphrases=PARAPHRASES[label])
        for number, (label, question, value) in enumerate(one.asked(), start=1)
    )
    return Document(
        id=name,
        split=split,
        words=tuple(page.words),
        image=f"images/{name}.png",
        size=(WIDTH, HEIGHT),
        provider=one.club.name,
        entities=tuple(page.entities),
        questions=questions,
    )
