"""Notes that qualify a verdict, a line each: its policy, its waivers, what it says nothing about, whose word it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from audit.policy import Verdict
from audit.policy.compared import Baseline
from audit.record import AuditRecord
from audit.report.declared import plausibility
from audit.report.leaks import MeasuredLeak, unlimited, within

MOST_LISTED = 4
"""Findings outside the policy that are listed, the worst first (ours); the others are counted."""
ACCEPTED = "Within the limits of this policy, and yet a leak"
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
        if verdict.identity.looser:
            yield Note("another policy", f"Policy: {verdict.identity.looser}")
    if verdict.baseline is not None:
        yield from (Note("baseline", text) for text in _against(verdict.baseline))
    for entry in verdict.waivers:
        yield Note("waiver", f"Waiver: {entry.sentence}")
    yield from _listed(ACCEPTED, within(record, verdict))
    yield from _listed("Measured, but not limited by this policy", unlimited(record, verdict))
    word = plausibility(record, verdict) if verdict.overall in ("passed", "waived") else None
    if word is not None:
        yield Note("declared", word.sentence)


def _against(baseline: Baseline) -> Iterator[str]:
    """The earlier scan, every limit that is worse or gone, and what differs between both scans."""
    yield f"Baseline: {baseline.sentence}"
    for limit in (*baseline.of("worse"), *baseline.of("no longer measured")):
        yield f"  {limit.outcome}: {limit.attack} {limit.metric}: {limit.reason}"
    yield from (f"  {note}" for note in baseline.notes)


def _listed(heading: str, found: Sequence[MeasuredLeak]) -> Iterator[Note]:
    """The worst findings under a heading, and how many there are besides; nothing where there are none."""
    if found:
        yield Note("outside", heading)
        yield from (Note("outside", f"  {told(leak)}") for leak in found[:MOST_LISTED])
        if len(found) > MOST_LISTED:
            yield Note("outside", f"  and {len(found) - MOST_LISTED} more")


def told(leak: MeasuredLeak) -> str:
    """A finding with the names by which a policy would limit it."""
    note = f" (undecided whether this is memory: {leak.confounded})" if leak.confounded is not None else ""
    return f"{leak.attack} {leak.metric}: {leak.sentence}{note}"
