"""What `redaction_tab.py` learns from: the redacted values of TAB, plain, evaded and folded back, and who tests."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from audit.arrays import Ints
from audit.attacks.redaction.contexts import samples_of
from audit.corpus import manifest
from audit.corpus.documents import Mask
from audit.corpus.redaction import RedactedSpan
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from benchmarks.papers.redaction_tab_evasion import Text, readings
from benchmarks.papers.redaction_tab_learners import choose_texts

Protocol = Literal["document", "balanced", "sentence", "flawed"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

N_FOLDS = 5
"""Folds by document, and draws of a split by sentence."""
TEST_SHARE = 0.15
"""Of a split by sentence (paper, section 4.2)."""
OVERSAMPLED = 3500 / 2781
"""Samples of a class after oversampling, by those after undersampling (paper, table 5)."""
NEIGHBOURS = 5
"""Of the interpolation (SMOTE's default)."""


@dataclass(frozen=True)
class Values:
    """The redacted values of TAB under one mask, n of them.

    Attributes:
        spans: by how they are read, the context of each value.
        classes: (n,) places in `CATEGORIES`.
        documents: (n,) the number of each value's document.
        folds: (n,) folds by document.
        lengths: (n, 1) characters of each value.
    """

    spans: Mapping[Text, tuple[RedactedSpan, ...]]
    classes: Ints
    documents: Ints
    folds: Ints
    lengths: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Who trains and who tests, places of values.

    Attributes:
        tuning: fine-tunes the embedder, and nothing else; empty where it stays as it is.
        training: fits the classifier.
        testing: is told.
    """

    tuning: Ints
    training: Ints
    testing: Ints


def import_tab(source: Path, work: Path) -> Path:
    """TAB as a data set in `work`/data, read by `import tab`."""
    data = work / "data"
    if not (data / manifest.FILE_NAME).exists():
        shutil.rmtree(data, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        FORMATS["tab"].convert(
            ImportRequest(source, data, {"member": 1.0, "heldout": 0.0, "public": 0.0}, seed=0)
        )
    return data


@cache
def values_of(data: Path, mask: Mask, n_documents: int | None) -> Values:
    """Every redacted value of the first `n_documents` under this mask; None: of all."""
    corpus = manifest.load(data)
    corpus = replace(corpus, documents=corpus.documents[:n_documents])
    samples = samples_of(corpus, mask, N_FOLDS)
    return Values(
        spans=readings(corpus.documents, mask),
        classes=samples.classes,
        documents=samples.documents,
        folds=samples.folds,
        lengths=np.array([[float(span.n_characters)] for span in samples.spans]),
    )


def split(values: Values, protocol: Protocol, fold: int, *, tuned: bool) -> Split:
    """Fold `fold` of `N_FOLDS`, or for a split by sentence the draw of that number.

    - "document": every value; the documents of the fold test.
    - "balanced": as many values of every class as the rarest has; the documents of the fold test.
    - "sentence", "flawed": as many values of every class as the rarest has; `TEST_SHARE` of them
      test, whatever their documents. (What is "flawed" is joined and split again after
      oversampling.)

    With `tuned`, min(250, a third) of the values of each class are taken out of what the attacker
    may learn from: where sentences are split out of everything, before test values are drawn, as
    the paper does.
    """
    rng = np.random.default_rng(fold)
    if protocol == "document":
        kept = np.arange(len(values.classes))
    else:
        # One draw for all folds by document, which must add up; one of its own for each split by
        # sentence.
        kept = _undersampled(
            values.classes, np.random.default_rng(0) if protocol == "balanced" else rng
        )
    if protocol in ("document", "balanced"):
        held = values.folds[kept] == fold
        learnt = kept[~held]
        testing = kept[held]
        tuning = _tuning(values, learnt, rng, tuned)
        return Split(tuning, np.setdiff1d(learnt, tuning), testing)
    tuning = _tuning(values, kept, rng, tuned)
    left = rng.permutation(np.setdiff1d(kept, tuning))
    n_testing = round(TEST_SHARE * len(left))
    return Split(tuning, np.sort(left[n_testing:]), np.sort(left[:n_testing]))


def _undersampled(classes: Ints, rng: np.random.Generator) -> Ints:
    """As many places of each class as the rarest has, ascending."""
    names, counts = np.unique(classes, return_counts=True)
    parts = [
        rng.choice(np.flatnonzero(classes == name), counts.min(), replace=False) for name in names
    ]
    return np.sort(np.concatenate(parts))


def _tuning(values: Values, learnt: Ints, rng: np.random.Generator, tuned: bool) -> Ints:
    return learnt[choose_texts(values.classes[learnt], rng)] if tuned else np.array([], np.int64)


def oversampled(
    features: Any, classes: Ints, size: int, rng: np.random.Generator
) -> tuple[Any, Ints, Ints]:
    """Add samples until each class has `size`: between one of the class and one of its nearest neighbours (SMOTE).

    Our own few lines of Chawla et al. 2002: a sample, one of its `NEIGHBOURS` nearest of the same
    class, and a point on the line between them, uniformly drawn.

    Args:
        features: (n, n_dimensions), dense or sparse.
        classes: (n,).
        size: of each class afterwards; larger classes stay.
        rng: the source of randomness.

    Returns:
        Features and classes, the given ones first, and (n_after,) the row that each sample was made
        from.
    """
    from scipy import sparse
    from sklearn.neighbors import NearestNeighbors

    blocks = [features]
    labels = [classes]
    origins = [np.arange(len(classes))]
    for number in np.unique(classes):
        own = np.flatnonzero(classes == number)
        missing = size - len(own)
        if missing <= 0 or len(own) < 2:
            continue
        finder = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(own) - 1)).fit(features[own])
        # Asked about no rows, it leaves every row out of its own neighbours.
        near = finder.kneighbors(return_distance=False)
        starts = rng.integers(len(own), size=missing)
        ends = near[starts, rng.integers(near.shape[1], size=missing)]
        shares = rng.random(missing)
        first = features[own[starts]]
        second = features[own[ends]]
        blocks.append(sparse.diags_array(1 - shares) @ first + sparse.diags_array(shares) @ second)
        labels.append(np.full(missing, number))
        origins.append(own[starts])
    joined = (
        sparse.vstack(blocks, format="csr") if sparse.issparse(features) else np.concatenate(blocks)
    )
    return joined, np.concatenate(labels), np.concatenate(origins)
