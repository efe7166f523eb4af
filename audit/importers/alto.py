"""Pages of ALTO files: their Strings, with the finest boxes that the file has of them."""

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.files import form_of
from audit.importers.pages import Page, bounds, clean, line_words, shares_of
from audit.importers.xml_elements import local_name, numbers_of

PIXEL = "pixel"
"""The unit of ALTO that is that of an image."""
_PLACE = ("HPOS", "VPOS", "WIDTH", "HEIGHT")


def alto_pages(root: Element) -> Iterator[Page]:
    """Yield the pages of an ALTO file (versions 2 to 4).

    Raises:
        ManifestError: a page has no size, a String no place, or a number is none.
    """
    unit = (root.findtext(".//{*}MeasurementUnit") or "").strip()
    for element in root.iterfind(".//{*}Page"):
        reader = _AltoReader(_shape_of(element, unit))
        reader.add_words(element, None)
        yield reader.page


class _AltoReader:
    """Reads the Strings of an ALTO page.

    Attributes:
        page: the page, with the words up to now.
    """

    def __init__(self, shape: tuple[float, float] | None) -> None:
        """Start with a page of this shape; None: its boxes are pixels of the image."""
        self.page = Page("", shape=shape, unit="pixels" if shape is None else "shares")

    def add_words(self, element: Element, outer: Box | None) -> None:
        """Add the words of the Strings in an element, in the order of the file.

        Args:
            element: the page, or a block or line of it.
            outer: the box of what it is in, for elements without a place.
        """
        box = _box_of(element) or outer
        strings = [child for child in element if local_name(child) == "String"]
        if strings:
            self._add_strings(strings, box, is_line=local_name(element) == "TextLine")
        for child in element:
            if local_name(child) != "String":
                self.add_words(child, box)

    def _add_strings(self, strings: Sequence[Element], outer: Box | None, *, is_line: bool) -> None:
        """Add the words of Strings; those without a place take theirs from the box around them."""
        texts = [_text_of(string) for string in strings]
        outer_boxes: Sequence[Box | None] = [outer] * len(texts)
        if is_line and outer is not None:
            outer_boxes = _divide(outer, texts)
        for string, text, outer_box in zip(strings, texts, outer_boxes, strict=True):
            box = _box_of(string) or _box_of_glyphs(string) or outer_box
            if box is None:
                raise ManifestError("String: it has no place, and nothing around it has one")
            if self.page.shape is not None:
                box = shares_of(box, self.page.shape)
            self.page.words += line_words(text, box)


def _shape_of(page: Element, unit: str) -> tuple[float, float] | None:
    """Return the width and height of a page; None where its boxes are pixels of its image.

    The schema does not ask for them. Print space and margins stand in where they begin in the
    corner of the page.

    Raises:
        ManifestError: nothing says them, and the unit is no pixel.
    """
    if page.get("WIDTH") is not None:
        width, height = numbers_of(page, "WIDTH", "HEIGHT")
        if min(width, height) > 0:
            return (width, height)
    shape = None if unit == PIXEL else _shape_of_areas(page)
    if shape is None and unit not in ("", PIXEL):
        raise ManifestError("Page: neither WIDTH and HEIGHT nor its PrintSpace says its size")
    return shape


def _shape_of_areas(page: Element) -> tuple[float, float] | None:
    """Return the width and height of a page's areas; None unless they begin in its corner."""
    areas = [box for box in map(_box_of, page) if box is not None]
    if not areas:
        return None
    left, top, right, bottom = _around(areas)
    if max(left, top) > 0 or min(right, bottom) <= 0:
        return None
    return (right, bottom)


def _text_of(string: Element) -> str:
    """Return the text of a String: its content, else that of its glyphs."""
    text = clean(string.get("CONTENT", ""))
    if not text:
        glyphs = string.findall("{*}Glyph")
        text = clean("".join(glyph.get("CONTENT", "") for glyph in glyphs))
    return text


def _box_of(element: Element) -> Box | None:
    """Return the box that an element states, by its numbers or its Shape; None without one."""
    if all(element.get(key) is not None for key in _PLACE):
        left, top, width, height = numbers_of(element, *_PLACE)
        return (left, top, left + width, top + height)
    polygon = element.find("{*}Shape/{*}Polygon")
    if polygon is None:
        return None
    with form_of("a place of ALTO: POINTS"):
        numbers = [float(text) for text in polygon.get("POINTS", "").replace(",", " ").split()]
        return bounds([*zip(numbers[0::2], numbers[1::2], strict=True)])


def _box_of_glyphs(string: Element) -> Box | None:
    """Return the box around the glyphs of a String; None where they have no place."""
    boxes = [box for box in map(_box_of, string.iterfind("{*}Glyph")) if box is not None]
    return _around(boxes) if boxes else None


def _around(boxes: Sequence[Box]) -> Box:
    """Return the box around boxes."""
    return bounds([*(box[:2] for box in boxes), *(box[2:] for box in boxes)])


def _divide(line: Box, texts: Sequence[str]) -> list[Box]:
    """Divide the box of a line by the characters of its Strings, with a space after each."""
    n_characters = sum(map(len, texts)) + len(texts) - 1
    step = (line[2] - line[0]) / max(1, n_characters)
    boxes: list[Box] = []
    left = line[0]
    for text in texts:
        right = left + step * len(text)
        boxes.append((left, line[1], right, line[3]))
        left = right + step
    return boxes
