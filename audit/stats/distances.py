"""Distances of a reconstruction from the truth, on token ids (CDMI, section 5.1), and of answers from right ones."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

from rapidfuzz import process
from rapidfuzz.distance import Hamming, Levenshtein

from audit.stats.intervals import join_groups

NEAR_SIMILARITY, NEAR_LETTERS = 0.8, 10
"""The least similarity, and the fewest letters of a value that need not be exact
(methods.md#near-verbatim)."""
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
    ids = [[int(token) for token in tokens] for tokens in (truth, guess)]
    return float(Hamming.normalized_distance(*ids, pad=False))


def anls(answer: str, accepted: Sequence[str], threshold: float = 0.5) -> float:
    """Compute the normalised Levenshtein similarity of an answer (ANLS, Biten et al. 2019, equation 1), in [0, 1].

    The best of all accepted answers counts; case and white space are folded as in DocVQA's
    evaluation.

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
    return float(
        Levenshtein.normalized_similarity(
            *(" ".join(text.lower().split()) for text in (answer, right))
        )
    )


def join_near(texts: Collection[str]) -> dict[str, str]:
    """Name each folded text by the first of those that are near it, directly or through others.

    Near are texts of equal digits with a similarity of `NEAR_SIMILARITY`; one of the two has
    `NEAR_LETTERS`. A text without any bears its own name.
    """
    alike: dict[str, list[str]] = {}
    for text in sorted(texts, key=len):
        alike.setdefault("".join(filter(str.isdigit, text)), []).append(text)
    groups, least = (
        [[text] for text in texts],
        NEAR_SIMILARITY - 1e-6,
    )  # the scorer rounds to single precision
    for own in alike.values():
        long = [text for text in own if sum(map(str.isalpha, text)) >= NEAR_LETTERS]
        for start in range(0, len(long), ROWS):
            rows = long[start : start + ROWS]
            # Texts are no more similar than their lengths.
            first, last = len(rows[0]) * least, len(rows[-1]) / least
            others = own[bisect_left(own, first, key=len) : bisect_right(own, last, key=len)]
            close = process.cdist(
                rows, others, scorer=Levenshtein.normalized_similarity, score_cutoff=least
            )
            groups += [[others[column] for column in row.nonzero()[0]] for row in close]
    return {text: group[0] for group in join_groups(groups) for text in group}
