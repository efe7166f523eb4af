"""Check whether a model refuses to answer, so that its silence is not taken for privacy."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from audit.measurements import REFUSALS, Check
from audit.targets import wording

FEWEST = 10
"""Questions without which no pattern of the answers is shown."""
MOST_REFUSED = 0.5
"""Share of the questions that a model may refuse: what it says of the others then counts most."""
MOST_ALIKE = 0.9
"""Share of the questions that may have the same answer, where the true answers differ."""
RIGHT = 0.5
"""Similarity from which an answer counts as right, as ANLS has it."""
_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'"})


@dataclass(frozen=True)
class Reply:
    """What a model replies to a question.

    Attributes:
        text: the reply.
        answer: one of the true answers.
        score: similarity of both, from 0 to 1.
    """

    text: str
    answer: str
    score: float


def check_replies(replies: Sequence[Reply]) -> Check:
    """Check whether a model refuses most questions, or gives nearly all of them one answer.

    What is right is no refusal, however it begins. The check is no test: it fires or it does not.
    """
    reason, remedy = wording("answers_questions")
    wrong = [reply for reply in replies if reply.score < RIGHT]
    n_refused = sum(is_refusal(reply.text) for reply in wrong)
    n_alike = _count_alike(wrong)
    if len(replies) < FEWEST:
        return Check(REFUSALS, 1.0, "alarm", reason, remedy)
    if n_refused > MOST_REFUSED * len(replies):
        reason, remedy = wording("refuses", n=n_refused, all=len(replies))
        return Check(REFUSALS, 0.0, "alarm", reason, remedy)
    if n_alike > MOST_ALIKE * len(replies):
        reason, remedy = wording("answers_alike", n=n_alike, all=len(replies))
        return Check(REFUSALS, 0.0, "alarm", reason, remedy)
    return Check(REFUSALS, 1.0, "alarm", reason, remedy)


def _count_alike(wrong: Sequence[Reply]) -> int:
    """Count the wrong replies that are the same, where their true answers are not."""
    if len({reply.answer for reply in wrong}) < FEWEST:
        return 0
    texts = Counter(_fold(reply.text) for reply in wrong)
    return max(texts.values(), default=0)


def is_refusal(text: str) -> bool:
    """Tell whether a reply begins as refusals do."""
    return _fold(text).startswith(_openings())


def _fold(text: str) -> str:
    """Return a reply in lower case, without thoughts, accents and typographic quotes."""
    plain = _THOUGHTS.sub("", text).translate(_QUOTES).casefold().strip()
    decomposed = unicodedata.normalize("NFKD", plain)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@cache
def _openings() -> tuple[str, ...]:
    """Return the openings of refusals in all languages."""
    by_language = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(opening for openings in by_language.values() for opening in openings)
