"""Hidden values and their folds, contexts as features, and classifiers of categories, fitted on other documents.

TF-IDF has three parts: the words next to the mask with their side and place, and what stands around
the mask together; runs of one to three words of either side; and characters next to the mask. Words
are cut at signs, numbers become as many "#" as they have digits, and the spaces are those between
such words: where an annotation divides a word does not show. On pages the numbers of the layout
stand beside it (methods/redaction-context.md).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.attacks.interface import AUDITED
from audit.corpus.documents import CATEGORIES, Corpus, Document, Mask
from audit.corpus.folding import fold
from audit.corpus.redaction import LINE_END, STAR, RedactedSpan, fits, redacted_spans
from audit.stats.intervals import join_groups

EXCESS = ("target_gain", "target_gain.uncommon")
GAINS = (*EXCESS, *(f"target_gain.{split}" for split in AUDITED))
NEEDED = 10
"""Values under which a category has no row of its own, and is judged together with others as
rare."""
Features = Any
"""A table of one row a sample: a scipy sparse matrix, or an array (n, n_features)."""

PENALTY = 0.3
"""C of the linear SVM; on TAB 0.1 tells 0.828 of the values, 0.3 0.838 and 1 0.841."""
LEAF = 10
"""Least samples of a leaf of the tree that knows only lengths."""
MASKED = "[hidden]"
"""Stands for another hidden value in the context, whatever its length."""
PLACES = 4
"""Words next to the mask, on either side, that are told apart by their place."""
RUN = 4
"""Words of the longest run that begins next to the mask."""
WORDS = 3
"""Words of the longest run anywhere (methods/redaction-context.md)."""
CHARACTERS = 12
"""Characters next to the mask, on either side, that are looked at."""
PIECES = (3, 4, 5)
"""Their runs."""
WEIGHTS = {"near": 1.0, "characters": 0.7, "words": 0.5}
"""Of the parts, each scaled to length 1 (on TAB, folds by document, 0.84; the first part alone
0.82)."""
MIN_SAMPLES = 2
"""Training samples that a term must stand in."""
LAYOUT_WEIGHT = 0.3
"""Of a standardised number of the layout beside text of length 1."""
_WORD = re.compile(r"\w+|\n|[^\w\s]")
_STARS = re.compile(rf"{re.escape(STAR)}+")
_HIDDEN = "\ue000"  # of Unicode's private use: no text has it


@dataclass(frozen=True, eq=False)
class Samples:
    """Hold n hidden values with their contexts and folds.

    Attributes:
        spans: spans with their contexts.
        values: what is hidden, folded: for the attacker's dictionary. Never leaves the process.
        classes: (n,) indices of their categories in `CATEGORIES`.
        documents: (n,) a number for each document, or for documents that are never divided: what
            intervals cluster by.
        folds: (n,) in which fold a value is told from the others.
    """

    spans: tuple[RedactedSpan, ...]
    values: tuple[str, ...]
    classes: Ints
    documents: Ints
    folds: Ints

    def __len__(self) -> int:
        """Count the hidden values."""
        return len(self.spans)

    def of(self, rows: Bools | Ints) -> Samples:
        """Return the samples at these rows, in order."""
        indices = np.arange(len(self))[rows]
        spans = tuple(self.spans[index] for index in indices)
        values = tuple(self.values[index] for index in indices)
        return Samples(
            spans, values, self.classes[indices], self.documents[indices], self.folds[indices]
        )

    def divided(self, number: int) -> tuple[Samples, Samples]:
        """Return what a classifier is fitted on, and the fold it is tried on."""
        in_fold = self.folds == number
        return self.of(~in_fold), self.of(in_fold)


def samples_of(corpus: Corpus, mask: Mask, n_folds: int) -> Samples:
    """Collect the hidden values of a data set under a mask.

    The folds are the same under every mask.

    Documents of one provider, and documents of equal text, are never divided; folds are about equal
    in values.

    Raises:
        ValueError: there are fewer such groups with a hidden value than folds.
    """
    from sklearn.model_selection import GroupKFold

    spans = redacted_spans(corpus.documents, mask)
    of_span = documents_of(corpus, spans)
    folds = np.zeros(len(spans), np.int64)
    for number, (_, rows) in enumerate(GroupKFold(n_folds).split(of_span, groups=of_span)):
        folds[rows] = number
    texts: dict[tuple[str, str], str] = {}
    for document in corpus.documents:
        for entity in document.entities:
            texts[document.id, entity.id] = fold(document.text_of(entity))
    values = tuple(texts[span.document, span.entity] for span in spans)
    classes = np.array([CATEGORIES.index(span.category) for span in spans], np.int64)
    return Samples(spans, values, classes, of_span, folds)


def documents_of(corpus: Corpus, spans: Sequence[RedactedSpan]) -> Ints:
    """Number each value's document, the same for those that are never divided: (n_spans,)."""
    names = sorted({span.document for span in spans})
    groups = dict(
        zip(names, groups_of([corpus.document(name) for name in names]).tolist(), strict=True)
    )
    return np.array([groups[span.document] for span in spans], np.int64)


