"""Features of documents as seen without the model, for the blind baseline.

Method: methods/checks.md#blind-baseline.

Nothing here reads a document's id, split or provider, or anything that follows from the split: two
documents that are equal but for these are described alike.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL.Image import Image, Resampling

from audit.arrays import Floats, Ints
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import image_path, open_image

Block = Any
"""Features of one kind: (n_documents, n_features), a numpy array or a scipy sparse matrix,
float64."""

MAX_TERMS = 20_000
"""Terms that are counted, the commonest ones (bounds memory; SROIE's 626 receipts have 4,041)."""
MAX_ASKED = 300
"""Words of the questions that are counted, the commonest ones."""
# Most questions of a data set follow a few patterns; their names and numbers would be a column for
# every document.
LONG = 4
"""Digits from which on a number's first two digits and its length are a term too: numbers that run
on."""
GRID = 8
"""Cells a side of the grid over a page."""
GREYS = 16
"""Bins of the histogram of greys."""
CROP = 512
"""Sharpness is looked at in the middle of a page, so many pixels a side at most (bounds time and
memory)."""
JPEG_BLOCK = 8
"""Pixels a side of the blocks in which JPEG compresses."""
MAX_KNOWN = 20_000
"""Pages, and words, of which the features are kept (a few megabytes of pages, some tens of
words)."""
_PIECES = re.compile(r"\d+|[^\W\d_]+")
_known_pages: dict[tuple[Path, tuple[int, ...], tuple[int, int] | None], Floats] = {}
"""By file, its state and the size that the document states: several attacks of a scan describe the
same pages."""


@dataclass(frozen=True, eq=False)
class Description:
    """Documents in numbers.

    Attributes:
        blocks: features by kind: "words", "layout" (where there are boxes), "image" (where there
            are images), "metadata". Rows are documents, in the order asked for.
        same_image: (n_documents,) documents with equal pixels have the same number; those without
            an image each have their own.
    """

    blocks: Mapping[str, Block]
    same_image: Ints


def describe(
    corpus: Corpus, documents: Sequence[Document], advance: Callable[[], object] = lambda: None
) -> Description:
    """Describe documents without any model; images are opened one at a time.

    Args:
        corpus: the data set that the documents are from.
        documents: the documents, at least one.
        advance: function that is called after each document.

    Raises:
        ManifestError: an image is missing, damaged or too large.
        ValueError: there are no documents.
    """
    if not documents:
        raise ValueError("there is nothing to describe")
    images: list[Floats | None] = []
    for document in documents:
        images.append(None if document.image is None else _page(corpus, document))
        advance()
    return Description(_blocks(documents, images), _number_equal(images))


def _blocks(documents: Sequence[Document], images: Sequence[Floats | None]) -> dict[str, Block]:
    """Describe documents by blocks of numbers; a block that no document has is missing.

    Args:
        documents: documents, at least one.
        images: what is known of the image of each; None without one.
    """
    blocks: dict[str, Block] = {}
    terms = _words(documents)
    if terms is not None:
        blocks["words"] = terms
    if any(map(_has_box, documents)):
        blocks["layout"] = np.stack([_layout(document) for document in documents])
    width = max((row.size for row in images if row is not None), default=0)
    if width:
        blocks["image"] = np.stack([np.zeros(width) if row is None else row for row in images])
    blocks["metadata"] = _metadata(documents)
    return blocks


def _has_box(document: Document) -> bool:
    """Test whether any word of a document has a box."""
    return any(word.box is not None for word in document.words)


def _number_equal(images: Sequence[Floats | None]) -> Ints:
    """Number images: equal ones have the number of the first, None has its own."""
    first: dict[bytes, int] = {}
    numbers: list[int] = []
    for index, row in enumerate(images):
        numbers.append(index if row is None else first.setdefault(row.tobytes(), index))
    return np.array(numbers, np.int64)


def terms_of(document: Document) -> Iterator[str]:
    """List the terms of a document's words that are counted.

    Runs of letters (lower case) and of digits: years, months and prices are kept as they are; how
    each word is written ("A0000-00/Aa"); the groups of digits of a date or code with their
    position, "3/3:19"; of long numbers the length and the first two digits.
    """
    for word in document.words:
        yield from _terms_of_word(word.text)


@lru_cache(maxsize=MAX_KNOWN)
def _terms_of_word(text: str) -> tuple[str, ...]:
    """Return the terms of a word: pieces of its letters, its shape, and its groups of digits."""
    groups = re.findall(r"\d+", text)
    terms = [*_PIECES.findall(text.lower()), f"as {_shape(text)}"]
    if len(groups) > 1:
        terms += [
            f"{position}/{len(groups)}:{group}" for position, group in enumerate(groups, start=1)
        ]
    terms += [f"{len(group)} digits:{group[:2]}" for group in groups if len(group) >= LONG]
    return tuple(terms)


def _shape(text: str) -> str:
    """Reduce a word to its shape.

    Each digit is 0, a run of capitals A, a run of other letters a, all else as it is.
    """
    cased = re.sub(
        r"[^\W\d_]", lambda one: "A" if one.group().isupper() else "a", re.sub(r"\d", "0", text)
    )
    return re.sub(r"A+", "A", re.sub(r"a+", "a", cased))[:20]


def _words(documents: Sequence[Document]) -> Block | None:
    """Compute TF-IDF of the terms that occur in two documents or more; None when there is none."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    collected = [[*terms_of(document)] for document in documents]
    vocabulary = sorted(_shared(collected, MAX_TERMS))
    if not vocabulary:
        return None
    counted = TfidfVectorizer(
        analyzer=list, lowercase=False, vocabulary=vocabulary, sublinear_tf=True
    )
    return counted.fit_transform(collected)


def _shared(collected: Sequence[Collection[str]], most: int) -> list[str]:
    """Return the terms of two documents or more, the commonest first, at most so many.

    A term of one document says nothing about any other.
    """
    in_documents = Counter[str]()
    for terms in collected:
        in_documents.update(set(terms))
    shared = sorted((-count, term) for term, count in in_documents.items() if count > 1)
    return [term for _, term in shared[:most]]


def _layout(document: Document) -> Floats:
    """Describe a page's size, its words' places and sizes, and how full each cell of a grid is."""
    boxes = np.array(
        [word.box for word in document.words if word.box is not None], np.float64
    ).reshape(-1, 4)
    if not len(boxes):
        return np.zeros(3 + 6 * 3 + GRID**2)
    width, height = document.size or (float(boxes[:, 2].max()), float(boxes[:, 3].max()))
    page = np.array([max(width, 1.0), max(height, 1.0)])
    corners = boxes[:, :2] / page
    extents = (boxes[:, 2:] - boxes[:, :2]) / page
    pixels = boxes[:, 2:] - boxes[:, :2]
    quantiles = np.quantile(np.hstack([corners, extents, pixels]), (0.1, 0.5, 0.9), axis=0)
    middles = np.clip(corners + extents / 2, 0, 1)
    grid = np.histogram2d(middles[:, 1], middles[:, 0], bins=GRID, range=((0, 1), (0, 1)))[0]
    return np.concatenate(
        [[*np.log(page), page[0] / page[1]], quantiles.ravel(), np.sqrt(grid.ravel())]
    )


def _page(corpus: Corpus, document: Document) -> Floats:
    """Return the features of a document's page image.

    A file that has not changed is not opened again.
    """
    path = image_path(corpus, document)
    try:
        state = path.stat()
    except OSError:
        return _image(open_image(corpus, document))  # says what is wrong with it
    key = (path, (state.st_ino, state.st_size, state.st_mtime_ns), document.size)
    if key not in _known_pages:
        row = _image(open_image(corpus, document))
        while len(_known_pages) >= MAX_KNOWN:
            del _known_pages[next(iter(_known_pages))]
        _known_pages[key] = row
    return _known_pages[key]


def _image(page: Image) -> Floats:
    """Describe a page image by numbers that depend on its looks.

    They do not depend on how its file stores colours.
    """
    grey = page.convert("L")
    counts = np.array(grey.histogram(), np.float64) / (page.width * page.height)
    levels = np.arange(256)
    mean = float(counts @ levels)
    spread = float(counts @ (levels - mean) ** 2) ** 0.5
    colours = np.asarray(page.resize((GRID, GRID), Resampling.BOX), np.float64)
    thumbnail = np.asarray(grey.resize((GRID, GRID), Resampling.BOX), np.float64)
    size = [*np.log([page.width, page.height]), page.width / page.height]
    greys = [mean, spread, counts[0], counts[255], *np.sqrt(counts.reshape(GREYS, -1).sum(axis=1))]
    colour = [*colours.mean(axis=(0, 1)), np.ptp(colours, axis=2).mean()]
    return np.concatenate([size, greys, colour, _sharpness(grey), thumbnail.ravel()])


def _sharpness(grey: Image) -> Floats:
    """Measure how sharp, noisy and blocky the middle of a page is.

    As far as neighbouring pixels show it.
    """
    left = max(0, (grey.width - CROP) // 2)
    top = max(0, (grey.height - CROP) // 2)
    # From a corner of JPEG's blocks, so that they are aligned as they were compressed.
    left -= left % JPEG_BLOCK
    top -= top % JPEG_BLOCK
    box = (left, top, min(grey.width, left + CROP), min(grey.height, top + CROP))
    middle = np.asarray(grey.crop(box), np.int16)
    if min(middle.shape) <= JPEG_BLOCK:
        return np.zeros(5)
    across = np.abs(middle[:, 1:] - middle[:, :-1])
    down = np.abs(middle[1:] - middle[:-1])
    curved = (
        middle[1:-1, 1:-1] * 4
        - middle[:-2, 1:-1]
        - middle[2:, 1:-1]
        - middle[1:-1, :-2]
        - middle[1:-1, 2:]
    )
    seams = across[:, JPEG_BLOCK - 1 :: JPEG_BLOCK].mean() - across.mean()
    flat = 1 - np.count_nonzero(curved) / curved.size
    return np.array([across.mean(), down.mean(), np.log1p(np.abs(curved).mean()), flat, seams])


def _metadata(documents: Sequence[Document]) -> Block:
    """Count words, entities, labels, categories and words of questions, on a logarithmic scale."""
    from sklearn.feature_extraction import DictVectorizer

    question_terms = [_question_terms(document) for document in documents]
    common = set(_shared(question_terms, MAX_ASKED))
    rows: list[dict[str, float]] = []
    for document, terms in zip(documents, question_terms, strict=True):
        counts = dict(_counts(document))
        for term, count in terms.items():
            if term in common:
                counts[f"asked {term}"] = count
        rows.append({name: float(np.log1p(count)) for name, count in counts.items()})
    return DictVectorizer(sparse=False).fit_transform(rows)


def _question_terms(document: Document) -> Counter[str]:
    """Count the terms of a document's questions."""
    counts = Counter[str]()
    for question in document.questions:
        counts.update(_PIECES.findall(question.question.lower()))
    return counts


def _counts(document: Document) -> Counter[str]:
    """Count a document's words, entities, labels, categories, links and words of questions.

    Also the names of its labels, categories, tags, intent and class.
    """
    counts: Counter[str] = Counter()
    counts["words"] = len(document.words)
    counts["characters"] = sum(len(word.text) for word in document.words)
    counts["questions"] = len(document.questions)
    counts["answers"] = 0
    counts["paraphrases"] = 0
    for question in document.questions:
        counts["answers"] += len(question.answers)
        counts["paraphrases"] += len(question.paraphrases)
    counts["entities"] = len(document.entities)
    counts["links"] = len(document.links)
    counts.update(f"label {entity.label}" for entity in document.entities)
    counts.update(f"category {entity.category}" for entity in document.entities)
    counts.update(f"asked for {question.category}" for question in document.questions)
    counts.update(f"tag {tag}" for tag in document.tags or ())
    counts[f"intent {document.intent}"] += 1
    if document.label is not None:
        counts[f"class {document.label}"] += 1
    ending = None if document.image is None else PurePosixPath(document.image).suffix.lower()
    counts[f"file {ending}"] += 1
    return counts
