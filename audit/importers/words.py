"""Words of a page, from the file that an OCR program wrote beside its image, or read by Tesseract.

Files: hOCR, ALTO, PAGE, Tesseract's table, and JSON of the programs in `services.toml`; boxes
become shares of the page where its size is known.
"""

import csv
import io
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL.Image import Image

from audit.corpus.documents import Box, Word
from audit.corpus.removal.tesseract import run_tesseract
from audit.errors import ManifestError, UsageError
from audit.files import table_beside
from audit.importers.columns import read_box
from audit.importers.files import FAULTS, TEXTS, form_of, parse_json, read_text, table_rows
from audit.importers.hocr import read_hocr
from audit.importers.pages import Field, Page, bounds, clean, clip, line_words, shares_of
from audit.importers.reading import joined

FORMS: list[Mapping[str, Any]] = table_beside(__file__, "services.toml")["forms"]
"""Forms of the JSON that programs write."""
SUFFIXES = (".hocr", ".html", ".htm", ".xml", ".tsv", ".json")
BESIDE_JSON = (".hocr", ".tsv", ".xml")
"""Word files beside images whose annotations are .json."""
_DECLARED = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
SECONDS = 300.0
"""How long the reading of one page may take; a page of a scanner takes one to ten seconds."""

OpenPage = Callable[[], Image]
"""Opens the image of a page, RGB."""


def fill(page: Page, path: Path) -> None:
    """Add the words, fields and questions of a word file to a page.

    Raises:
        ManifestError: the file has another form, or is not of one page.
    """
    ending = path.suffix.lower()
    if ending == ".tsv":
        pages = read_tesseract(path)
    elif ending == ".json":
        pages = read_service(parse_json(read_text(path), "not JSON"))
    else:
        text = read_text(path)
        is_xml = ending == ".xml" and "ocr_page" not in text
        pages = read_xml(text) if is_xml else read_hocr(text)
    if len(pages) != 1:
        raise ManifestError(f"{len(pages)} pages for one image")
    word_page = pages[0]
    page.words = word_page.words
    page.unit = word_page.unit or "shares"
    page.shape = word_page.shape
    page.fields += word_page.fields
    page.questions += word_page.questions


def read_tesseract(path: Path) -> list[Page]:
    """Read every page of Tesseract's table: a tab-separated row a word, of level 5.

    Raises:
        ManifestError: a column is missing, a number is none, or words come before their page.
    """
    pages: list[Page] = []
    shape = (0.0, 0.0)
    for place, row in table_rows(path, "line", "\t"):
        with form_of("Tesseract's table"):
            left, top, width, height = (
                float(row[name]) for name in ("left", "top", "width", "height")
            )
            if row["level"] == "1":
                shape = (width, height)
                pages.append(Page("", shape=shape))
            elif row["level"] == "5" and not pages:
                raise ManifestError(f"{place}: a word before the first page")
            elif row["level"] == "5":
                box = shares_of((left, top, left + width, top + height), shape)
                pages[-1].words.append(Word(row["text"], box))
    return pages


def read_xml(text: str) -> list[Page]:
    """Read every page of an ALTO or a PAGE file.

    ALTO (versions 2 to 4) has Strings, PAGE has Words, else TextLines.

    Raises:
        ManifestError: it is no XML, declares entities, has no page, or a page or word lacks a
            number.
    """
    if _DECLARED.search(text):
        raise ManifestError(
            "it declares a document type or entities, which ALTO and PAGE do not need: not read"
        )
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise ManifestError(f"not XML at line {error.position[0]}") from None
    except (LookupError, ValueError):
        raise ManifestError("not XML: it names an encoding that there is not") from None
    pages = [_page_of_xml(element) for element in root.iterfind(".//{*}Page")]
    if not pages:
        raise ManifestError("no element Page: neither ALTO nor PAGE")
    return pages


def _page_of_xml(element: ElementTree.Element) -> Page:
    """Make the page of an element of ALTO, or of PAGE, which names the width of an image."""
    if element.get("imageWidth") is not None:
        width, height = _numbers(element, "imageWidth", "imageHeight")
        lines = _page_words(element)
    else:
        width, height = _numbers(element, "WIDTH", "HEIGHT")
        lines = _alto_words(element)
    page = Page("", shape=(width, height))
    for text, box in lines:
        page.words += line_words(clean(text), shares_of(box, (width, height)))
    return page


def _alto_words(page: ElementTree.Element) -> Iterator[tuple[str, Box]]:
    """Yield text and box of each word of an ALTO page."""
    for string in page.iterfind(".//{*}String"):
        x, y, wide, high = _numbers(string, "HPOS", "VPOS", "WIDTH", "HEIGHT")
        yield string.get("CONTENT", ""), (x, y, x + wide, y + high)


