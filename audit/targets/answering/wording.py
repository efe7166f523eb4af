"""Questions and answers as tokens: what a question may not smuggle in, how long it may be, where its answer begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from audit.targets.table import TABLE

LONGEST_ANSWER = 128
"""Tokens an answer may have, its end included (ours: the longest address of SROIE has 60, in BERT's vocabulary)."""
QUESTION = "{question}"
"""Stands for the question in a prompt."""

OWN_VOCABULARIES = frozenset(TABLE["answering"]["own_vocabularies"])
ROBERTAS = frozenset(TABLE["answering"]["robertas"])


def plain(tokenizer: Any, text: str) -> str:
    """The text without anything that the tokenizer would read as a special token, such as the mark of an image."""
    for token in sorted(special_tokens(tokenizer), key=len, reverse=True):
        text = text.replace(token, " ")
    return text


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Tokens that stand for no text: the tokenizer's own special ones, and marks of fields as Donut has them."""
    special = {token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.all_special_tokens}
    added = tokenizer.get_added_vocab()
    marks = {token: number for token, number in added.items() if token.startswith(("<s_", "</s_", "<sep/"))}
    declared = {
        str(token): number for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items() if token.special
    }
    return special | marks | declared


def ending(tokenizer: Any, ids: Iterable[int]) -> frozenset[int]:
    """Those of these tokens that may end an answer: special ones, and text without a letter or a digit.

    One that begins a word or a number would cut off the very answers that hold it.
    """
    special = {*special_tokens(tokenizer).values()}
    return frozenset(
        number for number in ids if number in special or not any(map(str.isalnum, tokenizer.decode([number])))
    )


def shortened(tokenizer: Any, text: str, n_tokens: int) -> str:
    """The beginning of the text that has at most `n_tokens` tokens; a question that is too long loses its end."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if len(encoded["input_ids"]) <= n_tokens:
        return text
    ends = [end for _, end in encoded["offset_mapping"][:n_tokens]]
    return text[: max(ends, default=0)]


def tokens_of(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text's tokens, no special ones added."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def continued(tokenizer: Any, prompt: str, answer: str) -> tuple[list[int], list[int]]:
    """The tokens of a prompt, and those that follow when an answer stands right after it.

    They are as in the text written as one, unless a token would span both: the model's own answer cannot begin in the
    middle of a token either.
    """
    before, whole = tokens_of(tokenizer, prompt), tokens_of(tokenizer, prompt + answer)
    return before, whole[len(before) :] if whole[: len(before)] == before else tokens_of(tokenizer, answer)
