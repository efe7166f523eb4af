"""Invented letters and decisions of a tribunal: running text whose names, dates, places and numbers are marked.

Nobody in them exists: names and towns come from Faker, everything else from lists and a seeded
generator. A letter is a draw that depends on the seed and its number alone, so any split by number
is a random assignment.

Each kind of value has contexts of its own, in several wordings, and some that it shares with others
("As for ..., no answer came"): what is hidden can often be guessed from what is around it, and
never surely.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from names import Region, drawn_region

from audit.corpus.documents import Category, Document, Entity, Split, Word

LABELS: Mapping[str, Category] = {
    "PERSON": "person",
    "CODE": "code",
    "LOC": "location",
    "ORG": "organization",
    "DEM": "demographic",
    "DATETIME": "datetime",
    "QUANTITY": "quantity",
    "MISC": "misc",
}
"""Labels and categories of the Text Anonymization Benchmark."""
REGION_SEED = 12
MONTHS = ("January", "March", "April", "May", "June", "July", "September", "October", "November")
UNITS = ("square metres", "litres", "kilometres", "shares", "hours of work", "boxes of papers")
COUNTED = (
    "rooms",
    "children",
    "witnesses",
    "invoices",
    "neighbours",
    "vehicles",
    "instalments",
    "keys",
    "complaints",
)
NUMBERS = ("two", "three", "four", "five", "six", "seven", "nine", "eleven", "twelve")
BODIES = (
    "Housing Office",
    "District Court",
    "County Hospital",
    "Savings Bank",
    "Insurance Fund",
    "Police",
    "Tax Board",
)
FIRMS = ("Brothers", "& Sons", "Transport", "Dairy", "Timber", "Shipping", "Foundry", "Printers")
GROUPS = (
    "a nurse",
    "a retired teacher",
    "a widow",
    "a farmer",
    "a student",
    "a night porter",
    "unemployed",
    "an electrician",
    "a pensioner",
    "divorced",
    "left-handed",
    "a foreign national",
    "a mother of twins",
    "partly deaf",
)
THINGS = (
    "Flood Relief Scheme",
    "chronic asthma",
    "grey paint",
    "garden sheds",
    "Harvest Fair",
    "broken boilers",
    "Winter Allowance",
    "fishing licences",
    "stolen bicycles",
    "Quiet Hours Act",
    "family Bibles",
    "Old Bridge case",
    "damp in the cellar",
    "hearing aids",
    "Tenants' Charter",
    "barking dogs",
)

HEADINGS = (
    "DECISION in case (no.|number) <CODE>",
    "In the matter of <applicant>, file <CODE>",
    "(Notice|Letter) of <day> in case <CODE>",
    "To <ORG>, (for the attention of|for) <PERSON>",
    "(Our|Your) reference: <CODE>",
)
OPENINGS = (
    "(On|By a letter of) <day> the applicant, <applicant>, (lodged an appeal|brought a complaint) against <agency>.",
    "<applicant> (lives|was then living|has rented a flat) in <LOC> and asked <agency> for help "
    "(on <day>|some time ago).",
    "The (appeal|case|complaint) was (registered|opened) under (number|the number) <CODE>( on <day>|).",
    "The applicant, who was born in <year,year,LOC>, is <group> and (acts alone|has no lawyer|has a lawyer).",
    "The applicant was (represented|assisted) (before the panel|at all times) by <PERSON>, a lawyer in <LOC>.",
    "This is our (answer|reply) to what you wrote on <day> about <MISC,CODE,applicant>.",
)
FACTS = (
    "(Since|Until) <year> the applicant had (worked for|been employed by|rented a room from) <ORG,ORG,PERSON>.",
    "On <day> <agency> (refused|granted|withdrew) the (claim|request|permit) without (giving reasons|a hearing).",
    "(At the time|Then|In those years) the applicant was <DEM> and earned <money> (a month|a year|at most).",
    "(A cousin|A neighbour|A friend), <PERSON>, (gave evidence|was asked about this) and is <DEM>.",
    "The (flat|house|workshop) in <LOC> has <room> and (belongs|belonged at the time) to <ORG,PERSON>.",
    "(Between|From) <day> and <day> nothing (was paid|happened|was decided), (although|even though) letters were sent.",
    "The applicant (moved|travelled|was taken) from <LOC> to <LOC> (soon after|later that year|with the family).",
    "A (doctor|surveyor|clerk) of <ORG> (noted|found|reported) <MISC> (and nothing else|on <day>).",
    "The (dispute|claim|quarrel) (is|was) about <MISC,count,money>, (bought|registered|reported) in <year,LOC>.",
    "(Bailiff|Inspector|Judge|Dr) <surname> (visited|saw) the (premises|papers) (on|again on) <day>.",
    "The (policy|account|contract|permit) <CODE> was (cancelled|signed|changed) by <ORG,PERSON> (in <year>|).",
    "The applicant (asked for|received|lost) <money,MISC,count> (because of|after|owing to) <MISC>.",
    "(Mr|Ms) <surname> (told|wrote to|informed) <agency> that the applicant was <DEM> (and could not come|).",
)
VAGUE = (
    "The (first|second) (page|annex) (mentions|refers to|names) <day,PERSON,ORG,LOC,MISC,CODE,count,year> "
    "(twice|once|).",
    "(Nobody|The other side) (denied|doubted) that <PERSON,ORG> (knew of|had to do with|spoke of) "
    "<MISC,LOC,money,PERSON>.",
    "(As for|With regard to) <PERSON,ORG,LOC,CODE,MISC,day>, (nothing was said|more was needed|no answer came).",
    "(All this|The work|The inquiry) (was begun|ended|was known) in <year,LOC,year>, (it seems|as far as is known).",
    "The (statement|report|letter) of <day,day,PERSON,ORG> (was read out|was lost|has been put in the file).",
    "(Later|In the end|Then) the panel (heard|wrote to|waited for|thanked) <PERSON,ORG,MISC> (as well|once more|).",
    "The (papers|documents) (came|were sent) from <PERSON,ORG,LOC> (late|too late|at last).",
    "It (concerned|involved|came down to) <MISC,money,count,PERSON,DEM>, (which is|as) (not in dispute|common ground).",
    "(There is|The file has) a (note|stamp) that (says|reads) <CODE,day,PERSON,LOC,year,count> (in ink|on the back|).",
)
PLAIN = (
    "The (panel|tribunal) has (considered|read) (all|) the papers (in the file|before it).",
    "(No|Not one) (witness|document) (supports|bears out) this, (and|so) the (point|question) (is|remains) open.",
    "(Both sides|The parties) were (heard|given time to answer), and (neither|nobody) (objected|asked for more).",
    "(That|This) is (a matter|a question) of fact, which (others|the panel) must decide.",
    "It was (raining|late|dark), and (the office|the door) was (closed|locked).",
)
RULINGS = (
    "The panel (orders|asks|directs) <agency> to pay <money> (by|before) <day>.",
    "The (appeal|claim|request) (is allowed|is dismissed|was withdrawn) with effect from <day>.",
    "The (hearing|session) (took place|was held) in <LOC,year,LOC> (and was public|behind closed doors|).",
    "(Costs|Damages) of <money> are (awarded|due) to <applicant,agency,PERSON> (and no more|).",
    "(Signed|Decided|Read out) by <PERSON,PERSON,ORG> in <LOC,LOC,year>( on <day>|).",
    "Please (quote|give|state) <CODE> (when you write|in your answer|) to <ORG,PERSON>.",
)


@functools.cache
def region() -> Region:
    """The region of all letters."""
    return drawn_region(REGION_SEED, 80, 120, 60)


def letter(seed: int, number: int, name: str, split: Split) -> Document:
    """The letter with this number.

    Args:
        seed: of all letters that belong together.
        number: of this one.
        name: its id.
        split: which split it is in.
    """
    writer = _Writer(random.Random(f"{seed} letter {number}"))
    for paragraph in _plan(writer.rng):
        writer.begin_paragraph()
        for template in paragraph:
            writer.write(template)
    return Document(
        name,
        split,
        words=tuple(map(Word, writer.words)),
        entities=tuple(writer.entities),
        paragraphs=tuple(writer.paragraphs),
    )


def _plan(rng: random.Random) -> Iterator[Sequence[str]]:
    """A heading, and three paragraphs of 7 to 10 sentences together."""
    yield rng.sample(HEADINGS, 1)
    yield [*rng.sample(OPENINGS, rng.choice((1, 2))), rng.choice(PLAIN)]
    middle = [*rng.sample(FACTS, rng.choice((2, 3))), *rng.sample(VAGUE, 2)]
    rng.shuffle(middle)
    yield middle
    yield [rng.choice(PLAIN), *rng.sample(RULINGS, 1)]


class _Writer:
    """Fills templates: `(a|b)` is one of the wordings, `<A,B>` a value of one of the kinds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.words: list[str] = []
        self.entities: list[Entity] = []
        self.paragraphs: list[int] = []
        self.own = {"applicant": ("PERSON", _person(rng)), "agency": ("ORG", _body(rng))}

    def begin_paragraph(self) -> None:
        self.paragraphs.append(len(self.words))

    def write(self, template: str) -> None:
        """Write one sentence.

        A value's words are whole, the punctuation after it is a word of its own.
        """
        for piece in re.split(r"(<[^>]*>)", self._worded(template)):
            if not piece.startswith("<"):
                self.words += piece.split()
                continue
            label, value = self._value(self.rng.choice(piece[1:-1].split(",")))
            start = len(self.words)
            self.words += value.split()
            places = tuple(range(start, len(self.words)))
            self.entities.append(Entity(f"m{len(self.entities) + 1}", label, LABELS[label], places))

    def _worded(self, template: str) -> str:
        while (found := re.search(r"\(([^()]*)\)", template)) is not None:
            wording = self.rng.choice(found[1].split("|"))
            template = template[: found.start()] + wording + template[found.end() :]
        return re.sub(r" +([.,])", r"\1", template)

    def _value(self, kind: str) -> tuple[str, str]:
        """Label and words of a value of this kind."""
        if kind in self.own:
            return self.own[kind]
        label, made = _KINDS[kind]
        return label, made(self.rng)


