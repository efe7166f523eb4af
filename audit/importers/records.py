"""Rows of a data set as pages: what a column means is recognised by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.files import as_text
from audit.importers.labels import fields_of_tags
from audit.importers.outputs import add_ground_truth
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
        return tuple(self._labels or self._classes.get(self["tags"], ()))

    def value(self, row: Mapping[str, Any], meaning: str) -> Any:
        """The value of a row in the column of this meaning; None where there is none."""
        return row.get(self[meaning]) if self[meaning] else None

    def fill(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add to a page what a row says of it; rows of one page bring questions each.

        Raises:
            ManifestError: a column holds something else than its name says.
        """
        if not page.words:
            self._add_words(page, row)
        self._add_questions(page, row)
        self._add_label(page, row)
        output = self.value(row, "output")
        if output is not None and page.output is None and not page.questions:
            add_ground_truth(page, as_text(output))

    def _add_words(self, page: Page, row: Mapping[str, Any]) -> None:
        texts = self.value(row, "words")
        if texts is None:
            text = self.value(row, "text")
            page.words = [Word(word) for word in text.split()] if isinstance(text, str) else ()
            return
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ManifestError(f"{self['words']}: not a list of words")
        boxes = self.value(row, "boxes")
        if boxes is None:
            page.words = [Word(text) for text in texts]
        elif not isinstance(boxes, list) or len(boxes) != len(texts):
            found = len(boxes) if isinstance(boxes, list) else "no list of"
            raise ManifestError(f"{self['boxes']}: {found} boxes for {len(texts)} words")
        else:
            page.words = [Word(text, box_of(box, self["boxes"])) for text, box in zip(texts, boxes, strict=True)]
        tags = self.value(row, "tags")
        if isinstance(tags, list):
            if len(tags) != len(texts):
                raise ManifestError(f"{self['tags']}: {len(tags)} tags for {len(texts)} words")
            page.fields = [
                Field(label, words, value=" ".join(texts[index] for index in words))
                for label, words in fields_of_tags([self._tag(tag) for tag in tags])
            ]

    def _tag(self, tag: Any) -> str:
        if isinstance(tag, str):
            return tag
        if not isinstance(tag, int) or not 0 <= tag < len(self.tags):
            given = f"{len(self.tags)} names" if self.tags else "no names"
            raise ManifestError(
                f"{self['tags']}: a tag is {tag}, and there are {given} of labels: give them with --labels"
            )
        return self.tags[tag]

    def _add_questions(self, page: Page, row: Mapping[str, Any]) -> None:
        asked, answers = self.value(row, "question"), self.value(row, "answers")
        if asked is None or answers is None:
            return
        if isinstance(asked, dict):  # by language
            asked = asked.get("en") or next((text for text in asked.values() if text), "")
        if isinstance(asked, list):
            if not isinstance(answers, list) or len(answers) != len(asked):
                raise ManifestError(f"{self['answers']}: another number than of {self['question']}")
            for question, accepted in zip(asked, answers, strict=True):
                page.ask(as_text(question), _texts_of(accepted))
            return
        name = self.value(row, "question id")
        page.ask(as_text(asked), _texts_of(answers), None if name is None else str(name))

    def _add_label(self, page: Page, row: Mapping[str, Any]) -> None:
        column, value = self["label"], self.value(row, "label")
        if value is None and self["tags"] == LIST_LABEL:
            column, value = LIST_LABEL, self.value(row, "tags")
        if value is None or isinstance(value, list | dict):
            return
        names = self._labels or self._classes.get(column, ())
        if isinstance(value, int) and names:
            if not 0 <= value < len(names):
                raise ManifestError(f"{column}: {value} is none of {len(names)} classes")
            value = names[value]
        page.label = clean(as_text(value)) or None


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
