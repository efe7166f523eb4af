"""Prompts of models of text, divided into the words that all share, the text of a document, and a question."""

import re
from collections.abc import Sequence
from itertools import takewhile

from audit.corpus.documents import Word
from audit.importers.faults import NAMES

QUESTION, TEXT = "{question}", "{text}"
"""What stands for the question and the text of a document in a prompt."""
MIN_COMMON = 4
"""Different questions that must share a beginning or an end for it to be the prompt's."""
_LABELS = {
    part: re.compile(
        rf"(?<!\S)[#*<\[]*+ ?(?:{'|'.join(words)})[\]>*]*+[:\n][ \t\n]*+", re.IGNORECASE
    )
    for part, words in NAMES["prompts"].items()
}
"""What stands before a question or a text in a prompt."""
FOLLOWS = "What follows?"
"""The question of a prompt that asks none: it stands in no prompt."""


def divide_prompts(prompts: Sequence[str], *, with_text: bool) -> tuple[str, list[tuple[str, str]]]:
    """Divide prompts into the words of all, and the text and the question of each.

    The question stands behind or before the text, apart from it by words of `names.toml`. Else it
    is the longest line of the words that all share, or what each ends with where that is a
    question.

    Args:
        prompts: of all documents.
        with_text: a prompt holds a document's text; else it is a question alone.

    Returns:
        The prompt with "{text}" and "{question}" in their places; text and question of each.
    """
    before, after = _common_text([*dict.fromkeys(prompts)], 2 if with_text else MIN_COMMON)
    inner = [prompt[len(before) : len(prompt) - len(after)] for prompt in prompts]
    if not with_text:
        return f"{before}{QUESTION}{after}", [("", question) for question in inner]
    question_first = any(
        match.end() == len(before) for match in _LABELS["question"].finditer(before)
    )
    gap = _gap(inner, question_first=question_first)
    if gap:
        parts = [text.partition(gap) if question_first else text.rpartition(gap) for text in inner]
        divided = [(last, first) if question_first else (first, last) for first, _, last in parts]
        if all(
            text.strip() and question.strip() and "\n" not in question.strip()
            for text, question in divided
        ):
            places = (QUESTION, TEXT) if question_first else (TEXT, QUESTION)
            return f"{before}{places[0]}{gap}{places[1]}{after}", divided
    lines = [line.strip() for line in (*before.split("\n"), *after.split("\n"))]
    asking = max(lines, key=lambda line: (line.endswith("?"), len(line)))
    if asking:
        if asking in before:
            before = before.replace(asking, QUESTION, 1)
        else:
            after = after.replace(asking, QUESTION, 1)
        return f"{before}{TEXT}{after}", [(text, asking) for text in inner]
    ends = [_last_question(text) for text in inner]
    if len({gap for _, gap, _ in ends}) == 1 and ends[0][1]:
        return f"{TEXT}{ends[0][1]}{QUESTION}", [(text, question) for text, _, question in ends]
    return TEXT, [(text, FOLLOWS) for text in inner]


def _last_question(text: str) -> tuple[str, str, str]:
    """Return a text, the question of a line or sentence of its own that it ends with, and the white space between."""
    whole = text.rstrip()
    cut = max(whole.rfind(mark) + 1 for mark in ("\n", ". ", "! ", "? ", ": "))
    first, last = whole[:cut].rstrip(), whole[cut:].lstrip()
    return (
        (first, whole[len(first) : len(whole) - len(last)], last)
        if first and last[-1:] == "?"
        else (text, "", "")
    )


def _gap(texts: Sequence[str], *, question_first: bool) -> str:
    """Find what stands between question and text in all texts; empty where nothing does."""
    found = [*_LABELS["text" if question_first else "question"].finditer(texts[0])] if texts else []
    for match in found[:1] if question_first else found[-1:]:
        gap = texts[0][len(texts[0][: match.start()].rstrip()) : match.end()]
        return gap if all(gap in text for text in texts) else ""
    return ""


def fill_prompt(template: str, words: Sequence[Word], question: str) -> str:
    """Put the words of a document and a question into their places, as a model of text is asked."""
    text = "".join(f"{word.text}{word.after}" for word in words).rstrip()
    return text.join(part.replace(QUESTION, question) for part in template.split(TEXT))


def _common_text(texts: Sequence[str], least: int) -> tuple[str, str]:
    """Return the text before and after all questions: up to a line's end or a colon, from the beginning of a line.

    Nothing where there are fewer than `least` different questions, or where no question would be
    left of one.
    """
    before = _common_beginning(texts)
    before = before[: max(before.rfind("\n") + 1, before.rfind(": ") + 2 if ": " in before else 0)]
    after = _common_beginning([text[len(before) :][::-1] for text in texts])[::-1]
    after = after[after.find("\n") :] if "\n" in after else ""
    left = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    if (
        len(texts) < least
        or not all(left)
        or any(mark in text for text in texts for mark in (QUESTION, TEXT))
    ):
        return "", ""
    return before, after


def _common_beginning(texts: Sequence[str]) -> str:
    first, last = min(texts, default=""), max(texts, default="")
    return "".join(
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    )
