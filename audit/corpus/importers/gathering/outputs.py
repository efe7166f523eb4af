"""The text that a parsing model writes for a page, and the questions that its fields are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from audit.corpus.importers.gathering.drafts import DraftPage, clean
from audit.corpus.importers.gathering.files import as_text
from audit.errors import ManifestError


def add_ground_truth(page: DraftPage, text: str) -> None:
    """Add to a page what Donut's training sets call its ground truth.

    {"gt_parse": {...}} is an output, whose leaves are questions by their path (`menu[1].nm`); {"gt_parses":
    [{"question", "answer"}, ...]} questions with one or several accepted answers; {"gt_parse": {"class": ...}} a class.

    Args:
        page: of the ground truth.
        text: JSON; any other text is an output without questions.

    Raises:
        ManifestError: a question is blank, or has no answer.
    """
    try:
        value = json.loads(text)
    except ValueError:
        page.output = text
        return
    parses = value.get("gt_parses") if isinstance(value, dict) else None
    if isinstance(parses, list) and all(isinstance(one, dict) and "question" in one for one in parses):
        _ask(page, parses)
        return
    parse = value.get("gt_parse", value) if isinstance(value, dict) else value
    if isinstance(parse, dict) and isinstance(parse.get("question"), str) and "answer" in parse:
        _ask(page, [parse])
    elif isinstance(parse, dict) and [*parse] == ["class"]:
        page.label = clean(as_text(parse["class"]))
    else:
        add_output(page, parse)


def add_output(page: DraftPage, parse: Any) -> None:
    """Make a JSON value the page's output, and its leaves questions, by their path; of equal paths the first."""
    page.output = json.dumps(parse, ensure_ascii=False)
    leaves = {path: text for path, text in reversed([*_leaves(parse, "")]) if clean(text)}
    for path, text in reversed(leaves.items()):
        page.ask(path or "text", [text], path or "text")


def _ask(page: DraftPage, parses: list[Mapping[str, Any]]) -> None:
    """Questions of equal wording are one, with all their answers."""
    answers: dict[str, list[str]] = {}
    for parse in parses:
        if "answer" not in parse:
            raise ManifestError("a question has no answer")
        given = parse["answer"]
        answers.setdefault(as_text(parse["question"]), []).extend(
            as_text(one) for one in (given if isinstance(given, list) else [given])
        )
    for question, accepted in answers.items():
        page.ask(question, accepted)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The texts and numbers of a JSON value with their paths, such as `menu[1].nm`; `[0]` is left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]" if number else path)
    elif value is not None and not isinstance(value, bool):
        yield path, as_text(value)
