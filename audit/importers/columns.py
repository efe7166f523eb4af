"""Names in a source: columns by their meaning, labels of tags, and the category that a label speaks of."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from audit.corpus.documents import Box, Category, Task, Word
from audit.corpus.outputs import fields_of_output
from audit.corpus.tagging import BIO, OUTSIDE_NAMES, scheme_of
from audit.corpus.validation import label_problems
from audit.errors import ManifestError, UsageError
from audit.importers.faults import NAMES, shown_columns, shown_name, type_of
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
        names: of the columns.
        classes: by column, the names that its numbers stand for.
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
        self._names = [*names]
        self._by_owner = frozenset(named.values())
        known = {
            meaning: [named[meaning]] if meaning in named else one
            for meaning, one in NAMES["columns"].items()
        }
        self._of = {
            key: next((name for name in one if name in self._names), "")
            for key, one in known.items()
        }
        self._classes, self._labels = classes or {}, labels

    def __getitem__(self, meaning: str) -> str:
        """Return the column of this meaning; empty where there is none."""
        return self._of[meaning]

    @property
    def used(self) -> frozenset[str]:
        """The names of the columns that have a meaning."""
        return frozenset(filter(None, self._of.values()))

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the tags, in the order of their numbers, where the table or the owner gives them."""
        return tuple(self._labels or self._classes.get(self["tags"], ()))

    @property
    def talks(self) -> bool:
        """True where a row is a conversation, or a prompt with its completion."""
        asked = (
            self["question"]
            and self["answers"]
            and (self["text"] or self["words"] or self["image"])
        )
        return bool(self["turns"] or (self["prompt"] and self["completion"] and not asked))

    def refusal(self, place: str, wanted: str, *meanings: str, of: str = "columns") -> UsageError:
        """Return the error of a table that lacks what is wanted of it, with names of columns that formats have.

        A table without a head has values in the place of names, so that no other name is written.

        Args:
            place: of the table.
            wanted: what is not there.
            meanings: that columns may have, for an example.
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

    def fill(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add the words, fields, questions and outputs of a row to its page.

        Rows of a page bring a question each.

        Raises:
            ManifestError: a column holds something else than its name says.
        """
        text, output = self.value(row, "text"), self.value(row, "output")
        if not page.words and self.value(row, "words") is not None:
            self._add_words(page, row)
        elif not page.words and isinstance(text, str):
            spans = self.value(row, "spans")
            if (
                isinstance(spans, list)
                and spans
                and all(isinstance(one, list | dict) for one in spans)
            ):
                add_spans(page, text, spans)
            else:
                page.words = text_words(text)
        self._add_questions(page, row)
        column = self["label"] or (LIST_LABEL if self["tags"] == LIST_LABEL else "")
        if row.get(column) is not None and not isinstance(row[column], list | dict):
            page.label = clean(as_text(self._name(column, row[column]))) or None
        if output is not None and page.output is None and not page.questions:
            add_ground_truth(page, as_text(output))

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
        """Add words, their boxes, and the fields of their tags."""
        texts, boxes, tags = (self.value(row, meaning) for meaning in ("words", "boxes", "tags"))
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ManifestError(f"{self['words']}: not a list of words")
        for column, values in (
            (self["boxes"], boxes),
            (self["tags"], tags if isinstance(tags, list) else None),
        ):
            if values is not None and (not isinstance(values, list) or len(values) != len(texts)):
                number = len(values) if isinstance(values, list) else "no list"
                raise ManifestError(f"{column}: {number} for {len(texts)} words")
        placed = (
            [None] * len(texts)
            if boxes is None
            else [read_box(box, self["boxes"]) for box in boxes]
        )
        page.words = [Word(text, box) for text, box in zip(texts, placed, strict=True)]
        if isinstance(tags, list):
            named = [self._name(self["tags"], tag, needed=True) for tag in tags]
            page.fields = [
                Field(label, words, value=" ".join(texts[index] for index in words))
                for label, words in fields_of_tags(named)
            ]

    def _add_questions(self, page: Page, row: Mapping[str, Any]) -> None:
        """Add a question, also by language, or a list of them with a list of answers."""
        asked, answers, name = (
            self.value(row, meaning) for meaning in ("question", "answers", "question id")
        )
        if asked is None or answers is None:
            return
        if isinstance(asked, dict):
            asked = asked.get("en") or next((text for text in asked.values() if text), "")
        if not isinstance(asked, list):
            page.ask(as_text(asked), _read_answers(answers), None if name is None else str(name))
            return
        if not isinstance(answers, list) or len(answers) != len(asked):
            raise ManifestError(f"{self['answers']}: another number than of {self['question']}")
        for question, accepted in zip(asked, answers, strict=True):
            page.ask(as_text(question), _read_answers(accepted))


def read_columns(given: str) -> dict[str, str]:
    """Read the names of columns by meaning, as "prompt=source,completion=target".

    Raises:
        UsageError: it has another form, or there is no such meaning.
    """
    named = dict(meaning.partition("=")[::2] for meaning in given.split(",") if meaning)
    meanings = list(dict.fromkeys([*NAMES["columns"], *NAMES["table"]]))
    if not {*named} <= {*meanings} or not all(named.values()):
        raise UsageError(
            f"--columns {given}: not MEANING=NAME,...", f"meanings are {', '.join(meanings)}"
        )
    return named


