"""Notes that qualify a verdict, a line each: its policy, its waivers, what it says nothing about, whose word it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from audit.policy import Verdict
from audit.policy.compared import Baseline
from audit.record import AuditRecord
from audit.report.declared import plausibility
from audit.report.leaks import MeasuredLeak, unlimited

MOST_LISTED = 4
"""Findings outside the policy that are listed, the worst first (ours); the others are counted."""
NoteKind = Literal["policy", "another policy", "baseline", "waiver", "outside", "declared"]


@dataclass(frozen=True)
class Note:
    """One line under a verdict."""

    kind: NoteKind
    text: str


def notes(record: AuditRecord, verdict: Verdict) -> Iterator[Note]:
    """Yield what a reader of the verdict must know beside it; `plausibility` only beside a pass.

    Args:
        record: that was judged.
        verdict: on it.
    """
    if verdict.identity is not None:
        yield Note("policy", f"Policy: {verdict.identity.sentence}")
        if verdict.identity.warning:
            yield Note("another policy", f"Policy: {verdict.identity.warning}")
    if verdict.baseline is not None:
        yield from (Note("baseline", text) for text in _against(verdict.baseline))
    for entry in verdict.waivers:
        yield Note("waiver", f"Waiver: {entry.sentence}")
    outside = unlimited(record, verdict)
    if outside:
        yield Note("outside", "Measured, but not limited by this policy")
        yield from (Note("outside", f"  {told(leak)}") for leak in outside[:MOST_LISTED])
        if len(outside) > MOST_LISTED:
            yield Note("outside", f"  and {len(outside) - MOST_LISTED} more")
    word = plausibility(record) if verdict.overall in ("passed", "waived") else None
    if word is not None:
        yield Note("declared", word.sentence)


def _against(baseline: Baseline) -> Iterator[str]:
    """The earlier scan, every limit that is worse or gone, and what differs between both scans."""
    yield f"Baseline: {baseline.sentence}"
    for limit in (*baseline.of("worse"), *baseline.of("no longer measured")):
        yield f"  {limit.outcome}: {limit.attack} {limit.metric}: {limit.reason}"
    yield from (f"  {note}" for note in baseline.notes)


def told(leak: MeasuredLeak) -> str:
    """A finding with the names by which a policy would limit it."""
    note = f" (undecided whether this is memory: {leak.confounded})" if leak.confounded is not None else ""
    return f"{leak.attack} {leak.metric}: {leak.sentence}{note}"
