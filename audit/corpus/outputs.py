"""Outputs of parsing models: JSON or markup, and the fields in it, each with its place in the text.

A field is named by its path: `total.price`, `menu[1].nm`. `[0]` may be left out, as Donut writes a
list of one like its only item (Kim et al. 2022, section 3.1). A plain text, as models that
transcribe write it, is one field: `text`.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from audit.corpus.documents import Document, Question
from audit.corpus.problems import TEXTS

_STRINGS = json.JSONDecoder()
_LITERAL = re.compile(r"[^\s,\]}]+")
_BEGINS_OBJECT = re.compile(r'\s*(?:```|\[?\s*\{\s*")')
"""How JSON of objects begins, or a fence of Markdown around it."""
_TAG = re.compile(
    r"<(?P<close>/?)(?:s_(?P<field>[^<>]+)|(?P<name>[A-Za-z][^<>\s/]*+)[^<>]*?)(?P<void>/?)>"
)
_NO_VALUES = ("null", "true", "false")
_SEPARATOR = "sep"
LONGEST_PATH = 2_000
"""Letters of the path of a field, which holds the names of all fields around it."""
MOST_LETTERS = 5_000_000
"""Letters of all paths of an output: its fields behind them are not read."""
DEEPEST = 100
"""Elements around a field of markup."""
WHOLE = "text"
"""The path of an output that is neither JSON nor in Donut's marks, as a whole."""


@dataclass(frozen=True)
class OutputField:
    """A value in an output.

    Attributes:
        path: its name, without `[0]`.
        value: what it says, white space run together.
        begin, end: its place in the text, quotes and marks left out.
        quoted: True for a text of JSON, which is escaped there.
    """

    path: str
    value: str
    begin: int
    end: int
    quoted: bool = False


class _Fields(list[OutputField]):
    """Fields as they are noted.

    A path that is repeated a million times is an attack, and ends the reading.
    """

    def __init__(self) -> None:
        """Start with no field, and no letters of their paths."""
        super().__init__()
        self._letters = 0

    def note(self, field: OutputField) -> None:
        """Append a field that was found, within the limits on paths.

        Raises:
            ValueError: its path is too long, or all paths together are.
        """
        check_path(field.path)
        self._letters += len(field.path)
        if self._letters > MOST_LETTERS:
            raise ValueError("the names of the fields are too long together")
        self.append(field)


def check_path(path: str) -> str:
    """Return the path of a field unchanged, or refuse one that is too long.

    Raises:
        ValueError: it is longer than any name.
    """
    if len(path) > LONGEST_PATH:
        raise ValueError("the name of a field is too long")
    return path


def fields_of_output(output: str) -> tuple[Question, ...]:
    """Return the fields of an output as questions.

    The output is JSON, or text in Donut's marks (`<s_total>9.00</s_total>`). Question and id are
    the field's path, the answer its value; empty values, `null` and truth values are left out. Any
    other output is one field, `WHOLE`.
    """
    fields: list[OutputField] = []
    if _is_json(output):
        fields = _json_fields(output)
    elif _is_marked(output):
        fields = _marked_fields(output)
    elif _is_plain(output):
        fields = [*_whole_text(output)]
    values = {place.path: place.value for place in reversed(fields) if place.path and place.value}
    return tuple(Question(path, path, (value,)) for path, value in reversed(values.items()))


def output_problems(document: Document) -> Iterator[str]:
    """List the problems of a document for parsing.

    A question names a field of the output that a model is taught.
    """
    if document.output is None:
        if document.questions:
            yield (
                "output: missing, and task.kind is parsing: "
                "give the text that the model is to write for the page"
            )
        return
    if not document.questions and not _has_form(document.output):
        yield TEXTS["no_output_field"]
    for number, question in enumerate(document.questions):
        if find_field(document.output, question.question) is None:
            yield f"questions[{number}].question: the output has no field of this name"


def find_field(output: str, path: str) -> OutputField | None:
    """Find the field of this path in an output, whole or broken off; None when there is none.

    In JSON and markup by its path, or the end of its path; the whole of any other text by `WHOLE`;
    else the rest of a line, or of a table's cell, behind its name.
    """
    sought = _without_first_indices(path)
    places = _all_fields(output)
    for place in places:
        if place.path == sought:
            return place
    if sought == WHOLE and _is_plain(output):
        return next(_whole_text(output), None)
    for place in places:
        if place.path.endswith(f".{sought}"):
            return place
    if _looks_like_json(output):
        return None
    return _find_beside_name(output, path)