def groups_of(documents: Sequence[Document]) -> Ints:
    """Number each document, the same for those that share a provider or are equal texts.

    The shape is (n_documents,).
    """
    texts = defaultdict[str, list[str]](list)
    providers = defaultdict[str, list[str]](list)
    for document in documents:
        texts[fold(" ".join(word.text for word in document.words))].append(document.id)
        if document.provider is not None:
            providers[fold(document.provider)].append(document.id)
    first: dict[str, str] = {}
    for group in join_groups([*texts.values(), *providers.values()]):
        first |= dict.fromkeys(group, group[0])
    return np.unique([first[document.id] for document in documents], return_inverse=True)[1]


def fit(features: Features, classes: Ints, seed: int) -> Any:
    """Fit the linear SVM, in which all values count alike.

    A constant where all samples are of one class.

    Args:
        features: (n, n_features), n at least 1.
        classes: (n,), indices into `CATEGORIES`.
        seed: seed of what is random in fitting.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.svm import LinearSVC

    alike = len(np.unique(classes)) == 1
    return (DummyClassifier() if alike else LinearSVC(C=PENALTY, random_state=seed)).fit(
        features, classes
    )


def predict_blindly(training: Samples, held: Samples) -> dict[str, Ints]:
    """Predict categories without any context: (n_held,) each.

    Returns:
        "length": by a decision tree that sees only how long values are, classes unweighted;
        "prior": the commonest category of the training documents, the first of equals.
    """
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(min_samples_leaf=LEAF, random_state=0).fit(
        lengths(training), training.classes
    )
    commonest = int(np.bincount(training.classes).argmax())
    return {"length": tree.predict(lengths(held)), "prior": np.full(len(held), commonest, np.int64)}


def features_of(training: Samples, held: Samples) -> tuple[Features, Features]:
    """Make the features of what a classifier is fitted on, and tried on.

    TF-IDF and, on pages, the layout.
    """
    from scipy.sparse import hstack

    first, second = tfidf(training.spans, held.spans)
    page = layout(training, held)
    if page is None:
        return first, second
    return hstack([first, page[0]]).tocsr(), hstack([second, page[1]]).tocsr()


def tfidf(
    training: Sequence[RedactedSpan], held: Sequence[RedactedSpan]
) -> tuple[Features, Features]:
    """Compute TF-IDF of contexts, and of the mask's length where it shows.

    Two sparse matrices of the same columns.

    Args:
        training: what terms and their weights are taken from; at least one.
        held: the other contexts; terms that `training` lacks are left out.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    weighed = []
    for kind, weight in WEIGHTS.items():
        terms = [_terms(kind, span) for span in (*training, *held)]
        samples: Counter[str] = Counter()
        for sample in terms[: len(training)]:
            samples.update({*sample})
        least = min(MIN_SAMPLES, len(training))
        vocabulary = sorted(term for term, count in samples.items() if count >= least)
        if not vocabulary:
            continue
        vectorizer = TfidfVectorizer(
            analyzer=list, lowercase=False, sublinear_tf=True, vocabulary=vocabulary
        )
        first = vectorizer.fit_transform(terms[: len(training)])
        weighed.append((weight * first, weight * vectorizer.transform(terms[len(training) :])))
    parts = zip(*weighed, strict=True)
    training_part, held_part = (hstack(columns).tocsr() for columns in parts)
    return training_part, held_part


