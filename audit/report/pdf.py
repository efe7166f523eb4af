"""The report as PDF, drawn by weasyprint from the finished HTML; nothing is fetched while it draws."""

from __future__ import annotations

import gc
import logging
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from audit.errors import RenderError

PANGO = "PDF: pango is missing; install it (Debian: libpango-1.0-0 libpangoft2-1.0-0; macOS: brew install pango)"
END_OF_PAGE_ONE = "<!--page one ends-->"
"""The mark in the HTML where page two begins, if its first page has to be one page."""
SIZES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.71)
"""Type sizes tried for page one, until it fits (chosen here: 0.71 of 9.2 pt is the smallest that one still reads)."""


def pdf(html: str) -> bytes:
    """The PDF of a report: tagged, with title, author and language from the HTML, page one on one page where it can be.

    Raises:
        RenderError: weasyprint is not installed, cannot load pango, or cannot draw the page.
    """
    try:
        import weasyprint
    except (OSError, ImportError) as error:
        raise RenderError(PANGO if isinstance(error, OSError) else f"PDF: {error}") from None
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    try:
        with _no_garbage_collection():
            return _write(_fitted(weasyprint, html))
    except (OSError, ValueError) as error:
        raise RenderError(f"PDF: weasyprint could not draw it ({type(error).__name__})") from None


def _fitted(weasyprint: Any, html: str) -> Any:
    """The laid-out document with the largest type that keeps page one on one page; page one alone is tried first."""
    page_one, marked, _ = html.partition(END_OF_PAGE_ONE)
    if not marked:
        return weasyprint.HTML(string=html, url_fetcher=_refuse).render()

    def view(size: float) -> Any:
        return weasyprint.CSS(string=f".page-one {{ font-size: {size:.2f}em }}", url_fetcher=_refuse)

    alone = weasyprint.HTML(string=page_one, url_fetcher=_refuse)

    def fits(size: float) -> bool:
        return len(alone.render(stylesheets=[view(size)]).pages) == 1

    # The smaller the type the shorter the page; most reports fit as they are, and the smallest size is the last resort.
    size = SIZES[0] if fits(SIZES[0]) else SIZES[bisect_left(SIZES, True, lo=1, hi=len(SIZES) - 1, key=fits)]
    return weasyprint.HTML(string=html, url_fetcher=_refuse).render(stylesheets=[view(size)])


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Within, cycles are not searched for: a layout makes millions of objects that stay, a quarter of its time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _write(document: Any) -> bytes:
    content = document.write_pdf(pdf_variant="pdf/ua-1")
    assert isinstance(content, bytes)
    return content


def _refuse(url: str, *_: Any, **__: Any) -> dict[str, Any]:
    """Stand in for a download: a report holds all it needs."""
    raise ValueError(f"a report fetches nothing: {url}")
