"""The fields of a data set in numbers, by category."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.corpus.documents import CATEGORIES, SPLITS, Category, Corpus, Entity, Split
from audit.corpus.folding import Occurrence, fold, occurrences


@dataclass(frozen=True)
class Quartiles:
    """Least, lower quartile, median, upper quartile and greatest of `n` counts; linear interpolation."""

    n: int
    least: float
    lower: float
    median: float
    upper: float
    greatest: float


@dataclass(frozen=True)
class FieldCounts:
    """The fields of one category.

    Attributes:
        fields: by split.
        attacked: those of them that an attack may try to reconstruct.
        values: distinct values after folding.
        unique: fields whose value occurs in no other document (`folding.Occurrence.unique`).
        repeated_within: by split, fields whose value occurs in another document of that split.
        repeated_across: by split, fields whose value occurs in a document of another split.
        words: words a field.
        characters: characters a field, joined by single spaces.
    """

    fields: Mapping[Split, int]
    attacked: Mapping[Split, int]
    values: int
    unique: int
    repeated_within: Mapping[Split, int]
    repeated_across: Mapping[Split, int]
    words: Quartiles
    characters: Quartiles


def by_split(splits: Iterable[Split]) -> dict[Split, int]:
    """Count them, each split, in the order of `SPLITS`."""
    counts = Counter(splits)
    return {split: counts[split] for split in SPLITS}


def quartiles(counts: Sequence[int]) -> Quartiles:
    """Compute them of one count or more."""
    return Quartiles(len(counts), *(float(value) for value in np.quantile(counts, (0, 0.25, 0.5, 0.75, 1))))


def count_fields(corpus: Corpus) -> dict[Category, FieldCounts]:
    """Count the fields of each category that occurs, in the manifest's order."""
    found = occurrences(corpus)
    tallies: dict[Category, _Tally] = defaultdict(_Tally)
    for document in corpus.documents:
        for entity in document.entities:
            text = document.text_of(entity)
            value = fold(text)
            tallies[entity.category].add(document.split, entity, text, value, found[value])
    return {category: tallies[category].counts() for category in CATEGORIES if category in tallies}


class _Tally:
    """Fields of one category, counted one after the other."""

    def __init__(self) -> None:
        self.fields, self.attacked = Counter[Split](), Counter[Split]()
        self.within, self.across = Counter[Split](), Counter[Split]()
        self.values: set[str] = set()
        self.unique = 0
        self.words, self.characters = array("q"), array("q")

    def add(self, split: Split, entity: Entity, text: str, value: str, occurrence: Occurrence) -> None:
        """Count a field with this text, which folds to `value`."""
        self.fields[split] += 1
        self.attacked[split] += entity.attack
        self.within[split] += occurrence.anywhere[split] > 1
        self.across[split] += sum(occurrence.anywhere.values()) > occurrence.anywhere[split]
        self.values.add(value)
        self.unique += occurrence.unique
        self.words.append(len(entity.words))
        self.characters.append(len(text))

    def counts(self) -> FieldCounts:
        """What was counted."""
        fields, attacked, within, across = (
            {split: counted[split] for split in SPLITS}
            for counted in (self.fields, self.attacked, self.within, self.across)
        )
        return FieldCounts(
            fields=fields,
            attacked=attacked,
            values=len(self.values),
            unique=self.unique,
            repeated_within=within,
            repeated_across=across,
            words=quartiles(self.words),
            characters=quartiles(self.characters),
        )
