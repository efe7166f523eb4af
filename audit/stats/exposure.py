"""Exposure: how early a model ranks an inserted secret among all that could have been inserted (methods.md#exposure).

Exposure is log2 N - log2 rank (Carlini, Liu, Erlingsson, Kos & Song 2019, "The Secret Sharer"): each bit halves what
somebody who asks the model has to guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Exposure:
    """Where one canary ranks.

    Attributes:
        bits: log2 N - log2 rank, in [0, log2 N]; without memory about 1.44 on average (`chance_exposure`).
        rank: 1 + the references at least as likely as the canary.
        ties: how many of these are exactly as likely.
        n: N; the drawn references, or all candidates with the canary where they are enumerated.
        p_value: of no memory, one-sided: 1 + references at least as likely, over 1 + references; in (0, 1].
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

    Ties are counted as found before the canary, as in the definition of the rank by Carlini et al. and in the p-value:
    a model that holds all candidates equally likely exposes none.

    Args:
        canary: how likely the model holds the inserted canary (a log-likelihood or minus a loss): higher is likelier.
        references: the same of candidates that were not inserted, shape (n_references,), at least one; behind the same
            prefix, and without the other inserted canaries. Drawn: fresh, as the canary was, so that the canary itself
            may be among them. Enumerated: every other candidate once.
        enumerated: whether the references are all other candidates.

    Returns:
        A drawn rank beyond N has 0 bits. The interval of a mean over canaries is the caller's.

    Raises:
        ValueError: no references, or a score that is not a number.
    """
    others = np.asarray(references, np.float64)
    if others.ndim != 1 or others.size == 0:
        raise ValueError("a canary is ranked among at least one reference")
    if math.isnan(canary) or np.isnan(others).any():
        raise ValueError("a score that is not a number has no rank")
    rank = 1 + int(np.sum(others >= canary))
    n = others.size + int(enumerated)
    return Exposure(
        bits=max(0.0, math.log2(n) - math.log2(rank)),
        rank=rank,
        ties=int(np.sum(others == canary)),
        n=n,
        p_value=rank / (others.size + 1),
        enumerated=enumerated,
    )


def chance_exposure(n_references: int, *, enumerated: bool = False) -> float:
    """The mean exposure of a canary the model knows nothing of: every rank equally likely; bits.

    Args:
        n_references: at least one.
        enumerated: whether they are all other candidates.

    Raises:
        ValueError: no references.
    """
    if n_references < 1:
        raise ValueError("a canary is ranked among at least one reference")
    ranks = np.arange(1, n_references + 2)
    return float(np.maximum(0.0, math.log2(n_references + int(enumerated)) - np.log2(ranks)).mean())
