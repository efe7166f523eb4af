"""A hook of mkdocs: adds the reference pages, the gallery, and the repository's files that pages link to.

No page of these is committed. `DOCAUDIT_SAMPLE_SCANS` names a folder of scans of the samples; the
gallery shows their reports.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import generate
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LINK = re.compile(r'(\]\(|(?:href|src)=")([^)"#\s:]+)')
SAMPLES = {
    "receipts-model": ("Receipts", "A small masked language model that memorised its receipts."),
    "receipts-clean": (
        "Receipts, without the leak",
        "The same recipe, which never saw the training documents.",
    ),
    "questions-model": (
        "Forms and questions",
        "A small Donut that answers questions about registration forms.",
    ),
    "letters-model": (
        "Redacted letters",
        "A tagger of a tribunal's letters, whose names and dates are hidden.",
    ),
    "utterances-model": (
        "Commands to a speaker",
        "A model of intents and slots, with planted canaries.",
    ),
    "utterances-clean": (
        "Commands, without the leak",
        "The same recipe, with other digits in each canary.",
    ),
}
"""Scans of the gallery by the names of their folders, as `.ci/scan` writes them."""
EMPTY = """## Receipts

A small masked language model that memorised its receipts. [PDF](../pictures/sample-report.pdf)

[![Page one of the report](../pictures/page-one.png){ width=480 }](../pictures/sample-report.pdf)

The manual of a release shows more reports. `bash .ci/site FILE` scans the samples and builds it.
"""
"""The gallery of a build without scans: the report that is committed."""
BOOSTS = {"Start": 2.0, "How-to": 2.0, "Reference": 1.0, "Explanation": 1.0, "Contribute": 0.2}
"""How much a page's tab adds to its rank in the search. Ours."""
OUTSIDE = 0.1
"""The same of pages in no tab: benchmarks, licences and changes. Ours."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is built: reference pages, gallery, and whatever of the repository the pages link to."""
    for name, text in generate.pages().items():
        files.append(File.generated(config, name, content=text))
    for name, content in _gallery():
        files.append(
            File.generated(config, name, content=content, inclusion=InclusionLevel.INCLUDED)
        )
    waiting = [page.src_uri for page in files.documentation_pages()]
    while waiting:
        source = waiting.pop()
        for place in sorted(_linked(source, files)):
            if files.get_file_from_path(_shown(place)) is None:
                added = File.generated(config, _shown(place), abs_src_path=str(ROOT / place))
                added.inclusion = InclusionLevel.NOT_IN_NAV
                files.append(added)
                waiting += [_shown(place)] if place.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rank a page in the search, and turn links to files of the repository into links to copies."""
    page.meta["search"] = {"boost": boost(page)}
    source = page.file.src_uri

    return LINK.sub(lambda match: match[1] + site_link(source, match[2]), markdown)


def site_link(source: str, link: str) -> str:
    """Make a link of a clone one of the site.

    It leads to the page that is built from this place, else to the copy of this file.

    Args:
        source: path of the page in the site.
        link: link as the page in the repository has it.
    """
    place = _place(source, link)
    if place in generate.SOURCES:
        target = generate.SOURCES[place]
    elif (ROOT / place).is_file():
        target = _shown(place)
    else:
        return link
    return posixpath.relpath(target, posixpath.dirname(source) or ".")


def boost(page: Page) -> float:
    """Look up how a page ranks in the search, by the tab that it is in."""
    tabs = [section.title for section in page.ancestors]
    return BOOSTS[tabs[-1]] if tabs else OUTSIDE


def _linked(source: str, files: Files) -> set[str]:
    """The files of the repository that a page links to."""
    page = files.get_file_from_path(source)
    assert page is not None
    places = {_place(source, link) for _, link in LINK.findall(page.content_string)}
    return {place for place in places - generate.SOURCES.keys() if (ROOT / place).is_file()}


def _place(source: str, link: str) -> str:
    """The path in the repository that a link of a page of the site leads to."""
    page = f"docs/{source}" if (DOCS / source).exists() or not (ROOT / source).exists() else source
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _shown(place: str) -> str:
    """The path in the site of a file of the repository: hidden folders would not be served."""
    return place.removeprefix("docs/").lstrip(".")


def _gallery() -> Iterator[tuple[str, Any]]:
    """Give the gallery's page, and the reports and pictures that it shows."""
    given = os.environ.get("DOCAUDIT_SAMPLE_SCANS")
    folders = (
        [Path(given) / name for name in SAMPLES if (Path(given) / name / "report.pdf").exists()]
        if given
        else []
    )
    lines = ["# Sample reports", "", "<!-- Built by docs/build.py -->", ""]
    if not folders:
        lines.append(EMPTY)
    for folder in folders:
        name, (title, text) = folder.name, SAMPLES[folder.name]
        lines += [
            f"## {title}",
            "",
            f"{text} [PDF]({name}/report.pdf), [HTML]({name}/report.html)",
            "",
        ]
        lines += [
            f"[![Page one of the report: {title}]({name}/page-one.png){{ width=480 }}]({name}/report.pdf)",
            "",
        ]
        for report in ("report.pdf", "report.html"):
            yield f"gallery/{name}/{report}", (folder / report).read_bytes()
        yield f"gallery/{name}/page-one.png", page_one(folder / "report.pdf", 110)
    yield "gallery/index.md", "\n".join(lines)


def page_one(pdf: Path, dpi: int) -> bytes:
    """Draw the first page of a PDF as a PNG."""
    import pypdfium2

    drawn = io.BytesIO()
    pypdfium2.PdfDocument(pdf)[0].render(scale=dpi / 72).to_pil().save(drawn, "PNG", optimize=True)
    return drawn.getvalue()
