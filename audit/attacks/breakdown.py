"""Divide what an attack found by kind, copies, length and place, and documents by their hits."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.corpus.documents import Document
from audit.measurements import Breakdown, By, Group, Share

QUARTERS = ("first quarter", "second quarter", "third quarter", "last quarter")
"""Of a page, from its top; of a text without places of words, from its beginning."""
NOWHERE = "not on the page"
POSITIONS = (*QUARTERS, NOWHERE)
COPIES = ("1", "2", "3 to 5", "6 to 10", "over 10")
"""Documents of a value's split that hold it."""
LAST_COPIES = (1, 2, 5, 10)
LENGTHS = ("1 to 4", "5 to 8", "9 to 12", "13 to 20", "over 20")
"""Characters of a value without spaces."""
LAST_LENGTHS = (4, 8, 12, 20)
OTHER_KIND = "other"
"""Values of which no category is known."""
IS_HIT = 0.5
"""A value chosen among equals is a hit where it is chosen more often than not."""


class Traits(NamedTuple):
    """What is known of a value that an attack tried, without its text.

    Attributes:
        category: its kind.
        copies: documents of its split that hold it.
        length: its characters without spaces.
        position: one of `POSITIONS`.
    """

    category: str
    copies: int
    length: int
    position: str


class MethodHits(NamedTuple):
    """What one method of an attack got back; columns have shape (n_values,).

    Attributes:
        method: as of `Breakdown`.
        hits: how far each value came back, in [0, 1].
        counted: the values that the method's shares are of.
        tried: the values that the method tried at all, such as repeated ones.
    """

    method: str
    hits: Floats
    counted: Bools
    tried: Bools


class Tried(NamedTuple):
    """The values that an attack tried, in one order; columns have shape (n_values,).

    Attributes:
        traits: what is known of each.
        member: whether its document is one of training.
        cluster: a number for its document.
        unit: what the values are called, plural.
    """

    traits: Sequence[Traits]
    member: Bools
    cluster: Ints
    unit: str


def position_of(document: Document, words: Sequence[int]) -> str:
    """Name the quarter of a page that holds some of its words."""
    if not words:
        return NOWHERE
    middles = []
    for index in words:
        box = document.words[index].box
        if box is not None:
            middles.append((box[1] + box[3]) / 2)
    if middles and document.size is not None:
        place = sum(middles) / len(middles) / document.size[1]
    else:
        place = (min(words) + 0.5) / len(document.words)
    quarter = int(place * len(QUARTERS))
    return QUARTERS[min(max(quarter, 0), len(QUARTERS) - 1)]


def break_down(tried: Tried, methods: Sequence[MethodHits]) -> tuple[Breakdown, ...]:
    """Divide the values that an attack tried, by each of its methods.

    Copies divide all values that were tried: those that a share is of often stand in one document.
    """
    breakdowns: list[Breakdown] = []
    for method in methods:
        if method.counted.any():
            breakdowns += _divide(tried, method)
    return tuple(breakdowns)


def _divide(tried: Tried, method: MethodHits) -> Iterator[Breakdown]:
    """Yield every division of what a method found."""
    for way in _ways(tried):
        counted = method.counted
        if way.by == "copies":
            counted = method.tried
        groups = tuple(_groups(tried, method.hits, counted, way))
        yield Breakdown(way.by, method.method, tried.unit, groups)
    documents = tuple(_documents_by_hits(tried, method))
    yield Breakdown("documents", method.method, "documents", documents)


class _Way(NamedTuple):
    """A way to divide values: the names of the groups, and the group of each value in order."""

    by: By
    names: Sequence[str]
    group_of_value: Sequence[str]


def _ways(tried: Tried) -> Iterator[_Way]:
    """Yield the ways in which values are divided."""
    kinds = [traits.category for traits in tried.traits]
    yield _Way("kind", sorted(set(kinds)), kinds)
    copies = [_range_of(traits.copies, LAST_COPIES, COPIES) for traits in tried.traits]
    yield _Way("copies", COPIES, copies)
    lengths = [_range_of(traits.length, LAST_LENGTHS, LENGTHS) for traits in tried.traits]
    yield _Way("length", LENGTHS, lengths)
    positions = [traits.position for traits in tried.traits]
    yield _Way("position", POSITIONS, positions)


def _range_of(number: int, last: Sequence[int], names: Sequence[str]) -> str:
    """Return the name of the range that holds a number; `last` are the ends of all but one."""
    for end, name in zip(last, names, strict=False):
        if number <= end:
            return name
    return names[-1]


def _groups(tried: Tried, hits: Floats, counted: Bools, way: _Way) -> Iterator[Group]:
    """Yield the groups that hold a counted value."""
    group_names = np.array(way.group_of_value, np.str_)
    for name in way.names:
        rows = counted & (group_names == name)
        if rows.any():
            yield Group(name, _share(hits, rows & tried.member), _share(hits, rows & ~tried.member))


def _share(hits: Floats, rows: Bools) -> Share:
    """Return what came back of some rows."""
    return Share(float(hits[rows].sum()), int(rows.sum()))


def _documents_by_hits(tried: Tried, method: MethodHits) -> Iterator[Group]:
    """Yield the documents by how many of their counted values came back: 0, 1, 2 ..."""
    sides = []
    for of_side in (tried.member, ~tried.member):
        rows = method.counted & of_side
        _, documents = np.unique(tried.cluster[rows], return_inverse=True)
        sides.append(np.bincount(documents, method.hits[rows] > IS_HIT).astype(int))
    most = max(int(side.max(initial=0)) for side in sides)
    for number in range(most + 1):
        member, heldout = (Share(float((side == number).sum()), side.size) for side in sides)
        yield Group(str(number), member, heldout)
