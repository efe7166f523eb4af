"""What a reader sees of a page, and whether that is what was committed."""

import os
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from example_records import Case

from audit.compare.defended import MeasuredDefense
from audit.report import numbers
from audit.report.changes import Changes
from audit.report.html import render, report_context

TEXTS = Path(__file__).parents[1] / "report" / "texts"
HOSTILE = "<script>alert('x')</script>\"&"


class Seen(HTMLParser):
    """Every attribute, every id, every tag, and the text, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(re.sub(r'<a class="term"[^>]*>(.*?)</a>', r"\1", page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace(numbers.NBSP, " ").split())


def decision(
    case: Case, comparisons: Sequence[MeasuredDefense] = (), changes: Changes | None = None
) -> str:
    """Draw the decision report of a record as HTML."""
    return render("decision.html", report_context(*case, comparisons, changes))


def page_one(case: Case) -> str:
    """The text of page one of the decision report."""
    return Seen(decision(case).partition("</section>")[0]).text


def check_text(name: str, text: str) -> None:
    """Compare a text, a sentence a line, with texts/NAME.txt; DOCAUDIT_WRITE_TEXTS=1 writes it."""
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", text, flags=re.DOTALL)
    seen = Seen(text).text if text.lstrip().startswith("<") else text.replace(numbers.NBSP, " ")
    said = re.sub(r"(?<=[.?]) (?=[A-Z“])", "\n", re.sub(r" +\n", "\n", seen.strip())) + "\n"
    path = TEXTS / f"{name}.txt"
    if os.environ.get("DOCAUDIT_WRITE_TEXTS"):
        path.write_text(said, encoding="utf-8")
    assert said == path.read_text(encoding="utf-8"), (
        "if that is meant: DOCAUDIT_WRITE_TEXTS=1 pytest this file"
    )
