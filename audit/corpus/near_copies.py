"""Documents of one split that copy one of another: looked for, counted, and left out of an audit.

A held-out copy of a training document was trained on as well: it hides what a comparison of the two would show. So does
a public copy of an audited document, for models that learnt from public ones know it too.

Two pages are copies when they hold the same text or show the same picture. *Same text*: many of their runs of words
agree, and so do their numbers; two receipts of one shop for one thing share most of their words, but neither date nor
number. *Same picture*: the pages look alike when they are small, and their numbers do not differ; receipts of one
printer look alike as well, but not word by word. The runs of words are compared exactly, not by MinHash, whose errors
nothing here needs. Short texts, and utterances however long, are copies only when they are equal: a few common words
often meet.

The constants are ours. They were chosen on SROIE (626 receipts) and FUNSD (149 forms) and on the sample data, where
they call no two documents copies that a reader would not, and on copies of these that were printed in another size,
with noise, and read with errors. A page that was shifted by a hundredth of its width, or turned by half a degree, is
recognised by its text only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL.Image import Image, Resampling

from audit.arrays import Bools, Floats
from audit.corpus.alike_texts import Pair, Text, alike_texts, equal_texts, read_texts, same_numbers
from audit.corpus.canaries.schema import carrier_ids, planted_ids
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.images import open_image
from audit.errors import ManifestError
from audit.progress import steps

HASH_SIDE = 16
"""Cells a side of the difference hash: for each whether it is lighter than the one on its left."""
HASH_STEP = 2
"""By so many grey levels more (of 255): noise on white paper sets no bit."""
MAX_DISTANCE = 12
"""Bits of 256 in which the hashes of two pictures may differ: as many as those of a page and its copy in another size,
with noise and as a JPEG, at most. It only says which pages to compare."""
RASTER = 128
"""Cells a side of the raster that such pages are compared on."""
MIN_CORRELATION = 0.97
"""Of the greys of two rasters. Different receipts of SROIE reach 0.90, different pages of the sample data 0.965; a page
and such a copy of it 0.97 and more, on SROIE and FUNSD, in 95 % of cases."""
MAX_SHARE = 0.05
"""Beyond this share of copies among the held-out documents the splits were not kept apart: there may be more that are
not recognised."""
MAX_SHARE_OF_UTTERANCES = 0.5
"""The same for utterances, of which many occur twice."""
_ROWS = 256
_REMEDY = "take the copies out of the data set, or put them into the split of their original"

Bits = Bools


@dataclass(frozen=True)
class Copies:
    """Which documents copy one of another split.

    Attributes:
        pairs: ids of two documents, in the order of `AGAINST`: held-out and member, public and member, public and
            held-out; sorted.
        left_out: ids of the documents that an audit does without, see `without_copies`.
        sentences: the copies, in plain sentences; one for each kind of pair.
        heldout_confounded: why nothing that compares members with held-out documents can be decided; None when it can.
        public_confounded: the same for what is held against models that learnt from public documents.
    """

    pairs: tuple[Pair, ...] = ()
    left_out: frozenset[str] = frozenset()
    sentences: tuple[str, ...] = ()
    heldout_confounded: str | None = None
    public_confounded: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The copies and what becomes of them, in plain sentences; none without a copy."""
        left_out = f"{len(self.left_out)} documents are left out of the audit, as they stand in several splits."
        confounded = (f"{reason}." for reason in (self.heldout_confounded, self.public_confounded) if reason)
        return (*self.sentences, *confounded, *((left_out,) if self.left_out else ()))


NO_COPIES = Copies()
AGAINST: tuple[tuple[Split, Split], ...] = (("heldout", "member"), ("public", "member"), ("public", "heldout"))
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
    return _judged(corpus, tuple(sorted(found)))


def copies_among(corpus: Corpus, documents: Sequence[Document]) -> tuple[Pair, ...]:
    """The ids of every two of these documents of which one copies the other, sorted; decodes their page images.

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
    first = {document.id: document.id for document in documents}

    def root(name: str) -> str:
        while first[name] != name:
            name = first[name]
        return name

    place = {name: index for index, name in enumerate(first)}
    for pair in _pairs(corpus, documents, documents, hashes, texts):
        earlier, later = sorted((root(name) for name in pair), key=place.__getitem__)
        first[later] = earlier
    return {name: root(name) for name in first}


def without_copies(corpus: Corpus, copies: Copies) -> Corpus:
    """The data set as it is audited: without the copies that `Copies.left_out` names, its sha256 unchanged.

    Held-out copies of members and public copies of audited documents are left out; of utterances that both members and
    held-out documents hold, both, so that common ones are no sign of training. Held-out copies stay where they are so
    many that they confound the audit. Documents that carry canaries stay.
    """
    kept = tuple(document for document in corpus.documents if document.id not in copies.left_out)
    return replace(corpus, documents=kept)


def counts_left_out(corpus: Corpus, left_out: Collection[str]) -> dict[str, int]:
    """Count the documents that are left out, by split; splits without any are omitted."""
    splits = [document.split for document in corpus.documents if document.id in left_out]
    return {split: splits.count(split) for split in _TITLES if split in splits}


def _hashes(corpus: Corpus, documents: Sequence[Document]) -> dict[str, Bits]:
    """The hash of each document's page, where it has an image; one that several documents share is decoded once."""
    damaged: list[str] = []
    hashes: dict[str, Bits] = {}
    by_image: dict[str, Bits] = {}
    for document in steps("comparing pages", documents, len(documents)):
        if document.image is not None:
            try:
                if document.image not in by_image:
                    by_image[document.image] = _hash(open_image(corpus, document))
                hashes[document.id] = by_image[document.image]
            except ManifestError as error:
                damaged += error.problems
    if damaged:
        raise ManifestError(damaged, "mend these images, or take them out of the data set")
    return hashes


