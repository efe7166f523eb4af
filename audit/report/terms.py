"""The glossary of the full report, and links to it from the first use of each term in a section."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import escape

from audit.files import table_beside
from audit.report.numbers import NBSP

GENERAL: Mapping[str, str] = table_beside(__file__, "glossary.toml")["terms"]
"""Meaning by term, whatever the attacks."""
CLOSED = frozenset({"a", "button", "caption", "code", "h1", "h2", "h3", "h4", "script", "style", "summary", "svg"})
"""Elements in which no term is linked."""
SHORTEST = 3
"""Letters of a term that is linked: a shorter one would be found in other words."""
_PIECE = re.compile(r"(<[^>]*>)")
_TAG = re.compile(r"</?([a-z0-9]+)")


@dataclass(frozen=True)
class Term:
    """A term of the glossary; `anchor` is its id in the page."""

    anchor: str
    name: str
    meaning: str

    @property
    def forms(self) -> tuple[str, ...]:
        """Return the words by which a text names it: those between its brackets and commas."""
        return tuple(form for form in re.split(r" \(|, |\)", self.name) if len(form) >= SHORTEST)


def glossary(own: Mapping[str, str]) -> tuple[Term, ...]:
    """List the terms of a report by name: the general ones, and those of its attacks, which win."""
    pairs = sorted({**GENERAL, **own}.items(), key=lambda pair: pair[0].lower())
    return tuple(Term(f"term-{number}", *pair) for number, pair in enumerate(pairs, 1))


def link_terms(page: str, terms: Sequence[Term]) -> str:
    """Link the first use of each term in every section to the glossary, which describes it to a screen reader too."""
    anchors = {str(escape(form)).lower(): term.anchor for term in terms for form in term.forms}
    if not anchors:
        return page
    spaced = (re.escape(form).replace(r"\ ", f"[ {NBSP}]") for form in anchors)
    longest_first = sorted(spaced, key=len, reverse=True)
    words = re.compile(rf"(?<![\w-])({'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)
    before, start, rest = page.partition("<main>")
    body, end, after = rest.partition('id="glossary"')
    return "".join((before, start, *_linked(body, words, anchors), end, after))


def _linked(body: str, words: re.Pattern[str], anchors: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    closed = 0

    def link(found: re.Match[str]) -> str:
        anchor = anchors[found[0].lower().replace(NBSP, " ")]
        if anchor in seen:
            return found[0]
        seen.add(anchor)
        return f'<a class="term" href="#{anchor}" aria-describedby="{anchor}-is">{found[0]}</a>'

    for piece in _PIECE.split(body):
        tag = _TAG.match(piece)
        if tag is None:
            yield piece if closed else words.sub(link, piece)
            continue
        if tag[1] == "section":
            seen.clear()
        if tag[1] in CLOSED:
            closed += -1 if piece.startswith("</") else 1
        yield piece
