"""Sentence boundaries in running text, by rule.

A small rule of ours, for texts as courts write them: the paper divides with NLTK's trained Punkt, which is not needed
for it. What it gets wrong makes a context longer or shorter, never a span another one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

ABBREVIATION = re.compile(
    r"(?:adv|apps?|arts?|ca|cap|cf|ch|cl|co|col|corp|dept|dr|eds?|esq|et|fig|gen|gov|hon|inc|jr|ltd?|messrs|mrs?|ms|mt"
    r"|nos?|nr|p|paras?|pp|prof|pt|reg|rep|rev|sect?|sen|sgt|sr|ste?|subs|v|viz|vols?|vs"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.",
    re.IGNORECASE,
)
"""Words that do not end a sentence with their full stop (ours)."""
_OPENING = "\"'“”‘’«([{"
_ENDS = re.compile(r"[.!?…]+[\"'”’»)\]}]*$")
_LETTERS_WITH_STOPS = re.compile(r"(?:[^\W\d_]\.)+$")
_NUMBERING = re.compile(r"\(?(?:\d+|[a-z]|[ivxlc]+)[.)]+$", re.IGNORECASE)


def sentence_starts(
    words: Sequence[str], paragraphs: Collection[int] = (), whole: Collection[int] = ()
) -> tuple[int, ...]:
    """The index of the first word of every sentence, ascending; the first is 0.

    A word ends a sentence when it closes with ".", "!" or "?" and the next word begins with a capital or a digit,
    unless it is an `ABBREVIATION`, an initial ("J.", "U.K."), or the number of a paragraph that begins with it.

    Args:
        words: of the text, in reading order.
        paragraphs: indices of words before which a sentence ends whatever the words are.
        whole: indices of words that belong to the same value as the word before: no sentence begins with them.
    """
    if not words:
        return ()
    starts = [0]
    for index in range(1, len(words)):
        if index in whole:
            continue
        if index in paragraphs or (_ends(words[index - 1], first=starts[-1] == index - 1) and _begins(words[index])):
            starts.append(index)
    return tuple(starts)


def _ends(word: str, *, first: bool) -> bool:
    if not _ENDS.search(word):
        return False
    if first and _NUMBERING.match(word):
        return False
    bare = word.lstrip(_OPENING)
    return not ABBREVIATION.fullmatch(bare) and not _LETTERS_WITH_STOPS.match(bare)


def _begins(word: str) -> bool:
    bare = word.lstrip(_OPENING)
    return not bare or bare[0].isupper() or bare[0].isdigit()
