"""Distances of a reconstruction from the truth, and of answers from right ones.

Reconstructions are compared on token ids (CDMI, section 5.1).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence

from rapidfuzz import process
from rapidfuzz.distance import Hamming, Levenshtein

from audit.stats.intervals import join_groups

NEAR_SIMILARITY = 0.8
NEAR_LETTERS = 10
"""The least similarity, and the fewest letters of a value that need not be exact
(methods/memorisation.md#near-verbatim)."""
ROWS = 256
"""Texts that are compared with all others at a time."""


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
    # Plain integers: rapidfuzz compares elements by hash, and rows of a numpy array would be read
    # as a buffer.
    truth_ids = [int(token) for token in truth]
    guess_ids = [int(token) for token in guess]
    return float(Hamming.normalized_distance(truth_ids, guess_ids, pad=False))


def anls(answer: str, accepted: Sequence[str], threshold: float = 0.5) -> float:
    """Compute the normalised Levenshtein similarity of an answer (ANLS), in [0, 1].

    See Biten et al. 2019, equation 1. The best of all accepted answers counts; case and white space
    are folded as in DocVQA's evaluation.

    Args:
        answer: the model's reply.
        accepted: the right answers, one at least.
        threshold: a similarity under it counts as 0; 0 gives plain NLS.
    """
    best = max(similarity(answer, right) for right in accepted)
    return best if best >= threshold else 0.0


def similarity(answer: str, right: str) -> float:
    """Compute the normalised Levenshtein similarity of two texts, case and white space folded.

    1: the same.
    """
    answer_words = " ".join(answer.lower().split())
    right_words = " ".join(right.lower().split())
    return float(Levenshtein.normalized_similarity(answer_words, right_words))


def join_near(texts: Collection[str]) -> dict[str, str]:
    """Name each folded text by the first of those that are near it, directly or through others.

    Near are texts of equal digits with a similarity of `NEAR_SIMILARITY`; one of the two has
    `NEAR_LETTERS`. A text without any bears its own name.
    """
    same_digits: dict[str, list[str]] = {}
    for text in sorted(texts, key=len):
        same_digits.setdefault("".join(filter(str.isdigit, text)), []).append(text)
    groups = [[text] for text in texts]
    for candidates in same_digits.values():
        groups += _near_groups(candidates)
    names: dict[str, str] = {}
    for group in join_groups(groups):
        names |= dict.fromkeys(group, group[0])
    return names


def _near_groups(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield for each text with enough letters those that are near it.

    Args:
        texts: texts of equal digits, by length.
    """
    least = NEAR_SIMILARITY - 1e-6  # the scorer rounds to single precision
    long = [text for text in texts if sum(map(str.isalpha, text)) >= NEAR_LETTERS]
    for start in range(0, len(long), ROWS):
        rows = long[start : start + ROWS]
        # Texts are no more similar than their lengths.
        shortest = bisect_left(texts, len(rows[0]) * least, key=len)
        longest = bisect_right(texts, len(rows[-1]) / least, key=len)
        candidates = texts[shortest:longest]
        similarities = process.cdist(
            rows, candidates, scorer=Levenshtein.normalized_similarity, score_cutoff=least
        )
        for row in similarities:
            yield [candidates[column] for column in row.nonzero()[0]]
