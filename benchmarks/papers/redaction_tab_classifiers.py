"""The paper's classifiers (Beltrame et al. 2024, section 4.3), beside the linear SVM that `docaudit scan` fits.

The paper chooses the settings of its first three by a grid search on a part of the data; these are
values of its grids, fixed for every data set. In the paper's five all classes count alike
(weights). Nothing is oversampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from audit.arrays import Floats, Ints
from audit.attacks.redaction.contexts import LEAF, Features
from audit.attacks.redaction.contexts import fit as fit_linear
from audit.corpus.documents import CATEGORIES
from benchmarks.papers.redaction_tab_learners import fit_network

N_TREES = 300
KERNEL_PENALTY = 5
"""C of the SVM with a Gaussian kernel."""
N_BAGS = 10
"""SVMs of a bag, each fitted on `BAG` of the samples; the paper does not say."""
BAG = 0.5
LEARNING_RATE = 0.1
L2 = 0.125
SHORTEST = 96
"""Columns under which zeros are added for the convolutional network: its filters need 81."""
N_COMPONENTS = 200
"""Of the projection of TF-IDF for classifiers that need a table."""


class Classifier(Protocol):
    """A fitted classifier."""

    def predict(self, features: Features) -> Ints:
        """Return the class of each row: (n,)."""
        ...


def fit(name: str, features: Features, classes: Ints, seed: int) -> Classifier:
    """Fit one of `CLASSIFIERS`.

    Where all samples are of one class, that is what it says of everything.

    Args:
        name: of the classifier.
        features: (n, n_features); sparse only for those in `TAKES_SPARSE`.
        classes: (n,), indices into `CATEGORIES`.
        seed: of what is random in fitting.
    """
    if len(np.unique(classes)) == 1:
        constant: Classifier = fit_linear(features, classes, seed)
        return constant
    return CLASSIFIERS[name](features, classes, seed)


def by_length(lengths: Floats, classes: Ints) -> Classifier:
    """Fit the decision tree of `predict_blindly` on other numbers of the lengths: (n, n_numbers)."""
    from sklearn.tree import DecisionTreeClassifier

    fitted: Classifier = DecisionTreeClassifier(min_samples_leaf=LEAF, random_state=0).fit(
        lengths, classes
    )
    return fitted


def dense(training: Features, held: Features, seed: int) -> tuple[Floats, Floats]:
    """TF-IDF projected to `N_COMPONENTS` columns, or as many as there can be.

    Fitted on `training`.
    """
    from sklearn.decomposition import TruncatedSVD

    size = min(N_COMPONENTS, min(training.shape) - 1)
    if size < 1:
        return training.toarray(), held.toarray()
    projection = TruncatedSVD(size, random_state=seed)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # contexts that are all alike: no variance to explain
        first = projection.fit_transform(training)
    return first, projection.transform(held)


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
    return fit_network("mlp", features, classes, n_classes=len(CATEGORIES), seed=seed)


def _cnn(features: Features, classes: Ints, seed: int) -> Classifier:
    return _Padded(
        fit_network("cnn", _padded(features), classes, n_classes=len(CATEGORIES), seed=seed)
    )


@dataclass(frozen=True)
class _Padded:
    """A convolutional network whose samples are made long enough."""

    network: Classifier

    def predict(self, features: Features) -> Ints:
        return self.network.predict(_padded(features))


def _padded(features: Floats) -> Floats:
    return np.pad(features, ((0, 0), (0, max(0, SHORTEST - features.shape[1]))))


CLASSIFIERS: Mapping[str, Callable[[Features, Ints, int], Classifier]] = {
    "linear-svm": fit_linear,
    "random-forest": _random_forest,
    "bagged-svm": _bagged_svm,
    "gradient-boosting": _gradient_boosting,
    "mlp": _mlp,
    "cnn": _cnn,
}
"""By name: the linear SVM is docaudit's, the other five are the paper's."""
TAKES_SPARSE = frozenset({"linear-svm"})
"""Those that are given TF-IDF as it is; for the others it is projected."""
