"""Documents of one split that copy one of another: looked for, counted, and left out of an audit.

A held-out copy of a training document was trained on as well: it hides what a comparison of the two
would show. So does a public copy of an audited document, for models that learnt from public ones
know it too.

Two pages are copies when they hold the same text or show the same picture. *Same text*: many of
their runs of words agree, and so do their numbers; two receipts of one shop for one thing share
most of their words, but neither date nor number. *Same picture*: the pages look alike when they are
small, and their numbers do not differ; receipts of one printer look alike as well, but not word by
word. The runs of words are compared exactly, not by MinHash, whose errors nothing here needs. Short
texts, and utterances however long, are copies only when they are equal: a few common words often
meet.

The constants were chosen on SROIE (626 receipts) and FUNSD (149 forms) and on the sample data,
where they call no two documents copies that a reader would not, and on copies of these that were
printed in another size, with noise, and read with errors. A page that was shifted by a hundredth of
its width, or turned by half a degree, is recognised by its text only.
"""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL.Image import Image, Resampling

from audit.arrays import Bools, Floats, Ints
from audit.corpus.canaries.schema import carrier_ids, planted_ids
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.folding import fold
from audit.corpus.images import open_image
from audit.corpus.problems import TEXTS, Problems
from audit.progress import steps
from audit.stats.intervals import join_groups

SHINGLE = 5
"""Words of a run."""
MIN_WORDS = 30
"""Texts with fewer words are copies only when they are equal."""
MIN_ALIKE = 0.5
"""Jaccard similarity of two texts' runs of words: of texts of which one word in fifty was misread,
98 % reach it."""
MIN_NUMBERS = 5
"""Where a text has fewer distinct numbers, all its words are compared in their place."""
MIN_NUMBERS_ALIKE = 0.92
"""Jaccard similarity of the numbers, each a run of digits, however a reader divides words."""
# In the 179 pairs of SROIE's receipts that share half of their runs of words it is 1 for the four
# true copies and 0.91 at most for others. Of texts with one word in a hundred misread 91 to 98 %
# reach both, one in twenty about half.
_ROWS = 256

Pair = tuple[str, str]
Pages = Sequence[Document]


class Text(NamedTuple):
    """The words of a document, folded, as far as they are compared.

    Attributes:
        whole: a digest of them all.
        runs: (n_runs,) 64-bit digests of its distinct runs of `SHINGLE` words; empty for a text
            that is too short.
    """

    whole: bytes
    runs: Ints


def read_texts(documents: Sequence[Document]) -> dict[str, Text]:
    """Digest the words of each document that has some, for comparison."""
    texts: dict[str, Text] = {}
    for document in documents:
        words = [fold(word.text) for word in document.words]
        if words:
            runs = {
                _digest("\0".join(words[start : start + SHINGLE]), 8)
                for start in range(len(words) - SHINGLE + 1)
            }
            long = len(words) >= MIN_WORDS
            texts[document.id] = Text(
                _digest("".join(words), 16), np.frombuffer(b"".join(sorted(runs) * long), "<i8")
            )
    return texts


def _digest(text: str, size: int) -> bytes:
    """Hash a text to `size` bytes."""
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def _alike_texts(copies: Pages, originals: Pages, texts: Mapping[str, Text]) -> set[Pair]:
    """List pairs of longer texts that share their runs of words and their numbers."""
    runs = {name: text.runs for name, text in texts.items() if len(text.runs)}
    copies = _documents_in(runs, copies)
    originals = _documents_in(runs, originals)
    if not (copies and originals):
        return set()
    copy_runs = [runs[page.id] for page in copies]
    original_runs = [runs[page.id] for page in originals]
    pairs: set[Pair] = set()
    for row, column in alike_sets(copy_runs, original_runs):
        if same_numbers(copies[row], originals[column]):
            pairs.add((copies[row].id, originals[column].id))
    return pairs


def _documents_in(values: Mapping[str, object], documents: Pages) -> list[Document]:
    """Return the documents whose ids are keys of `values`."""
    return [document for document in documents if document.id in values]


