"""Pages of EasyOCR's results, in each form of `readtext`, and of RapidOCR's, which are alike."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit.errors import ManifestError
from audit.importers.columns import read_box
from audit.importers.files import parse_json
from audit.importers.pages import Page, clean, line_words
from audit.importers.services.spelling import first_of


def easyocr_pages(value: Sequence[Any]) -> Iterator[Page]:
    """Yield the page of a list of lines, or the pages of a list of such lists."""
    lists = [value] if _is_line(_first_in(value)) else value
    for lines in lists:
        page = Page("", unit="pixels")
        for line in lines:
            text, box = _parts_of(line)
            page.words += line_words(clean(text), read_box(box, "box"))
        yield page


def is_easyocr(value: Any) -> bool:
    """Test whether a result is a list of lines, or a list of lists of lines."""
    first = _first_in(value)
    return _is_line(first) or _is_line(_first_in(first))


def _first_in(value: Any) -> Any:
    """Return the first thing in a list that is not empty; None where there is none."""
    if not isinstance(value, list):
        return None
    return next(filter(None, value), None)


def _is_line(value: Any) -> bool:
    """Test whether a value is a line: box, text and confidence as a list, table, or JSON."""
    try:
        text, box = _parts_of(value)
    except (KeyError, TypeError, IndexError, ManifestError):
        return False
    return isinstance(text, str) and isinstance(box, list)


def _parts_of(line: Any) -> tuple[Any, Any]:
    """Return the text and the box of a line.

    Raises:
        KeyError, TypeError, IndexError: the value is no line.
        ManifestError: it begins like JSON, and is none.
    """
    if isinstance(line, str) and line.startswith("{"):
        line = parse_json(line, "a line of it is not JSON")
    if isinstance(line, list):
        return line[1], line[0]
    if not isinstance(line, Mapping):
        raise TypeError("no line")
    return first_of(line, "text", "txt"), first_of(line, "boxes", "box")
