"""Distances of a reconstruction from the truth, on token ids, and its gain over a baseline (CDMI, section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rapidfuzz.distance import Hamming, JaroWinkler, Levenshtein

from audit.arrays import Floats

JARO_WINKLER_PREFIX_WEIGHT = 0.1
Value = TypeVar("Value", float, Floats)


def hamming(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Share of positions that differ, in [0, 1].

    Args:
        truth: k token ids.
        guess: k token ids.

    Raises:
        ValueError: the lengths differ, or k = 0.
    """
    if len(truth) == 0:
        raise ValueError("the Hamming distance of an empty field is not defined")
    return float(Hamming.normalized_distance(_ids(truth), _ids(guess), pad=False))


def levenshtein(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Insertions, deletions and substitutions over the length of the longer sequence, in [0, 1]."""
    return float(Levenshtein.normalized_distance(_ids(truth), _ids(guess)))


def jaro_winkler(truth: Sequence[int], guess: Sequence[int]) -> float:
    """1 - Jaro-Winkler similarity, in [0, 1], prefix weight 0.1 over at most four tokens.

    The variant of Winkler's own program (strcmp95, without its table of similar characters), as rapidfuzz has it:
    common tokens in another order count half a transposition each, and their half is rounded down; the
    prefix counts only where the Jaro similarity is above 0.7. The formula of textbooks (Winkler 1990) does neither.
    """
    return float(JaroWinkler.distance(_ids(truth), _ids(guess), prefix_weight=JARO_WINKLER_PREFIX_WEIGHT))


def _ids(tokens: Sequence[int]) -> list[int]:
    """Plain integers: rapidfuzz compares elements by hash, and rows of a numpy array would be read as a buffer."""
    return [int(token) for token in tokens]


@dataclass(frozen=True, eq=False)
class Distances(Generic[Value]):
    """The four one-shot metrics, averaged over fields: numbers, or arrays of one shape (one entry a resample).

    Attributes:
        pr: share of fields recovered exactly, in [0, 1]; larger is better for the attacker.
        hd: mean normalised Hamming distance, in [0, 1]; smaller is better, as for the other two.
        ld: mean normalised Levenshtein distance, in [0, 1].
        jwd: mean Jaro-Winkler distance, in [0, 1].
    """

    pr: Value
    hd: Value
    ld: Value
    jwd: Value


def improvement_factor(attack: Distances[Value], baseline: Distances[Value], epsilon: float = 0.01) -> Value:
    """IpF of CDMI, equation 6: how many times better the attack is than the baseline; 1 = no better.

    The mean of (PR_att + e) / (PR_base + e) and, for each distance, (D_base + e) / (D_att + e).

    Args:
        attack: metrics of the attack.
        baseline: metrics of the attack without the target, same shape.
        epsilon: keeps the ratios bounded; not given in the paper, 0.01 is ours (methods.md#reconstruction).

    Raises:
        ValueError: epsilon is not positive.
    """
    if epsilon <= 0:
        raise ValueError("epsilon must be positive: it is what keeps the ratios finite")
    return (
        (attack.pr + epsilon) / (baseline.pr + epsilon)
        + (baseline.hd + epsilon) / (attack.hd + epsilon)
        + (baseline.ld + epsilon) / (attack.ld + epsilon)
        + (baseline.jwd + epsilon) / (attack.jwd + epsilon)
    ) / 4


def anls(answer: str, accepted: Sequence[str], threshold: float = 0.5) -> float:
    """Average normalised Levenshtein similarity of one answer (Biten et al. 2019, equation 1), in [0, 1].

    The best of all accepted answers counts; case and white space are folded as in DocVQA's evaluation.

    Args:
        answer: the model's reply.
        accepted: the right answers, one at least.
        threshold: a similarity under it counts as 0; 0 gives plain NLS.
    """
    best = max(similarity(answer, right) for right in accepted)
    return best if best >= threshold else 0.0


def similarity(answer: str, right: str) -> float:
    """Normalised Levenshtein similarity (NLS) of two texts, case and white space folded; 1: the same."""
    from rapidfuzz.distance import Levenshtein

    return float(Levenshtein.normalized_similarity(*(" ".join(text.lower().split()) for text in (answer, right))))
