"""Words of a page from the file that an OCR program wrote beside its image; boxes become shares of the page.

hOCR (`hocr`), ALTO, Tesseract's table, docTR's export, Amazon Textract's response, Microsoft Read's result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.boxes import shares_of
from audit.importers.files import form_of, parse_json, read_text, table_rows
from audit.importers.hocr import read_hocr
from audit.importers.pages import Field, Page, bounds, clean

SUFFIXES = (".hocr", ".html", ".htm", ".xml", ".tsv", ".json")
BESIDE_JSON = (".hocr", ".tsv", ".xml")
"""Word files beside images whose annotations are .json."""
_DECLARED = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)


def fill(page: Page, path: Path) -> None:
    """Give a page the words, fields and questions of its word file.

    Raises:
        ManifestError: the file has another form, or is not of one page.
    """
    ending = path.suffix.lower()
    if ending == ".tsv":
        found = read_tesseract(path)
    elif ending == ".json":
        found = read_service(parse_json(read_text(path), "not JSON"))
    else:
        text = read_text(path)
        found = read_alto(text) if ending == ".xml" and "ocr_page" not in text else read_hocr(text)
    if len(found) != 1:
        raise ManifestError(f"{len(found)} pages for one image")
    page.words, page.unit, page.shape = found[0].words, "shares", found[0].shape
    page.fields += found[0].fields
    page.questions += found[0].questions


def read_tesseract(path: Path) -> list[Page]:
    """Read every page of Tesseract's table: a tab-separated row a word, of level 5.

    Raises:
        ManifestError: a column is missing, a number is none, or words come before their page.
    """
    pages: list[Page] = []
    shape, words = (0.0, 0.0), list[Word]()
    for place, row in table_rows(path, "line", "\t"):
        with form_of("Tesseract's table"):
            left, top, width, height = (float(row[name]) for name in ("left", "top", "width", "height"))
            if row["level"] == "1":
                shape, words = (width, height), []
                pages.append(Page("", words=words, shape=shape))
            elif row["level"] == "5" and not pages:
                raise ManifestError(f"{place}: a word before the first page")
            elif row["level"] == "5":
                words.append(Word(row["text"], shares_of((left, top, left + width, top + height), shape)))
    return pages


def read_alto(text: str) -> list[Page]:
    """Read every page of an ALTO file (versions 2 to 4): String elements with CONTENT, HPOS, VPOS, WIDTH, HEIGHT.

    Raises:
        ManifestError: it is no XML, declares entities, has no page, or a page or word lacks a number.
    """
    if _DECLARED.search(text):
        raise ManifestError("it declares a document type or entities, which ALTO does not need: not read")
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise ManifestError(f"not XML at line {error.position[0]}") from None
    except (LookupError, ValueError):
        raise ManifestError("not XML: it names an encoding that there is not") from None
    pages = []
    for page in root.iterfind(".//{*}Page"):
        width, height = _numbers(page, "WIDTH", "HEIGHT")
        words = []
        for one in page.iterfind(".//{*}String"):
            x, y, wide, high = _numbers(one, "HPOS", "VPOS", "WIDTH", "HEIGHT")
            words.append(Word(one.get("CONTENT", ""), shares_of((x, y, x + wide, y + high), (width, height))))
        pages.append(Page("", words=words, shape=(width, height)))
    if not pages:
        raise ManifestError("no element Page: not ALTO")
    return pages


def _numbers(element: ElementTree.Element, *keys: str) -> list[float]:
    try:
        return [float(element.get(key, "")) for key in keys]
    except ValueError:
        name = str(element.tag).rpartition("}")[2]
        raise ManifestError(f"{name} {element.get('ID', '')}: one of {', '.join(keys)} is no number") from None


def read_service(value: Any) -> list[Page]:
    """Read every page of a JSON result, whichever program wrote it.

    Raises:
        ManifestError: it has another form.
    """
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict) and "Blocks" in first:
        with form_of("Amazon Textract's response"):
            return list(_textract(value if isinstance(value, list) else [value]))
    if isinstance(first, dict) and "recognitionResults" in first:
        with form_of("Microsoft Read's result"):
            return [_microsoft(page) for page in value["recognitionResults"]]
    with form_of("docTR's export"):
        pages = value.get("pages", [value]) if isinstance(value, dict) else value
        return [_doctr(page) for page in pages]


def _microsoft(page: Mapping[str, Any]) -> Page:
    shape = (float(page["width"]), float(page["height"]))
    words = []
    for line in page.get("lines", ()):
        for word in line["words"]:
            corners = word["boundingBox"]
            box = bounds([*zip(corners[0::2], corners[1::2], strict=True)])
            words.append(Word(word["text"], shares_of(box, shape)))
    return Page("", words=words, shape=shape)


def _doctr(page: Mapping[str, Any]) -> Page:
    """A page of an export; the predictions of a KIE predictor are fields too."""
    if "blocks" not in page and "predictions" not in page:
        raise KeyError("blocks")
    height, width = (float(number) for number in page["dimensions"])
    words = [
        Word(word["value"], bounds(word["geometry"]))
        for block in page.get("blocks", ())
        for line in block["lines"]
        for word in line["words"]
    ]
    fields = []
    for label, found in page.get("predictions", {}).items():
        for one in found:
            texts = one["value"].split()
            fields.append(Field(label, tuple(range(len(words), len(words) + len(texts))), value=one["value"]))
            words += [Word(text, bounds(one["geometry"])) for text in texts]
    return Page("", words=words, shape=(width, height), fields=fields)


def _share(block: Mapping[str, Any]) -> Box:
    box = block["Geometry"]["BoundingBox"]
    left, top, width, height = (float(box[key]) for key in ("Left", "Top", "Width", "Height"))
    return (left, top, left + width, top + height)


def _textract(responses: list[Any]) -> Iterator[Page]:
    """Yield the pages of responses: a key-value set is two fields, "key" and "value"; a query a question."""
    blocks: dict[str, dict[str, Any]] = {block["Id"]: block for one in responses for block in one["Blocks"]}

    def related(block: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
        relations = block.get("Relationships") or ()
        return [blocks[id_] for one in relations if one["Type"] == kind for id_ in one["Ids"]]

    def text_of(held: Iterable[Mapping[str, Any]]) -> str:
        return " ".join(clean(block.get("Text") or "") for block in held)

    for number in sorted({block.get("Page", 1) for block in blocks.values()}):
        own = [block for block in blocks.values() if block.get("Page", 1) == number]
        words = [block for block in own if block["BlockType"] == "WORD"]
        place = {block["Id"]: index for index, block in enumerate(words)}
        page = Page("", words=[Word(block.get("Text") or "", _share(block)) for block in words])
        for block in own:
            if block["BlockType"] == "KEY_VALUE_SET" and "KEY" in (block.get("EntityTypes") or ()):
                for label, one in (("key", block), *(("value", value) for value in related(block, "VALUE"))):
                    if held := [child for child in related(one, "CHILD") if child["Id"] in place]:
                        indices = tuple(place[child["Id"]] for child in held)
                        page.fields.append(Field(label, indices, value=text_of(held)))
            elif block["BlockType"] == "QUERY" and (answers := related(block, "ANSWER")):
                query = block["Query"]
                page.ask(query["Text"], [text_of([answer]) for answer in answers], query.get("Alias"))
        yield page
