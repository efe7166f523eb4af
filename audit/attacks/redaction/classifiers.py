"""The classifiers that tell the category of a hidden value (Beltrame et al. 2024, section 4.3).

The paper chooses the settings of its first three by a grid search on a part of the data; these are values of its grids,
fixed for every data set. In the paper's five all classes count alike (weights). In the linear SVM, which is ours and
the one that scans gate unless told otherwise, all values do: the limit is on the share of values told, which weights
would keep lower than it can be. Nothing is oversampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from audit.arrays import Floats, Ints
from audit.corpus.documents import CATEGORIES

Features = Any
"""A table of one row a sample: a scipy sparse matrix, or an array (n, n_features)."""

PENALTY = 0.3
"""C of the linear SVM (ours; on TAB 0.1 tells 0.828 of the values, 0.3 0.838 and 1 0.841)."""
N_TREES = 300
KERNEL_PENALTY = 5
"""C of the SVM with a Gaussian kernel."""
N_BAGS = 10
"""SVMs of a bag, each fitted on `BAG` of the samples (ours: the paper does not say)."""
BAG = 0.5
LEARNING_RATE = 0.1
L2 = 0.125
SHORTEST = 96
"""Columns under which zeros are added for the convolutional network (ours): its filters need 81."""
LEAF = 10
"""Samples of a leaf of the tree that knows only lengths, at least (ours)."""


class Classifier(Protocol):
    """Fitted."""

    def predict(self, features: Features) -> Ints:
        """The class of each row: (n,)."""
        ...


def fit(name: str, features: Features, classes: Ints, seed: int) -> Classifier:
    """Fit one of `CLASSIFIERS`; where all samples are of one class, that is what it says of everything.

    Args:
        name: of the classifier.
        features: (n, n_features); sparse only for those in `TAKES_SPARSE`.
        classes: (n,), indices into `CATEGORIES`.
        seed: of what is random in fitting.

    Raises:
        KeyError: there is no such classifier.
        ValueError: there is no sample.
    """
    if not len(classes):
        raise ValueError("there is nothing to fit a classifier on")
    maker = CLASSIFIERS[name]
    if len(np.unique(classes)) == 1:
        return Constant(int(classes[0]))
    return maker(features, classes, seed)


@dataclass(frozen=True)
class Constant:
    """Says the same of everything."""

    answer: int

    def predict(self, features: Features) -> Ints:
        """See `Classifier.predict`."""
        return np.full(features.shape[0], self.answer, np.int64)


def most_common(classes: Ints) -> Constant:
    """Fit the classifier that knows only how often each class occurs: it names the commonest, the first of equals."""
    return Constant(int(np.bincount(classes).argmax()))


def by_length(lengths: Floats, classes: Ints) -> Classifier:
    """Fit a decision tree that sees only how long a value is, to be right as often as possible, classes unweighted.

    Args:
        lengths: (n, n_numbers) number of characters, or width of the mask.
        classes: (n,).
    """
    from sklearn.tree import DecisionTreeClassifier

    fitted: Classifier = DecisionTreeClassifier(min_samples_leaf=LEAF, random_state=0).fit(lengths, classes)
    return fitted


def _linear_svm(features: Features, classes: Ints, seed: int) -> Classifier:
    from sklearn.svm import LinearSVC

    fitted: Classifier = LinearSVC(C=PENALTY, random_state=seed).fit(features, classes)
    return fitted


def _random_forest(features: Features, classes: Ints, seed: int) -> Classifier:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(N_TREES, class_weight="balanced", random_state=seed)
    fitted: Classifier = forest.fit(features, classes)
    return fitted


def _bagged_svm(features: Features, classes: Ints, seed: int) -> Classifier:
    from sklearn.ensemble import BaggingClassifier
    from sklearn.svm import SVC

    class WithAllClasses(SVC):  # type: ignore[misc]
        """A bag that missed a class still knows that there is one: its first sample stays in."""

        def fit(self, X: Features, y: Ints, sample_weight: Floats | None = None) -> WithAllClasses:  # noqa: N803
            if sample_weight is not None:
                sample_weight = np.array(sample_weight, np.float64)
                for name in np.unique(y):
                    own = np.flatnonzero(y == name)
                    if not sample_weight[own].any():
                        sample_weight[own[0]] = 1.0
            super().fit(X, y, sample_weight)
            return self

    bag = BaggingClassifier(
        WithAllClasses(C=KERNEL_PENALTY, class_weight="balanced"),
        N_BAGS,
        max_samples=BAG,
        bootstrap=True,
        random_state=seed,
    )
    fitted: Classifier = bag.fit(features, classes)
    return fitted


def _gradient_boosting(features: Features, classes: Ints, seed: int) -> Classifier:
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        l2_regularization=L2,
        class_weight="balanced",
        early_stopping=False,
        random_state=seed,
    )
    fitted: Classifier = boosted.fit(features, classes)
    return fitted


def _mlp(features: Features, classes: Ints, seed: int) -> Classifier:
    from audit.references.embedder import fit_network

    return fit_network("mlp", features, classes, n_classes=len(CATEGORIES), seed=seed)


def _cnn(features: Features, classes: Ints, seed: int) -> Classifier:
    from audit.references.embedder import fit_network

    return _Padded(fit_network("cnn", _padded(features), classes, n_classes=len(CATEGORIES), seed=seed))


@dataclass(frozen=True)
class _Padded:
    """A convolutional network whose samples are made long enough."""

    network: Classifier

    def predict(self, features: Features) -> Ints:
        return self.network.predict(_padded(features))


def _padded(features: Floats) -> Floats:
    return np.pad(features, ((0, 0), (0, max(0, SHORTEST - features.shape[1]))))


CLASSIFIERS: Mapping[str, Callable[[Features, Ints, int], Classifier]] = {
    "linear-svm": _linear_svm,
    "random-forest": _random_forest,
    "bagged-svm": _bagged_svm,
    "gradient-boosting": _gradient_boosting,
    "mlp": _mlp,
    "cnn": _cnn,
}
"""By name: the linear SVM is ours, the other five are the paper's."""
TAKES_SPARSE = frozenset({"linear-svm"})
"""Those that are given TF-IDF as it is; for the others it is projected."""
