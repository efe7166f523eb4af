"""Distances of a reconstruction from the truth, on token ids (CDMI, section 5.1), and of answers from right ones."""

from collections.abc import Sequence

from rapidfuzz.distance import Hamming, Levenshtein


def hamming(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Compute the share of positions that differ, in [0, 1].

    Args:
        truth: k token ids.
        guess: k token ids.

    Raises:
        ValueError: the lengths differ, or k = 0.
    """
    if len(truth) == 0:
        raise ValueError("the Hamming distance of an empty field is not defined")
    # Plain integers: rapidfuzz compares elements by hash, and rows of a numpy array would be read as a buffer.
    ids = [[int(token) for token in tokens] for tokens in (truth, guess)]
    return float(Hamming.normalized_distance(*ids, pad=False))


def anls(answer: str, accepted: Sequence[str], threshold: float = 0.5) -> float:
    """Compute the normalised Levenshtein similarity of an answer (ANLS, Biten et al. 2019, equation 1), in [0, 1].

    The best of all accepted answers counts; case and white space are folded as in DocVQA's evaluation.

    Args:
        answer: the model's reply.
        accepted: the right answers, one at least.
        threshold: a similarity under it counts as 0; 0 gives plain NLS.
    """
    best = max(similarity(answer, right) for right in accepted)
    return best if best >= threshold else 0.0


def similarity(answer: str, right: str) -> float:
    """Compute the normalised Levenshtein similarity of two texts, case and white space folded; 1: the same."""
    return float(Levenshtein.normalized_similarity(*(" ".join(text.lower().split()) for text in (answer, right))))
