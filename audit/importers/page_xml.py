"""Pages of PAGE files: words, else lines, else regions, with the finest boxes there are of them."""

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.files import form_of
from audit.importers.pages import (
    ALTERNATIVES,
    LINES,
    REGIONS,
    Page,
    block_words,
    bounds,
    clean,
    line_words,
    shares_of,
)
from audit.importers.xml_elements import local_name, numbers_of

_OF_THE_REGION = frozenset({"Coords", "TextEquiv"})
"""Elements of a region that are about itself, and no part of it."""


def page_xml_pages(root: Element) -> Iterator[Page]:
    """Yield the pages of a PAGE file.

    Raises:
        ManifestError: a page has no size, or a text no place.
    """
    for element in root.iterfind(".//{*}Page"):
        width, height = numbers_of(element, "imageWidth", "imageHeight")
        reader = _PageReader((width, height))
        reader.add_words(element, None)
        yield reader.page


class _PageReader:
    """Reads the texts of a page of PAGE.

    Attributes:
        page: the page, with the words up to now.
    """

    def __init__(self, shape: tuple[float, float]) -> None:
        """Start with a page of this width and height."""
        self.page = Page("", shape=shape, unit="shares")
        self._shape = shape

    def add_words(self, element: Element, outer: Box | None) -> bool:
        """Add the words of a region or page, in the order of the file; tell whether it has any.

        Its own text counts only where no line or region in it has one.

        Args:
            element: the page, or a region of it.
            outer: the box of the region around it, for what has no place.
        """
        box = _box_of(element) or outer
        has_words = False
        for child in element:
            if local_name(child) == "TextLine":
                has_words |= self._add_line(child, box)
            elif local_name(child) not in _OF_THE_REGION:
                has_words |= self.add_words(child, box)
        text = "" if has_words else self._text_of(element)
        if text.strip():
            self.page.words += block_words(text, self._place(box), self._shape)
            self.page.notes[REGIONS] += 1
            has_words = True
        return has_words

    def _add_line(self, line: Element, outer: Box | None) -> bool:
        """Add the words of a line, or the parts of its text where no word of it has one."""
        box = _box_of(line) or outer
        has_words = False
        for word in line.iterfind("{*}Word"):
            text = clean(self._text_of(word) or self._text_of_glyphs(word))
            if text:
                self.page.words += line_words(text, self._place(_box_of(word) or box))
                has_words = True
        text = "" if has_words else clean(self._text_of(line))
        if text:
            self.page.words += line_words(text, self._place(box))
            self.page.notes[LINES] += 1
        return has_words or bool(text)

    def _place(self, box: Box | None) -> Box:
        """Return a box as shares of the page; refuse to read a text without one."""
        if box is None:
            raise ManifestError("not a place of PAGE: a text, and nothing around it, has Coords")
        return shares_of(box, self._shape)

    def _text_of(self, element: Element) -> str:
        """Return the text of an element: of several the main one, that of the lowest index."""
        texts = element.findall("{*}TextEquiv")
        if not texts:
            return ""
        if len(texts) > 1:
            self.page.notes[ALTERNATIVES] += 1
        with form_of("PAGE: an index of TextEquiv"):
            main = min(texts, key=_index_of)
        text = main.findtext("{*}Unicode")
        return text if text is not None else main.findtext("{*}PlainText", "")

    def _text_of_glyphs(self, word: Element) -> str:
        """Join the texts of the glyphs of a word."""
        return "".join(map(self._text_of, word.iterfind("{*}Glyph")))


def _index_of(text: Element) -> int:
    """Return the index of a TextEquiv; one without any comes before those with one."""
    return int(text.get("index", "-1"))


def _box_of(element: Element) -> Box | None:
    """Return the box around an element's Coords; None without them.

    They are an attribute, or elements Point as in the versions of 2009 and 2010.
    """
    coords = element.find("{*}Coords")
    if coords is None:
        return None
    with form_of("a place of PAGE: Coords"):
        return bounds([*_points_of(coords)])


def _points_of(coords: Element) -> Iterator[Sequence[float]]:
    """Yield the points (x, y) of Coords."""
    points = coords.get("points")
    if points is not None:
        for point in points.split():
            yield [*map(float, point.split(","))]
        return
    for element in coords.iterfind("{*}Point"):
        yield (float(element.get("x", "")), float(element.get("y", "")))
