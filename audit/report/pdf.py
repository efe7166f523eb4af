"""Print a finished HTML page as PDF/UA-1 with weasyprint; nothing is fetched meanwhile."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal
from unicodedata import category

from audit.errors import RenderError
from audit.resources import folder

PANGO = "PDF: pango is missing; install it (Debian: libpango-1.0-0 libpangoft2-1.0-0; macOS: brew install pango)"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Attachment:
    """A file within a PDF.

    Attributes:
        name: of the file.
        content: its bytes.
        media_type: such as application/json.
        relationship: "Source" where the pages were drawn from it, "Data" where they show some of it.
        description: one line on it, for who reads the list of attachments.
    """

    name: str
    content: bytes
    media_type: str
    relationship: Literal["Source", "Data"]
    description: str


def pdf(html: str, attachments: Sequence[Attachment] = ()) -> bytes:
    """Print a page as PDF/UA-1.

    Title, author, language and date are those of the HTML: the same HTML and attachments give the same bytes. A letter
    that no font of this machine has is written as its number, as the standard allows no gap.

    Raises:
        RenderError: weasyprint is not installed, cannot load pango, or cannot draw the page.
    """
    try:
        import weasyprint
    except (OSError, ImportError) as error:
        raise RenderError(PANGO if isinstance(error, OSError) else f"PDF: {error}") from None
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    try:
        html = _numbered(html, {letter for letter in set(html) if category(letter) == "Co"})
        document = _layout(weasyprint, html)
        content = _write(weasyprint, document, attachments)
        missing = {chr(code) for font in document.fonts.values() for code in font.missing}
        if missing:
            content = _write(weasyprint, _layout(weasyprint, _numbered(html, missing)), attachments)
    except (OSError, ValueError) as error:
        raise RenderError(f"PDF: weasyprint could not draw it ({type(error).__name__})") from None
    return content


def _numbered(html: str, letters: Collection[str]) -> str:
    return html.translate({ord(letter): f"[U+{ord(letter):04X}]" for letter in letters})


def _layout(weasyprint: Any, html: str) -> Any:
    """Lay a page out; weasyprint takes the alternative text of a drawing from its title alone."""
    page = weasyprint.HTML(string=html, url_fetcher=_refuse)
    for svg in page.etree_element.iter(f"{SVG}svg"):
        text = svg.get("aria-label") or ("symbol" if svg.get("aria-hidden") == "true" else "")
        if text and svg.find(f"{SVG}title") is None:
            title = svg.makeelement(f"{SVG}title", {})
            title.text = " ".join(text.split())
            svg.insert(0, title)
    faces, fonts = _typeface()
    return page.render(stylesheets=[faces], font_config=fonts)


@cache
def _typeface() -> tuple[Any, Any]:
    """Load the stylesheet with the shipped typeface, and the fonts it names; the only files that are read to draw."""
    from weasyprint import CSS
    from weasyprint.text.fonts import FontConfiguration
    from weasyprint.urls import URLFetcher

    fonts = FontConfiguration()
    fetcher = URLFetcher(allowed_protocols=("file",))
    return CSS(filename=str(folder("templates") / "fonts.css"), font_config=fonts, url_fetcher=fetcher), fonts


def _write(weasyprint: Any, document: Any, attachments: Sequence[Attachment]) -> bytes:
    metadata = document.metadata
    metadata.modified = metadata.created
    moment = _moment(metadata.created)
    fetcher = weasyprint.urls.URLFetcher(allowed_protocols=("data",))
    metadata.attachments = [
        weasyprint.Attachment(
            # A data URL has its media type with it; by the name alone each machine would guess another one.
            url=f"data:{one.media_type};base64,{b64encode(one.content).decode()}",
            url_fetcher=fetcher,
            name=one.name,
            description=one.description,
            relationship=one.relationship,
            created=moment,
            modified=moment,
        )
        for one in sorted(attachments, key=lambda one: one.name)  # as readers search the names
    ]
    content: bytes = document.write_pdf(pdf_variant="pdf/ua-1")
    return content


def _moment(created: str | None) -> datetime:
    """The time that an HTML page states, in UTC; a fixed one where it states none."""
    try:
        return datetime.fromisoformat(created or "").astimezone(UTC)
    except ValueError:
        return EPOCH


def _refuse(url: str, *_: Any, **__: Any) -> dict[str, Any]:
    """Stand in for a download: a report holds all it needs."""
    raise ValueError(f"a report fetches nothing: {url}")
