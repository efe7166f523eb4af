"""Other pictures of the same pages, and a model that is shown them.

See methods/checks.md#checks-of-the-documents.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from PIL import Image, ImageOps
from PIL.Image import Transpose

from audit.corpus.documents import Document
from audit.corpus.images import PageView
from audit.targets.encoded_page import Encoding, Pixels
from audit.targets.interface import A, PageViewQuery, Query, Target, TokenTarget

PictureChange = Callable[[Image.Image], Image.Image]
"""Makes another picture of the same size, RGB."""
BLACK_BELOW = 128
"""Brightness under which a pixel becomes black where only black and white are left."""


def picture_changes() -> dict[str, PictureChange]:
    """Return the changes that are tried, by their names.

    Resolution, contrast, colour, direction and margins.
    """
    return {
        "with pictures turned by 180 degrees": partial(_transpose, turn=Transpose.ROTATE_180),
        "with pictures turned to the left": partial(_transpose, turn=Transpose.ROTATE_90),
        "with pictures turned to the right": partial(_transpose, turn=Transpose.ROTATE_270),
        "with mirrored pictures": partial(_transpose, turn=Transpose.FLIP_LEFT_RIGHT),
        "with pictures of half the resolution": partial(_coarsen, factor=2),
        "with pictures of a quarter of the resolution": partial(_coarsen, factor=4),
        "with grey pictures": _without_colour,
        "with pictures in black and white": _black_and_white,
        "with inverted pictures": ImageOps.invert,
        "with half the contrast": _half_contrast,
        "with stretched contrast": ImageOps.autocontrast,
        "with margins of 5 % cut off pictures": partial(_magnify, margin=0.05),
        "with margins of 5 % added to pictures": partial(_magnify, margin=-0.05),
    }


def _transpose(picture: Image.Image, turn: Transpose) -> Image.Image:
    """Return the picture turned or mirrored, resized to the size that it had."""
    return picture.transpose(turn).resize(picture.size)


def _coarsen(picture: Image.Image, factor: int) -> Image.Image:
    """Return the picture shrunk by a factor, and enlarged again to the size that it had."""
    width, height = picture.size
    smaller = picture.resize((max(1, width // factor), max(1, height // factor)))
    return smaller.resize(picture.size)


def _without_colour(picture: Image.Image) -> Image.Image:
    """Return the picture in greys, as RGB."""
    return picture.convert("L").convert("RGB")


def _black_and_white(picture: Image.Image) -> Image.Image:
    """Return the picture with each grey under `BLACK_BELOW` black, and all others white, as RGB."""
    table = [0] * BLACK_BELOW + [255] * (256 - BLACK_BELOW)
    return picture.convert("L").point(table).convert("RGB")


def _half_contrast(picture: Image.Image) -> Image.Image:
    """Return the picture mixed half and half with white."""
    return Image.blend(picture, Image.new("RGB", picture.size, "white"), 0.5)


def _magnify(picture: Image.Image, margin: float) -> Image.Image:
    """Show the picture without a margin of each side, a share of that side.

    A negative one adds white.
    """
    width, height = picture.size
    left = round(margin * width)
    upper = round(margin * height)
    if margin > 0:
        return picture.crop((left, upper, width - left, height - upper)).resize(picture.size)
    larger = Image.new("RGB", (width - 2 * left, height - 2 * upper), "white")
    larger.paste(picture, (-left, -upper))
    return larger.resize(picture.size)


class Repainted:
    """A model that is shown another picture of every page.

    Implements `TokenTarget` where the model does.

    Args:
        target: the model.
        change: change of the picture.
    """

    def __init__(self, target: Target, change: PictureChange) -> None:
        """Wrap `target` so that it sees each page's picture as `change` returns it."""
        self.card = target.card
        self.answers = target.answers
        self.labels: tuple[str, ...] = getattr(target, "labels", ())
        self._target = target
        self._change = change

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Encode a document as the target does, with its picture changed when it is opened."""
        page = cast("TokenTarget", self._target).encode(document, around)
        if page is None or page.page_image is None:
            return page
        open_page = partial(self._repaint_pixels, page.page_image.open_page)
        return replace(page, page_image=replace(page.page_image, open_page=open_page))

    def _repaint_pixels(self, open_page: Callable[[], Pixels]) -> Pixels:
        """Open a page's pixels, (3, height, width), and return them changed."""
        picture = Image.fromarray(open_page().transpose(1, 2, 0))
        return np.asarray(self._change(picture), np.uint8).transpose(2, 0, 1)

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Ask the target about pages with changed pictures.

        The pictures of queries about pages are changed when they are opened.
        """
        views: dict[int, PageView] = {}
        return self._target.ask([self._repaint(query, views) for query in queries])

    def _repaint(self, query: Query[A], views: dict[int, PageView]) -> Query[A]:
        """Return the query about the changed page.

        Questions about one page view share the changed one.
        """
        if not isinstance(query, PageViewQuery) or query.view.open_page is None:
            return query
        key = id(query.view)
        if key not in views:
            open_page = partial(_open_changed, query.view.open_page, self._change)
            views[key] = replace(query.view, open_page=open_page)
        return replace(query, view=views[key])

    def token_strings(self, ids: Sequence[int]) -> str:
        """Spell tokens as the target does."""
        return cast("TokenTarget", self._target).token_strings(ids)


def _open_changed(open_page: Callable[[], Image.Image], change: PictureChange) -> Image.Image:
    """Open a page's picture and return it changed."""
    return change(open_page())
