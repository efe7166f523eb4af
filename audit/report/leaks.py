"""Write the notes that qualify a verdict.

They name findings beside its limits, what was used, and whose word it takes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from audit.measurements import Estimate
from audit.policy import Decision, Verdict
from audit.policy.decision import Baseline
from audit.record import AuditRecord, Result
from audit.report.exports import export_view
from audit.report.facts.definitions import Facts, MeasuredLeak, title_of
from audit.report.labels import LABELS, UTILITY
from audit.report.numbers import NBSP, duration, interval, share_tried, show


def untested(facts: Facts) -> str:
    """Name the classes of attack of which no limit was decided."""
    classes = []
    if not facts.decides_extraction:
        classes.append("what the model gives back (no attack that extracts was decided)")
    if not facts.decides_recognition:
        classes.append("which documents it was trained on (membership was not decided)")
    return " and ".join(classes)


def headline(facts: Facts) -> str:
    """Return the verdict's reason, and what qualifies it."""
    return f"{facts.verdict.reason}{qualified(facts)}"


def qualified(facts: Facts) -> str:
    """Say how the policy is looser, and count the findings that no limit of it is about."""
    return f"{looser_policy(facts.verdict)}{findings_outside(facts)}"


def looser_policy(verdict: Verdict) -> str:
    """Say how the policy asks less than the shipped one, to append to a sentence; or empty."""
    if verdict.identity is None or not verdict.identity.looser:
        return ""
    return f"; the policy: {verdict.identity.looser}"


def findings_outside(facts: Facts) -> str:
    """Count the findings that limits accept or that no limit is about, to append to a sentence.

    Or empty.
    """
    clauses = ""
    n_accepted = len(facts.accepted)
    if n_accepted:
        limits = "limit leaves" if n_accepted == 1 else "limits leave"
        clauses = f"; {n_accepted} met {limits} a measured leak"
    n_outside = len(facts.outside)
    if n_outside:
        lie = "finding lies" if n_outside == 1 else "findings lie"
        clauses = f"{clauses}; {n_outside} measured {lie} outside this policy"
    return clauses


_SPLITS = {
    "member": ("member documents", "declared as trained on"),
    "heldout": ("held-out documents", "declared as never seen"),
}
"""By split, the count of an attack, and the words for it."""


@dataclass(frozen=True)
class Plausibility:
    """Whether anything that was measured shows that the model saw the documents of the training.

    Attributes:
        state: "signs": something does; "none": nothing does; "open": nothing does, and not all that
            would show it was decided; "unmeasured": nothing that could was measured.
        sentence: the same in plain words.
    """

    state: Literal["signs", "none", "open", "unmeasured"]
    sentence: str


def plausibility(facts: Facts) -> Plausibility | None:
    """Look for signs that the model saw the documents which its owner declares as trained on.

    Any measurement on these documents that lies beyond what it would be without them is a sign (at
    1 % false alarms on each side, for all of them together). None says nothing against the owner,
    but then a wrong list of documents would have given the same report.

    Returns:
        None where no model was audited, or one that was to forget them.
    """
    record = facts.record
    verdict = facts.verdict
    if not record.target.is_model or record.corpus.forgotten:
        return None
    words = LABELS["declared"]
    if facts.signs:
        if verdict.overall in ("passed", "waived") and facts.leaves_findings:
            return Plausibility("signs", words["signs outside"])
        return Plausibility("signs", words["signs"])
    if all(verdict.settled.confounded(attack) is not None for attack in record.completed):
        return Plausibility("unmeasured", words["unmeasured"])
    gap = untested(facts)
    if gap:
        return Plausibility("open", words["open"].format(gap=gap))
    return Plausibility("none", words["none"])


def documents_used(record: AuditRecord) -> Iterator[str]:
    """Say how many documents an attack used, and why.

    Nothing of an attack that used all that the data set holds.
    """
    for result in record.completed.values():
        counts = {count.name: count.value for count in result.counts}
        splits = []
        fewer = False
        for split, (name, words) in _SPLITS.items():
            if name in counts:
                documents = record.corpus.documents.get(split, 0)
                splits.append(f"{counts[name]:,} of {documents:,} {words}")
                fewer = fewer or counts[name] < documents
        if fewer:
            yield f"{title_of(result.attack)}: used {' and '.join(splits)}{_left_out(result)}"


