"""Scores of membership from losses (LiRA), and exposure of secrets."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats

OWN_VARIANCE = 16
"""From so many models a side on, a document has a variance of its own; else all documents share
one."""
# methods/document-membership.md; Carlini et al. too find a shared variance better when there are
# few models.
LOWEST_LOSS = 1e-7
"""Losses under this are taken for this: about what float32 resolves near a probability of 1."""
LOWEST_VARIANCE = 1e-12
"""A variance is at least this, so that models that agree to the digit give large scores, not
infinite ones."""
MIN_MODELS = 2
"""A side needs as many models, since a variance is estimated from it."""


def logit_confidence(losses: npt.ArrayLike) -> Floats:
    """Compute log(p / (1 - p)) of the confidence p = exp(-loss).

    Close to Gaussian (Carlini et al., section V).

    Args:
        losses: nats, >= 0, any shape.

    Returns:
        The same shape; finite for finite losses.
    """
    floored = np.maximum(np.asarray(losses, np.float64), LOWEST_LOSS)
    # log(p / (1 - p)) = -log(exp(loss) - 1), written so that large losses do not overflow.
    return np.asarray(-floored - np.log(-np.expm1(-floored)), np.float64)


def sides(values: npt.ArrayLike, trained: npt.ArrayLike) -> tuple[Floats | None, Floats | None]:
    """Divide the values of each document into those of models trained on it and of others.

    All documents are given equally many models of a side: were held-out documents judged by more
    models than members, the noise of a score would distinguish them. Which ones turns from document
    to document, so that no model judges one split more often than the other.

    Args:
        values: (n_documents, n_models), finite.
        trained: (n_documents, n_models), whether the model was trained on the document.

    Returns:
        Two arrays, (n_documents, n_inside) and (n_documents, n_outside); None where a document has
        fewer than `MIN_MODELS` models of that side.

    Raises:
        ValueError: shapes differ, there are no documents, or a value is not finite.
    """
    table = np.asarray(values, np.float64)
    inside = np.asarray(trained, bool)
    if table.ndim != 2 or table.shape != inside.shape or not len(table):
        raise ValueError("values and trained need one shape, (n_documents, n_models)")
    if not np.isfinite(table).all():
        raise ValueError("values must be finite")
    return _take_in_turn(table, inside), _take_in_turn(table, ~inside)


def _take_in_turn(values: Floats, taken: Bools) -> Floats | None:
    """Take equally many marked values of each row, each row beginning one value later."""
    width = int(taken.sum(axis=1).min())
    if width < MIN_MODELS:
        return None
    rows = []
    for number, (row, mask) in enumerate(zip(values, taken, strict=True)):
        values_of_side = row[mask]
        rows.append(np.roll(values_of_side, -(number % values_of_side.size))[:width])
    return np.array(rows)


def lira_online(observed: npt.ArrayLike, inside: npt.ArrayLike, outside: npt.ArrayLike) -> Floats:
    """Compute log Lambda (algorithm 1).

    It says how much likelier the confidence is among models trained on the document.

    Both sides are Gaussians of the logit confidence, with a mean for each document. Their variances
    are each document's own from 16 models of the side on, else one for all documents, the mean of
    their own.

    Args:
        observed: (n_documents,) logit confidence of the target.
        inside: (n_documents, n_inside) of models trained on the document, at least 2.
        outside: (n_documents, n_outside) of models not trained on it, at least 2.

    Returns:
        (n_documents,).

    Raises:
        ValueError: shapes do not fit.
    """
    value = np.asarray(observed, np.float64)
    return _log_density(value, *_gaussian(value, inside)) - _log_density(
        value, *_gaussian(value, outside)
    )


def lira_offline(observed: npt.ArrayLike, outside: npt.ArrayLike) -> Floats:
    """Compute how far the target's confidence lies above that of others, in deviations.

    The others are models not trained on the document.

    Lambda = 1 - Pr[Z > observed], Z the Gaussian of these models (equation 4), rises with it and
    sorts alike; arguments and errors are those of `lira_online`.
    """
    value = np.asarray(observed, np.float64)
    mean, variance = _gaussian(value, outside)
    return np.asarray((value - mean) / np.sqrt(variance), np.float64)


def _gaussian(observed: Floats, side: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Estimate mean and variance of each document's confidence, (n_documents,) each."""
    values = np.asarray(side, np.float64)
    if (
        observed.ndim != 1
        or values.ndim != 2
        or len(values) != observed.size
        or values.shape[1] < MIN_MODELS
    ):
        raise ValueError(f"give one value a document and at least {MIN_MODELS} models a side")
    variance = values.var(axis=1, ddof=1)
    if values.shape[1] < OWN_VARIANCE:
        variance = np.full_like(variance, variance.mean())
    return values.mean(axis=1), np.maximum(variance, LOWEST_VARIANCE)


