"""Make the links of README.md absolute for the page of the package index; hatchling runs it for each build.

Links in the repository stay relative, so that they lead to the commit which is read.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGE = "blob/HEAD"
"""Where a repository's web pages show a file."""
FILE = "raw/HEAD"
"""Where they give its content, as a picture needs."""
_MARKDOWN = re.compile(r"(?P<before>(?P<picture>!)?\[[^\[\]]*\]\()(?P<target>[^)\s]+)(?=\))")
_NESTED = re.compile(r"(?P<before>(?P<picture>)\)\]\()(?P<target>[^)\s]+)(?=\))")
_HTML = re.compile(r'(?P<before>(?:(?P<picture>src)|href)=")(?P<target>[^"\s]+)(?=")')
_ABSOLUTE = re.compile(r"#|[a-z]+:")


class Readme(MetadataHookInterface):
    """The long description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in `readme`; the address comes from the project's own table of addresses."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = str(metadata["urls"]["Repository"])
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": make_absolute(text, address),
        }


def make_absolute(text: str, repository: str) -> str:
    """Return a page with absolute addresses in place of its relative links and pictures.

    Args:
        text: page in Markdown, with some HTML.
        repository: address of the repository's first page.
    """

    def absolute(link: re.Match[str]) -> str:
        target = link["target"]
        if _ABSOLUTE.match(target):
            return link[0]
        place, hash_sign, anchor = target.partition("#")
        folder = FILE if link["picture"] else PAGE
        path = posixpath.normpath(f"{folder}/{place}")
        return f"{link['before']}{repository}/{path}{hash_sign}{anchor}"

    for pattern in (_MARKDOWN, _NESTED, _HTML):
        text = pattern.sub(absolute, text)
    return text
