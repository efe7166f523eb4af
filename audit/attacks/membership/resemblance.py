"""Whether held-out documents resemble training documents more than training documents resemble each other.

Next month's forms of the same people, or a training document with one value changed, are no unseen
documents: a model fits them almost as well as what it was trained on, so that a leak looks small.
Copies are found elsewhere (`corpus.near_copies`); these are no copies.

Method: methods/checks.md#checks-of-the-documents.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from audit.arrays import Floats, Ints
from audit.attacks.membership.documents import first_by_name, select_compared
from audit.attacks.text import SENTENCES
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.measurements import Check

SUBJECT = "unseen documents that resemble training documents"
MOST = 300
"""Held-out documents, and training documents beside them, that are looked for among the other
training documents."""
MOST_SEARCHED = 20_000
"""Training documents that these are looked for among: of 100,000 the search takes seconds."""
FEWEST = 20
"""Documents of a side without which nothing is compared."""
BESIDE = 4
"""One training document in so many is put aside, and compared with the others as held-out documents
are."""
PERSONAL = frozenset({"person", "contact", "code"})
"""Categories of values that belong to one person, as far as two documents hold them, one of either
side."""
MOST_SHARED = 0.5
"""The share of held-out documents that may share such a value with a training document, whatever chance makes of the
split: beyond it the unseen documents are about the same people. In the samples 0.04 to 0.29 do."""
ATTACKS = ("attribute_inference", "membership", "memorisation", "reconstruction")
"""Attacks that compare training documents with held-out ones.

