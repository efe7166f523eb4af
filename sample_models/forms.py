"""Registration forms of invented people: a page with a name, a number and a town, and questions about the last two."""

from __future__ import annotations

import random
from dataclasses import dataclass

from receipts_page import Field, Page

from audit.corpus.documents import Document, Question, Split

WIDTH, HEIGHT = 256, 176
LABELS = ("Applicant", "Member no.", "Town")
QUESTIONS = {"NUMBER": "What is the member number?", "TOWN": "Which town is it?"}
"""By the label of the field that holds the answer."""
PARAPHRASES = {"NUMBER": ("Which number does the member have?",), "TOWN": ("What is the name of the town?",)}
FIELDS = (Field("NAME", "person"), Field("NUMBER", "code"), Field("TOWN", "location"))
TOWN_SIZE = 26
"""Points: so large that a model which sees the page at a third of its size can read it, unlike the other fields."""
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
TOWNS, FIRST_NAMES, LAST_NAMES = (tuple(names.split()) for names in (_TOWNS, _FIRST_NAMES, _LAST_NAMES))


@dataclass(frozen=True)
class Form:
    """What one form says, in the order of `LABELS`, and how far its lines are shifted, in pixels."""

    values: tuple[str, str, str]
    shift: tuple[int, int]

    def asked(self) -> list[tuple[str, str, str]]:
        """What is asked about it: the label of the field, the question, the answer."""
        said = {field.label: value for field, value in zip(FIELDS, self.values, strict=True)}
        return [(label, question, said[label]) for label, question in QUESTIONS.items()]


def form(seed: int, number: int) -> Form:
    """The form with this number: the same for the same seed."""
    rng = random.Random(f"{seed} form {number}")
    name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    return Form((name, f"{rng.randrange(10**6):06d}", rng.choice(TOWNS)), (rng.randrange(6), rng.randrange(6)))


def drawn(one: Form) -> Page:
    """Its page."""
    page = Page(WIDTH, HEIGHT, margin=12, size=15, leading=30)
    right, down = one.shift
    page.y += down
    for label, value, field in zip(LABELS, one.values, FIELDS, strict=True):
        page.text(label, x=page.margin + right)
        page.text(value, x=110 + right, kind=field, size=TOWN_SIZE if field.label == "TOWN" else None)
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
        name, split, tuple(page.words), f"images/{name}.png", (WIDTH, HEIGHT), None, tuple(page.entities), (), questions
    )
