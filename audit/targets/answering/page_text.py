"""A page's words as running text: in lines, cut at a word, and each token's word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.corpus.documents import Word
from audit.corpus.redaction.lines import lines_of
from audit.targets.answering.wording import tokens_of
from audit.targets.checkpoint.tokenizer import unpadded


def text_of_words(words: Sequence[Word]) -> str:
    """The page's words in reading order: lines one under the other where boxes tell them, else one line."""
    if any(word.box is None for word in words):
        return " ".join(word.text for word in words)
    return "\n".join(" ".join(words[index].text for index in line) for line in lines_of(words))


def words_at(texts: Sequence[str], begin: int, end: int) -> dict[int, int]:
    """The index of the word at each character of a prompt, for words in one line from `begin` to `end`."""
    found: dict[int, int] = {}
    for index, text in enumerate(texts):
        found |= dict.fromkeys(range(begin, min(begin + len(text), end)), index)
        begin += len(text) + 1
    return found


def word_of(offsets: tuple[int, int], word_at: dict[int, int]) -> int | None:
    """The word that a token belongs to: that of its first character that is in one; None: none is."""
    return next((word_at[place] for place in range(*offsets) if place in word_at), None)


def around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before a text and behind it."""
    whole, bare = tokenizer("a")["input_ids"], tokens_of(tokenizer, "a")
    place = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), 0)
    return list(whole[:place]), list(whole[place + len(bare) :])


def first_tokens(tokenizer: Any, text: str, n_tokens: int) -> str:
    """The beginning of the text that has at most `n_tokens` tokens."""
    encoded = unpadded(tokenizer).encode(text, add_special_tokens=False)
    if len(encoded.ids) <= n_tokens:
        return text
    return text[: max((end for _, end in encoded.offsets[: max(n_tokens, 0)]), default=0)]


def whole_words(tokenizer: Any, text: str, n_tokens: int) -> str:
    """The beginning of the text that has at most `n_tokens` tokens and ends with a whole word."""
    short = first_tokens(tokenizer, text, n_tokens)
    if len(short) == len(text) or text[len(short)].isspace():
        return short.rstrip()
    cut = max(short.rfind(" "), short.rfind("\n"), 0)
    return short[:cut].rstrip()