def alike_sets(lefts: Sequence[Ints], rights: Sequence[Ints]) -> Iterator[tuple[int, int]]:
    """List the places of two sets whose Jaccard similarity is `MIN_ALIKE` or more.

    Two such sets share one of the rarest members of each: of so many that fewer others are left
    than must be shared. Only sets that do are compared, so that what stands on every page costs
    nothing.
    """
    members, counts = np.unique(np.concatenate([*lefts, *rights]), return_counts=True)

    def rarest(runs: Ints) -> list[int]:
        """Return the rarest runs of a set, one of which every set that is alike must share."""
        order = np.lexsort((runs, counts[np.searchsorted(members, runs)]))
        n_rarest = len(runs) - math.ceil(MIN_ALIKE * len(runs)) + 1
        rare: list[int] = runs[order[:n_rarest]].tolist()
        return rare

    holders: dict[int, list[int]] = defaultdict(list)
    for column, runs in enumerate(rights):
        for run in rarest(runs):
            holders[run].append(column)
    for row, runs in enumerate(lefts):
        columns: set[int] = set()
        for run in rarest(runs):
            columns.update(holders.get(run, ()))
        for column in sorted(columns):
            n_shared = np.intersect1d(runs, rights[column], assume_unique=True).size
            if n_shared >= MIN_ALIKE * (len(runs) + len(rights[column]) - n_shared):
                yield row, column


def same_numbers(copy: Document, original: Document) -> bool:
    """Test whether two texts hold the same numbers, but for a few that were misread.

    Of texts with few numbers, the words are compared.
    """
    first = _numbers_in(copy)
    second = _numbers_in(original)
    if min(len(first), len(second)) < MIN_NUMBERS:
        first = {fold(word.text) for word in copy.words}
        second = {fold(word.text) for word in original.words}
    return len(first & second) >= MIN_NUMBERS_ALIKE * len(first | second)


def _numbers_in(document: Document) -> set[str]:
    """Return the groups of digits in a document's words."""
    return set(re.findall(r"\d+", " ".join(word.text for word in document.words)))


HASH_SIDE = 16
"""Cells a side of the difference hash: for each whether it is lighter than the one on its left."""
HASH_STEP = 2
"""By so many grey levels more (of 255): noise on white paper sets no bit."""
MAX_DISTANCE = 12
"""Bits of 256 in which the hashes of two pictures may differ; it only says which pages to
compare."""
# A page and its copy in another size, with noise and as a JPEG, differ in as many at most.
RASTER = 128
"""Cells a side of the raster that such pages are compared on."""
MIN_CORRELATION = 0.97
"""Of the greys of two rasters."""
# Different receipts of SROIE reach 0.90, pages of the sample data 0.965; copies 0.97 and more in 95
# % of cases.
MAX_SHARE = 0.05
"""Beyond this share of copies among the held-out documents, the splits were not kept apart."""
MAX_SHARE_OF_UTTERANCES = 0.5
"""The same for utterances, of which many occur twice."""

Bits = Bools