def _page_words(page: ElementTree.Element) -> Iterator[tuple[str, Box]]:
    """Yield text and box of each word of a PAGE page, or of each line without words."""
    for line in page.iterfind(".//{*}TextLine"):
        for element in line.findall("{*}Word") or [line]:
            with form_of("a place of PAGE: Coords"):
                points = element.find("{*}Coords").get("points").split()  # type: ignore[union-attr]
                box = bounds([[*map(float, point.split(","))] for point in points])
            yield element.findtext("{*}TextEquiv/{*}Unicode", ""), box


def _numbers(element: ElementTree.Element, *keys: str) -> list[float]:
    """Return these attributes of an XML element as numbers; refuse what is no number."""
    try:
        return [float(element.get(key, "")) for key in keys]
    except ValueError:
        name = str(element.tag).rpartition("}")[2]
        raise ManifestError(f"{name}: one of {', '.join(keys)} is no number") from None


def read_service(value: Any) -> list[Page]:
    """Read every page of a JSON result, whichever program wrote it.

    Raises:
        ManifestError: it has another form.
    """
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict) and "Blocks" in first:
        with form_of("Amazon Textract's response"):
            return list(_textract(value if isinstance(value, list) else [value]))
    if isinstance(value, dict) and value.get("schema_name") == "DoclingDocument":
        with form_of("Docling's document"):
            return list(_docling(value))
    form = _form_of_service(value)
    with form_of(form["name"]):
        return [_read_page(page, form, value) for page in _along(value, form["pages"])]


def _form_of_service(value: Any) -> Mapping[str, Any]:
    """Return the first of the known forms that a result has; the last where it has none."""
    for form in FORMS:
        if any(_holds(value, path) for path in form["has"]):
            return form
    return FORMS[-1]


def _along(value: Any, path: str) -> list[Any]:
    """Return the values that a path of services.toml leads to within a JSON value."""
    values = [value]
    for key in path.split(".") if path else ():
        if key == "*":
            values = list(chain.from_iterable(values))
        else:
            place = int(key) if key.isdigit() else key
            values = [outer[place] for outer in values]
    return values


def _holds(value: Any, path: str) -> bool:
    """Test whether a path of services.toml leads to a value within a JSON value.

    A text, where the path ends at a place in a list.
    """
    try:
        (inner,) = _along(value, path)
    except FAULTS:
        return False
    return isinstance(inner, str) if path[-1].isdigit() else inner is not None


def _read_page(value: Any, form: Mapping[str, Any], result: Any) -> Page:
    """Read a page of a form of `FORMS`; predictions of docTR's KIE predictor are fields too.

    Args:
        value: the page, as it stands in the result.
        form: form of the result.
        result: the whole result, which may hold the text.
    """
    shape = _shape_of(value, form)
    predictions = value.get("predictions", {}) if isinstance(value, dict) else {}
    page = Page("", shape=shape, unit="shares" if shape else "pixels")
    columns: list[list[Any]] = []
    if not _is_blank(value, form, predictions):
        columns = [_along(value, path) for path in form["words"]]
    for item in zip(*columns, strict=True):
        word = item if len(item) > 1 else item[0]
        page.words += _words_of_item(word, form, shape, result)
    for label, fields in predictions.items():
        for field_value in fields:
            _add_prediction(page, label, field_value)
    return page