def with_value(output: str, place: OutputField, value: str) -> tuple[str, int, int]:
    """Return the output with another value in one of its fields, and where the value stands.

    Its own value stays as it is written.

    Args:
        output: the text.
        place: one of its fields.
        value: value as text; escaped here where the output is JSON.
    """
    if " ".join(value.split()) == place.value:
        return output, place.begin, place.end
    written = json.dumps(value, ensure_ascii=output.isascii())[1:-1] if place.quoted else value
    return (
        output[: place.begin] + written + output[place.end :],
        place.begin,
        place.begin + len(written),
    )


def without_copies(output: str, place: OutputField) -> str:
    """Return the output with the same value removed from all fields before this one."""
    for copy in reversed(_all_fields(output)):
        if copy.end <= place.begin and copy.value == place.value:
            output = output[: copy.begin] + output[copy.end :]
    return output


def as_marks(output: str) -> str:
    """Write JSON in Donut's marks, keys in their order (Donut's `json2token`).

    Any other text as it is.
    """
    return _write_marks(json.loads(output)) if _is_json(output) else output


def keys_of(output: str) -> frozenset[str]:
    """Return the names of the keys of an output in JSON; none of any other."""
    return frozenset(_keys(json.loads(output))) if _is_json(output) else frozenset()


def _keys(value: Any) -> Iterator[str]:
    """Yield the keys of all objects within a JSON value, the innermost first."""
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _keys(inner)
    if isinstance(value, dict):
        yield from map(str, value)


def _write_marks(value: Any) -> str:
    """Write a JSON value as Donut's marks, `<s_key>...</s_key>` with `<sep/>` in lists."""
    if isinstance(value, dict):
        return "".join(f"<s_{key}>{_write_marks(inner)}</s_{key}>" for key, inner in value.items())
    if isinstance(value, list):
        return "<sep/>".join(map(_write_marks, value))
    return str(value)


def _is_json(output: str) -> bool:
    """Test whether an output is a whole JSON object or list."""
    try:
        return isinstance(json.loads(output), dict | list)
    except (ValueError, RecursionError):
        return False


def _is_marked(output: str) -> bool:
    """Test whether an output has marks of Donut's."""
    return "<s_" in output


def _is_plain(output: str) -> bool:
    """Test whether an output is a text without fields: no JSON, also broken off, and no marks."""
    if _is_json(output) or _is_marked(output):
        return False
    return _BEGINS_OBJECT.match(output) is None


def _has_form(output: str) -> bool:
    """Test whether fields can be read from an output: JSON, marks, or a text that is not blank."""
    if _is_plain(output):
        return bool(output.strip())
    return _is_json(output) or _is_marked(output)


def _whole_text(output: str) -> Iterator[OutputField]:
    """Yield a text as a field, without the white space around it; nothing where it is blank."""
    value = output.strip()
    if value:
        begin = output.index(value)
        yield OutputField(WHOLE, " ".join(value.split()), begin, begin + len(value))


def _without_first_indices(path: str) -> str:
    """Return a path of a field without the index of first items, and without outer dots."""
    return path.replace("[0]", "").strip(".")


def _all_fields(output: str) -> list[OutputField]:
    """Find the fields of an output, as JSON where it begins like JSON, else as markup."""
    return _json_fields(output) if _looks_like_json(output) else _marked_fields(output)


def _looks_like_json(output: str) -> bool:
    """Test whether an output begins like a JSON object or list, or a fence of markdown."""
    return output.lstrip().startswith(("{", "[", "```"))


def _json_fields(text: str) -> list[OutputField]:
    """Find the fields of JSON that may stand in a fence of markdown, or be broken off.

    Those that are whole are given.
    """
    fields = _Fields()
    begin = re.search(r"[{\[]", text)
    if begin is not None:
        with suppress(ValueError, IndexError, RecursionError):
            _read_value(text, begin.start(), "", fields)
    return fields


def _read_value(text: str, at: int, path: str, found: _Fields) -> int:
    """Collect the fields of the value that begins at `at`, and return the place behind it."""
    if text[at] in "{[":
        return _read_container(text, at, path, found)
    if text[at] == '"':
        value, end = _STRINGS.raw_decode(text, at)
        found.note(
            OutputField(
                _without_first_indices(path), " ".join(value.split()), at + 1, end - 1, quoted=True
            )
        )
        return end
    literal = _LITERAL.match(text, at)
    if literal is None:
        raise ValueError
    if literal.group() not in _NO_VALUES:
        found.note(OutputField(_without_first_indices(path), literal.group(), at, literal.end()))
    return literal.end()


