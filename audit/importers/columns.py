"""Names in a source: columns by their meaning, labels of tags, and the category of a label."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from audit.corpus.documents import Box, Category, Task, Word
from audit.corpus.outputs import fields_of_output
from audit.corpus.tagging import BIO, OUTSIDE_NAMES, scheme_of
from audit.corpus.validation import label_problems
from audit.errors import ManifestError, UsageError
from audit.importers.faults import NAMES, shown_column, shown_columns, shown_name, type_of
from audit.importers.files import TEXTS, as_text, form_of
from audit.importers.pages import Field, Page, bounds, clean, text_words

OUTSIDE = frozenset({*OUTSIDE_NAMES, ""})
"""Names of the class of words in no field, in lower case."""
LIST_LABEL = "labels"
"""A column that is the tags of words where it holds a list, and the page's class where it does
not."""
_PREFIXES = ("B-", "S-", "U-", "I-", "E-", "L-", "M-")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Columns:
    """The meanings of a table's columns.

    Args:
        names: names of the columns.
        classes: names by column that its numbers stand for.
        labels: names that the owner gives for numbers, in place of `classes`.
        named: columns that the owner gives, by meaning.
    """

    def __init__(
        self,
        names: Iterable[str],
        classes: Mapping[str, Sequence[str]] | None = None,
        labels: Sequence[str] = (),
        named: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Match each meaning with the column that the owner names, else with a usual name."""
        self._names = [*names]
        self._by_owner = frozenset(named.values())
        self._of: dict[str, str] = {}
        for meaning, usual_names in NAMES["columns"].items():
            candidates = [named[meaning]] if meaning in named else usual_names
            column = next((name for name in candidates if name in self._names), "")
            self._of[meaning] = column
        self._classes = classes or {}
        self._labels = labels

    def __getitem__(self, meaning: str) -> str:
        """Return the name of the column of this meaning; empty where the table has none."""
        return self._of[meaning]

    def shown(self, column: str) -> str:
        """Return the name of a column for a message: its number unless formats or owner have it."""
        return shown_column(column, self._names.index(column) + 1, self._by_owner)

    @property
    def names(self) -> Sequence[str]:
        """Return the names of all columns, in their order."""
        return self._names

    def writing(self, column: str) -> Columns:
        """Return these meanings, but for one column, which now holds what the model writes."""
        changed = copy.copy(self)
        changed._of = {}
        for meaning, name in self._of.items():
            changed._of[meaning] = "" if name == column else name
        changed._of["output"] = column
        return changed

    @property
    def used(self) -> frozenset[str]:
        """Return the names of the columns that have a meaning for the import."""
        return frozenset(filter(None, self._of.values()))

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the names of tags in the order of their numbers, by the table or the owner."""
        return tuple(self._labels or self._classes.get(self["tags"], ()))

    @property
    def talks(self) -> bool:
        """Test whether a row is a conversation, or a prompt with its completion."""
        if self["turns"]:
            return True
        if self.asks and "history" in self._names:
            return True
        if not (self["prompt"] and self["completion"]):
            return False
        has_page = self["text"] or self["words"] or self["image"]
        return not (self.asks and has_page)

    @property
    def tags_words(self) -> bool:
        """Test whether a row holds words with their tags."""
        return bool(self["words"] and self["tags"])

    @property
    def asks(self) -> bool:
        """Test whether a row holds a question with its answer."""
        return bool(self["question"] and self["answers"])

    def refusal(self, place: str, wanted: str, *meanings: str, of: str = "columns") -> UsageError:
        """Return the error of a table that lacks what is wanted of it.

        It has the names of columns that formats have. A table without a head has values in the
        place of names, so that no other name is written.

        Args:
            place: place of the table.
            wanted: what is not there.
            meanings: meanings that columns may have, for an example.
            of: the table of `names.toml` that has all of them.
        """
        example = ",".join(f"{meaning}=COLUMN" for meaning in meanings or ("prompt", "completion"))
        hint = f"say what they mean, as in --columns {example} (meanings: {', '.join(NAMES[of])})"
        return UsageError(
            f"{place}: {wanted}; its columns are {shown_columns(self._names, self._by_owner)}", hint
        )

    def value(self, row: Mapping[str, Any], meaning: str) -> Any:
        """Return the value of a row in the column of this meaning; None where there is none."""
        return row.get(self[meaning]) if self[meaning] else None

    def name_of(self, row: Mapping[str, Any]) -> str:
        """Return the id of a row; empty where it has none."""
        name = self.value(row, "name")
        return clean(str(name)) if isinstance(name, str | int) else ""

    def fill(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add the words, fields, questions and output of a row to its page.

        Rows of a page bring a question each.

        Raises:
            ManifestError: a column holds something else than its name says.
        """
        text = self.value(row, "text")
        if not page.words and self.value(row, "words") is not None:
            self._add_words(page, row)
        elif not page.words and isinstance(text, str):
            _add_text(page, text, self.value(row, "spans"))
        self._add_questions(page, row)
        self._add_label(page, row)
        output = self.value(row, "output")
        if output is None or page.output is not None or page.questions:
            return
        text = as_text(output)
        if text.strip():
            add_ground_truth(page, text)

    def _add_label(self, page: Page, row: Mapping[str, Any]) -> None:
        """Set the page's class to that of the row, where the row has one."""
        column = self["label"] or (LIST_LABEL if self["tags"] == LIST_LABEL else "")
        label = row.get(column)
        if label is not None and not isinstance(label, list | dict):
            page.label = clean(as_text(self._name(column, label))) or None

    def _name(self, column: str, value: Any, *, needed: bool = False) -> Any:
        """Return the name that a number of a column stands for.

        Other values as they are, unless it is needed.
        """
        names = self._labels or self._classes.get(column, ())
        if isinstance(value, str) or not (names or needed):
            return value
        if not isinstance(value, int) or not 0 <= value < len(names):
            column = shown_name(column, self._by_owner)
            raise ManifestError(
                TEXTS["unnamed"].format(column=column, type=type_of(value), n=len(names))
            )
        return names[value]

    def _add_words(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add the words of a row to its page, with their boxes and the fields of their tags."""
        texts = self.value(row, "words")
        boxes = self.value(row, "boxes")
        tags = self.value(row, "tags")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ManifestError(f"{self['words']}: not a list of words")
        _check_length(boxes, texts, self["boxes"])
        if boxes is None:
            page.words = [Word(text) for text in texts]
        else:
            word_boxes = [read_box(box, self["boxes"]) for box in boxes]
            page.words = [Word(text, box) for text, box in zip(texts, word_boxes, strict=True)]
        if _are_word_spans(tags, self["tags"]):
            page.fields = _fields_of_word_spans(texts, tags)
        elif isinstance(tags, list):  # else a class
            _check_length(tags, texts, self["tags"])
            page.fields = self._fields_of_tags(texts, tags)

    def _fields_of_tags(self, texts: Sequence[str], tags: Sequence[Any]) -> list[Field]:
        """Return the fields that the tags of words, or their numbers, mark."""
        names = [self._name(self["tags"], tag, needed=True) for tag in tags]
        fields: list[Field] = []
        for label, indices in fields_of_tags(names):
            value = " ".join(texts[index] for index in indices)
            fields.append(Field(label, indices, value=value))
        return fields

    def _add_questions(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add the questions of a row to its page: one, one by language, or a list of them."""
        questions = self.value(row, "question")
        answers = self.value(row, "answers")
        if questions is None or answers is None:
            return
        if isinstance(questions, dict):
            questions = _text_of_languages(questions)
        if not isinstance(questions, list):
            name = self.value(row, "question id")
            identifier = None if name is None else str(name)
            page.ask(as_text(questions), _read_answers(answers), identifier)
            return
        if not isinstance(answers, list) or len(answers) != len(questions):
            raise ManifestError(f"{self['answers']}: another number than of {self['question']}")
        for question, accepted in zip(questions, answers, strict=True):
            page.ask(as_text(question), _read_answers(accepted))


def _are_word_spans(tags: Any, column: str) -> bool:
    """Test whether tags are spans of words, as in GLiNER's column, which may be empty."""
    if not isinstance(tags, list):
        return False
    if not tags:
        return column == "ner"
    return all(isinstance(tag, list) and len(tag) == 3 for tag in tags)


def _fields_of_word_spans(texts: Sequence[str], spans: Sequence[Any]) -> list[Field]:
    """Return the fields of spans of words, as GLiNER has them: the last word is in the span.

    Raises:
        ManifestError: a span has another form, or is none of the words.
    """
    fields: list[Field] = []
    with form_of("spans of words: first, last and label"):
        for span in map(_read_span, spans):
            if not 0 <= span.start <= span.end < len(texts):
                raise ManifestError(f"a span is not within {len(texts)} words")
            indices = tuple(range(span.start, span.end + 1))
            value = " ".join(texts[index] for index in indices)
            fields.append(Field(span.label, indices, value=value))
    return fields


def _check_length(values: Any, texts: Sequence[str], column: str) -> None:
    """Refuse values of a column unless they are a list with one for each word; None passes.

    Raises:
        ManifestError: they are none.
    """
    if values is None:
        return
    if not isinstance(values, list):
        raise ManifestError(f"{column}: no list for {len(texts)} words")
    if len(values) != len(texts):
        raise ManifestError(f"{column}: {len(values)} for {len(texts)} words")


def _text_of_languages(texts: Mapping[str, Any]) -> Any:
    """Return the English text of a table by language, else the first text in it."""
    return texts.get("en") or next((text for text in texts.values() if text), "")


def _add_text(page: Page, text: str, spans: Any) -> None:
    """Add the words of a text to its page, and the fields of its spans, where it lists any."""
    has_spans = isinstance(spans, list) and len(spans) > 0
    if has_spans and all(isinstance(span, list | dict) for span in spans):
        add_spans(page, text, spans)
    else:
        page.words = text_words(text)


def read_columns(option: str) -> dict[str, str]:
    """Read the names of columns by meaning, as "prompt=source,completion=target".

    Raises:
        UsageError: it has another form, or there is no such meaning.
    """
    columns = dict(meaning.partition("=")[::2] for meaning in option.split(",") if meaning)
    meanings = list(dict.fromkeys([*NAMES["columns"], *NAMES["table"]]))
    if not {*columns} <= {*meanings} or not all(columns.values()):
        raise UsageError(
            f"--columns {option}: not MEANING=NAME,...", f"meanings are {', '.join(meanings)}"
        )
    return columns


def add_spans(page: Page, text: str, spans: Sequence[Any]) -> None:
    """Add the words of a text to its page, and the fields of spans of its characters.

    A span has start, end and label.

    Raises:
        ManifestError: a span has another form, or is none of the text.
    """
    with form_of("a span of start, end and label"):
        labelled = [_read_span(span) for span in spans]
    words = page.mark(text, [(span.start, span.end) for span in labelled])
    for span, indices in zip(labelled, words, strict=True):
        if indices:
            page.fields.append(Field(span.label, indices, value=text[span.start : span.end]))


class _LabelledSpan(NamedTuple):
    """Characters of a text from `start`, up to `end`, which are a field with this label."""

    start: int
    end: int
    label: str


def _read_span(span: Any) -> _LabelledSpan:
    """Return start, end and label of a list or table; `TypeError` or `ValueError` without."""
    values = span
    if isinstance(span, dict):
        values = []
        for keys in NAMES["spans"].values():
            values.append(next((span[key] for key in keys if key in span), None))
    start, end, label = values[:3]
    if not isinstance(label, str) or not clean(label):
        raise TypeError
    return _LabelledSpan(int(start), int(end), clean(label))


def read_box(value: Any, column: str) -> Box:
    """Return a box read from numbers or points of a column; refuse other forms.

    It has four numbers x0, y0, x1, y1, or eight (four corners), or points, as lists or as x and y.

    Raises:
        ManifestError: it is something else.
    """
    points = _points_of(value)
    numbers = value if points is None else list(chain.from_iterable(points))
    if not isinstance(numbers, list) or not all(type(number) in (int, float) for number in numbers):
        raise ManifestError(f"{column}: a box is no list of numbers")
    if points is not None or len(numbers) == 8:
        return bounds([*zip(numbers[0::2], numbers[1::2], strict=True)])
    if len(numbers) != 4:
        raise ManifestError(f"{column}: a box has {len(numbers)} numbers, and 4 or 8 are expected")
    x0, y0, x1, y1 = map(float, numbers)
    return (x0, y0, x1, y1)


def _points_of(value: Any) -> list[list[Any]] | None:
    """Return the points of a box that lists pairs, or tables of x and y; else None."""
    if not isinstance(value, list) or not value:
        return None
    points: list[list[Any]] = []
    for point in value:
        pair = [point.get("x", 0), point.get("y", 0)] if isinstance(point, dict) else point
        if not isinstance(pair, list) or len(pair) != 2:
            return None
        points.append(pair)
    return points


def _read_answers(answers: Any) -> list[str]:
    """Return the accepted answers: one, a list, or {"text": [...]} as SQuAD has them.

    Raises:
        ManifestError: they are something else.
    """
    if isinstance(answers, dict):
        answers = answers.get("text", answers.get("answer"))
    accepted = answers if isinstance(answers, list) else [answers]
    if all(isinstance(answer, str | int | float) for answer in accepted):
        return [as_text(answer) for answer in accepted]
    raise ManifestError("answers: neither a text nor a list of texts")


def add_ground_truth(page: Page, text: str) -> None:
    """Add to a page the classes, questions or output of a Donut `ground_truth` text.

    {"gt_parse": {...}} is an output, whose leaves are questions by their path (`menu[1].nm`);
    {"gt_parses": [{"question", "answer"}, ...]} questions with one or several accepted answers;
    {"gt_parse": {"class": ...}} a class.

    Args:
        page: page of the ground truth.
        text: JSON; any other text is the output itself.

    Raises:
        ManifestError: a question is blank, or has no answer.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not isinstance(value, dict | list):
        add_output(page, text)
        return
    table = value if isinstance(value, dict) else {}
    parse = table.get("gt_parse", value)
    questions = _questions_in(table.get("gt_parses"), parse)
    if questions:
        answers: dict[str, list[str]] = {}
        for question in questions:
            accepted = answers.setdefault(as_text(question["question"]), [])
            accepted += _read_answers(question.get("answer", []))
        for text, accepted in answers.items():
            page.ask(text, accepted)
    elif isinstance(parse, dict) and [*parse] == ["class"]:
        page.label = clean(as_text(parse["class"]))
    else:
        add_output(page, json.dumps(parse, ensure_ascii=False))


def _questions_in(several: Any, parse: Any) -> list[dict[str, Any]]:
    """Return the entries of a ground truth that have a question, of several or of the only one."""
    entries = several if isinstance(several, list) else [parse]
    return [entry for entry in entries if isinstance(entry, dict) and "question" in entry]


def add_output(page: Page, output: str) -> None:
    """Make a text the page's output, and its fields questions, as `fields_of_output` names them."""
    page.output = output
    for field in fields_of_output(output):
        page.ask(field.question, field.answers, field.id)


# Labels


def category_of(label: str) -> Category:
    """Guess the category of fields with this label; "misc" where the label does not say."""
    tokens = {token.lower() for token in _TOKENS.findall(label)}
    for category, words in NAMES["categories"].items():
        if not tokens.isdisjoint(words):
            return cast(Category, category)
    return "misc"


def plain_words(label: str) -> str:
    """Spell a label as words: "invoiceDate" and "INVOICE_DATE" are "invoice date"."""
    return " ".join(token.lower() for token in _TOKENS.findall(label)) or label


def fields_of_tags(tags: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Read label and word indices of every field from a tag for each word.

    BIO, BIOES and BILOU by their prefixes; tags without any are plain classes, of which neighbours
    are one field. A tag that goes on with no field of its label begins one.
    """
    prefixed = _are_prefixed(tags)
    bio_tags = [_as_bio(tag, prefixed=prefixed) for tag in tags]
    spans = replace(BIO, prefixed=prefixed).spans(bio_tags)
    return [
        (label, tuple(range(start, end)))
        for label, start, end in sorted(spans, key=lambda span: span[1])
    ]


def _as_bio(tag: str, *, prefixed: bool) -> str:
    """Return a tag of any scheme as BIO: "O" outside, and with a prefix if `prefixed`."""
    if tag.lower() in OUTSIDE:
        return "O"
    if prefixed and tag[1:2] != "-":
        return f"I-{tag}"
    return tag


def task_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Return tags for a manifest, in the model's order; none where they follow no scheme.

    The model's own labels count then: also where a scheme has no tag for a field that is read from
    them.
    """
    tags = tuple(dict.fromkeys(names))
    if not tags or any(label_problems(Task("token-classification", tags))):
        return ()
    scheme = scheme_of(tags)
    return tags if all(map(scheme.knows, plain_labels(tags).values())) else ()


def plain_labels(names: Iterable[str]) -> dict[str, str]:
    """Map labels in lower case to labels as the model's tags spell them, without prefix.

    The outside class is left out.
    """
    tags = [name for name in names if name.lower() not in OUTSIDE]
    prefixed = _are_prefixed(tags)
    labels = [tag[2:] if prefixed and tag[1:2] == "-" else tag for tag in tags]
    return {label.lower(): label for label in labels}


def _are_prefixed(tags: Iterable[str]) -> bool:
    """Test whether any tag has a prefix (B-, I-, ...) of BIO, BIOES or BILOU."""
    return any(tag[:2] in _PREFIXES for tag in tags)
