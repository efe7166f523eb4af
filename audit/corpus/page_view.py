"""A page as it is laid before a model that answers questions about it: its words and its image, whole or changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from PIL.Image import Image

from audit.corpus.documents import Corpus, Document, Word
from audit.corpus.images import open_image


@dataclass(frozen=True, eq=False)
class PageView:
    """One page. Changing it makes another page view; the first one stays as it was.

    Attributes:
        words: what an OCR reads on the page, in reading order; boxes are pixels of `size`, None where not known.
        size: (width, height) in pixels; None for a text without layout.
        open_page: gives the page as it looks now: RGB, of `size`, bounded; None: there is no image of it. It is called
            when the image is first asked for, and what it gives is never written to.
        output: what a parsing model was taught to write of the page, whatever was changed on it; no model reads it.
    """

    words: tuple[Word, ...]
    size: tuple[int, int] | None = None
    open_page: Callable[[], Image] | None = None
    output: str | None = None

    @cached_property
    def image(self) -> Image | None:
        """The page's image, RGB, of `size`, kept as long as this page view lives; never write to it."""
        return None if self.open_page is None else self.open_page()


def page_view(corpus: Corpus, document: Document) -> PageView:
    """The document's page as it is; its image is opened when it is first asked for."""
    opener = None if document.image is None else partial(open_image, corpus, document)
    return PageView(document.words, document.size, opener, document.output)