def layout(training: Samples, held: Samples) -> tuple[Floats, Floats] | None:
    """Compute features of layout and of the dictionary, standardised on `training`.

    None where there is no page.

    The dictionary holds the distinct values of the training fold, by category; where a mask is as
    wide as its value, it is counted how many of each are as wide (Bland et al. 2023).
    """
    from sklearn.preprocessing import StandardScaler

    if not any(span.layout for span in (*training.spans, *held.spans)):
        return None
    names = dictionary(training)

    def row(span: RedactedSpan) -> list[float]:
        """Return a value's layout and the logarithms of how many dictionary entries fit its bar."""
        bar = span.shown
        counts = [0 if bar is None else fits(bar.width, bar.character, name) for name in names]
        return [*(span.layout or (0.0,) * 4), *np.log1p(counts)]

    training_rows = np.array([row(span) for span in training.spans])
    held_rows = np.array([row(span) for span in held.spans])
    scaler = StandardScaler().fit(training_rows)
    return LAYOUT_WEIGHT * scaler.transform(training_rows), LAYOUT_WEIGHT * scaler.transform(
        held_rows
    )


def dictionary(training: Samples) -> tuple[Ints, ...]:
    """Return the lengths of the distinct values of each of `CATEGORIES`, which an attacker knows.

    The shape is (n_values,) each.
    """
    values: list[dict[str, int]] = [{} for _ in CATEGORIES]
    for span, value, category in zip(
        training.spans, training.values, training.classes, strict=True
    ):
        values[category].setdefault(value, span.n_characters)
    return tuple(np.array([*value.values()], np.int64) for value in values)


def lengths(samples: Samples) -> Floats:
    """Return what shows of the values' lengths alone, under any mask: (n, 3).

    The characters of a value in running text; on a page the width of its bar, over the height of
    the line and over its average character.
    """
    bars = [(span.n_characters, span.bar) for span in samples.spans]
    rows = [
        (size, 0.0, 0.0)
        if bar is None
        else (0.0, bar.width / bar.height, bar.width / bar.character)
        for size, bar in bars
    ]
    return np.array(rows, np.float64)


@lru_cache(maxsize=8192)  # every fold asks again
def _terms(part: str, span: RedactedSpan) -> list[str]:
    """List the terms that a part of the features, a key of `WEIGHTS`, has around a mask."""
    before = words_of(span.before)
    after = words_of(span.after)
    if part == "characters":
        return [*_character_terms(" ".join(["<", *before])[::-1], " ".join([*after, ">"]))]
    if part == "near":
        # On a page the width is measured in pixels: see `layout`. In running text, finely and
        # coarsely; the same for all under a mask of one length.
        size = len(span.mask)
        lengths = [
            f"length {size}",
            f"length about {size // 4}",
            f"length {int(2 * np.log2(size))} half octaves",
        ]
        return [
            *_near_terms(["<", "<", *before][::-1], [*after, ">", ">"]),
            *lengths * (span.bar is None),
        ]
    terms: list[str] = []
    for side, words in (("<", before), (">", after)):
        for size in range(1, WORDS + 1):
            starts = range(len(words) - size + 1)
            terms += [f"{side}{' '.join(words[start : start + size])}" for start in starts]
    return terms


def words_of(text: str) -> list[str]:
    """Divide a context into words, folded: see the module.

    Lines of a page end with a word of their own.
    """
    replacements = {_HIDDEN: MASKED, LINE_END: "[line]"}
    words = _WORD.findall(_STARS.sub(f" {_HIDDEN} ", text))
    return [
        replacements.get(word) or ("#" * len(word) if word.isdigit() else word.lower())
        for word in words
    ]


def _near_terms(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield words next to the mask, and one term that all samples share.

    Both sequences begin at the mask.
    """
    yield "mask"
    for side, words in (("<", before), (">", after)):
        yield from (f"{side}{index} {word}" for index, word in enumerate(words[:PLACES]))
        for start in (0, 1):
            for size in range(2, RUN + 1):
                if start + size <= len(words):
                    yield f"{side}{start} {' '.join(words[start : start + size])}"
    for left in (1, 2):
        for right in (1, 2):
            yield f"{' '.join(before[:left])} | {' '.join(after[:right])}"


def _character_terms(before: str, after: str) -> Iterator[str]:
    """Yield runs of characters next to the mask, from either side, and pieces of them."""
    for side, text in (("<", before[:CHARACTERS]), (">", after[:CHARACTERS])):
        yield from (f"{side}{text[:size]}" for size in range(2, len(text) + 1))
        for size in PIECES:
            yield from (
                f"{side}.{text[start : start + size]}" for start in range(len(text) - size + 1)
            )
