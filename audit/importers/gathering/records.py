"""Rows of a data set as pages: what a column means is recognised by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.gathering.boxes import bounds
from audit.importers.gathering.drafts import DraftField, DraftPage, DraftWord, clean
from audit.importers.gathering.files import as_text
from audit.importers.gathering.labels import fields_of_tags
from audit.importers.gathering.outputs import add_ground_truth

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
        self._of = {meaning: next((name for name in known if name in own), None) for meaning, known in COLUMNS.items()}
        self._classes, self._labels = classes or {}, labels

    def __getitem__(self, meaning: str) -> str | None:
        return self._of[meaning]

    @property
    def used(self) -> frozenset[str]:
        """The names of the columns that have a meaning."""
        return frozenset(name for name in self._of.values() if name is not None)

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the tags, in the order of their numbers, where the table or the owner gives them."""
        column = self._of["tags"]
        return tuple(self._labels or (self._classes.get(column, ()) if column else ()))

    def value(self, row: Mapping[str, Any], meaning: str) -> Any:
        """The value of a row in the column of this meaning; None where there is none."""
        column = self._of[meaning]
        return None if column is None else row.get(column)

    def fill(self, page: DraftPage, row: Mapping[str, Any]) -> None:
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

    def _add_words(self, page: DraftPage, row: Mapping[str, Any]) -> None:
        texts = self.value(row, "words")
        if texts is None:
            text = self.value(row, "text")
            page.words = [DraftWord(word) for word in text.split()] if isinstance(text, str) else ()
            return
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ManifestError(f"{self['words']}: not a list of words")
        page.words = [DraftWord(*pair) for pair in zip(texts, self._boxes(row, len(texts)), strict=True)]
        tags = self.value(row, "tags")
        if isinstance(tags, list):
            if len(tags) != len(texts):
                raise ManifestError(f"{self['tags']}: {len(tags)} tags for {len(texts)} words")
            named = [self._tag(tag) for tag in tags]
            page.fields = [
                DraftField(label, words, value=" ".join(texts[index] for index in words))
                for label, words in fields_of_tags(named)
            ]

    def _boxes(self, row: Mapping[str, Any], count: int) -> Sequence[Box | None]:
        boxes = self.value(row, "boxes")
        if boxes is None:
            return [None] * count
        if not isinstance(boxes, list) or len(boxes) != count:
            found = len(boxes) if isinstance(boxes, list) else "no list of"
            raise ManifestError(f"{self['boxes']}: {found} boxes for {count} words")
        return [box_of(box, str(self["boxes"])) for box in boxes]

    def _tag(self, tag: Any) -> str:
        if isinstance(tag, str):
            return tag
        if not isinstance(tag, int) or not 0 <= tag < len(self.tags):
            given = f"{len(self.tags)} names" if self.tags else "no names"
            raise ManifestError(
                f"{self['tags']}: a tag is {tag}, and there are {given} of labels: give them with --labels"
            )
        return self.tags[tag]

    def _add_questions(self, page: DraftPage, row: Mapping[str, Any]) -> None:
        asked, answers = self.value(row, "question"), self.value(row, "answers")
        if asked is None or answers is None:
            return
        if isinstance(asked, dict):  # by language
            asked = asked.get("en") or next((text for text in asked.values() if text), "")
        if isinstance(asked, list):
            if not isinstance(answers, list) or len(answers) != len(asked):
                raise ManifestError(f"{self['answers']}: another number than of {self['question']}")
            for question, accepted in zip(asked, answers, strict=True):
                page.ask(as_text(question), texts_of(accepted))
            return
        name = self.value(row, "question id")
        page.ask(as_text(asked), texts_of(answers), None if name is None else str(name))

    def _add_label(self, page: DraftPage, row: Mapping[str, Any]) -> None:
        column = self["label"]
        value = self.value(row, "label")
        tags = self.value(row, "tags")
        if value is None and self["tags"] == LIST_LABEL and isinstance(tags, str | int):
            column, value = LIST_LABEL, tags
        if value is None or isinstance(value, list | dict):
            return
        names = self._labels or self._classes.get(column or "", ())
        if isinstance(value, int) and names:
            if not 0 <= value < len(names):
                raise ManifestError(f"{column}: {value} is none of {len(names)} classes")
            value = names[value]
        page.label = clean(as_text(value)) or None


def box_of(value: Any, column: str) -> Box:
    """A box of four numbers x0, y0, x1, y1, of eight (four corners), or of points.

    Raises:
        ManifestError: it is something else.
    """
    numbers = value
    if isinstance(value, list) and value and all(isinstance(point, list) and len(point) == 2 for point in value):
        numbers = [number for point in value for number in point]
    if not isinstance(numbers, list) or not all(_is_number(number) for number in numbers):
        raise ManifestError(f"{column}: a box is no list of numbers")
    if len(numbers) == 4:
        return (float(numbers[0]), float(numbers[1]), float(numbers[2]), float(numbers[3]))
    if len(numbers) == 8:
        return bounds([(float(x), float(y)) for x, y in zip(numbers[0::2], numbers[1::2], strict=True)])
    raise ManifestError(f"{column}: a box has {len(numbers)} numbers, and 4 or 8 are expected")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts_of(answers: Any) -> list[str]:
    """Accepted answers: one, a list, or {"text": [...]} as SQuAD has them.

    Raises:
        ManifestError: they are something else.
    """
    if isinstance(answers, dict):
        answers = answers.get("text", answers.get("answer"))
    if isinstance(answers, str | int | float):
        return [as_text(answers)]
    if isinstance(answers, list) and all(isinstance(answer, str | int | float) for answer in answers):
        return [as_text(answer) for answer in answers]
    raise ManifestError("answers: neither a text nor a list of texts")
