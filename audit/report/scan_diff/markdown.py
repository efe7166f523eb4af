"""A comparison of two scans as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from audit.report.scan_diff import wording
from audit.report.scan_diff.result import OUTCOMES, MetricChange, ScanDiff

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@-])")


def render(diff: ScanDiff) -> str:
    """Draw a comparison: the summary, then a table for each outcome; what cannot be told is folded away."""
    return "\n".join(_lines(diff)) + "\n"


def _lines(diff: ScanDiff) -> Iterator[str]:
    yield from (f"### docaudit: {diff.summary}", "")
    yield from (f"- {_escape(wording.side(name, own))}" for name, own in (("OLD", diff.old), ("NEW", diff.new)))
    yield from (f"- {_escape(note)}" for note in diff.notes)
    for outcome in OUTCOMES:
        changes = diff.of(outcome)
        if changes:
            folded = outcome == "cannot be told"
            heading = f"{wording.HEADINGS[outcome]} ({len(changes)})"
            yield from ("", f"<details><summary>{heading}</summary>" if folded else f"**{heading}**", "")
            yield from _table(changes)
            yield from _reasons(diff) if folded else ()
    if diff.missing:
        yield from ("", f"In neither scan: {_escape('; '.join(diff.missing))}.")
    yield from ("", f"<sub>{_escape(wording.LEGEND)} {_escape(diff.rule)}</sub>")


def _table(changes: Sequence[MetricChange]) -> Iterator[str]:
    yield "| attack | metric | old | new | change | paired |"
    yield "|---|---|--:|--:|--:|---|"
    for change in changes:
        paired = "" if not change.compared else "yes" if change.paired else "no"
        cells = (wording.attack_of(change), change.metric, wording.of(change.before), wording.of(change.after))
        row = (*cells, wording.interval(change), paired)
        yield f"| {' | '.join(map(_escape, row))} |"


def _reasons(diff: ScanDiff) -> Iterator[str]:
    yield ""
    for reason, names in wording.reasons(diff).items():
        yield f"- {_escape(reason)}: {_escape(names)}"
    yield from ("", "</details>")


def _escape(text: str) -> str:
    """Text of a record as it stands: it can neither style, link, nor mention anybody."""
    return (
        _SPECIAL.sub(r"\\\1", " ".join(text.split()))
        .replace(r"\<", "&lt;")
        .replace(r"\&", "&amp;")
        .replace(r"\@", "&#64;")
    )