def _pairs(
    corpus: Corpus,
    copies: Sequence[Document],
    originals: Sequence[Document],
    hashes: Mapping[str, Bits],
    texts: Mapping[str, Text],
) -> set[Pair]:
    found = equal_texts(copies, originals, texts) | _alike_pictures(corpus, copies, originals, hashes)
    return found if corpus.manifest.task.kind == "intent-slots" else found | alike_texts(copies, originals, texts)


def _judged(corpus: Corpus, pairs: tuple[Pair, ...]) -> Copies:
    """What follows from the copies that were found."""
    split_of = {document.id: document.split for document in corpus.documents}
    by_kind = {kind: [pair for pair in pairs if (split_of[pair[0]], split_of[pair[1]]) == kind] for kind in AGAINST}
    heldout, public_member, public_heldout = (by_kind[kind] for kind in AGAINST)
    sizes = {split: max(1, len(corpus.of(split))) for split in _TITLES}
    utterances = corpus.manifest.task.kind == "intent-slots"
    left_out = {copy for copy, _ in (*public_member, *public_heldout)}
    copied = {copy for copy, _ in heldout}
    confounded = known = None
    if len(copied) > (MAX_SHARE_OF_UTTERANCES if utterances else MAX_SHARE) * sizes["heldout"]:
        confounded = (
            f"held-out holds copies of training documents: {len(copied)} of {sizes['heldout']} held-out documents, so "
            f"that what was trained on and what was not cannot be told apart; {_REMEDY}"
        )
    else:
        left_out |= copied | ({original for _, original in heldout} if utterances else set())
    audited = {original for _, original in (*public_member, *public_heldout)}
    if len(audited) > (MAX_SHARE_OF_UTTERANCES if utterances else MAX_SHARE) * (sizes["member"] + sizes["heldout"]):
        known = (
            f"public holds copies of {len(audited)} of {sizes['member'] + sizes['heldout']} member and held-out "
            f"documents: a model that learnt from public documents knows them too; {_REMEDY}"
        )
    sentences = tuple(_sentence(kind, found, utterances) for kind, found in by_kind.items() if found)
    left_out -= planted_ids(corpus) | carrier_ids(corpus)
    return Copies(pairs, frozenset(left_out), sentences, confounded, known)


def _sentence(kind: tuple[Split, Split], pairs: Sequence[Pair], utterances: bool) -> str:
    copies, originals = (len({pair[side] for pair in pairs}) for side in (0, 1))
    what = "are equal to" if utterances else "are copies, or nearly, of"
    return f"{copies} {_TITLES[kind[0]]} documents {what} {originals} {_TITLES[kind[1]]} ones."


def _hash(page: Image) -> Bits:
    """The page's difference hash, (256,)."""
    small = np.asarray(page.convert("L").resize((HASH_SIDE + 1, HASH_SIDE), Resampling.BOX), np.int16)
    return (small[:, 1:] - small[:, :-1] > HASH_STEP).ravel()


def _alike_pictures(
    corpus: Corpus,
    copies: Sequence[Document],
    originals: Sequence[Document],
    hashes: Mapping[str, Bits],
) -> set[Pair]:
    """Pairs of pages that show the same, and whose words do not say otherwise."""
    sides = [[document for document in side if document.id in hashes] for side in (copies, originals)]
    if not all(sides):
        return set()
    rasters: dict[str, Floats | None] = {}

    def raster(document: Document) -> Floats | None:
        assert document.image is not None
        if document.image not in rasters:
            rasters[document.image] = _raster(open_image(corpus, document))
        return rasters[document.image]

    found = set()
    for row, column in _near(*(np.array([hashes[document.id] for document in side]) for side in sides)):
        copy, original = sides[0][row], sides[1][column]
        if copy.words and original.words and not same_numbers(copy, original):
            continue
        one, two = raster(copy), raster(original)
        if one is not None and two is not None and float(one @ two) >= MIN_CORRELATION:
            found.add((copy.id, original.id))
    return found


def _near(one: Bits, two: Bits) -> Iterator[tuple[int, int]]:
    """Places of two hashes that differ in `MAX_DISTANCE` bits at most."""
    right = two.astype(np.float32)
    for start in range(0, len(one), _ROWS):
        left = one[start : start + _ROWS].astype(np.float32)
        distance = left.sum(axis=1)[:, None] + right.sum(axis=1) - 2 * left @ right.T
        rows, columns = np.nonzero(distance <= MAX_DISTANCE)
        yield from zip((rows + start).tolist(), columns.tolist(), strict=True)


def _raster(page: Image) -> Floats | None:
    """The page's greys on a small raster, mean 0 and length 1; None where it is blank."""
    greys = np.asarray(page.convert("L").resize((RASTER, RASTER), Resampling.BOX), np.float64).ravel()
    greys -= greys.mean()
    length = float(np.linalg.norm(greys))
    return greys / length if length > 0 else None
