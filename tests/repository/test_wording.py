"""Words that no report may use: docaudit has evidence for the attacks it ran, never a legal conclusion."""

import re
from collections.abc import Iterator
from pathlib import Path

import example_private
import example_records as examples
import pytest

from audit.report.html import html
from audit.report.markdown import dpia

ROOT = Path(__file__).parents[2]
FORBIDDEN = re.compile(
    r"\bcompliant\b|\bcompliance\s+with\b|\banonymous|\banonymis|\bguarantees\s+privacy\b", re.I
)
CASES = {
    **examples.CASES,
    "private": example_private.private,
    "contradicted": example_private.contradicted,
}


def sources() -> Iterator[Path]:
    """Every file that holds sentences of a report."""
    yield from (
        path
        for path in (ROOT / "templates").rglob("*")
        if path.suffix in (".html", ".md", ".txt", ".css", ".js")
    )
    yield from (ROOT / "policies").glob("*.toml")
    for folder in ("attacks", "report", "policy"):
        yield from (
            path for path in (ROOT / "audit" / folder).rglob("*") if path.suffix in (".py", ".toml")
        )


@pytest.mark.parametrize(
    "text", ["GDPR-compliant", "in compliance\n with", "Anonymous", "anonymised", "anonymisation"]
)
def test_the_rule_finds_them(text: str) -> None:
    assert FORBIDDEN.search(text)


def test_no_template_policy_or_report_says_them() -> None:
    said = {path.name: FORBIDDEN.findall(path.read_text(encoding="utf-8")) for path in sources()}
    assert len(said) > 50
    assert not {name: words for name, words in said.items() if words}


@pytest.mark.parametrize("name", CASES)
def test_no_drawn_report_says_them(name: str) -> None:
    case = CASES[name]()
    assert not FORBIDDEN.search(html(*case))
    assert not FORBIDDEN.search(dpia(*case))
