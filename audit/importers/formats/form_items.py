"""Items of a form as FUNSD has them: a label, a text, a box, words, and links to other items."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.corpus.documents import Box, Word
from audit.importers.columns import OUTSIDE, fields_of_tags, read_box
from audit.importers.files import as_text, form_of
from audit.importers.pages import Field, Page, clean, line_words, shares_of


def is_item(item: Any) -> bool:
    """Test whether a value is an item of a form as FUNSD has them."""
    return isinstance(item, dict) and not {"label", "text", "words"}.isdisjoint(item)


def add_items(
    page: Page, items: Sequence[Mapping[str, Any]], shape: tuple[float, float] | None = None
) -> int:
    """Add the items of a form to a page: fields and links, and words where the page has none.

    On a page that has words they are added with their boxes, and texts to be located.

    Args:
        page: the page.
        items: the items.
        shape: width and height of the page that the boxes are of; None: they are as on the page.

    Returns:
        How many links are of an item that is no field.

    Raises:
        ManifestError: an item has another form.
    """
    words = [*page.words]
    brings_words = not words
    numbers: dict[Any, int] = {}
    for number, item in enumerate(items):
        first = len(words)
        place = f"items[{number}]"
        box = None
        if brings_words:
            words += (_in_shares(word, shape) for word in _item_words(item, place))
        else:
            box = _box_in_shares(_item_box(item, place), shape)
        label = clean(as_text(item.get("label", item.get("category", ""))))
        text = clean(as_text(item.get("text", " ".join(word.text for word in words[first:]))))
        if label.lower() not in OUTSIDE:
            plain = fields_of_tags([label])[0][0]
            inside = tuple(range(first, len(words)))
            numbers[str(item.get("id"))] = len(page.fields)
            page.fields.append(Field(plain, inside, box, text or None))
    page.words = words
    if shape is not None:
        page.unit = "shares"
        page.shape = page.shape or shape
    return _add_links(page, items, numbers)


def _in_shares(word: Word, shape: tuple[float, float] | None) -> Word:
    """Return a word whose box is in shares of a page of this shape; as it is without a shape."""
    return Word(word.text, _box_in_shares(word.box, shape), word.after)


def _box_in_shares(box: Box | None, shape: tuple[float, float] | None) -> Box | None:
    """Return a box in shares of a page of this shape; as it is without a shape."""
    if box is None or shape is None:
        return box
    return shares_of(box, shape)


def _add_links(page: Page, items: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]) -> int:
    """Add the links of items to a page, once each, the parent first; count those of no field.

    Args:
        page: the page.
        items: the items; those of FUNSD's form list pairs of ids.
        numbers: the number of the field of each item that is one, by its id.
    """
    links: dict[tuple[str, str], None] = {}
    for item in items:
        with form_of("pairs of ids: linking"):
            for parent, child in item.get("linking") or ():
                links[str(parent), str(child)] = None
    n_lost = 0
    pairs: list[tuple[str, str]] = []
    for parent, child in links:
        if parent != child and {parent, child} <= numbers.keys():
            pairs.append((f"e{numbers[parent] + 1}", f"e{numbers[child] + 1}"))
        else:
            n_lost += 1
    page.links += tuple(pairs)
    return n_lost


def _item_box(item: Mapping[str, Any], place: str) -> Box | None:
    """Return the box of an item, where it has one.

    Raises:
        ManifestError: it has another form.
    """
    for key in ("box", "bbox", "bounding_box"):
        if key in item:
            return None if item[key] is None else read_box(item[key], f"{place}.box")
    return None


def _item_words(item: Mapping[str, Any], place: str) -> Iterable[Word]:
    """Return the words of an item: its own, or those of its text.

    Raises:
        ManifestError: they, or its box, have another form.
    """
    inner = item.get("words")
    if not isinstance(inner, list):
        box = _item_box(item, place)
        return line_words(clean(as_text(item.get("text", ""))), box)
    return [_read_word(word, f"{place}.words[{index}]") for index, word in enumerate(inner)]


def _read_word(value: Any, place: str) -> Word:
    """Read a word: its text, or with its box.

    Raises:
        ManifestError: it has another form.
    """
    if isinstance(value, str):
        return Word(value)
    with form_of(f"a word: {place}"):
        box = next((value[key] for key in ("box", "bbox", "quad") if key in value), None)
        if isinstance(box, dict):  # CORD's quad
            quad = box
            box = []
            for corner in range(1, 5):
                box += [quad[f"x{corner}"], quad[f"y{corner}"]]
        return Word(value["text"], None if box is None else read_box(box, place))
