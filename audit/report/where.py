"""Lay out where values leak and whom they belong to: what the annex and its table show engineers.

Every number is one of `facts`; words and digits are chosen here. No text or id of a document is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.attacks.text import CATEGORY_LABELS
from audit.measurements import Breakdown, By, Estimate, Group, Share
from audit.report import numbers
from audit.report.facts.definitions import (
    RETURNING,
    Facts,
    PeopleFacts,
    QuestionFacts,
    title_of,
)
from audit.report.labels import LABELS

WORDS = LABELS["where"]
"""Titles of what divides values, heads of their columns, and notes."""
PEOPLE = LABELS["people"]
"""Sentences on people."""
ORDER: tuple[By, ...] = ("kind", "documents", "copies", "length", "position")
"""What divides values, in the order of the page."""
COLUMNS = (
    "attack",
    "by",
    "group",
    "training hits",
    "training tried",
    "unseen hits",
    "unseen tried",
    "unit",
    "method",
)
"""Of `leaks.csv`."""


@dataclass(frozen=True)
class Side:
    """One side of a group: its share in words, and in per cent for a bar; None: none was tried."""

    words: str
    percent: float | None


@dataclass(frozen=True)
class Bar:
    """A group with both sides."""

    label: str
    trained: Side
    unseen: Side


@dataclass(frozen=True)
class Division:
    """What an attack found, divided in one way."""

    title: str
    head: str
    note: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class WhereView:
    """Where one attack found something: its divisions, and a sentence on people."""

    attack: str
    title: str
    people: str
    divisions: tuple[Division, ...]


def where_views(facts: Facts) -> list[WhereView]:
    """Return where each attack found something, the worst attack first."""
    people = {item.attack: item for item in facts.people}
    views = []
    for row in facts.rows:
        divisions = tuple(divisions_of(row))
        sentence = ""
        if row.attack in people:
            sentence = people_sentence(people[row.attack])
        if divisions or sentence:
            views.append(WhereView(row.attack, title_of(row.attack), sentence, divisions))
    return views


def divisions_of(row: QuestionFacts) -> Iterator[Division]:
    """Yield what an attack found, divided in every way."""
    for by in ORDER:
        if by in row.groups:
            bars = tuple(_bar(by, group) for group in _ranked(row.groups[by]))
            head = WORDS[f"{by} head"]
            if by == "documents" and row.attack not in RETURNING:
                head = WORDS["documents head picked"]
            yield Division(WORDS[f"{by} title"], head, WORDS[f"{by} note"], bars)


def _ranked(groups: Breakdown) -> Sequence[Group]:
    """Return groups in the order of the page: kinds by what came back, the others as they are."""
    if groups.by != "kind":
        return groups.groups
    return sorted(groups.groups, key=lambda group: (-group.member.hits, group.name))


def _rate(share: Share) -> float:
    """Return a share of what was tried; 0 where nothing was."""
    if not share.tried:
        return 0.0
    return share.hits / share.tried


def _bar(by: By, group: Group) -> Bar:
    """Return a group with its label and both sides."""
    label = group.name
    if by == "kind":
        label = CATEGORY_LABELS.get(group.name, group.name)
    return Bar(label, _side(group.member), _side(group.heldout))


def _side(share: Share) -> Side:
    """Write what was found of what was tried, with its share."""
    if not share.tried:
        return Side("–", None)
    rate = _rate(share)
    hits = f"{share.hits:,.1f}".removesuffix(".0")
    return Side(f"{hits} of {share.tried:,} ({numbers.show(rate, 'share')})", round(100 * rate, 1))


def people_sentence(people: PeopleFacts) -> str:
    """Say how many people an attack reached, of training and of unseen documents."""
    what = "picked"
    if people.recognised:
        what = "recognised"
    elif people.attack in RETURNING:
        what = "returned"
    source = "names"
    if people.declared:
        source = "declared"
    sentences = [PEOPLE[what].format(reached=_reached(people.trained))]
    if people.unseen is not None:
        sentences.append(PEOPLE["unseen"].format(reached=_reached(people.unseen)))
    sentences.append(PEOPLE[source])
    return " ".join(sentences)


def _reached(share: Estimate | None) -> str:
    """Write how many people were reached, with the interval of their share."""
    if share is None:
        return PEOPLE["few"]
    return f"{numbers.reached(share)} (95 % CI {numbers.interval(share, 'share')})"


def csv_rows(facts: Facts) -> list[dict[str, object]]:
    """Return the rows of `leaks.csv`: every group of each attack, and its people."""
    rows: list[dict[str, object]] = []
    for row in facts.in_order:
        for by in ORDER:
            if by in row.groups:
                groups = row.groups[by]
                rows += [_csv_row(row.attack, groups, group) for group in groups.groups]
        rows += _people_rows(row)
    return rows


def _csv_row(attack: str, groups: Breakdown, group: Group) -> dict[str, object]:
    """Return the row of a group."""
    values = (
        attack,
        groups.by,
        group.name,
        _plain(group.member.hits),
        group.member.tried,
        _plain(group.heldout.hits),
        group.heldout.tried,
        groups.unit,
        groups.method.removeprefix("."),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _plain(hits: float) -> float:
    """Return a number of hits without a decimal point where it is whole."""
    if hits.is_integer():
        return int(hits)
    return hits


def _people_rows(row: QuestionFacts) -> Iterator[dict[str, object]]:
    """Yield the row of the people that an attack reached."""
    if row.people is None:
        return
    sides: list[object] = []
    for side in (row.people.member, row.people.heldout):
        if isinstance(side, Estimate):
            sides += [round(side.value * side.n), side.n]
        else:
            sides += ["", ""]
    method = row.people.method.removeprefix(".")
    values = (row.attack, "people", row.people.source, *sides, "people", method)
    yield dict(zip(COLUMNS, values, strict=True))
