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
    found = {}
    for document in documents:
        words = [fold(word.text) for word in document.words]
        if words:
            runs = {
                _digest("\0".join(words[start : start + SHINGLE]), 8)
                for start in range(len(words) - SHINGLE + 1)
            }
            long = len(words) >= MIN_WORDS
            found[document.id] = Text(
                _digest("".join(words), 16), np.frombuffer(b"".join(sorted(runs) * long), "<i8")
            )
    return found


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def _alike_texts(copies: Pages, originals: Pages, texts: Mapping[str, Text]) -> set[Pair]:
    """List pairs of longer texts that share their runs of words and their numbers."""
    read = {name: text.runs for name, text in texts.items() if len(text.runs)}
    one, two = ([page for page in side if page.id in read] for side in (copies, originals))
    if not (one and two):
        return set()
    alike = alike_sets(*([read[page.id] for page in side] for side in (one, two)))
    return {
        (one[row].id, two[column].id)
        for row, column in alike
        if same_numbers(one[row], two[column])
    }


def alike_sets(one: Sequence[Ints], two: Sequence[Ints]) -> Iterator[tuple[int, int]]:
    """List the places of two sets whose Jaccard similarity is `MIN_ALIKE` or more.

    Two such sets share one of the rarest members of each: of so many that fewer others are left
    than must be shared. Only sets that do are compared, so that what stands on every page costs
    nothing.
    """
    members, counts = np.unique(np.concatenate([*one, *two]), return_counts=True)

    def rarest(runs: Ints) -> list[int]:
        order = np.lexsort((runs, counts[np.searchsorted(members, runs)]))
        rare: list[int] = runs[order[: len(runs) - math.ceil(MIN_ALIKE * len(runs)) + 1]].tolist()
        return rare

    holders: dict[int, list[int]] = defaultdict(list)
    for column, runs in enumerate(two):
        for run in rarest(runs):
            holders[run].append(column)
    for row, runs in enumerate(one):
        for column in sorted({column for run in rarest(runs) for column in holders.get(run, ())}):
            shared = np.intersect1d(runs, two[column], assume_unique=True).size
            if shared >= MIN_ALIKE * (len(runs) + len(two[column]) - shared):
                yield row, column


def same_numbers(one: Document, two: Document) -> bool:
    """Test whether two texts hold the same numbers, but for a few that were misread."""
    numbers = [
        set(re.findall(r"\d+", " ".join(word.text for word in document.words)))
        for document in (one, two)
    ]
    words = [{fold(word.text) for word in document.words} for document in (one, two)]
    first, second = numbers if min(map(len, numbers)) >= MIN_NUMBERS else words
    return len(first & second) >= MIN_NUMBERS_ALIKE * len(first | second)


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
        """The copies and what becomes of them, in plain sentences; none without a copy."""
        left_out = f"{len(self.left_out)} documents are left out of the audit, as they occur in several splits."
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
    hashes, texts = _hashes(corpus, corpus.documents), read_texts(corpus.documents)
    sides = ((corpus.of(one), corpus.of(two)) for one, two in AGAINST)
    found = set[Pair]().union(*(_pairs(corpus, *pair, hashes, texts) for pair in sides))
    return _decide_exclusions(corpus, tuple(sorted(found)))


def copies_among(corpus: Corpus, documents: Sequence[Document]) -> tuple[Pair, ...]:
    """Return the ids of every two of these documents of which one copies the other, sorted.

    Decodes their page images.

    Raises:
        ManifestError: see `find_copies`.
    """
    found = _pairs(corpus, documents, documents, _hashes(corpus, documents), read_texts(documents))
    return tuple(sorted({pair for pair in found if pair[0] < pair[1]}))


def group_copies(corpus: Corpus, documents: Sequence[Document]) -> dict[str, str]:
    """Name each document by the first one of its group of copies: itself, where it has none.

    Pages with words are compared by these alone, so that only those without are decoded.

    Args:
        corpus: the data set.
        documents: of one split, in order.

    Raises:
        ManifestError: see `find_copies`.
    """
    texts = read_texts(documents)
    hashes = _hashes(corpus, [document for document in documents if document.id not in texts])
    pairs = _pairs(corpus, documents, documents, hashes, texts)
    groups = join_groups([*((document.id,) for document in documents), *sorted(pairs)])
    place = {document.id: index for index, document in enumerate(documents)}
    first = {name: min(group, key=place.__getitem__) for group in groups for name in group}
    return {name: first[name] for name in place}


