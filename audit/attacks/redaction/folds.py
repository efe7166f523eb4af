"""One fold: a classifier that saw the others tells the categories of its hidden values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast

import numpy as np

from audit.arrays import Ints
from audit.attacks.redaction import embedding
from audit.attacks.redaction.classifiers import TAKES_SPARSE, Features, by_length, fit, most_common
from audit.attacks.redaction.embedding import EmbeddingName, dictionary, lengths
from audit.attacks.redaction.samples import Samples, samples_of
from audit.case import Case
from audit.corpus.documents import Mask
from audit.corpus.redaction import fits
from audit.engine.interface import Json
from audit.targets.interface import Target


@dataclass(frozen=True)
class FoldTrial:
    """Which fold, under which mask, told by which classifier."""

    mask: Mask
    number: int
    classifier: str

    @property
    def id(self) -> str:
        """The trial's name. In order of names, the classifiers of a fold follow each other."""
        return f"{self.mask}/{self.number:02}/{self.classifier}"

    @classmethod
    def of(cls, name: str) -> Self:
        """From the trial's name."""
        mask, number, classifier = name.split("/")
        return cls(cast("Mask", mask), int(number), classifier)


def predict(case: Case, trial: FoldTrial, name: EmbeddingName, n_folds: int, seed: int) -> Json:
    """Predict the category of each value of the fold, in the order of the data set, as an index into `CATEGORIES`.

    Returns:
        "predicted", and beside it "length", who sees the values' lengths only, and "prior", who names the commonest
        category. On pages under the mask "length" also "names", the values of its category in the attacker's
        dictionary, "fits", those of them as wide as the mask, and "own", whether the value itself is.
    """
    training, held = samples_of(case.corpus, trial.mask, n_folds).divided(trial.number)
    classes, first, second = features_of(case.references.embedder, name, trial.classifier, training, held, seed)
    predicted = fit(trial.classifier, first, classes, seed).predict(second)
    outcome = {
        "predicted": np.asarray(predicted).tolist(),
        **{who: calls.tolist() for who, calls in blind(training, held).items()},
    }
    if trial.mask == "length" and any(span.bar is not None for span in held.spans):
        outcome |= _fitting(training, held)
    return outcome


def blind(training: Samples, held: Samples) -> dict[str, Ints]:
    """Predict the fold from the values' lengths alone, and from how common categories are."""
    return {
        "length": by_length(lengths(training), training.classes).predict(lengths(held)),
        "prior": most_common(training.classes).predict(held.classes),
    }


def features_of(
    embedder: Target | None, name: EmbeddingName, classifier: str, training: Samples, held: Samples, seed: int
) -> tuple[Ints, Features, Features]:
    """The classes of what a classifier is fitted on, its features, and those of the fold.

    What tuned an embedder is left out of what the classifier is fitted on.
    """
    from scipy.sparse import hstack

    left = np.arange(len(training))
    if name == "tfidf":
        first, second = embedding.tfidf(training.spans, held.spans)
        if classifier not in TAKES_SPARSE:
            first, second = embedding.dense(first, second, seed)
    else:
        assert embedder is not None  # `trials` gives none without
        if name == "embedder":
            first, second = (embedding.embed_texts(embedder, [s.text for s in part.spans]) for part in (training, held))
        else:
            left, first, second = embedding.embed_tuned(embedder, training, held, held_fold(held))
    page = embedding.layout(training, held)
    if page is not None:
        numbers = page[0][left], page[1]
        if isinstance(first, np.ndarray):
            first, second = np.hstack([first, numbers[0]]), np.hstack([second, numbers[1]])
        else:
            first, second = hstack([first, numbers[0]]).tocsr(), hstack([second, numbers[1]]).tocsr()
    return training.classes[left], first, second


def held_fold(held: Samples) -> int:
    """The number of the fold: an embedder is tuned alike for all classifiers of it."""
    return int(held.folds[0])


def _fitting(training: Samples, held: Samples) -> dict[str, list[int]]:
    """For each value with a bar, how many names of its own category are as wide, and whether it is itself.

    0 of 0 for the others.
    """
    names = dictionary(training)
    found: dict[str, list[int]] = {"names": [], "fits": [], "own": []}
    for span, category in zip(held.spans, held.classes, strict=True):
        bar, own = span.shown, names[category]
        found["names"].append(0 if bar is None else len(own))
        found["fits"].append(0 if bar is None else fits(bar.width, bar.character, own))
        found["own"].append(0 if bar is None else fits(bar.width, bar.character, [span.n_characters]))
    return found
