"""Membership scores that read the tokens of a document, labels of other documents, or gradients.

Larger is more like a member. `membership_weights.md` defines the scores. Those that need labels are
functions of `Known`, so that no document is scored by a fit on itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.stats.likelihood_ratio import logit_confidence, sides
from audit.stats.roc import auc_interval
from benchmarks.papers.membership_methods_scores import FLOOR, SHARE, Said, min_k, windows

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
VARIANCE_WEIGHT = 4.0
"""Degrees of freedom that the variance of alike tokens counts as, beside the one of a token."""
BINS = 10
LAGS = 10
"""Distances with a correlation of their own; one more number is for all beyond."""
SHRINKAGE = 0.2
LEAST_EIGENVALUE = 0.05
LEAST_VARIANCE = 1e-6
RIDGE = 1.0
CUT = 3.0
"""Standardised features are cut at as many deviations."""
SPLIT_STACKS = {"split stack": [*range(7)], "split stack of losses": [0, 1, 6]}
"""Columns of `loss_features`, by score."""
TOKEN_LIRA = ("token lira", "token lira, learned", "token lira, standardised")


# Tokens


@dataclass(frozen=True)
class TokenValues:
    """The logit confidence of every token, document after document.

    Attributes:
        owner: (n_tokens,) the document of each token, ascending from 0.
        target: (n_tokens,) of the target.
        outside: (n_tokens, 2) of two split models that did not see the document.
        shift: (n_tokens,) mean of two models that saw the document, less the mean of `outside`; NaN
            where no split model saw it.
    """

    owner: Places
    target: Floats
    outside: Floats
    shift: Floats


def token_values(
    said: Said, target: str, models: Sequence[str], trained: NDArray[np.bool_]
) -> TokenValues:
    """Collect what the target and the split models of each document say of its tokens.

    Args:
        said: of all documents; those beyond `trained` are left out.
        target: whose name.
        models: names of the split models.
        trained: (n_documents, n_models), whether a model was trained on a document.
    """
    n = len(trained)
    numbers = np.tile(np.arange(len(models)), (n, 1))
    _, outside = sides(numbers, trained)
    assert outside is not None
    seen = np.asarray(trained.any(axis=1), bool)
    inside = np.zeros((n, outside.shape[1]))
    saw, _ = sides(numbers[seen], trained[seen]) if seen.any() else (None, None)
    if saw is not None:
        inside[seen] = saw[:, : outside.shape[1]]
    by_document = said.tokens(f"logp.{target}")[:n]
    owner = np.repeat(np.arange(n), [tokens.size for tokens in by_document])
    by_model = [np.concatenate(said.tokens(f"logp.{name}")[:n]) for name in models]
    values = logit_confidence(-np.stack(by_model, axis=1))
    theirs = np.take_along_axis(values, outside.astype(int)[owner], axis=1)
    members = np.take_along_axis(values, inside.astype(int)[owner], axis=1)
    shift = np.where(seen[owner], members.mean(axis=1) - theirs.mean(axis=1), np.nan)
    of_target = logit_confidence(-np.concatenate(by_document))
    return TokenValues(owner, of_target, theirs, shift)


def bins_of(values: Floats) -> Places:
    """Number the tenth that each value lies in, from 0."""
    edges = np.quantile(values, np.arange(1, BINS) / BINS)
    return np.asarray(np.searchsorted(edges, values, "right"), np.intp)


def shrunk_variance(outside: Floats, bins: Places) -> Floats:
    """Estimate each token's variance: its own, shrunk to the mean of its bin.

    Args:
        outside: (n_tokens, n_models) of models that did not see the documents.
        bins: (n_tokens,) the bin of each token.
    """
    of_token = outside.var(axis=1, ddof=1)
    freedom = outside.shape[1] - 1
    sums = np.bincount(bins, of_token, minlength=BINS)
    pooled = sums / np.maximum(np.bincount(bins, minlength=BINS), 1)
    mixed = (freedom * of_token + VARIANCE_WEIGHT * pooled[bins]) / (freedom + VARIANCE_WEIGHT)
    return np.asarray(np.maximum(mixed, LEAST_VARIANCE), np.float64)


def lag_correlations(residuals: Sequence[Floats]) -> Floats:
    """Estimate the correlation of two tokens by their distance: (LAGS + 2,), from distance 0 on.

    Args:
        residuals: standardised, by document, in the order of the page.
    """
    sums = np.zeros(LAGS + 2)
    pairs = np.zeros(LAGS + 2)
    for row in residuals:
        products = np.outer(row, row)
        distance = np.abs(np.subtract.outer(np.arange(row.size), np.arange(row.size)))
        kind = np.minimum(distance, LAGS + 1).ravel()
        sums += np.bincount(kind, products.ravel(), minlength=LAGS + 2)
        pairs += np.bincount(kind, minlength=LAGS + 2)
    means = sums / np.maximum(pairs, 1)
    return np.asarray(means / means[0], np.float64)


def correlation_matrix(by_lag: Floats, n: int) -> Floats:
    """Give the correlation of n tokens, shrunk to none and with no eigenvalue near 0."""
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    matrix = (1 - SHRINKAGE) * by_lag[np.minimum(distance, LAGS + 1)]
    np.fill_diagonal(matrix, 1.0)
    values, vectors = np.linalg.eigh(matrix)
    lifted: Floats = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    return lifted


def common_shift(residual: Floats, deviations: Floats, correlation: Floats) -> float:
    """Test one shift of all tokens: `1' S^-1 r / sqrt(1' S^-1 1)`, standard normal without a shift.

    Args:
        residual: (n,) of the target.
        deviations: (n,) standard deviations.
        correlation: (n, n).
    """
    weights = np.linalg.solve(correlation, 1 / deviations) / deviations
    return float(weights @ residual / np.sqrt(weights.sum()))


def likelihood_ratio(
    residual: Floats, shift: Floats, deviations: Floats, correlation: Floats
) -> float:
    """Compute the log-likelihood ratio of Gaussians with a mean of `shift` and of 0."""
    weights = np.linalg.solve(correlation, shift / deviations) / deviations
    return float(weights @ residual - weights @ shift / 2)


def token_lira(values: TokenValues) -> dict[str, Floats]:
    """Give the forms of LiRA over tokens, by document."""
    mean = values.outside.mean(axis=1)
    bins = bins_of(mean)
    deviations = np.sqrt(shrunk_variance(values.outside, bins))
    starts = np.flatnonzero(np.diff(values.owner)) + 1
    difference = (values.outside[:, 0] - values.outside[:, 1]) / (np.sqrt(2) * deviations)
    by_lag = lag_correlations(np.split(difference, starts))
    seen = np.isfinite(values.shift)
    sums = np.bincount(bins[seen], values.shift[seen], minlength=BINS)
    shift = np.maximum(sums / np.maximum(np.bincount(bins[seen], minlength=BINS), 1), 0.0)[bins]
    matrix = functools.cache(lambda n: correlation_matrix(by_lag, n))
    columns: dict[str, list[float]] = {name: [] for name in TOKEN_LIRA}
    for places in np.split(np.arange(mean.size), starts):
        residual = values.target[places] - mean[places]
        correlation = matrix(places.size)
        columns["token lira"].append(common_shift(residual, deviations[places], correlation))
        columns["token lira, learned"].append(
            likelihood_ratio(residual, shift[places], deviations[places], correlation)
        )
        standardised = common_shift(
            residual / deviations[places], np.ones(places.size), correlation
        )
        columns["token lira, standardised"].append(standardised)
    return {name: np.array(column) for name, column in columns.items()}


# Labels


class Known(NamedTuple):
    """The documents whose labels the attacker knows; a document may be named twice."""

    members: Places
    others: Places


Learner = Callable[[Known], Floats]
"""Fits on known documents and scores all."""


def ridge_logistic(features: Floats, labels: Floats, ridge: float) -> Floats:
    """Fit a logistic regression by Newton's method: the intercept, then a weight a feature.

    It minimises the summed loss plus `ridge` / 2 times the squared weights; the intercept is free.

    Args:
        features: (n, n_features), about standardised.
        labels: (n,) of 0 and 1.
        ridge: above 0.
    """
    design = np.column_stack([np.ones(len(features)), features])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = 1e-9
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (chance - labels) + penalty * weights
        bend = (design.T * (chance * (1 - chance))) @ design + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def stack(features: Floats) -> Learner:
    """Return the learner of a logistic regression on features, (n_documents, n_features)."""

    def fit(known: Known) -> Floats:
        taught = np.concatenate([known.members, known.others])
        labels = np.repeat([1.0, 0.0], [known.members.size, known.others.size])
        centre = features[taught].mean(axis=0)
        scale = np.maximum(features[taught].std(axis=0), 1e-12)
        standardised = np.clip((features - centre) / scale, -CUT, CUT)
        weights = ridge_logistic(standardised[taught], labels, RIDGE)
        scores: Floats = weights[0] + standardised @ weights[1:]
        return scores

    return fit


def left_out_cosines(products: Floats, members: Places) -> Floats:
    """Give the cosine of each gradient and the mean of members', by part: (n_parts, n_documents).

    Members are left out of the mean that they are compared with.

    Args:
        products: (n_parts, n_documents, n_documents) inner products of gradients, none of them 0.
        members: documents of the mean; a document may be named twice.
    """
    counts = np.bincount(members, minlength=products.shape[1]).astype(products.dtype)
    squared = np.diagonal(products, axis1=1, axis2=2)
    sums = products @ counts
    total = sums @ counts
    without = sums - counts * squared
    of_mean = total[:, None] - 2 * counts * sums + counts**2 * squared
    lengths = np.sqrt(np.maximum(of_mean, 1e-30) * squared)
    return np.asarray(without / lengths, np.float64)


def part_cosines(products: Floats) -> Learner:
    """Return the learner of the mean cosine over parts that tell known members from known others."""

    def fit(known: Known) -> Floats:
        cosines = left_out_cosines(products, known.members)
        inside = cosines[:, known.members]
        outside = cosines[:, known.others]
        gap = inside.mean(axis=1) - outside.mean(axis=1)
        error = np.sqrt(
            inside.var(axis=1, ddof=1) / inside.shape[1]
            + outside.var(axis=1, ddof=1) / outside.shape[1]
        )
        counted = gap > error
        if not counted.any():
            counted[:] = True
        return np.asarray(cosines[counted].mean(axis=0))

    return fit


# Labels of split models


def unseen_by(trained: NDArray[np.bool_], but: int | None = None) -> Places:
    """Choose a split model that did not see each document; which one turns from document to document.

    Args:
        trained: (n_documents, n_models), whether a model was trained on a document.
        but: a model that is not chosen.
    """
    chosen = []
    for number, row in enumerate(trained):
        models = [model for model in np.flatnonzero(~row) if model != but]
        chosen.append(models[number % len(models)])
    return np.array(chosen)


def loss_features(said: Said, target: str, reference: str, outside: Floats) -> Floats:
    """Give the seven features of the split stack: (n_documents, 7).

    Args:
        said: of all documents.
        target: whose name.
        reference: name of the model that losses are calibrated by.
        outside: (n_documents,) loss of a model that did not see the document; documents beyond are
            left out.
    """
    n = outside.size
    loss = said.loss(target)
    theirs = said.loss(reference)
    arrays = {"difference": said.arrays[f"logp.{target}"] - said.arrays[f"logp.{reference}"]}
    differences = replace(said, arrays=arrays).tokens("difference")
    columns = [
        -loss,
        theirs - loss,
        np.log(np.maximum(theirs, FLOOR)) - np.log(np.maximum(loss, FLOOR)),
        said.units(f"logp.{target}", lambda row: min_k(row, SHARE)),
        np.array([windows(row) for row in differences]),
        said.loss("start") - loss,
    ]
    return np.column_stack([*(column[:n] for column in columns), outside - loss[:n]])


def in_deviations(features: Floats, centred_on: NDArray[np.bool_]) -> Floats:
    """Divide features by their deviations, centred on some documents, and cut them."""
    centre = features[centred_on].mean(axis=0)
    scale = np.maximum(features.std(axis=0), 1e-12)
    return np.asarray(np.clip((features - centre) / scale, -CUT, CUT), np.float64)


def split_stacks(
    said: Said, target: str, reference: str, models: Sequence[str], trained: NDArray[np.bool_]
) -> dict[str, Floats]:
    """Score documents of the target by fits on the split models' own documents, by name.

    Args:
        said: of all documents.
        target: whose name.
        reference: name of the model that losses are calibrated by.
        models: names of the split models.
        trained: (n_documents, n_models), whether a model was trained on a document; documents that
            none saw take no part in the fit.
    """
    numbers = np.arange(len(trained))
    losses = np.stack([said.loss(name)[: len(trained)] for name in models], axis=1)
    by_split: list[Floats] = []
    for place, name in enumerate(models):
        outside = losses[numbers, unseen_by(trained, place)]
        by_split.append(loss_features(said, name, reference, outside))
    of_target = loss_features(said, target, reference, losses[numbers, unseen_by(trained)])
    scores: dict[str, Floats] = {}
    for name, columns in SPLIT_STACKS.items():
        chosen = [features[:, columns] for features in by_split]
        scores[name] = fit_on_splits(chosen, of_target[:, columns], trained)
    return scores


def fit_on_splits(
    by_split: Sequence[Floats], of_target: Floats, trained: NDArray[np.bool_]
) -> Floats:
    """Fit on split models, each of which is a target in turn, and score documents of the target.

    Args:
        by_split: features by split model, each (n_documents, n_features).
        of_target: the same features of the target.
        trained: (n_documents, n_models), whether a model was trained on a document; documents that
            none saw take no part in the fit.

    Returns:
        Shape (n_documents,).
    """
    is_taught = np.asarray(trained.any(axis=1), bool)
    taught = [in_deviations(features, is_taught)[is_taught] for features in by_split]
    labels = trained[is_taught].T.ravel().astype(np.float64)
    weights = ridge_logistic(np.concatenate(taught), labels, RIDGE)
    ranked = in_deviations(of_target, np.full(len(trained), True))
    return np.asarray(ranked @ weights[1:], np.float64)


class Fold(NamedTuple):
    """A labelled half, and the documents that it ranks."""

    known: Known
    members: Places
    others: Places


def folds_of(members: Places, others: Places, rng: np.random.Generator) -> tuple[Fold, Fold]:
    """Draw halves; each is labelled in one fold and ranked in the other."""
    inside = np.array_split(rng.permutation(members), 2)
    outside = np.array_split(rng.permutation(others), 2)
    return (
        Fold(Known(inside[0], outside[0]), inside[1], outside[1]),
        Fold(Known(inside[1], outside[1]), inside[0], outside[0]),
    )


def cross_fitted(learner: Learner, folds: Sequence[Fold]) -> tuple[float, float, float]:
    """Compute the area with its 95 % bounds: means over folds, as if folds agreed exactly."""
    areas: list[tuple[float, float, float]] = []
    for fold in folds:
        scores = learner(fold.known)
        area = auc_interval(scores[fold.members], scores[fold.others])
        areas.append((area.value, area.low, area.high))
    value, low, high = np.mean(areas, axis=0).tolist()
    return value, low, high


NINE = (
    "loss", "calibrated", "ratio", "min_k", "min_k++", "wbc", "ez smoothed", "informia tokens",
    "calibrated by start",
)  # fmt: skip
STACKS: Mapping[str, tuple[str, ...]] = {
    "stack": NINE,
    "stack, gradients": (*NINE, "gradient norm", "update cosine"),
    "stack, splits": (*NINE, "lira", "mean of splits", "token lira"),
}


def stacks_of(scores: Mapping[str, Floats]) -> dict[str, Learner]:
    """Give the learners whose features there are."""
    ready = {**scores, "ez smoothed": np.log(scores["ez smoothed"])}
    learners: dict[str, Learner] = {}
    for name, features in STACKS.items():
        if all(feature in ready for feature in features):
            learners[name] = stack(np.stack([ready[feature] for feature in features], axis=1))
    return learners
