"""Pages of the JSON that OCR programs and services write, whichever it is.

Plain forms are described in `services.toml`; Docling's and Textract's have readers of their own.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from audit.corpus.documents import Word
from audit.files import table_beside
from audit.importers.columns import read_box
from audit.importers.docling import docling_pages
from audit.importers.files import FAULTS, form_of
from audit.importers.pages import Field, Page, clean, line_words, shares_of
from audit.importers.reading import joined
from audit.importers.textract import textract_pages

FORMS: list[Mapping[str, Any]] = table_beside(__file__, "services.toml")["forms"]
"""Forms of the JSON that programs write."""


def read_service(value: Any) -> list[Page]:
    """Read every page of a JSON result, whichever program wrote it.

    Raises:
        ManifestError: it has another form.
    """
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict) and "Blocks" in first:
        with form_of("Amazon Textract's response"):
            return list(textract_pages(value if isinstance(value, list) else [value]))
    if isinstance(value, dict) and value.get("schema_name") == "DoclingDocument":
        with form_of("Docling's document"):
            return list(docling_pages(value))
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