def _left_out(result: Result) -> str:
    """Say in brackets which documents an attack left out; empty where the result names none."""
    reasons = [
        f"{count.value:,} {count.name}"
        for count in result.counts
        if count.name.startswith("left out: ") and count.value
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""


def tried_in_part(record: AuditRecord) -> Iterator[str]:
    """Say that a budget or a bound left a part untried.

    Nothing where all that could be tried was tried.
    """
    if record.share < 1:
        tried = share_tried(record.share, record.shares)
        yield f"The budget “{record.budget}” took {tried} of what could be tried."
    bounds = record.bounds
    if bounds is None:
        return
    if bounds.documents is not None:
        yield f"At most {bounds.documents:,} of the documents trained on and never seen were tried."
    elif bounds.seconds is not None and bounds.part < 1:
        yield f"Documents were tried as far as {duration(bounds.seconds)} allowed."


MOST_LISTED = 4
"""Findings outside the policy that are listed, the worst first; the others are counted."""
ACCEPTED = "Within the limits of this policy, and yet a leak"
OUTSIDE = "Measured, but not limited by this policy"
LOW_USEFULNESS = 0.5
"""A score of the model's task that is shown beside every verdict lies under this."""
NoteKind = Literal[
    "policy",
    "another policy",
    "usefulness",
    "export",
    "baseline",
    "waiver",
    "count",
    "outside",
    "declared",
]


@dataclass(frozen=True)
class Note:
    """One line under a verdict."""

    kind: NoteKind
    text: str


def notes(facts: Facts) -> Iterator[Note]:
    """Yield the notes that qualify a verdict; signs of training only beside a pass."""
    verdict = facts.verdict
    yield from _describe_policy(verdict)
    yield from _name_low_usefulness(facts.record)
    export = export_view(facts.record)
    if export is not None:
        for text in export.lines:
            yield Note("export", text)
    if verdict.baseline is not None and verdict.baseline.role == "baseline":
        for text in _compare_with_baseline(verdict.baseline):
            yield Note("baseline", text)
    for entry in verdict.waivers:
        yield Note("waiver", f"Waiver: {entry.sentence}")
    yield from _name_wide_counts(verdict)
    yield from _list_findings(ACCEPTED, facts.accepted)
    yield from _list_findings(OUTSIDE, facts.outside)
    if verdict.overall in ("passed", "waived"):
        declared = plausibility(facts)
        if declared is not None:
            yield Note("declared", declared.sentence)


def _describe_policy(verdict: Verdict) -> Iterator[Note]:
    """Say which policy it is, and how it differs from the declared and from the shipped one."""
    identity = verdict.identity
    if identity is None:
        return
    yield Note("policy", f"Policy: {identity.sentence}")
    if identity.warning:
        yield Note("another policy", f"Policy: {identity.warning}")
    if identity.looser:
        yield Note("another policy", f"Policy: {identity.looser}")


def _name_low_usefulness(record: AuditRecord) -> Iterator[Note]:
    """Say how well the model does its task where that is less than half of what is possible."""
    for item in record.utility:
        if not isinstance(item, Estimate) or item.value >= LOW_USEFULNESS:
            continue
        label = UTILITY.label(item.name)
        score = f"{show(item.value, 'share')} ({interval(item, 'share')})".replace(NBSP, " ")
        commonest = ""
        if item.null is not None and item.null_kind == "chance":
            commonest = f"; always giving the commonest answer scores {show(item.null, 'share')}"
        yield Note("usefulness", f"On unseen documents: {label}: {score}{commonest}")


def _name_wide_counts(verdict: Verdict) -> Iterator[Note]:
    """Say of each count that met its limit, and may lie over it, what is shown and not excluded."""
    for decision in verdict.decisions:
        if _may_lie_over(decision):
            limit = decision.limit
            measured = decision.measured
            assert measured is not None
            value = f"{show(measured.value, 'number')} {measured.unit}"
            name = f"{limit.attack} {limit.metric}"
            yield Note("count", f"{name}: {value}, {decision.count_range}; limit {limit.max:g}")


def _may_lie_over(decision: Decision) -> bool:
    """Tell whether a count met its limit by its estimate, and its interval reaches over it."""
    if decision.outcome != "passed" or decision.measured is None or not decision.count_range:
        return False
    return decision.limit.max is not None and decision.measured.high > decision.limit.max


def _compare_with_baseline(baseline: Baseline) -> Iterator[str]:
    """Describe the earlier scan, every limit that is worse or gone, and how the scans differ."""
    yield f"Baseline: {baseline.sentence}"
    for limit in (*baseline.of("worse"), *baseline.of("no longer measured")):
        yield f"  {limit.outcome}: {limit.attack} {limit.metric}: {limit.reason}"
    for note in baseline.notes:
        yield f"  {note}"


def _list_findings(heading: str, leaks: Sequence[MeasuredLeak]) -> Iterator[Note]:
    """Yield the worst findings under a heading, and count the others.

    Nothing where there are none.
    """
    if not leaks:
        return
    yield Note("outside", heading)
    for leak in leaks[:MOST_LISTED]:
        yield Note("outside", f"  {describe_leak(leak)}")
    if len(leaks) > MOST_LISTED:
        yield Note("outside", f"  and {len(leaks) - MOST_LISTED} more")


def describe_leak(leak: MeasuredLeak) -> str:
    """Describe a leak with the names by which a policy would limit it."""
    note = ""
    if leak.confounded is not None:
        note = f" (undecided whether this is memory: {leak.confounded})"
    return f"{leak.attack} {leak.metric}: {leak.sentence}{note}"
