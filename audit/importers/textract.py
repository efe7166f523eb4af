"""Pages of the responses of Amazon Textract."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.pages import Field, Page, clean


def _textract_box(block: Mapping[str, Any]) -> Box:
    """Return a Textract block's box, as shares of the page."""
    box = block["Geometry"]["BoundingBox"]
    left, top, width, height = (float(box[key]) for key in ("Left", "Top", "Width", "Height"))
    return (left, top, left + width, top + height)


def textract_pages(responses: list[Any]) -> Iterator[Page]:
    """Yield the pages of responses: a key-value set is two fields, "key" and "value".

    A query a question.
    """
    blocks: dict[str, dict[str, Any]] = {}
    pages = defaultdict[int, dict[str, dict[str, Any]]](dict)
    for response in responses:
        for block in response["Blocks"]:
            blocks[block["Id"]] = block
    for name, block in blocks.items():
        pages[block.get("Page", 1)][name] = block
    for number in sorted(pages):
        yield _TextractPage(blocks, pages[number]).read()


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
        words = [name for name, block in on_page.items() if block["BlockType"] == "WORD"]
        self._numbers = {name: number for number, name in enumerate(words)}
        self._fields: dict[str, tuple[tuple[int, ...], str]] = {}

    def read(self) -> Page:
        """Return the page with its words, fields and questions."""
        page = Page("")
        for name in self._numbers:
            block = self._on_page[name]
            page.words.append(Word(block.get("Text") or "", _textract_box(block)))
        for name, block in self._on_page.items():
            if block["BlockType"] == "KEY_VALUE_SET" and "KEY" in (block.get("EntityTypes") or ()):
                self._add_pair(page, name)
            elif block["BlockType"] == "QUERY":
                self._add_question(page, name)
        return page

    def _related(self, name: str, kind: str) -> Iterator[str]:
        """Yield the ids of the blocks that a block names, each once."""
        names = dict[str, None]()
        for relation in self._blocks[name].get("Relationships") or ():
            if relation["Type"] == kind:
                names.update(dict.fromkeys(relation["Ids"]))
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
        return " ".join(clean(self._blocks[name].get("Text") or "") for name in names)

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
            query = self._blocks[name]["Query"]
            page.ask(query["Text"], answers, query.get("Alias"))
