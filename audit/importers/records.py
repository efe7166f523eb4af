"""Rows of a data set as pages: what a column means is recognised by its name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.corpus.documents import Box, Word
from audit.corpus.outputs import fields_of_output
from audit.errors import ManifestError
from audit.importers.files import as_text
from audit.importers.labels import fields_of_tags
from audit.importers.pages import Field, Page, bounds, clean

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "words": ("words", "tokens", "ocr_tokens", "ocr_words"),
    "boxes": ("bboxes", "boxes", "bbox", "ocr_boxes", "word_boxes", "normalized_bboxes"),
    "tags": ("ner_tags", "tags", "word_labels", "labels", "ner"),
    "image": ("image", "images", "file_name", "image_path", "img", "file"),
    "name": ("id", "doc_id", "document_id", "page_id", "image_id", "uid", "guid"),
    "question": ("question", "questions", "query"),
    "answers": ("answers", "answer"),
    "question id": ("question_id", "questionId", "question_ids"),
    "label": ("label", "class", "document_class", "category"),
    "output": ("ground_truth", "gt_parse", "parse", "target"),
    "text": ("text", "full_text", "ocr_text", "context"),
}
"""Names of columns by their meaning, in the order in which they are looked for."""
LIST_LABEL = "labels"
"""A column that is the tags of words where it holds a list, and the page's class where it does not."""