def add_spans(page: Page, text: str, spans: Sequence[Any]) -> None:
    """Add the words of a text to its page, and the fields of spans of its characters: start, end and label.

    Raises:
        ManifestError: a span has another form, or is none of the text.
    """
    with form_of("a span of start, end and label"):
        found = [_read_span(one) for one in spans]
    words = page.mark(text, [(start, end) for start, end, _ in found])
    pairs = zip(found, words, strict=True)
    page.fields += (
        Field(label, inside, value=text[start:end])
        for (start, end, label), inside in pairs
        if inside
    )


def _read_span(span: Any) -> tuple[int, int, str]:
    if isinstance(span, dict):
        span = [
            next((span[key] for key in keys if key in span), None)
            for keys in NAMES["spans"].values()
        ]
    start, end, label = span[:3]
    if not isinstance(label, str) or not clean(label):
        raise TypeError
    return int(start), int(end), clean(label)


def read_box(value: Any, column: str) -> Box:
    """Read a box of four numbers x0, y0, x1, y1, of eight (four corners), or of points, as lists or as x and y.

    Raises:
        ManifestError: it is something else.
    """
    given: list[Any] = value if isinstance(value, list) and value else [None]
    points = [[one.get("x", 0), one.get("y", 0)] if isinstance(one, dict) else one for one in given]
    are_points = all(isinstance(one, list) and len(one) == 2 for one in points)
    if are_points:
        value = [number for point in points for number in point]
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise ManifestError(f"{column}: a box is no list of numbers")
    if are_points or len(value) == 8:
        return bounds([*zip(value[0::2], value[1::2], strict=True)])
    if len(value) != 4:
        raise ManifestError(f"{column}: a box has {len(value)} numbers, and 4 or 8 are expected")
    x0, y0, x1, y1 = map(float, value)
    return (x0, y0, x1, y1)


def _read_answers(answers: Any) -> list[str]:
    """Read accepted answers: one, a list, or {"text": [...]} as SQuAD has them.

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

    {"gt_parse": {...}} is an output, whose leaves are questions by their path (`menu[1].nm`);
    {"gt_parses": [{"question", "answer"}, ...]} questions with one or several accepted answers;
    {"gt_parse": {"class": ...}} a class.

    Args:
        page: of the ground truth.
        text: JSON; any other text is the output itself.

    Raises:
        ManifestError: a question is blank, or has no answer.
    """
    try:
        value = json.loads(text)
    except ValueError:
        add_output(page, text)
        return
    table = value if isinstance(value, dict) else {}
    parse = table.get("gt_parse", value)
    several = table.get("gt_parses")
    asked = several if isinstance(several, list) else [parse]
    asked = [one for one in asked if isinstance(one, dict) and "question" in one]
    if asked:
        answers: dict[str, list[str]] = {}
        for one in asked:
            answers.setdefault(as_text(one["question"]), []).extend(
                _read_answers(one.get("answer", []))
            )
        for question, accepted in answers.items():
            page.ask(question, accepted)
    elif isinstance(parse, dict) and [*parse] == ["class"]:
        page.label = clean(as_text(parse["class"]))
    else:
        add_output(page, json.dumps(parse, ensure_ascii=False))


def add_output(page: Page, output: str) -> None:
    """Make a text the page's output, and its fields questions, as `fields_of_output` names them."""
    page.output = output
    for field in fields_of_output(output):
        page.ask(field.question, field.answers, field.id)


# Labels


def category_of(label: str) -> Category:
    """Guess the category of fields with this label; "misc" where the label does not say."""
    tokens = {token.lower() for token in _TOKENS.findall(label)}
    found = (
        category for category, words in NAMES["categories"].items() if not tokens.isdisjoint(words)
    )
    return cast(Category, next(found, "misc"))


def plain_words(label: str) -> str:
    """Spell a label as words: "invoiceDate" and "INVOICE_DATE" are "invoice date"."""
    return " ".join(token.lower() for token in _TOKENS.findall(label)) or label


def fields_of_tags(tags: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Read label and word indices of every field from a tag for each word.

    BIO, BIOES and BILOU by their prefixes; tags without any are plain classes, of which neighbours
    are one field. A tag that goes on with no field of its label begins one.
    """
    prefixed = _are_prefixed(tags)
    named = [
        "O" if tag.lower() in OUTSIDE else f"I-{tag}" if prefixed and tag[1:2] != "-" else tag
        for tag in tags
    ]
    spans = replace(BIO, prefixed=prefixed).spans(named)
    return [
        (label, tuple(range(start, end)))
        for label, start, end in sorted(spans, key=lambda span: span[1])
    ]


def task_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Return tags as a manifest takes them, in the model's order; none where they are in no scheme.

    The model's own labels count then: also where a scheme has no tag for a field that is read from
    them.
    """
    tags = tuple(dict.fromkeys(names))
    if not tags or any(label_problems(Task("token-classification", tags))):
        return ()
    scheme = scheme_of(tags)
    return tags if all(map(scheme.knows, plain_labels(tags).values())) else ()


def plain_labels(names: Iterable[str]) -> dict[str, str]:
    """Map labels in lower case to those of a model's tags, without prefix.

    The outside class is left out.
    """
    tags = [name for name in names if name.lower() not in OUTSIDE]
    prefixed = _are_prefixed(tags)
    labels = [tag[2:] if prefixed and tag[1:2] == "-" else tag for tag in tags]
    return {label.lower(): label for label in labels}


def _are_prefixed(tags: Iterable[str]) -> bool:
    return any(tag[:2] in _PREFIXES for tag in tags)