@dataclass(frozen=True)
class Copies:
    """Which documents copy one of another split.

    Attributes:
        pairs: ids of two documents, in the order of `AGAINST`: held-out and member, public and
            member, public and held-out; sorted.
        left_out: ids of the documents that an audit does without, see `without_copies`.
        sentences: the copies, in plain sentences; one for each kind of pair.
        heldout_confounded: why nothing that compares members with held-out documents can be
            decided; None when it can.
        public_confounded: the same for what is held against models that learnt from public
            documents.
    """

    pairs: tuple[Pair, ...] = ()
    left_out: frozenset[str] = frozenset()
    sentences: tuple[str, ...] = ()
    heldout_confounded: str | None = None
    public_confounded: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say which copies there are and what becomes of them; nothing without a copy."""
        left_out = (
            f"{len(self.left_out)} documents are left out of the audit, "
            "as they occur in several splits."
        )
        confounded = (
            f"{reason}." for reason in (self.heldout_confounded, self.public_confounded) if reason
        )
        return (*self.sentences, *confounded, *((left_out,) if self.left_out else ()))


NO_COPIES = Copies()
AGAINST: tuple[tuple[Split, Split], ...] = (
    ("heldout", "member"),
    ("public", "member"),
    ("public", "heldout"),
)
"""The splits that are compared: that of the copy, that of the original."""
_TITLES: Mapping[Split, str] = {"member": "member", "heldout": "held-out", "public": "public"}


def find_copies(corpus: Corpus) -> Copies:
    """Look for documents that copy one of another split; decodes every page image.

    Args:
        corpus: the data set, whole.

    Raises:
        ManifestError: a page image cannot be decoded; one error with all of them.
    """
    hashes = _hashes(corpus, corpus.documents)
    texts = read_texts(corpus.documents)
    pairs: set[Pair] = set()
    for copy_split, original_split in AGAINST:
        copies = corpus.of(copy_split)
        pairs |= _pairs(corpus, copies, corpus.of(original_split), hashes, texts)
    return _decide_exclusions(corpus, tuple(sorted(pairs)))


def copies_among(corpus: Corpus, documents: Sequence[Document]) -> tuple[Pair, ...]:
    """Return the ids of every two of these documents of which one copies the other, sorted.

    Decodes their page images.

    Raises:
        ManifestError: see `find_copies`.
    """
    hashes = _hashes(corpus, documents)
    pairs = _pairs(corpus, documents, documents, hashes, read_texts(documents))
    return tuple(sorted({pair for pair in pairs if pair[0] < pair[1]}))


def group_copies(corpus: Corpus, documents: Sequence[Document]) -> dict[str, str]:
    """Name each document by the first one of its group of copies: itself, where it has none.

    Pages with words are compared by these alone, so that only those without are decoded.

    Args:
        corpus: the data set.
        documents: documents of one split, in order.

    Raises:
        ManifestError: see `find_copies`.
    """
    texts = read_texts(documents)
    hashes = _hashes(corpus, [document for document in documents if document.id not in texts])
    pairs = _pairs(corpus, documents, documents, hashes, texts)
    groups = join_groups([*((document.id,) for document in documents), *sorted(pairs)])
    place = {document.id: index for index, document in enumerate(documents)}
    first: dict[str, str] = {}
    for group in groups:
        first |= dict.fromkeys(group, min(group, key=place.__getitem__))
    return {name: first[name] for name in place}


def without_copies(corpus: Corpus, copies: Copies) -> Corpus:
    """Return the data set as it is audited: without the copies that `Copies.left_out` names.

    Its sha256 is unchanged.

    Held-out copies of members and public copies of audited documents are left out; of utterances
    that both members and held-out documents hold, both, so that common ones are no sign of
    training. Held-out copies stay where they are so many that they confound the audit. Documents
    that carry canaries stay.
    """
    left_out = copies.left_out
    documents = tuple(document for document in corpus.documents if document.id not in left_out)
    return replace(corpus, documents=documents)


def counts_left_out(corpus: Corpus, left_out: Collection[str]) -> dict[str, int]:
    """Count the documents that are left out, by split; splits without any are omitted."""
    splits = [document.split for document in corpus.documents if document.id in left_out]
    return {split: splits.count(split) for split in _TITLES if split in splits}


def _hashes(corpus: Corpus, documents: Sequence[Document]) -> dict[str, Bits]:
    """Hash each document's page image, where it has one.

    An image that several documents share is decoded once.
    """
    problems = Problems()
    hashes: dict[str, Bits] = {}
    by_image: dict[str, Bits] = {}
    for document in steps("comparing pages", documents, len(documents)):
        with problems.catch():
            if document.image is not None:
                if document.image not in by_image:
                    by_image[document.image] = _hash(open_image(corpus, document))
                hashes[document.id] = by_image[document.image]
    problems.raise_if_any("mend these images, or take them out of the data set")
    return hashes


def _pairs(
    corpus: Corpus,
    copies: Pages,
    originals: Pages,
    hashes: Mapping[str, Bits],
    texts: Mapping[str, Text],
) -> set[Pair]:
    """List pairs of a copy and its original, by ids: by text, by picture, by most of the words."""
    by_text: dict[bytes, list[str]] = defaultdict(list)  # the same but for case, width and spacing
    for document in originals:
        if document.id in texts:
            by_text[texts[document.id].whole].append(document.id)
    pairs: set[Pair] = set()
    for copy in copies:
        if copy.id in texts:
            equal_ids = by_text.get(texts[copy.id].whole, ())
            pairs.update((copy.id, name) for name in equal_ids)
    pairs |= _alike_pictures(corpus, copies, originals, hashes)
    if corpus.manifest.task.kind != "intent-slots":
        pairs |= _alike_texts(copies, originals, texts)
    return pairs


def _decide_exclusions(corpus: Corpus, pairs: tuple[Pair, ...]) -> Copies:
    """Decide what is left out, and what cannot be decided, because of these copies."""
    by_kind = _pairs_by_kind(corpus, pairs)
    heldout, public_member, public_heldout = by_kind.values()
    n_members = max(1, len(corpus.of("member")))
    n_heldout = max(1, len(corpus.of("heldout")))
    utterances = corpus.manifest.task.kind == "intent-slots"
    most = MAX_SHARE_OF_UTTERANCES if utterances else MAX_SHARE
    left_out = {copy for copy, _ in (*public_member, *public_heldout)}
    copied = {copy for copy, _ in heldout}
    confounded = None
    if len(copied) > most * n_heldout:
        confounded = TEXTS["heldout_copies"].format(n=len(copied), all=n_heldout)
    else:
        left_out |= copied
        if utterances:
            left_out |= {original for _, original in heldout}
    audited = {original for _, original in (*public_member, *public_heldout)}
    n_audited = n_members + n_heldout
    public_confounded = None
    if len(audited) > most * n_audited:
        public_confounded = TEXTS["public_copies"].format(n=len(audited), all=n_audited)
    left_out -= planted_ids(corpus) | carrier_ids(corpus)
    sentences = _copy_sentences(by_kind, utterances)
    return Copies(pairs, frozenset(left_out), sentences, confounded, public_confounded)


def _pairs_by_kind(corpus: Corpus, pairs: Sequence[Pair]) -> dict[tuple[Split, Split], list[Pair]]:
    """Group pairs by the splits of copy and original, in the order of `AGAINST`."""
    split_of = {document.id: document.split for document in corpus.documents}
    by_kind: dict[tuple[Split, Split], list[Pair]] = {kind: [] for kind in AGAINST}
    for copy, original in pairs:
        kind = (split_of[copy], split_of[original])
        if kind in by_kind:
            by_kind[kind].append((copy, original))
    return by_kind


def _copy_sentences(
    by_kind: Mapping[tuple[Split, Split], Sequence[Pair]], utterances: bool
) -> tuple[str, ...]:
    """Write a sentence about the copies of each kind that has some."""
    sentences: list[str] = []
    for kind, pairs in by_kind.items():
        if pairs:
            sentences.append(_describe_copies(kind, pairs, utterances))
    return tuple(sentences)


def _describe_copies(kind: tuple[Split, Split], pairs: Sequence[Pair], utterances: bool) -> str:
    """Write how many documents of a split are copies of how many of another."""
    copies = len({copy for copy, _ in pairs})
    originals = len({original for _, original in pairs})
    what = "are equal to" if utterances else "are copies, or nearly, of"
    return f"{copies} {_TITLES[kind[0]]} documents {what} {originals} {_TITLES[kind[1]]} ones."


def _hash(page: Image) -> Bits:
    """Return the page's difference hash, (256,)."""
    small = np.asarray(
        page.convert("L").resize((HASH_SIDE + 1, HASH_SIDE), Resampling.BOX), np.int16
    )
    return (small[:, 1:] - small[:, :-1] > HASH_STEP).ravel()


