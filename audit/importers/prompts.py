"""Prompts of models of text: the words that all share, the text of a document, and a question."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from audit.corpus.documents import Word
from audit.importers.faults import NAMES

QUESTION = "{question}"
"""What stands for the question in a prompt."""
TEXT = "{text}"
"""What stands for the text of a document in a prompt."""
MIN_COMMON = 4
"""Different questions that must share a beginning or an end for it to be the prompt's."""
_LABELS = {
    role: re.compile(
        rf"(?<!\S)[#*<\[]*+ ?(?:{'|'.join(words)})[\]>*]*+[:\n][ \t\n]*+", re.IGNORECASE
    )
    for role, words in NAMES["prompts"].items()
}
"""What stands before a question or a text in a prompt."""
FOLLOWS = "What follows?"
"""The question of a prompt that asks none: it stands in no prompt."""


class Divided(NamedTuple):
    """The text of a document and the question about it, as a prompt holds them."""

    text: str
    question: str


def divide_prompts(prompts: Sequence[str], *, with_text: bool) -> tuple[str, list[Divided]]:
    """Divide prompts into the words of all, and the text and the question of each.

    The question stands behind or before the text, apart from it by words of `names.toml`. Else it
    is the longest line of the words that all share, or what each ends with where that is a
    question.

    Args:
        prompts: prompts of all documents.
        with_text: whether a prompt holds a document's text; else it is a question alone.

    Returns:
        The prompt with "{text}" and "{question}" in their places; text and question of each.
    """
    different = list(dict.fromkeys(prompts))
    before, after = _common_text(different, 2 if with_text else MIN_COMMON)
    inner = [prompt[len(before) : len(prompt) - len(after)] for prompt in prompts]
    if not with_text:
        return f"{before}{QUESTION}{after}", [Divided("", question) for question in inner]
    question_first = _ends_with_label(before)
    gap = _gap(inner, question_first=question_first)
    divided = _divide_at(gap, inner, question_first=question_first)
    if divided:
        places = f"{QUESTION}{gap}{TEXT}" if question_first else f"{TEXT}{gap}{QUESTION}"
        return f"{before}{places}{after}", divided
    question = _asking_line(before, after)
    if question:
        if question in before:
            before = before.replace(question, QUESTION, 1)
        else:
            after = after.replace(question, QUESTION, 1)
        return f"{before}{TEXT}{after}", [Divided(text, question) for text in inner]
    return _divide_at_end(inner)


def _ends_with_label(before: str) -> bool:
    """Test whether what stands before a question ends the words that all prompts begin with."""
    labels = _LABELS["question"].finditer(before)
    return any(label.end() == len(before) for label in labels)


def _divide_at(gap: str, texts: Sequence[str], *, question_first: bool) -> list[Divided]:
    """Divide prompts into text and question at `gap`; none where any prompt does not fit.

    Nothing where nothing does, or where it leaves a blank text, or no question of one line.
    """
    if not gap:
        return []
    divided: list[Divided] = []
    for prompt in texts:
        if question_first:
            question, _, text = prompt.partition(gap)
        else:
            text, _, question = prompt.rpartition(gap)
        line = question.strip()
        if not text.strip() or not line or "\n" in line:
            return []
        divided.append(Divided(text, question))
    return divided


def _asking_line(before: str, after: str) -> str:
    """Return the line of the words that all prompts share that asks; empty where there is none."""
    lines = [line.strip() for line in (*before.split("\n"), *after.split("\n"))]
    return max(lines, key=lambda line: (line.endswith("?"), len(line)))


def _divide_at_end(texts: Sequence[str]) -> tuple[str, list[Divided]]:
    """Divide texts by the question that each ends with, where all end so.

    Returns:
        The prompt, and text and question of each, as `divide_prompts`.
    """
    endings = [_last_question(text) for text in texts]
    gaps = {ending.gap for ending in endings}
    if len(gaps) == 1 and endings[0].gap:
        template = f"{TEXT}{endings[0].gap}{QUESTION}"
        return template, [Divided(ending.text, ending.question) for ending in endings]
    return TEXT, [Divided(text, FOLLOWS) for text in texts]


class _Ending(NamedTuple):
    """A text, the question that it ends with, and the white space between; empty without one."""

    text: str
    gap: str
    question: str


def _last_question(text: str) -> _Ending:
    """Cut off the question of a line or sentence of its own that a text ends with."""
    content = text.rstrip()
    cut = max(content.rfind(mark) + 1 for mark in ("\n", ". ", "! ", "? ", ": "))
    first = content[:cut].rstrip()
    last = content[cut:].lstrip()
    if not first or not last.endswith("?"):
        return _Ending(text, "", "")
    return _Ending(first, content[len(first) : len(content) - len(last)], last)


def _gap(texts: Sequence[str], *, question_first: bool) -> str:
    """Find what stands between question and text in all texts; empty where nothing does."""
    if not texts:
        return ""
    label = _LABELS["text" if question_first else "question"]
    matches = list(label.finditer(texts[0]))
    if not matches:
        return ""
    match = matches[0] if question_first else matches[-1]
    start = len(texts[0][: match.start()].rstrip())
    gap = texts[0][start : match.end()]
    return gap if all(gap in text for text in texts) else ""


def fill_prompt(template: str, words: Sequence[Word], question: str) -> str:
    """Put the words of a document and a question into their places, as a model of text is asked."""
    text = "".join(f"{word.text}{word.after}" for word in words).rstrip()
    return text.join(piece.replace(QUESTION, question) for piece in template.split(TEXT))


def _common_text(texts: Sequence[str], least: int) -> tuple[str, str]:
    """Return the text before and after what differs; empty for fewer than `least` texts.

    It goes up to a line's end or a colon, and from the beginning of a line. Nothing where there are
    fewer than `least` different questions, or where no question would be left of one.
    """
    before = _common_beginning(texts)
    end = before.rfind("\n") + 1
    if ": " in before:
        end = max(end, before.rfind(": ") + 2)
    before = before[:end]
    after = _common_beginning([text[len(before) :][::-1] for text in texts])[::-1]
    after = after[after.find("\n") :] if "\n" in after else ""
    if len(texts) < least:
        return "", ""
    for text in texts:
        question = text[len(before) : len(text) - len(after)].strip()
        if not question or QUESTION in text or TEXT in text:
            return "", ""
    return before, after


def _common_beginning(texts: Sequence[str]) -> str:
    """Return the longest beginning that all texts share."""
    first = min(texts, default="")
    last = max(texts, default="")
    length = 0
    for character, last_character in zip(first, last, strict=False):
        if character != last_character:
            break
        length += 1
    return first[:length]