Documents of one provider resemble each other, and provider membership compares providers.
"""
_DIGITS = re.compile(r"\d+")
_ROWS = 1_000


class Traits(NamedTuple):
    """What a document is compared by.

    Attributes:
        grams: its pairs of neighbouring words, without the digits of numbers.
        words: its distinct words of four letters or digits and more, numbers as they are.
    """

    grams: frozenset[str]
    words: frozenset[str]


def read_traits(document: Document) -> Traits:
    """Read what a document is compared by; both parts are empty for a page without words."""
    words = [fold(word.text) for word in document.words]
    bare = [_DIGITS.sub("0", word) for word in words]
    grams = frozenset(f"{first} {second}" for first, second in pairwise(bare))
    return Traits(grams, frozenset(word for word in words if len(word) >= 4))


class Likeness(NamedTuple):
    """How documents resemble the training documents that were searched; (n_documents,) each.

    Attributes:
        overlaps: the largest Jaccard similarity of a document's pairs of words with those of one
            training document.
        shared: how many of its words exactly one training document holds.
    """

    overlaps: Floats
    shared: Floats


def check_heldout(corpus: Corpus) -> Check | str:
    """Test whether held-out documents resemble training documents too much.

    That is more than other training documents do.

    Of documents that a lot divided, held-out ones resemble the searched training documents as much
    as training documents do that are put aside: both are looked for among the same documents, and
    Mann and Whitney's test compares their ranks. It tests the overlap of neighbouring words, and
    the words that exactly one training document holds; Bonferroni over the two. Beside it stands a
    rule that no chance excuses (`MOST_SHARED`).

    Args:
        corpus: the data set, without copies.

    Returns:
        The check, or why it cannot be made.
    """
    sides = choose_sides(corpus)
    fewest = min(len(sides.heldout), len(sides.beside), len(sides.searched))
    if fewest < FEWEST:
        return f"only {fewest} documents with words of a side can be compared, and {FEWEST} of each are needed"
    n_people = count_sharing(corpus, sides.heldout)
    if n_people > MOST_SHARED * len(sides.heldout):
        return _resemblance_check(
            0.0, SENTENCES["same_people"].format(n=n_people, all=len(sides.heldout))
        )
    heldout = compare(sides.heldout, sides.searched)
    beside = compare(sides.beside, sides.searched)
    p_values = (p_more(heldout.overlaps, beside.overlaps), p_more(heldout.shared, beside.shared))
    reason = SENTENCES["resembles"].format(
        heldout=np.median(heldout.overlaps),
        member=np.median(beside.overlaps),
        unique=np.mean(heldout.shared),
        usual=np.mean(beside.shared),
    )
    return _resemblance_check(min(1.0, 2 * min(p_values)), reason)


class Sides(NamedTuple):
    """The documents that are compared, with words each.

    Attributes:
        heldout: held-out documents.
        beside: training documents that are looked for as these are.
        searched: training documents among which both are looked for.
    """

    heldout: list[Document]
    beside: list[Document]
    searched: list[Document]


def choose_sides(corpus: Corpus) -> Sides:
    """Choose what is compared, by ids alone.

    Held-out copies of training documents are left out of an audit. So no document is looked for
    that equals a searched one, whichever side it is of.
    """
    by_split: dict[str, list[Document]] = {"member": [], "heldout": []}
    for document in select_compared(corpus):
        by_split[document.split].append(document)
    members = by_split["member"]
    beside = _first(members, min(MOST, max(FEWEST, len(members) // BESIDE)))
    names = {document.id for document in beside}
    searched = _first([document for document in members if document.id not in names], MOST_SEARCHED)
    texts = {_text_hash(document) for document in searched}
    heldout = _first(by_split["heldout"], MOST)
    return Sides(
        [document for document in heldout if _text_hash(document) not in texts],
        [document for document in beside if _text_hash(document) not in texts],
        searched,
    )


def _resemblance_check(p_value: float, reason: str) -> Check:
    """Make the check that held-out documents resemble training documents, with its reason."""
    return Check("resemblance", p_value, "alarm", reason, SENTENCES["draw_unlike"], attacks=ATTACKS)


def _first(documents: Sequence[Document], count: int) -> list[Document]:
    """Choose at most `count` documents by their ids alone, then leave out those without words."""
    chosen = first_by_name(documents, count)
    return [document for document in documents if document.id in chosen and document.words]


def _text_hash(document: Document) -> bytes:
    """Hash the folded words of a document."""
    words = "\0".join(fold(word.text) for word in document.words)
    return hashlib.blake2b(words.encode(), digest_size=16).digest()


def compare(documents: Sequence[Document], searched: Sequence[Document]) -> Likeness:
    """Compare documents with the ones that are searched, one pass over these.

    Args:
        documents: some hundreds.
        searched: others, as many as there are.

    Returns:
        How each document resembles them.
    """
    traits = [read_traits(document) for document in documents]
    grams = _Vocabulary([trait.grams for trait in traits])
    words = _Vocabulary([trait.words for trait in traits])
    overlaps = np.zeros(len(documents))
    occurrences = np.zeros(words.size, np.int64)
    for start in range(0, len(searched), _ROWS):
        others = [read_traits(document) for document in searched[start : start + _ROWS]]
        common = (grams.count([trait.grams for trait in others]) @ grams.counts.T).toarray()
        sizes = np.array([len(trait.grams) for trait in others])
        union = grams.sizes + sizes[:, None] - common
        overlaps = np.maximum(overlaps, (common / np.maximum(union, 1)).max(axis=0))
        occurrences += (
            np.asarray(words.count([trait.words for trait in others]).sum(axis=0))
            .ravel()
            .astype(np.int64)
        )
    n_unique = words.counts @ (occurrences == 1).astype(np.int64)
    return Likeness(overlaps, n_unique.astype(np.float64))


class _Vocabulary:
    """The grams, or words, of some documents, and which of these hold them."""

    def __init__(self, held: Sequence[frozenset[str]]) -> None:
        """Number the distinct texts of all documents; `held` are the texts of each document."""
        distinct = sorted(frozenset().union(*held))
        self._places = {text: place for place, text in enumerate(distinct)}
        self.size = len(distinct)
        self.sizes: Ints = np.array([len(items) for items in held])
        self.counts = self.count(held)

    def count(self, held: Sequence[frozenset[str]]) -> Any:
        """Return a sparse matrix, (n_documents, size): 1 where a document holds a numbered text."""
        from scipy.sparse import csr_array

        rows: list[int] = []
        columns: list[int] = []
        for row, items in enumerate(held):
            places = [self._places[text] for text in items if text in self._places]
            columns += places
            rows += [row] * len(places)
        ones = np.ones(len(rows), np.int64)
        return csr_array((ones, (rows, columns)), shape=(len(held), self.size))


def p_more(heldout: Floats, beside: Floats) -> float:
    """Return the one-sided p-value that held-out documents resemble the searched ones more.

    See Mann and Whitney 1947. Ties are corrected for in the normal approximation of the permutation
    distribution.
    """
    from scipy.stats import mannwhitneyu

    if np.ptp(np.concatenate([heldout, beside])) == 0:
        return 1.0
    return float(mannwhitneyu(heldout, beside, alternative="greater", method="asymptotic").pvalue)


def count_sharing(corpus: Corpus, heldout: Sequence[Document]) -> int:
    """Count the held-out documents that share a value of a person with a training document.

    Such a value is an annotated field of `PERSONAL` that no third document holds: more hold common
    names.
    """
    values_by_document = [_personal_values(document) for document in heldout]
    audited = set[str]().union(*values_by_document)
    if not audited:
        return 0
    holders: Counter[str] = Counter()
    of_members: set[str] = set()
    for document in corpus.documents:
        values = _personal_values(document) & audited
        holders.update(values)
        if document.split == "member":
            of_members |= values
    rare = {value for value in of_members if holders[value] == 2}
    return sum(bool(values & rare) for values in values_by_document)


def _personal_values(document: Document) -> set[str]:
    """Return the folded values of a document's personal fields, each once."""
    values = {
        fold(document.text_of(entity))
        for entity in document.entities
        if entity.category in PERSONAL
    }
    return {value for value in values if len(value) >= 4}