class Columns:
    """The meanings of a table's columns.

    Args:
        names: of the columns.
        classes: by column, the names that its numbers stand for.
        labels: names that the owner gives for numbers, in place of `classes`.
    """

    def __init__(
        self, names: Iterable[str], classes: Mapping[str, Sequence[str]] | None = None, labels: Sequence[str] = ()
    ) -> None:
        own = {*names}
        self._of = {meaning: next((name for name in known if name in own), "") for meaning, known in COLUMNS.items()}
        self._classes, self._labels = classes or {}, labels

    def __getitem__(self, meaning: str) -> str:
        """The column of this meaning; empty where there is none."""
        return self._of[meaning]

    @property
    def used(self) -> frozenset[str]:
        """The names of the columns that have a meaning."""
        return frozenset(filter(None, self._of.values()))

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the tags, in the order of their numbers, where the table or the owner gives them."""
        return self._names(self["tags"])

    def value(self, row: Mapping[str, Any], meaning: str) -> Any:
        """The value of a row in the column of this meaning; None where there is none."""
        return row.get(self[meaning]) if self[meaning] else None

    def fill(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add to a page what a row says of it; rows of one page bring questions each.

        Raises:
            ManifestError: a column holds something else than its name says.
        """
        text, output = self.value(row, "text"), self.value(row, "output")
        if not page.words and self.value(row, "words") is not None:
            self._add_words(page, row)
        elif not page.words and isinstance(text, str):
            page.words = [Word(word) for word in text.split()]
        self._add_questions(page, row)
        column = self["label"] or (LIST_LABEL if self["tags"] == LIST_LABEL else "")
        if row.get(column) is not None and not isinstance(row[column], list | dict):
            page.label = clean(as_text(self._named(column, row[column]))) or None
        if output is not None and page.output is None and not page.questions:
            add_ground_truth(page, as_text(output))

    def _names(self, column: str) -> tuple[str, ...]:
        return tuple(self._labels or self._classes.get(column, ()))

    def _named(self, column: str, value: Any, *, needed: bool = False) -> Any:
        """The name that a number of a column stands for; a value without one as it is, unless it is needed."""
        names = self._names(column)
        if isinstance(value, str) or not (names or needed):
            return value
        if not isinstance(value, int) or not 0 <= value < len(names):
            raise ManifestError(
                f"{column}: {as_text(value)} is none of {len(names)} names of labels: give them with --labels"
            )
        return names[value]

    def _add_words(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add words, their boxes, and the fields of their tags."""
        texts, boxes, tags = (self.value(row, meaning) for meaning in ("words", "boxes", "tags"))
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ManifestError(f"{self['words']}: not a list of words")
        for column, values in ((self["boxes"], boxes), (self["tags"], tags if isinstance(tags, list) else None)):
            if values is not None and (not isinstance(values, list) or len(values) != len(texts)):
                number = len(values) if isinstance(values, list) else "no list"
                raise ManifestError(f"{column}: {number} for {len(texts)} words")
        placed = [None] * len(texts) if boxes is None else [box_of(box, self["boxes"]) for box in boxes]
        page.words = [Word(text, box) for text, box in zip(texts, placed, strict=True)]
        if isinstance(tags, list):
            named = [self._named(self["tags"], tag, needed=True) for tag in tags]
            page.fields = [
                Field(label, words, value=" ".join(texts[index] for index in words))
                for label, words in fields_of_tags(named)
            ]

    def _add_questions(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add a question, one by language, or a list of them with a list of answers."""
        asked, answers, name = (self.value(row, meaning) for meaning in ("question", "answers", "question id"))
        if asked is None or answers is None:
            return
        if isinstance(asked, dict):
            asked = asked.get("en") or next((text for text in asked.values() if text), "")
        if not isinstance(asked, list):
            page.ask(as_text(asked), _texts_of(answers), None if name is None else str(name))
            return
        if not isinstance(answers, list) or len(answers) != len(asked):
            raise ManifestError(f"{self['answers']}: another number than of {self['question']}")
        for question, accepted in zip(asked, answers, strict=True):
            page.ask(as_text(question), _texts_of(accepted))


def box_of(value: Any, column: str) -> Box:
    """Read a box of four numbers x0, y0, x1, y1, of eight (four corners), or of points.

    Raises:
        ManifestError: it is something else.
    """
    numbers = value
    if isinstance(value, list) and value and all(isinstance(point, list) and len(point) == 2 for point in value):
        numbers = [number for point in value for number in point]
    if not isinstance(numbers, list) or not all(type(number) in (int, float) for number in numbers):
        raise ManifestError(f"{column}: a box is no list of numbers")
    if len(numbers) == 4:
        x0, y0, x1, y1 = map(float, numbers)
        return (x0, y0, x1, y1)
    if len(numbers) == 8:
        return bounds([*zip(numbers[0::2], numbers[1::2], strict=True)])
    raise ManifestError(f"{column}: a box has {len(numbers)} numbers, and 4 or 8 are expected")


def _texts_of(answers: Any) -> list[str]:
    """Accepted answers: one, a list, or {"text": [...]} as SQuAD has them.

    Raises:
        ManifestError: they are something else.
    """
    if isinstance(answers, dict):
        answers = answers.get("text", answers.get("answer"))
    given = answers if isinstance(answers, list) else [answers]
    if all(isinstance(answer, str | int | float) for answer in given):
        return [as_text(answer) for answer in given]
    raise ManifestError("answers: neither a text nor a list of texts")


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
    table = value if isinstance(value, dict) else {}
    parse = table.get("gt_parse", value)
    several = table.get("gt_parses")
    asked = several if isinstance(several, list) else [parse]
    asked = [one for one in asked if isinstance(one, dict) and "question" in one]
    if asked:
        answers: dict[str, list[str]] = {}
        for one in asked:
            answers.setdefault(as_text(one["question"]), []).extend(_texts_of(one.get("answer", [])))
        for question, accepted in answers.items():
            page.ask(question, accepted)
    elif isinstance(parse, dict) and [*parse] == ["class"]:
        page.label = clean(as_text(parse["class"]))
    else:
        write_output(page, json.dumps(parse, ensure_ascii=False))


def write_output(page: Page, output: str) -> None:
    """Make a text the page's output, and its fields questions, as `fields_of_output` names them."""
    page.output = output
    for field in fields_of_output(output):
        page.ask(field.question, field.answers, field.id)
