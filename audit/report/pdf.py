"""The report as PDF, drawn by weasyprint from the finished HTML; nothing is fetched while it draws."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from audit.errors import RenderError

PANGO = "PDF: pango is missing; install it (Debian: libpango-1.0-0 libpangoft2-1.0-0; macOS: brew install pango)"


def pdf(html: str) -> bytes:
    """The PDF of a report: tagged, with title, author and language from the HTML.

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
            return _write(weasyprint.HTML(string=html, url_fetcher=_refuse).render())
    except (OSError, ValueError) as error:
        raise RenderError(f"PDF: weasyprint could not draw it ({type(error).__name__})") from None


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