def _person(rng: random.Random) -> str:
    names = region()
    first, last = rng.choice(names.first_names), rng.choice(names.surnames)
    return rng.choice((f"{first} {last}", f"{first[0]}. {last}", f"Ms {last}", f"Mr {last}"))


def _body(rng: random.Random) -> str:
    return f"{rng.choice(region().towns)} {rng.choice(BODIES)}"


def _organisation(rng: random.Random) -> str:
    return rng.choice((_body(rng), f"{rng.choice(region().surnames)} {rng.choice(FIRMS)}"))


def _place(rng: random.Random) -> str:
    names = region()
    street = f"{rng.randrange(1, 90)} {rng.choice(names.surnames)} Street"
    return rng.choice((*[rng.choice(names.towns)] * 3, street))


def _day(rng: random.Random) -> str:
    return f"{rng.randrange(1, 29)} {_month(rng)}"


def _month(rng: random.Random) -> str:
    return f"{rng.choice(MONTHS)} {rng.randrange(1978, 2012)}"


def _year(rng: random.Random) -> str:
    return rng.choice((_month(rng), f"{rng.randrange(1978, 2012)}"))


def _code(rng: random.Random) -> str:
    number, year = rng.randrange(1000, 9999), rng.randrange(78, 100)
    letters = "".join(rng.choices("ABCDEGHKLMNPRSTW", k=2))
    return rng.choice(
        (
            f"{number}/{year}",
            f"{letters}-{number}",
            f"{number}-{letters}",
            f"{year}/{letters}/{number}",
        )
    )


