"""What a reader sees of an HTML page."""

from __future__ import annotations

from html.parser import HTMLParser

from example_records import Case

from audit.report import numbers
from audit.report.html import render, report_context

HOSTILE = "<script>alert('x')</script>\"&"


class Seen(HTMLParser):
    """Every attribute, every id, every tag, and the text, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace(numbers.NBSP, " ").split())


def decision(case: Case) -> str:
    """Draw the decision report of a record as HTML."""
    return render("decision.html", report_context(*case))
