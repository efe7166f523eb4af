"""Parts of a page that one can move about in: contents, search without a server, a policy that lets nothing in."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from audit.resources import folder

CONTENTS_MARK = "<!--contents-->"
"""The place of the contents in a page whose sections are not known before it is drawn."""
_SECTION = re.compile(
    r'<section\b[^>]*\bid="(?P<anchor>[\w-]+)"[^>]*>\s*(?:<h2\b[^>]*\btitle\b[^>]*>(?P<title>.*?)</h2>)?',
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class ContentsEntry:
    """A line of the contents."""

    anchor: str
    title: Markup


def script() -> Markup:
    """The page's script: it searches the page and opens what is folded; it asks for nothing."""
    return Markup((folder("templates") / "search.js").read_text(encoding="utf-8"))


def script_hash() -> str:
    """The script's hash, as a content security policy names it: no other script runs in the page."""
    digest = hashlib.sha256(str(script()).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def add_contents(text: str, templates: jinja2.Environment) -> str:
    """Put the contents of a drawn page in place of the mark: a link for every section with a title."""
    entries = [
        ContentsEntry(found["anchor"], Markup(_TAG.sub("", found["title"] or "Summary")))
        for found in _SECTION.finditer(text)
        if found["title"] or found["anchor"] == "summary"
    ]
    return text.replace(CONTENTS_MARK, templates.get_template("_contents.html").render(parts=entries), 1)
