"""Amazon Textract's responses: Blocks of words, key-value sets, queries with their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftField, DraftQuestion, DraftWord, clean
from audit.importers.source_files import source_problems
from audit.importers.words.reading import ReadPage

KEY, VALUE = "key", "value"
_LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)


@strict_dataclass(frozen=True, config=_LOOSE)
class Share:
    """A box in shares of the page, from 0 to 1."""

    left: float = Field(validation_alias="Left")
    top: float = Field(validation_alias="Top")
    width: float = Field(validation_alias="Width")
    height: float = Field(validation_alias="Height")


@strict_dataclass(frozen=True, config=_LOOSE)
class Geometry:
    """The place of a block, in shares of the page."""

    box: Share = Field(validation_alias="BoundingBox")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Relationship:
    kind: str = Field(validation_alias="Type")
    ids: tuple[str, ...] = Field(validation_alias="Ids")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Query:
    text: str = Field(validation_alias="Text")
    alias: str | None = Field(default=None, validation_alias="Alias")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Block:
    id: str = Field(validation_alias="Id")
    kind: str = Field(validation_alias="BlockType")
    page: int = Field(default=1, validation_alias="Page")
    text: str | None = Field(default=None, validation_alias="Text")
    geometry: Geometry | None = Field(default=None, validation_alias="Geometry")
    relationships: tuple[_Relationship, ...] | None = Field(default=None, validation_alias="Relationships")
    roles: tuple[str, ...] | None = Field(default=None, validation_alias="EntityTypes")
    query: _Query | None = Field(default=None, validation_alias="Query")

    def related(self, kind: str) -> tuple[str, ...]:
        """The ids of the blocks that stand in this relationship."""
        return tuple(id_ for one in self.relationships or () if one.kind == kind for id_ in one.ids)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Response:
    blocks: tuple[_Block, ...] = Field(validation_alias="Blocks")


_type = TypeAdapter(tuple[_Response, ...])


def read(value: Any) -> tuple[ReadPage, ...]:
    """Read every page of a response, or of a list of them.

    A key-value set is two fields, "key" and "value"; a query with a result a question, its alias the id.

    Raises:
        ManifestError: it has another form, or a block names one that is not there.
    """
    try:
        responses = _type.validate_python(value if isinstance(value, list) else [value])
    except ValidationError as error:
        raise ManifestError(source_problems(error)) from None
    blocks = {block.id: block for response in responses for block in response.blocks}
    missing = sorted(
        {id_ for one in blocks.values() for kind in ("CHILD", VALUE.upper(), "ANSWER") for id_ in one.related(kind)}
        - blocks.keys()
    )
    if missing:
        raise ManifestError(f"Blocks: {len(missing)} are named but not there, the first is {missing[0]}")
    numbers = sorted({block.page for block in blocks.values()})
    return tuple(_page([block for block in blocks.values() if block.page == number], blocks) for number in numbers)


def _page(own: list[_Block], blocks: Mapping[str, _Block]) -> ReadPage:
    words = [block for block in own if block.kind == "WORD"]
    indices = {block.id: index for index, block in enumerate(words)}
    return ReadPage(
        tuple(_word(block) for block in words),
        fields=tuple(_fields(own, blocks, indices)),
        questions=tuple(_questions(own, blocks)),
    )


def _word(block: _Block) -> DraftWord:
    if block.geometry is None:
        raise ManifestError(f"Blocks: the word {block.id} has no Geometry")
    box = block.geometry.box
    return DraftWord(block.text or "", (box.left, box.top, box.left + box.width, box.top + box.height))


def _fields(own: list[_Block], blocks: Mapping[str, _Block], indices: Mapping[str, int]) -> Iterator[DraftField]:
    for block in own:
        if block.kind != "KEY_VALUE_SET" or "KEY" not in (block.roles or ()):
            continue
        values = [blocks[id_] for id_ in block.related("VALUE")]
        for label, one in ((KEY, block), *((VALUE, value) for value in values)):
            words = tuple(indices[id_] for id_ in one.related("CHILD") if id_ in indices)
            text = " ".join(blocks[id_].text or "" for id_ in one.related("CHILD") if id_ in indices)
            if words:
                yield DraftField(label, words, value=text)


def _questions(own: list[_Block], blocks: Mapping[str, _Block]) -> Iterator[DraftQuestion]:
    for number, block in enumerate((one for one in own if one.kind == "QUERY" and one.query), start=1):
        answers = [clean(blocks[id_].text or "") for id_ in block.related("ANSWER")]
        accepted = tuple(dict.fromkeys(filter(None, answers)))
        if accepted and block.query is not None and clean(block.query.text):
            yield DraftQuestion(clean(block.query.text), accepted, block.query.alias or f"q{number}")
