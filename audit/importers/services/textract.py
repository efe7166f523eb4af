"""Pages of the responses of Amazon Textract: of documents, expenses and identity cards."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.pages import Field, Page, clean, line_words
from audit.importers.services.spelling import member, optional

_ROW = "EXPENSE_ROW"
"""The type of a field that repeats all fields of its row."""
_OF_FIELDS = "pages whose words are those of fields alone"
"""Count of pages for the report."""
_PARTS = ("ExpenseDocuments", "IdentityDocuments")
"""Keys of the documents in a response, each with blocks of its own."""


def textract_pages(value: Any) -> Iterator[Page]:
    """Yield the pages of a response, or of a list of them.

    A key-value set is two fields, "key" and "value", and a query a question. Fields of expenses and
    identity cards have the label of their type.

    Raises:
        ManifestError: it is about a job that has no result.
    """
    reader = _TextractReader()
    for response in value if isinstance(value, list) else [value]:
        reader.add(response)
    yield from reader.pages()


class _TextractReader:
    """Collects the blocks and fields of responses by page."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._blocks: dict[str, Mapping[str, Any]] = {}
        self._fields = defaultdict[int, list[Mapping[str, Any]]](list)

    def add(self, response: Mapping[str, Any]) -> None:
        """Add the blocks and fields of a response."""
        self._add_blocks(response)
        for key in _PARTS:
            for document in optional(response, key, ()):
                self._add_blocks(document)
                self._add_fields(document)
        self._add_fields(response)

    def pages(self) -> Iterator[Page]:
        """Yield the pages, by number."""
        on_pages = defaultdict[int, dict[str, Mapping[str, Any]]](dict)
        for name, block in self._blocks.items():
            on_pages[optional(block, "Page", 1)][name] = block
        for number in sorted({*on_pages, *self._fields}):
            page = _TextractPage(self._blocks, on_pages[number]).read()
            if not page.words:
                page.words = list(_words_of_fields(self._fields[number]))
                page.notes[_OF_FIELDS] += bool(page.words)
            for field in self._fields[number]:
                _add_typed_field(page, field)
            yield page

    def _add_blocks(self, document: Mapping[str, Any]) -> None:
        """Add the blocks of a response, or of a document in it."""
        for block in optional(document, "Blocks", ()):
            self._blocks[member(block, "Id")] = block

    def _add_fields(self, document: Mapping[str, Any]) -> None:
        """Add the fields of a document: its summary, its line items, those of an identity card."""
        fields = [
            *optional(document, "SummaryFields", ()),
            *optional(document, "IdentityDocumentFields", ()),
        ]
        for group in optional(document, "LineItemGroups", ()):
            for item in optional(group, "LineItems", ()):
                fields += optional(item, "LineItemExpenseFields", ())
        blocks = optional(document, "Blocks", ())
        usual_page = optional(blocks[0], "Page", 1) if blocks else 1
        for field in fields:
            self._fields[optional(field, "PageNumber", usual_page)].append(field)


def _words_of_fields(fields: Iterable[Mapping[str, Any]]) -> Iterator[Word]:
    """Yield the words of labels and values with a place, for a response without blocks."""
    lines = dict[tuple[str, Box], None]()
    for field in fields:
        if _type_of(field) != _ROW:
            for key in ("LabelDetection", "ValueDetection"):
                detection = optional(field, key, {})
                if optional(detection, "Geometry") is not None:
                    lines[clean(optional(detection, "Text", "")), _box_of(detection)] = None
    for text, box in lines:
        yield from line_words(text, box)


def _add_typed_field(page: Page, field: Mapping[str, Any]) -> None:
    """Add a field of an expense or identity card, but for blank ones and whole rows."""
    label = _type_of(field)
    value = optional(field, "ValueDetection", {})
    text = clean(optional(value, "Text", ""))
    if text and label != _ROW:
        has_place = optional(value, "Geometry") is not None
        page.fields.append(Field(label, box=_box_of(value) if has_place else None, value=text))


def _type_of(field: Mapping[str, Any]) -> str:
    """Return the label of a field of an expense or identity card."""
    return str(member(member(field, "Type"), "Text"))


def _box_of(block: Mapping[str, Any]) -> Box:
    """Return the box of a block or detection, as shares of the page."""
    box = member(member(block, "Geometry"), "BoundingBox")
    left, top, width, height = (
        float(member(box, key)) for key in ("Left", "Top", "Width", "Height")
    )
    return (left, top, left + width, top + height)


class _TextractPage:
    """A page of Textract's, whose relations are followed once each.

    Args:
        blocks: blocks of the responses, by id.
        on_page: blocks of the page.
    """

    def __init__(
        self, blocks: Mapping[str, Mapping[str, Any]], on_page: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Number the words of a page; `blocks` are those of all pages, by id."""
        self._blocks = blocks
        self._on_page = on_page
        words = [name for name, block in on_page.items() if _kind_of(block) == "WORD"]
        self._numbers = {name: number for number, name in enumerate(words)}
        self._fields: dict[str, tuple[tuple[int, ...], str]] = {}

    def read(self) -> Page:
        """Return the page with its words, fields and questions."""
        page = Page("", unit="shares")
        for name in self._numbers:
            block = self._on_page[name]
            page.words.append(Word(optional(block, "Text", ""), _box_of(block)))
        for name, block in self._on_page.items():
            kind = _kind_of(block)
            if kind == "KEY_VALUE_SET" and "KEY" in optional(block, "EntityTypes", ()):
                self._add_pair(page, name)
            elif kind == "QUERY":
                self._add_question(page, name)
        return page

    def _related(self, name: str, kind: str) -> Iterator[str]:
        """Yield the ids of the blocks that a block names, each once."""
        names = dict[str, None]()
        for relation in optional(self._blocks[name], "Relationships", ()):
            if member(relation, "Type") == kind:
                names.update(dict.fromkeys(member(relation, "Ids")))
        if not names.keys() <= self._blocks.keys():
            raise ManifestError("a relation names a block that is not there")
        yield from names

    def _field(self, name: str) -> tuple[tuple[int, ...], str]:
        """Return the word indices of a block, and its text."""
        if name not in self._fields:
            words = [word for word in self._related(name, "CHILD") if word in self._numbers]
            numbers = tuple(self._numbers[word] for word in words)
            self._fields[name] = (numbers, self._text_of(words))
        return self._fields[name]

    def _text_of(self, names: Iterable[str]) -> str:
        """Join the texts of the blocks of these ids by spaces."""
        return " ".join(clean(optional(self._blocks[name], "Text", "")) for name in names)

    def _add_pair(self, page: Page, key: str) -> None:
        """Add a key and its values as fields."""
        parts = [("key", key)]
        parts += (("value", value) for value in self._related(key, "VALUE"))
        for label, name in parts:
            numbers, text = self._field(name)
            if numbers:
                page.fields.append(Field(label, numbers, value=text))

    def _add_question(self, page: Page, name: str) -> None:
        """Add a query that has a result as a question."""
        answers = [self._text_of([answer]) for answer in self._related(name, "ANSWER")]
        if answers:
            query = member(self._blocks[name], "Query")
            page.ask(member(query, "Text"), answers, optional(query, "Alias"))


def _kind_of(block: Mapping[str, Any]) -> str:
    """Return the type of a block."""
    return str(member(block, "BlockType"))