def _alike_pictures(
    corpus: Corpus, copies: Pages, originals: Pages, hashes: Mapping[str, Bits]
) -> set[Pair]:
    """List pairs of pages that show the same, and whose words do not say otherwise."""
    copies = _documents_in(hashes, copies)
    originals = _documents_in(hashes, originals)
    if not (copies and originals):
        return set()
    documents = {document.image: document for document in (*copies, *originals)}
    raster = cache(lambda image: _raster(open_image(corpus, documents[image])))
    pairs: set[Pair] = set()
    for row, column in _near_hashes(_stack(copies, hashes), _stack(originals, hashes)):
        copy = copies[row]
        original = originals[column]
        if _differ_in_numbers(copy, original):
            continue
        if _correlate(raster(copy.image), raster(original.image)):
            pairs.add((copy.id, original.id))
    return pairs


def _stack(documents: Sequence[Document], hashes: Mapping[str, Bits]) -> Bits:
    """Return the image hashes of documents as an array, (n_documents, n_bits)."""
    return np.array([hashes[document.id] for document in documents])


def _differ_in_numbers(copy: Document, original: Document) -> bool:
    """Test whether both documents have words, and these have other numbers."""
    if not (copy.words and original.words):
        return False
    return not same_numbers(copy, original)


def _correlate(left: Floats | None, right: Floats | None) -> bool:
    """Test whether two rasters show the same; a blank page shows nothing."""
    if left is None or right is None:
        return False
    return float(left @ right) >= MIN_CORRELATION


def _near_hashes(lefts: Bits, rights: Bits) -> Iterator[tuple[int, int]]:
    """Yield the rows of each two hashes, left and right, that differ in few bits."""
    right = rights.astype(np.float32)
    for start in range(0, len(lefts), _ROWS):
        left = lefts[start : start + _ROWS].astype(np.float32)
        distance = left.sum(axis=1)[:, None] + right.sum(axis=1) - 2 * left @ right.T
        rows, columns = np.nonzero(distance <= MAX_DISTANCE)
        yield from zip((rows + start).tolist(), columns.tolist(), strict=True)


def _raster(page: Image) -> Floats | None:
    """Return the page's greys on a small raster, mean 0 and length 1; None where it is blank."""
    greys = np.asarray(
        page.convert("L").resize((RASTER, RASTER), Resampling.BOX), np.float64
    ).ravel()
    greys -= greys.mean()
    length = float(np.linalg.norm(greys))
    return greys / length if length > 0 else None