def _shape_of(value: Any, form: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the width and height that a form places in a page; None where it does not."""
    if "size" not in form:
        return None
    width, height = (float(_along(value, path)[0]) for path in form["size"])
    return (width, height)


def _words_of_item(
    item: Any, form: Mapping[str, Any], shape: tuple[float, float] | None, result: Any
) -> Iterator[Word]:
    """Yield the words of an item of a form; their boxes are shares where the shape is known.

    Args:
        item: what the result holds of it.
        form: form of the result.
        shape: width and height of the page, where the form says them.
        result: the whole result, which may hold the text.
    """
    text = _along(item, form["text"])[0]
    box = _along(item, form["box"])[0]
    if isinstance(text, list):
        text = _text_at_places(text, result)
    corners = read_box(box, form["box"])
    text = clean(text)
    if shape and "shares" not in form:
        corners = shares_of(corners, shape)
    return line_words(text, corners)


def _is_blank(value: Any, form: Mapping[str, Any], predictions: object) -> bool:
    """Test whether a page has no words, which some forms then leave out."""
    if not value:
        return True
    if not (form.get("blank") or predictions):
        return False
    return form["words"][0].split(".")[0] not in value


def _text_at_places(places: list[Any], result: Any) -> str:
    """Join the places of a word in the text of the whole result."""
    content = result.get("document", result)["text"]
    return joined(
        content[int(place.get("startIndex", 0)) : int(place["endIndex"])] for place in places
    )


def _add_prediction(page: Page, label: str, prediction: Any) -> None:
    """Add a predicted field with its words."""
    first = len(page.words)
    text = prediction["value"]
    page.words += line_words(clean(text), read_box(prediction["geometry"], "geometry"))
    page.fields.append(Field(label, tuple(range(first, len(page.words))), value=text))


def _docling(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the pages of a Docling document.

    Words of a text of several lines all get its box.
    """
    items = defaultdict[int, list[tuple[str, Mapping[str, Any]]]](list)
    for item in value["texts"]:
        for place in item["prov"][:1]:
            items[place["page_no"]].append((item["text"], place["bbox"]))
    for table in value.get("tables", ()):
        for cell in table["data"]["table_cells"]:
            if cell.get("bbox"):
                items[table["prov"][0]["page_no"]].append((cell["text"], cell["bbox"]))
    for page in value["pages"].values():
        width = float(page["size"]["width"])
        height = float(page["size"]["height"])
        word_page = Page("", shape=(width, height))
        for text, box in items[page["page_no"]]:
            below = height if box.get("coord_origin") == "BOTTOMLEFT" else 0.0
            corners = bounds([(box["l"], abs(below - box["t"])), (box["r"], abs(below - box["b"]))])
            word_page.words += _docling_words(text, corners, (width, height))
        yield word_page


def _docling_words(text: str, corners: Box, size: tuple[float, float]) -> Iterator[Word]:
    """Yield the words of a text with boxes: parts of a line's box, or that of several lines.

    A line's box is divided, that of several lines is the box of each word.
    """
    place = shares_of(corners, size)
    width = corners[2] - corners[0]
    height = corners[3] - corners[1]
    if width > height * len(text) / 4:
        yield from line_words(clean(text), place)
    else:
        yield from (Word(word, place) for word in text.split())


def _textract_box(block: Mapping[str, Any]) -> Box:
    """Return a Textract block's box, as shares of the page."""
    box = block["Geometry"]["BoundingBox"]
    left, top, width, height = (float(box[key]) for key in ("Left", "Top", "Width", "Height"))
    return (left, top, left + width, top + height)


def _textract(responses: list[Any]) -> Iterator[Page]:
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


@dataclass(frozen=True)
class PageReader:
    """Reads the words of whole pages with Tesseract.

    Attributes:
        language: language as Tesseract names it, several joined by "+" ("deu+eng").
        command: the program's name.
        workers: processes at a time; each keeps to one thread.
    """

    language: str = "eng"
    command: str = "tesseract"
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))

    def check(self) -> None:
        """Check that the program is there and knows the language.

        Raises:
            UsageError: it is not, or does not.
        """
        if shutil.which(self.command) is None:
            hint = (
                "install it (apt install tesseract-ocr, brew install tesseract), "
                "or bring the words of another OCR"
            )
            raise UsageError("Tesseract is not installed", hint)
        listing = subprocess.run(
            [self.command, "--list-langs"], capture_output=True, text=True, timeout=60, check=False
        )
        languages = listing.stdout.split()
        unknown = [name for name in self.language.split("+") if name not in languages]
        if unknown:
            hint = TEXTS["language"].format(language=unknown[0])
            raise UsageError(f"Tesseract has no data for the language {unknown[0]!r}", hint)

    def read(
        self, pages: Iterable[tuple[str, OpenPage]]
    ) -> Iterator[tuple[str, tuple[Word, ...] | None]]:
        """Read pages, in order; images are opened in this thread, a few at a time.

        Args:
            pages: names, and what opens each image.

        Yields:
            Each name with its words in Tesseract's reading order, boxes in pixels; none where
            nothing was read, None where the program failed or ran out of time.
        """
        remaining = iter(pages)
        with ThreadPoolExecutor(self.workers) as pool:
            while batch := list(islice(remaining, 2 * self.workers)):
                readings = [
                    (name, pool.submit(self._read_page, open_page())) for name, open_page in batch
                ]
                for name, words in readings:
                    yield name, words.result()

    def _read_page(self, page: Image) -> tuple[Word, ...] | None:
        """Run Tesseract on a page, and return its words; None where it fails."""
        file = io.BytesIO()
        page.convert("L").save(file, "PNG", compress_level=1)
        arguments = ["-l", self.language, "tsv"]
        table = run_tesseract(self.command, arguments, file.getvalue(), SECONDS)
        return None if table is None else tuple(_table_words(table, page.size))


def _table_words(table: str, size: tuple[int, int]) -> Iterator[Word]:
    """Yield the words of Tesseract's table, without blank ones.

    Boxes are cut at the page's edge.
    """
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = clean(row["text"] or "")
        if row["level"] == "5" and text:
            left, top, width, height = (
                int(row[name]) for name in ("left", "top", "width", "height")
            )
            yield Word(text, clip((left, top, left + width, top + height), size))