def _read_container(text: str, at: int, path: str, found: _Fields) -> int:
    """Collect the fields of the object or list at `at`, and return the place behind it."""
    is_object = text[at] == "{"
    number = 0
    at = _behind_space(text, at + 1)
    while text[at] not in "}]":
        inner = f"{path}[{number}]"
        if is_object:
            if text[at] != '"':
                raise ValueError
            key, at = _STRINGS.raw_decode(text, at)
            at = _behind_space(text, at)
            if text[at] != ":":
                raise ValueError
            at = _behind_space(text, at + 1)
            inner = check_path(f"{path}.{key}")
        at = _behind_space(text, _read_value(text, at, inner, found))
        at = _behind_space(text, at + 1) if text[at] == "," else at
        number += 1
    return at + 1


def _behind_space(text: str, at: int) -> int:
    """Return the first place from `at` on that is not white space."""
    while text[at].isspace():
        at += 1
    return at


@dataclass
class _Open:
    """An element that is still open, and what was seen in it since its last separator."""

    name: str
    path: str
    item: int = 0
    begin: int = 0
    bare: bool = True
    names: Counter[str] = field(default_factory=Counter)

    @property
    def here(self) -> str:
        """Return the path of the item that is being read."""
        return f"{self.path}[{self.item}]" if self.item else self.path

    def begin_item(self, begin: int) -> None:
        """Move on to the element's next item, whose text begins at `begin`."""
        self.item += 1
        self.begin = begin
        self.bare = True
        self.names = Counter()


def _marked_fields(text: str) -> list[OutputField]:
    """Find the innermost elements of markup.

    Marks that are never closed, such as places, are passed over.
    """
    closed = {_name_of(tag) for tag in _TAG.finditer(text) if tag["close"]}
    fields = _Fields()
    with suppress(ValueError):
        _read_elements(text, closed, fields)
    return fields


def _read_elements(text: str, closed: Collection[str], found: _Fields) -> None:
    """Collect the innermost elements of markup as fields.

    Raises:
        ValueError: elements are nested too deeply, or their names are too long.
    """
    stack = [_Open("", "", bare=False)]
    for tag in _TAG.finditer(text):
        top = stack[-1]
        name = _name_of(tag)
        if tag["void"] and name == _SEPARATOR:
            _add_field(text, top, tag.start(), found)
            top.begin_item(tag.end())
        elif tag["void"] or (tag["field"] is None and name not in closed):
            if not text[top.begin : tag.start()].strip():
                top.begin = tag.end()
        elif tag["close"]:
            _close_element(text, stack, name, tag.start(), found)
        else:
            if len(stack) > DEEPEST:
                raise ValueError("elements are nested too deeply")
            stack.append(_open_within(top, name, tag.end()))


def _open_within(element: _Open, name: str, begin: int) -> _Open:
    """Open an element of this name within another; its path counts those of one name.

    Raises:
        ValueError: the names are too long.
    """
    element.bare = False
    number = element.names[name]
    element.names[name] += 1
    path = f"{element.here}.{name}"
    if number:
        path += f"[{number}]"
    return _Open(name, check_path(path), begin=begin)


def _name_of(tag: re.Match[str]) -> str:
    """Return the name of the element that a matched tag begins or ends."""
    return str(tag["field"] or tag["name"])


def _close_element(text: str, stack: list[_Open], name: str, at: int, found: _Fields) -> None:
    """End the open element of this name, and those within it; ignore a name that is not open."""
    if not any(element.name == name for element in stack[1:]):
        return
    while (top := stack.pop()).name != name:
        pass
    _add_field(text, top, at, found)


def _add_field(text: str, element: _Open, end: int, found: _Fields) -> None:
    """Collect the text of an ended element as a field, where it holds no other element."""
    inside = text[element.begin : end]
    if element.bare and inside.strip():
        begin = element.begin + len(inside) - len(inside.lstrip())
        end = begin + len(inside.strip())
        found.note(
            OutputField(_without_first_indices(element.here), " ".join(inside.split()), begin, end)
        )


def _find_beside_name(output: str, name: str) -> OutputField | None:
    """Find the rest of the line, or of the table's cell, behind a name and a colon or a bar."""
    pattern = rf"(?<!\w){re.escape(name)}[*_`\"']*[ \t]*[:|=][ \t:|=*_`\"']*(?P<value>[^\n|<]+)"
    match = re.search(pattern, output, re.IGNORECASE)
    if match is None or not match["value"].strip():
        return None
    value = match["value"].rstrip(" \t*_`\"'")
    return OutputField(
        name, " ".join(value.split()), match.start("value"), match.start("value") + len(value)
    )
