"""Equality of values, and the number of documents that a value occurs in.

Method: methods/reconstruction.md#excess-on-unseen-fields.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from audit.corpus.documents import SPLITS, Corpus, Document, Question, Split, Word

MIN_TEXT_LENGTH = 4  # folded characters; a shorter value ("9.0") occurs on other pages by chance


def fold(text: str) -> str:
    """Remove differences of case, width and spacing: NFKC, casefold, NFKC again, no white space.

    Folding words one by one and joining them gives the same as folding them joined by spaces, which
    `occurrences` uses.
    """
    if text.isascii():
        return "".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(folded.split())


Counts = tuple[int, ...]
"""Of documents, by split in the order of `SPLITS`."""
_NONE: Counts = (0,) * len(SPLITS)


@dataclass(frozen=True)
class Occurrence:
    """Numbers of distinct documents of each split that a folded value occurs in.

    Attributes:
        as_value: documents in which some entity has this value.
        anywhere: those, and documents where the value occurs as a sequence of whole words on the
            page, annotated or not (a company in another receipt's header). Values under
            `MIN_TEXT_LENGTH` characters are counted as entities only.
    """

    as_value: Mapping[Split, int]
    anywhere: Mapping[Split, int]

    @property
    def unique(self) -> bool:
        """Test whether the value occurs in one document only, over all splits.

        A gated field must be so.
        """
        return sum(self.anywhere.values()) == 1


def occurrences(corpus: Corpus) -> dict[str, Occurrence]:
    """Count the documents that the folded value of every entity, attacked or not, occurs in.

    "In no other document of any split" is decided on whole pages, not on annotations alone: a model
    that saw a name in an unlabelled header can repeat it without having memorised the field.
    """
    return corpus.once("occurrences", lambda: _count(corpus))


def _count(corpus: Corpus) -> dict[str, Occurrence]:
    """Count, by folded value, the documents of each split that hold it."""
    as_value: dict[str, Counts] = {}
    for document in corpus.documents:
        for value in {fold(document.text_of(entity)) for entity in document.entities}:
            as_value[value] = _add_document(as_value.get(value, _NONE), document.split)
    index = _index(value for value in as_value if len(value) >= MIN_TEXT_LENGTH)
    anywhere: dict[str, Counts] = dict.fromkeys(as_value, _NONE)
    for document in corpus.documents:
        values = {fold(document.text_of(entity)) for entity in document.entities}
        for value in values.union(_values_on_page(document, index, as_value)):
            anywhere[value] = _add_document(anywhere[value], document.split)
    return {value: _occurrence(counts, anywhere[value]) for value, counts in as_value.items()}


@lru_cache(maxsize=4096)
def _add_document(counts: Counts, split: Split) -> Counts:
    """Add one document to counts by split; one object for equal counts, of which there are few."""
    return tuple(count + (name == split) for count, name in zip(counts, SPLITS, strict=True))


@lru_cache(maxsize=4096)
def _occurrence(as_value: Counts, anywhere: Counts) -> Occurrence:
    """Make one object for equal counts: most values of a data set stand in one document."""
    by_split = (dict(zip(SPLITS, counts, strict=True)) for counts in (as_value, anywhere))
    return Occurrence(*by_split)


def _index(values: Iterable[str]) -> dict[str, frozenset[int]]:
    """Index the lengths of values by their first `MIN_TEXT_LENGTH` characters."""
    index: dict[str, frozenset[int]] = {}
    for value in values:
        start = value[:MIN_TEXT_LENGTH]
        index[start] = index.get(start, frozenset()) | {len(value)}
    return index


def _values_on_page(
    document: Document, index: Mapping[str, Collection[int]], values: Collection[str]
) -> Iterator[str]:
    """Yield the indexed values that equal the concatenation of consecutive words of the page."""
    starts = [0]
    words = [fold(word.text) for word in document.words]
    for word in words:
        starts.append(starts[-1] + len(word))
    edges = frozenset(starts)
    page = "".join(words)
    for start in edges:
        for length in index.get(page[start : start + MIN_TEXT_LENGTH], ()):
            if start + length in edges and page[start : start + length] in values:
                yield page[start : start + length]


MIN_INSIDE = 3
"""Folded characters of an answer that is looked for inside words: a shorter one stands in many by
chance."""


def is_on_page(question: Question, words: Sequence[Word]) -> bool:
    """Test whether an accepted answer equals consecutive whole words of the page, after `fold`.

    Plainer than what removal looks for (methods/memorisation.md#proof-of-removal): answers inside a
    word or with OCR errors are not found.
    """
    page, edges = _fold_words(words)
    edge_set = frozenset(edges)
    for answer in map(fold, question.answers):
        for start in begins_of(answer, page):
            if start in edge_set and start + len(answer) in edge_set:
                return True
    return False


def places_of(answer: str, words: Sequence[Word]) -> list[tuple[int, int]]:
    """Return the first and the last word of every place where a page has this answer.

    Words are compared after `fold`; places are in reading order.

    Places of whole words. Where there are none, those of the words that an answer of `MIN_INSIDE`
    characters or more begins and ends in, such as "9.00" in "$9.00,". Empty where the page does not
    have the answer.
    """
    page, edges = _fold_words(words)
    value = fold(answer)
    places = [(start, start + len(value)) for start in begins_of(value, page)]
    edge_set = frozenset(edges)
    of_whole_words = [
        (start, end) for start, end in places if start in edge_set and end in edge_set
    ]
    if not of_whole_words and len(value) < MIN_INSIDE:
        return []
    # Words without any folded character have no place of their own: the first that begins here is
    # taken after them.
    return [
        (bisect_right(edges, start) - 1, bisect_left(edges, end) - 1)
        for start, end in of_whole_words or places
    ]


def _fold_words(words: Sequence[Word]) -> tuple[str, list[int]]:
    """Return all words folded and joined, and where each begins, with the end of the last."""
    folded = [fold(word.text) for word in words]
    return "".join(folded), [*accumulate(map(len, folded), initial=0)]


def begins_of(value: str, page: str) -> Iterator[int]:
    """Yield where `value`, not empty, begins in `page`; occurrences may overlap."""
    start = page.find(value) if value else -1
    while start >= 0:
        yield start
        start = page.find(value, start + 1)
