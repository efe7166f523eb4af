"""Choosing a span by where a model says that an answer begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.arrays import Floats
from audit.targets.extractive.windows import Window

MAX_ANSWER = 64
"""Tokens of the longest span that is an answer (ours: an address is longer than the pipeline's 15)."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of one window: logits and log-probabilities of each token to begin and to end the answer.

    All are (n_tokens,). Probabilities are over the row's tokens and the patches of its image, as in training; padding
    is left out.
    """

    begins: Floats
    ends: Floats
    log_begins: Floats
    log_ends: Floats

    def of_span(self, first: int, last: int) -> Floats:
        """The log-probabilities of its beginning and its end, (2,), nats."""
        return np.array([self.log_begins[first], self.log_ends[last]])


@dataclass(frozen=True)
class Span:
    """A place on a page.

    Attributes:
        words: of the page, the first and the last; None: there is no answer.
        score: the logits of beginning and end, together.
        log_probability: nats.
        n_tokens: of the span.
    """

    words: tuple[int, int] | None
    score: float
    log_probability: float
    n_tokens: int = 0


def best_span(windows: Sequence[Window], scores: Sequence[Scores]) -> Span:
    """The answer: the span of highest logits over all windows, or none where no answer scores higher in each of them.

    Spans are of page tokens, of `MAX_ANSWER` tokens at most; ties go to the one that begins first, then to the shorter.
    "No answer" is the null position as beginning and end, as in SQuAD 2 (transformers' run_qa.py): a model that was
    never taught it gives it low logits, and a page that is read in windows has an answer if one of them has.
    """
    nulls = [_null_of(window, own) for window, own in zip(windows, scores, strict=True)]
    found = [span for window, own in zip(windows, scores, strict=True) if (span := _best_in(window, own)) is not None]
    null = min(nulls, key=lambda span: span.score)
    best = max(found, key=lambda span: span.score, default=null)
    return best if best.score >= null.score else null


def _null_of(window: Window, scores: Scores) -> Span:
    at = window.null
    return Span(None, float(scores.begins[at] + scores.ends[at]), float(scores.of_span(at, at).sum()))


def _best_in(window: Window, scores: Scores) -> Span | None:
    own = np.flatnonzero(window.words >= 0)
    if not len(own):
        return None
    table = scores.begins[own][:, None] + scores.ends[own][None, :]
    length = own[None, :] - own[:, None] + 1
    table[(length < 1) | (length > MAX_ANSWER)] = -np.inf
    begin, end = divmod(int(table.argmax()), len(own))
    first, last = int(own[begin]), int(own[end])
    words = int(window.words[first]), int(window.words[last])
    log_probability = float(scores.of_span(first, last).sum())
    return Span(words, float(table[begin, end]), log_probability, last - first + 1)
