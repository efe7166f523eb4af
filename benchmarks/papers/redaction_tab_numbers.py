"""Predictions of `redaction_tab.py` as numbers with intervals by document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.arrays import Floats, Ints
from audit.corpus.documents import CATEGORIES, Mask
from audit.stats.intervals import Interval, beta_interval, cluster_sums, proportion
from audit.stats.paired import sign_flip
from audit.stats.rates import net
from audit.stats.resampling import bootstrap
from benchmarks.papers.redaction_tab_cells import Embedding, Group, Settings, prediction_of
from benchmarks.papers.redaction_tab_evasion import Text
from benchmarks.papers.redaction_tab_samples import N_FOLDS, Protocol, Values, values_of

TRAINING = "training"
"""As a test text: the training samples, which the public notebook for networks tests on."""


@dataclass(frozen=True)
class Row:
    """One table row: a classifier, or who does not read contexts, over all folds.

    Attributes:
        protocol, embedding, mask, trained, tested, classifier: which; `tested` may be `TRAINING`,
            and `classifier` "length" or "prior".
        n_folds: how many folds (or draws) there are predictions of.
        accuracy, macro_f1, lift, lift_over_length: over all of them; a value tested in several
            draws counts as often.
        recall: by category.
        change: of the accuracy (and of both lifts), against the same classifier on clean text; None
            where that is it.
        p: two-sided, of the change, by sign flips over documents.
    """

    protocol: Protocol
    embedding: Embedding
    mask: Mask
    trained: Text
    tested: str
    classifier: str
    n_folds: int
    accuracy: Interval
    macro_f1: Interval
    lift: Interval
    lift_over_length: Interval
    recall: Mapping[str, Interval]
    change: Interval | None = None
    p: float | None = None


@dataclass(frozen=True)
class _Told:
    """Predictions of all folds, one after the other."""

    rows: Ints
    said: Ints
    length: Ints
    prior: Ints
    n_folds: int


def macro_f1(classes: Ints, predicted: Ints, documents: Ints, rng: np.random.Generator) -> Interval:
    """The mean over categories of F1 = 2 tp / (2 tp + fp + fn), of those that occur: BCa over documents.

    Where all documents agree, the bounds are those of `audit.stats.intervals.beta_interval`.
    """
    columns: list[Floats] = []
    for category in np.union1d(classes, predicted):
        true = classes == category
        said = predicted == category
        columns += [(true & said).astype(np.float64), true.astype(np.float64) + said]
    sums = cluster_sums(columns, documents)
    interval = bootstrap([sums], _mean_f1, rng, n=len(classes), limits=(0.0, 1.0))
    if interval is not None:
        return interval
    value = float(_mean_f1(sums.sum(axis=0)[None, None])[0])
    return beta_interval(value, n=len(classes), clusters=len(sums))


def _mean_f1(totals: Floats) -> Floats:
    """From the sums of hits, and of true plus predicted, of each category: (n, 1, 2 n_categories) to (n,)."""
    both = totals[:, 0, ::2]
    either = totals[:, 0, 1::2]
    scores = np.divide(2 * both, either, out=np.zeros_like(both), where=either > 0)
    average: Floats = scores.mean(axis=1)
    return average


class Numbers:
    """Rows by what they are of, made when asked for.

    Args:
        settings: where predictions are.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rows: dict[tuple[str, ...], Row | None] = {}

    @property
    def rows(self) -> list[Row]:
        """All that were asked for and are there."""
        return [row for row in self._rows.values() if row is not None]

    def values(self, mask: Mask) -> Values:
        """The values under a mask."""
        return values_of(self._settings.data, mask, self._settings.n_documents)

    def row(
        self,
        protocol: Protocol,
        embedding: Embedding,
        mask: Mask,
        classifier: str,
        trained: Text = "clean",
        tested: str = "clean",
    ) -> Row | None:
        """None: no fold was run, or of a single document, which has no interval.

        Args:
            protocol: of the cells, as all that follow.
            embedding: see `Group`.
            mask: see `Group`.
            trained: see `Group`.
            classifier: "length" and "prior" are taken from the cells of the linear SVM.
            tested: a text, or `TRAINING`.
        """
        key = (protocol, embedding, mask, classifier, trained, tested)
        if key not in self._rows:
            self._rows[key] = self._made(protocol, embedding, mask, classifier, trained, tested)
        return self._rows[key]

    def _made(
        self,
        protocol: Protocol,
        embedding: Embedding,
        mask: Mask,
        classifier: str,
        trained: Text,
        tested: str,
    ) -> Row | None:
        told = self._told(protocol, embedding, mask, classifier, trained, tested)
        if told is None:
            return None
        values = self.values(mask)
        classes = values.classes[told.rows]
        documents = values.documents[told.rows]
        if len(np.unique(documents)) < 2:
            return None
        rng = np.random.default_rng(0)
        right, by_length, by_prior = (
            part == classes for part in (told.said, told.length, told.prior)
        )
        change = p = None
        clean = (
            self._told(protocol, embedding, mask, classifier, "clean", "clean")
            if tested == "evaded"
            else None
        )
        if tested == "folded":
            clean = self._told(protocol, embedding, mask, classifier, "clean", "clean")
        if clean is not None and np.array_equal(clean.rows, told.rows):
            before = clean.said == classes
            change = net(right & ~before, before & ~right, documents, rng)
            flips = cluster_sums([right.astype(np.float64) - before], documents)[:, 0]
            p = sign_flip(flips, rng)
        return Row(
            protocol,
            embedding,
            mask,
            trained,
            tested,
            classifier,
            told.n_folds,
            proportion(right, documents),
            macro_f1(classes, told.said, documents, rng),
            net(right & ~by_prior, by_prior & ~right, documents, rng),
            net(right & ~by_length, by_length & ~right, documents, rng),
            {
                CATEGORIES[name]: proportion(right[classes == name], documents[classes == name])
                for name in np.unique(classes)
            },
            change,
            p,
        )

    def _told(
        self,
        protocol: Protocol,
        embedding: Embedding,
        mask: Mask,
        classifier: str,
        trained: Text,
        tested: str,
    ) -> _Told | None:
        blind = classifier in ("length", "prior")
        parts: list[Mapping[str, Any]] = []
        for fold in range(N_FOLDS):
            group = Group(protocol, embedding, mask, trained, (), fold)
            path = prediction_of(self._settings, group, "linear-svm" if blind else classifier)
            if path.exists():
                parts.append(_read(path))
        if not parts:
            return None
        rows = "training" if tested == TRAINING else "tested"
        said = f"told_{classifier if blind else tested}"

        def joined(name: str) -> Ints:
            return np.concatenate([part[name] for part in parts]).astype(np.int64)

        # Nobody was asked about training samples without reading them: there the classifier is its
        # own measure.
        length, prior = (said, said) if tested == TRAINING else ("told_length", "told_prior")
        return _Told(joined(rows), joined(said), joined(length), joined(prior), len(parts))


def _read(path: Path) -> Mapping[str, Any]:
    with np.load(path) as content:
        return dict(content)