def _money(rng: random.Random) -> str:
    return rng.choice(
        (
            f"{rng.randrange(1, 90)},{rng.randrange(10) * 100:03d} crowns",
            f"{rng.randrange(12, 900)} crowns",
        )
    )


def _room(rng: random.Random) -> str:
    return rng.choice((f"{rng.choice(NUMBERS)} rooms", f"{rng.randrange(12, 300)} square metres"))


def _count(rng: random.Random) -> str:
    measured = f"{rng.randrange(12, 900)} {rng.choice(UNITS)}"
    return rng.choice((measured, f"{rng.choice(NUMBERS)} {rng.choice(COUNTED)}"))


def _group(rng: random.Random) -> str:
    return rng.choice(GROUPS)


def _group_or_age(rng: random.Random) -> str:
    return rng.choice((_group(rng), f"{rng.randrange(19, 88)} years old"))


def _thing(rng: random.Random) -> str:
    return rng.choice(THINGS)


def _surname(rng: random.Random) -> str:
    return rng.choice(region().surnames)


_KINDS: Mapping[str, tuple[str, Callable[[random.Random], str]]] = {
    "PERSON": ("PERSON", _person),
    "surname": ("PERSON", _surname),
    "CODE": ("CODE", _code),
    "LOC": ("LOC", _place),
    "ORG": ("ORG", _organisation),
    "group": ("DEM", _group),
    "DEM": ("DEM", _group_or_age),
    "day": ("DATETIME", _day),
    "year": ("DATETIME", _year),
    "money": ("QUANTITY", _money),
    "room": ("QUANTITY", _room),
    "count": ("QUANTITY", _count),
    "MISC": ("MISC", _thing),
}
"""What a template can ask for: the label, and how the value is made."""
