"""Schemes in which the labels of words say where entities begin and end: BIO, BIOES (BILOU) and IO.

Entities carry plain names ("TOTAL"); the tag of a word follows from the scheme of a model's labels,
which their form tells: all but one of them begin with "B-" or "I-" (BIO), some with "E-" or "L-"
and "S-" or "U-" too (BIOES), or they are the names themselves, or these with "I-" alone (IO: words
of one name that follow each other are one entity).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

SchemeName = Literal["BIO", "BIOES", "IO"]
Span = tuple[str, int, int]
OUTSIDE = "O"
OUTSIDE_NAMES = (
    "o",
    "other",
    "others",
    "outside",
    "none",
    "0",
    "no_label",
    "background",
    "null",
    "_",
)
"""Names of the class of words outside of entities, casefolded, that are recognised where nobody
names it."""
_ENDS = "EL"
_SINGLES = "SU"
_PREFIXES = "BI" + _ENDS + _SINGLES


@dataclass(frozen=True)
class Scheme:
    """How the labels of a model are to be read.

    Attributes:
        name: "BIO", "BIOES" or "IO".
        labels: all of them.
        outside: the one of words outside of entities.
        prefixed: whether labels have a prefix; that of an IO scheme is "I-".
        end, single: the prefixes of an entity's last word and of its only one, in BIOES.
    """

    name: SchemeName
    labels: frozenset[str]
    outside: str
    prefixed: bool
    end: str = "E"
    single: str = "S"

    def tags_of(self, label: str, n_words: int) -> tuple[str, ...]:
        """Return the tags of the words of one entity, in its own order, as the scheme has them.

        A model of BIOES that lacks a class for an entity's last or only word has the tag of BIO
        there. The label "O" is that of values that training left outside of entities. A tag may
        still be none of the labels.
        """
        if label == OUTSIDE:
            return (self.outside,) * n_words
        if self.name == "IO":
            return (f"I-{label}" if self.prefixed else label,) * n_words
        if n_words == 0:
            return ()
        tags = [f"B-{label}"] + [f"I-{label}"] * (n_words - 1)
        if self.name == "BIOES":
            last = f"{self.single if n_words == 1 else self.end}-{label}"
            if last in self.labels:
                tags[-1] = last
        return tuple(tags)

    def knows(self, label: str) -> bool:
        """Test whether some entity with this label can be tagged."""
        return not {self.tags_of(label, 1)[0], *self.tags_of(label, 2)[:1]}.isdisjoint(self.labels)

    def continued(self, tag: str) -> str:
        """Return the tag of the tokens that continue a word: inside its entity, where there is one.

        As run_ner.py does.
        """
        inside = f"I-{tag[2:]}" if self.prefixed and tag.startswith("B-") else tag
        return inside if inside in self.labels else tag

    def spans(self, tags: Sequence[str]) -> set[Span]:
        """Read the entities of a sequence of tags, as (label, first, after last).

        A tag that goes on with no entity begins one, as in CoNLL's scorer.
        """
        spans: set[Span] = set()
        label = ""
        start = 0
        for position, tag in enumerate([*tags, self.outside]):
            prefix, name = self._prefix_and_name(tag)
            if label and (name != label or prefix in ("B", *_SINGLES)):
                spans.add((label, start, position))
                label = ""
            if name and not label:
                label = name
                start = position
            if name and prefix in (*_ENDS, *_SINGLES):
                spans.add((label, start, position + 1))
                label = ""
        return spans

    def _prefix_and_name(self, tag: str) -> tuple[str, str]:
        """Return the prefix of a tag and the label behind it.

        Both are empty outside of entities.
        """
        if tag == self.outside:
            return "", ""
        if self.prefixed:
            return tag[:1], tag[2:]
        return "I", tag


BIO = Scheme("BIO", frozenset(), OUTSIDE, prefixed=True)


def scheme_of(labels: Sequence[str], outside: str | None = None) -> Scheme:
    """Recognise the tagging scheme of labels.

    Args:
        labels: all of a model's.
        outside: the class of words outside of entities; None: as `outside_of` finds it.

    Raises:
        ValueError: `scheme_problems` has something to say of them.
    """
    return _scheme_of(tuple(labels), outside)


@lru_cache(maxsize=64)
def _scheme_of(labels: tuple[str, ...], outside: str | None) -> Scheme:
    """Recognise the tagging scheme of labels (IO, BIO or BIOES), or refuse them."""
    for problem in scheme_problems(labels, outside):
        raise ValueError(problem)
    outside = outside_of(labels, outside)
    assert outside is not None
    letters = {label[0] for label in labels if label != outside and _is_prefixed(label)}
    label_set = frozenset(labels)
    if letters == {"I"} or not letters & {*"BI"}:
        return Scheme("IO", label_set, outside, prefixed=letters == {"I"})
    if letters <= {*"BI"}:
        return Scheme("BIO", label_set, outside, prefixed=True)
    end = _first_used(_ENDS, letters) or "E"
    single = _first_used(_SINGLES, letters) or "S"
    return Scheme("BIOES", label_set, outside, True, end, single)


def _first_used(prefixes: Iterable[str], letters: Collection[str]) -> str | None:
    """Return the first of these prefixes that labels have; None where they have none."""
    return next((prefix for prefix in prefixes if prefix in letters), None)


def outside_of(labels: Sequence[str], named: str | None = None) -> str | None:
    """Find the class of words outside of entities.

    It is `named`, "O", the only bare label, or one of `OUTSIDE_NAMES`; None where none is any of
    these.
    """
    if named is not None:
        return named
    if OUTSIDE in labels:
        return OUTSIDE
    bare = [label for label in labels if not _is_prefixed(label)]
    if len(bare) == 1 and _has_prefixes(labels):
        return bare[0]
    return _usual_outside(labels)


def _usual_outside(labels: Sequence[str]) -> str | None:
    """Return the label that has the first of `OUTSIDE_NAMES`, in any case; None without one."""
    spellings = {label.casefold(): label for label in reversed(labels)}
    return next((spellings[name] for name in OUTSIDE_NAMES if name in spellings), None)


def scheme_problems(labels: Sequence[str], named: str | None = None) -> Iterator[str]:
    """List the reasons why labels are in no scheme."""
    outside = outside_of(labels, named)
    if outside is None:
        yield (
            "no label is O, nor another usual name of words outside of entities; "
            'say which: [task] outside = "..."'
        )
        return
    if outside not in labels:
        yield f"outside: {outside} is none of the labels"
    if outside != OUTSIDE and OUTSIDE in labels:
        yield f"outside: {outside}, but O is a label too"
    inside = [label for label in labels if label != outside]
    if _has_prefixes(inside):
        for label in inside:
            if not _is_prefixed(label):
                yield f"{label} is none of {outside}, B-..., I-..."


def canonical(labels: Sequence[str], outside: str | None = None) -> tuple[str, ...]:
    """Rename the class of words outside of entities to "O" among these labels.

    Raises:
        ValueError: see `scheme_of`.
    """
    outside = scheme_of(labels, outside).outside
    return tuple(OUTSIDE if label == outside else label for label in labels)


def _is_prefixed(label: str) -> bool:
    """Test whether a label is a tag with a prefix and a hyphen, such as "B-NAME"."""
    return len(label) > 2 and label[0] in _PREFIXES and label[1] == "-"


def _has_prefixes(labels: Sequence[str]) -> bool:
    """Test whether labels are tags rather than names.

    Without a "B-" or an "I-", "E-MAIL" is a name.
    """
    return any(label[:2] in ("B-", "I-") and len(label) > 2 for label in labels)
