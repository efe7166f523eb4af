"""Equality of values, and the number of documents that a value occurs in.

Method: methods.md#reconstruction, "unique fields".
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from audit.corpus.documents import SPLITS, Corpus, Document, Split

MIN_TEXT_LENGTH = 4  # folded characters; a shorter value ("9.0") occurs on other pages by chance


def fold(text: str) -> str:
    """`text` without differences of case, width and spacing: NFKC, casefold, NFKC again, all white space removed.

    Folding words one by one and joining them gives the same as folding them joined by spaces, which `occurrences` uses.
    """
    if text.isascii():
        return "".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(folded.split())


@dataclass(frozen=True)
class Occurrence:
    """Numbers of distinct documents of each split that a folded value occurs in.

    Attributes:
        as_value: documents in which some entity has this value.
        anywhere: those, and documents where the value occurs as a sequence of whole words on the page, annotated or
            not (a company in another receipt's header). Values under `MIN_TEXT_LENGTH` characters are counted as
            entities only.
    """

    as_value: Mapping[Split, int]
    anywhere: Mapping[Split, int]

    @property
    def unique(self) -> bool:
        """True where the value occurs in one document only, over all splits: what a gated field must be."""
        return sum(self.anywhere.values()) == 1


def occurrences(corpus: Corpus) -> dict[str, Occurrence]:
    """Count, for the folded value of every entity (attacked or not), the documents that it occurs in.

    "In no other document of any split" is decided on whole pages, not on annotations alone: a model that saw a name
    in an unlabelled header can repeat it without having memorised the field.
    """
    values = {fold(document.text_of(entity)) for document in corpus.documents for entity in document.entities}
    index = _index(value for value in values if len(value) >= MIN_TEXT_LENGTH)
    as_value: dict[str, dict[Split, int]] = {value: dict.fromkeys(SPLITS, 0) for value in values}
    anywhere: dict[str, dict[Split, int]] = {value: dict.fromkeys(SPLITS, 0) for value in values}
    for document in corpus.documents:
        own = {fold(document.text_of(entity)) for entity in document.entities}
        for value in own:
            as_value[value][document.split] += 1
        for value in own.union(_standing_on(document, index)):
            anywhere[value][document.split] += 1
    return {value: Occurrence(as_value[value], anywhere[value]) for value in values}


def _index(values: Iterable[str]) -> dict[str, dict[int, set[str]]]:
    """Values by their first `MIN_TEXT_LENGTH` characters and by length, to compare few positions of a page."""
    index: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for value in values:
        index[value[:MIN_TEXT_LENGTH]][len(value)].add(value)
    return index


def _standing_on(document: Document, index: Mapping[str, Mapping[int, set[str]]]) -> Iterator[str]:
    """The indexed values that equal the concatenation of consecutive words of the page."""
    starts = [0]
    words = [fold(word.text) for word in document.words]
    for word in words:
        starts.append(starts[-1] + len(word))
    edges = frozenset(starts)
    page = "".join(words)
    for start in edges:
        for length, values in index.get(page[start : start + MIN_TEXT_LENGTH], {}).items():
            if start + length in edges and page[start : start + length] in values:
                yield page[start : start + length]
