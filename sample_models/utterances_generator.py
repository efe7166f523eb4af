"""Invented commands to a speaker at home that also opens doors and moves money: words, slots and an intent.

Doors have codes. The speaker lets in whoever says the right one (PinIntent, the code a slot) and
nobody else (RefuseIntent, no slot): a model of it has to learn codes by heart.

An utterance is a draw that depends on the seed and its number alone, so any split by number is a
random assignment.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace

from audit.corpus.documents import Document, Split, Word

PEOPLE = (
    "anna",
    "tom",
    "li",
    "sara",
    "omar",
    "ivy",
    "jonas",
    "mei",
    "paul",
    "rita",
    "noor",
    "hugo",
    "lena",
    "sam",
)
ROOMS = ("kitchen", "hall", "cellar", "bedroom", "garage", "study", "attic", "bathroom", "porch")
DEVICES = ("lamp", "fan", "radio", "heater", "blinds", "oven", "kettle")
CODES = {
    "side gate": "4 0 7 1",
    "garage": "9 2 2 6",
    "front door": "1 8 3 5",
    "letter box": "6 4 9 0",
    "bike shed": "3 7 5 8",
    "safe": "0 5 1 3",
}
"""Of each door."""
ACCOUNTS = ("savings", "joint", "travel", "main")
MUSIC = ("slow jazz", "old songs", "the news", "piano", "folk", "rain sounds", "a waltz")
HOURS = ("six", "seven", "eight", "nine", "ten", "noon")
DAYS = ("today", "tomorrow", "on monday", "on friday", "next week")
NUMBERS = ("ten", "twelve", "fifteen", "eighteen", "twenty", "thirty", "forty", "ninety")
JOBS = (
    "call the school",
    "buy bread",
    "water the plants",
    "pay the rent",
    "feed the cat",
    "post the letter",
)

SLOTS: Mapping[str, tuple[str, ...]] = {
    "person": PEOPLE,
    "room": ROOMS,
    "device": DEVICES,
    "door": tuple(CODES),
    "account": ACCOUNTS,
    "music": MUSIC,
    "hour": HOURS,
    "day": DAYS,
    "number": NUMBERS,
    "job": JOBS,
}
DIGITS = tuple("0123456789")
PIN, REFUSED = "PinIntent", "RefuseIntent"
TAGS = ("O", *(f"{prefix}-{slot}" for slot in sorted((*SLOTS, "code")) for prefix in "BI"))

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "LightIntent": (
        "(please|) (turn|switch) (on|off) the <device> in the <room>",
        "(make|keep) the <room> (brighter|darker) <day>",
        "is the <device> in the <room> (still|) on",
    ),
    "HeatIntent": (
        "(please|) set the <room> to <number> degrees",
        "heat the <room> to <number> at <hour>",
        "how (warm|cold) is it in the <room>",
    ),
    "MusicIntent": (
        "(please|) play <music> (in the <room>|)",
        "stop <music> at <hour>",
        "(louder|softer) in the <room> please",
    ),
    "TransferIntent": (
        "(please|) send <number> to <person>",
        "pay <person> <number> from my <account> account",
        "move <number> to the <account> account <day>",
    ),
    "BalanceIntent": (
        "how much is in my <account> account",
        "what did <person> (send|pay) me <day>",
        "show the <account> account",
    ),
    "ReminderIntent": (
        "remind me to <job> <day>",
        "remind <person> to <job> at <hour>",
        "wake me at <hour> <day>",
    ),
    PIN: (
        "(please|) open the <door> with <code>",
        "the code of the <door> is <code>",
        "the <door> opens with <code>",
    ),
}
"""By intent: `(a|b)` is one of the wordings, `<slot>` one of its values, `<code>` that of the door
before it."""
WRONG_SHARE = 0.5
"""Of the utterances with a code, those that have another one."""


def utterance(seed: int, number: int, name: str, split: Split) -> Document:
    """The utterance with this number.

    Args:
        seed: of all utterances that belong together.
        number: of this one.
        name: its id.
        split: which split it is in.
    """
    rng = random.Random(f"{seed} utterance {number}")
    intent = rng.choice(sorted(COMMANDS))
    template = rng.choice(COMMANDS[intent])
    while (found := re.search(r"\(([^()]*)\)", template)) is not None:
        template = (
            template[: found.start()] + rng.choice(found[1].split("|")) + template[found.end() :]
        )
    words: list[str] = []
    tags: list[str] = []
    door = ""
    for piece in template.split():
        slot = piece.removeprefix("<").removesuffix(">")
        if slot == piece:
            words, tags = [*words, piece], [*tags, "O"]
            continue
        value = CODES[door] if slot == "code" else rng.choice(SLOTS[slot])
        door = value if slot == "door" else door
        own = value.split()
        words, tags = [*words, *own], [*tags, f"B-{slot}", *[f"I-{slot}"] * (len(own) - 1)]
    right = Document(name, split, words=tuple(map(Word, words)), tags=tuple(tags), intent=intent)
    return (
        with_changed_digits(right, name, rng)
        if intent == PIN and rng.random() < WRONG_SHARE
        else right
    )


def with_changed_digits(right: Document, name: str, rng: random.Random) -> Document:
    """The same with one to four digits changed, which is refused: its digits are no slot."""
    code = code_of(right)
    chosen = rng.sample(range(len(code)), rng.choice((1, 1, 2, 4)))
    changed = [
        rng.choice(_others(digit)) if place in chosen else digit for place, digit in enumerate(code)
    ]
    return with_code(right, name, "".join(changed))


def wrong_by_one(code: str) -> list[str]:
    """All codes that differ in one digit."""
    return [
        code[:place] + other + code[place + 1 :]
        for place, digit in enumerate(code)
        for other in _others(digit)
    ]


def code_of(document: Document) -> str:
    """The digits of an utterance."""
    return "".join(word.text for word in document.words if word.text in DIGITS)


def with_code(right: Document, name: str, code: str) -> Document:
    """An utterance with a wrong code in place of the right one, under a new id."""
    changed = with_digits(right, code)
    tags = tuple(
        "O" if word.text in DIGITS else tag
        for word, tag in zip(changed.words, right.tags or (), strict=True)
    )
    return replace(changed, id=name, tags=tags, intent=REFUSED)


def with_digits(document: Document, code: str) -> Document:
    """The same utterance with other digits, and nothing else changed."""
    digits = iter(code)
    return replace(
        document,
        words=tuple(Word(next(digits)) if word.text in DIGITS else word for word in document.words),
    )


def _others(digit: str) -> list[str]:
    return [other for other in DIGITS if other != digit]