def _log_density(value: Floats, mean: Floats, variance: Floats) -> Floats:
    """Compute the log-density of a normal distribution at each value."""
    density: Floats = -0.5 * (np.log(2 * np.pi * variance) + (value - mean) ** 2 / variance)
    return density


@dataclass(frozen=True)
class Exposure:
    """Where one canary ranks.

    Attributes:
        bits: log2 N - log2 rank, in [0, log2 N]; without memory about 1.44 on average
            (`chance_exposure`).
        rank: 1 + the references at least as likely as the canary.
        ties: number of these that are exactly as likely.
        n: N; the drawn references, or all candidates with the canary where they are enumerated.
        p_value: p-value of no memory, one-sided: 1 + references at least as likely, over 1 +
            references; in (0, 1].
        enumerated: whether the references are all other candidates.
    """

    bits: float
    rank: int
    ties: int
    n: int
    p_value: float
    enumerated: bool


def exposure(canary: float, references: npt.ArrayLike, *, enumerated: bool = False) -> Exposure:
    """Rank a canary among references.

    Ties are counted as found before the canary, as in the definition of the rank by Carlini et al.
    and in the p-value: a model that holds all candidates equally likely exposes none.

    Args:
        canary: likelihood that the model gives the inserted canary (a log-likelihood or minus a
            loss): higher is likelier.
        references: the same of candidates that were not inserted, shape (n_references,), at least
            one; behind the same prefix, and without the other inserted canaries. Drawn: fresh, as
            the canary was, so that the canary itself may be among them. Enumerated: every other
            candidate once.
        enumerated: whether the references are all other candidates.

    Returns:
        A drawn rank beyond N has 0 bits. The interval of a mean over canaries is the caller's.

    Raises:
        ValueError: no references, or a score that is not a number.
    """
    reference_losses = np.asarray(references, np.float64)
    if reference_losses.ndim != 1 or reference_losses.size == 0:
        raise ValueError("a canary is ranked among at least one reference")
    if math.isnan(canary) or np.isnan(reference_losses).any():
        raise ValueError("a score that is not a number has no rank")
    rank = 1 + int(np.sum(reference_losses >= canary))
    n = reference_losses.size + int(enumerated)
    bits = max(0.0, math.log2(n) - math.log2(rank))
    ties = int(np.sum(reference_losses == canary))
    return Exposure(
        bits, rank, ties, n, p_value=rank / (reference_losses.size + 1), enumerated=enumerated
    )


def chance_exposure(n_references: int, *, enumerated: bool = False) -> float:
    """Compute the mean exposure of a canary the model knows nothing of: every rank equally likely.

    Bits.

    Args:
        n_references: number of references, at least one.
        enumerated: whether they are all other candidates.

    Raises:
        ValueError: no references.
    """
    if n_references < 1:
        raise ValueError("a canary is ranked among at least one reference")
    ranks = np.arange(1, n_references + 2)
    return float(np.maximum(0.0, math.log2(n_references + int(enumerated)) - np.log2(ranks)).mean())
