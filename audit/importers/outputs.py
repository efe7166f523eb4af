"""The text that a parsing model writes for a page, and the questions that its fields are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from audit.corpus.outputs import fields_of_output
from audit.errors import ManifestError
from audit.importers.files import as_text
from audit.importers.pages import Page, clean


def add_ground_truth(page: Page, text: str) -> None:
    """Add to a page what Donut's training sets call its ground truth.

    {"gt_parse": {...}} is an output, whose leaves are questions by their path (`menu[1].nm`); {"gt_parses":
    [{"question", "answer"}, ...]} questions with one or several accepted answers; {"gt_parse": {"class": ...}} a class.

    Args:
        page: of the ground truth.
        text: JSON; any other text is the output itself.

    Raises:
        ManifestError: a question is blank, or has no answer.
    """
    try:
        value = json.loads(text)
    except ValueError:
        write_output(page, text)
        return
    parses = value.get("gt_parses") if isinstance(value, dict) else None
    parse = value.get("gt_parse", value) if isinstance(value, dict) else value
    if isinstance(parses, list) and all(isinstance(one, dict) and "question" in one for one in parses):
        _ask(page, parses)
    elif isinstance(parse, dict) and isinstance(parse.get("question"), str) and "answer" in parse:
        _ask(page, [parse])
    elif isinstance(parse, dict) and [*parse] == ["class"]:
        page.label = clean(as_text(parse["class"]))
    else:
        write_output(page, json.dumps(parse, ensure_ascii=False))


def write_output(page: Page, output: str) -> None:
    """Make a text the page's output, and its fields questions, as `fields_of_output` names them."""
    page.output = output
    for field in fields_of_output(output):
        page.ask(field.question, field.answers, field.id)


def _ask(page: Page, parses: list[Mapping[str, Any]]) -> None:
    """Ask questions; those of equal wording are one, with all their answers."""
    answers: dict[str, list[str]] = {}
    for parse in parses:
        if "answer" not in parse:
            raise ManifestError("a question has no answer")
        given = parse["answer"] if isinstance(parse["answer"], list) else [parse["answer"]]
        answers.setdefault(as_text(parse["question"]), []).extend(map(as_text, given))
    for question, accepted in answers.items():
        page.ask(question, accepted)