def without_copies(corpus: Corpus, copies: Copies) -> Corpus:
    """Return the data set as it is audited: without the copies that `Copies.left_out` names, its sha256 unchanged.

    Held-out copies of members and public copies of audited documents are left out; of utterances
    that both members and held-out documents hold, both, so that common ones are no sign of
    training. Held-out copies stay where they are so many that they confound the audit. Documents
    that carry canaries stay.
    """
    kept = tuple(document for document in corpus.documents if document.id not in copies.left_out)
    return replace(corpus, documents=kept)


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
    by_text: dict[bytes, list[str]] = defaultdict(list)  # the same but for case, width and spacing
    for document in originals:
        if document.id in texts:
            by_text[texts[document.id].whole].append(document.id)
    read = [copy.id for copy in copies if copy.id in texts]
    found = {(copy, name) for copy in read for name in by_text.get(texts[copy].whole, ())}
    found |= _alike_pictures(corpus, copies, originals, hashes)
    return (
        found
        if corpus.manifest.task.kind == "intent-slots"
        else found | _alike_texts(copies, originals, texts)
    )


def _decide_exclusions(corpus: Corpus, pairs: tuple[Pair, ...]) -> Copies:
    """Decide what is left out, and what cannot be decided, because of these copies."""
    split_of = {document.id: document.split for document in corpus.documents}
    by_kind = {
        kind: [pair for pair in pairs if (split_of[pair[0]], split_of[pair[1]]) == kind]
        for kind in AGAINST
    }
    heldout, public_member, public_heldout = (by_kind[kind] for kind in AGAINST)
    sizes = {split: max(1, len(corpus.of(split))) for split in _TITLES}
    utterances = corpus.manifest.task.kind == "intent-slots"
    left_out = {copy for copy, _ in (*public_member, *public_heldout)}
    copied = {copy for copy, _ in heldout}
    confounded = known = None
    most = MAX_SHARE_OF_UTTERANCES if utterances else MAX_SHARE
    if len(copied) > most * sizes["heldout"]:
        confounded = TEXTS["heldout_copies"].format(n=len(copied), all=sizes["heldout"])
    else:
        left_out |= copied | ({original for _, original in heldout} if utterances else set())
    audited = {original for _, original in (*public_member, *public_heldout)}
    if len(audited) > most * (n_audited := sizes["member"] + sizes["heldout"]):
        known = TEXTS["public_copies"].format(n=len(audited), all=n_audited)
    sentences = tuple(
        _describe_copies(kind, found, utterances) for kind, found in by_kind.items() if found
    )
    left_out -= planted_ids(corpus) | carrier_ids(corpus)
    return Copies(pairs, frozenset(left_out), sentences, confounded, known)


def _describe_copies(kind: tuple[Split, Split], pairs: Sequence[Pair], utterances: bool) -> str:
    copies, originals = (len({pair[side] for pair in pairs}) for side in (0, 1))
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
    sides = [
        [document for document in side if document.id in hashes] for side in (copies, originals)
    ]
    if not all(sides):
        return set()
    shown = {document.image: document for side in sides for document in side}
    raster = cache(lambda image: _raster(open_image(corpus, shown[image])))
    found = set()
    for row, column in _near(
        *(np.array([hashes[document.id] for document in side]) for side in sides)
    ):
        copy, original = sides[0][row], sides[1][column]
        if not (copy.words and original.words) or same_numbers(copy, original):
            one, two = raster(copy.image), raster(original.image)
            if one is not None and two is not None and float(one @ two) >= MIN_CORRELATION:
                found.add((copy.id, original.id))
    return found


def _near(one: Bits, two: Bits) -> Iterator[tuple[int, int]]:
    """Yield the places of two hashes that differ in `MAX_DISTANCE` bits at most."""
    right = two.astype(np.float32)
    for start in range(0, len(one), _ROWS):
        left = one[start : start + _ROWS].astype(np.float32)
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
