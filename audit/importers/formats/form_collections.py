"""JSON files with the forms of many pages, as XFUND has one for each language."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from audit.importers.faults import NAMES
from audit.importers.files import IMAGES, form_of

LISTS = ("documents", "data", "annotations", "images", "pages")
"""Keys under which a file has its list of forms."""
ITEMS = ("form", "annotations", "fields", "entities", "items", "valid_line", "document")
"""Keys under which a form has its items."""
_IMAGE_KEYS = ("fname", *NAMES["columns"]["image"])


class Form(NamedTuple):
    """The form of a page in a file of several.

    Attributes:
        place: its place in the file, for messages.
        image: what names its image.
        table: the form: items under a key of `ITEMS`, or values by key.
        shape: width and height of the page; None where the form does not say them.
    """

    place: str
    image: str
    table: Mapping[str, Any]
    shape: tuple[float, float] | None


def forms_in(value: Any) -> Iterator[Form]:
    """Yield the forms of a JSON value that holds those of several pages; none of another value.

    It is a list of forms that name their images, an object that has such a list, or an object with
    a form under the name of each image.
    """
    if isinstance(value, dict):
        if value and all(_names_image(key) for key in value):
            for number, (key, form) in enumerate(value.items()):
                yield from _form_of(f"[{number}]", form, key)
            return
        lists = [value[key] for key in LISTS if isinstance(value.get(key), list)]
        value = next(iter(lists), None)
    if isinstance(value, list):
        for number, form in enumerate(value):
            yield from _form_of(f"[{number}]", form, _image_of(form))


def _form_of(place: str, form: Any, image: str | None) -> Iterator[Form]:
    """Yield a form with its image, where it is one."""
    if image is None:
        return
    if isinstance(form, list):
        form = {"form": form}
    if isinstance(form, dict):
        yield Form(place, image, form, _shape_of(form))


def _image_of(form: Any) -> str | None:
    """Return what names the image of a form: a text, or a text in an object; None without any."""
    if not isinstance(form, dict):
        return None
    for key in _IMAGE_KEYS:
        name = form.get(key)
        if isinstance(name, dict):
            name = _image_of(name)
        if _names_image(name):
            return str(name)
    return None


def _names_image(name: Any) -> bool:
    """Test whether a value is the name of an image."""
    return isinstance(name, str) and name.lower().endswith(IMAGES)


def _shape_of(form: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the width and height that a form says of its page; None where it says neither."""
    for table in (form.get("img"), form.get("image"), form):
        if isinstance(table, dict) and {"width", "height"} <= table.keys():
            with form_of("the size of a page"):
                return (float(table["width"]), float(table["height"]))
    return None
