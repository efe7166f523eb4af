"""Find measurements that speak for a leak whatever the policy limits, and the notes that qualify a verdict."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from audit.attacks import TEXTS, text_of
from audit.measurements import Estimate
from audit.policy import Verdict
from audit.policy.checks import p_explained
from audit.policy.decision import Baseline
from audit.record import AuditRecord, Result
from audit.report.answer import EXTRACTING, LABELS, finding_sentence
from audit.report.numbers import duration, share_tried, show
from audit.stats.p_values import holm

LEVEL = 0.025
"""One-sided level at which a measurement counts as a leak by itself: that of a two-sided interval
of 95 %."""
FAMILY = 0.01
"""Level of all measurements of a record together, by Holm's rule: at 0.05 one clean scan in 20 is
accused."""
RECOGNISING = ("membership",)


@dataclass(frozen=True)
class MeasuredLeak:
    """A measurement whose interval lies beyond what no leak gives.

    Attributes:
        attack: that measured it.
        metric: as a policy would limit it.
        measured: the strongest of the methods that answer for the metric.
        reach: how much of the way from its null to the most that it can be is shown, 0 to 1.
        sentence: what it is, with count or value and interval.
        about_text: whether it says what the documents give away, whatever the model.
        confounded: what else may explain it; None where nothing does.
    """

    attack: str
    metric: str
    measured: Estimate
    reach: float
    sentence: str
    about_text: bool = False
    confounded: str | None = None


def leaks(record: AuditRecord, level: float | None = None) -> list[MeasuredLeak]:
    """List the measurements that show a leak by themselves, the worst first.

    Args:
        record: the measurements.
        level: for all measurements of the record together, by Holm's rule; None: `LEVEL` for each.
    """
    asked = [
        (result, metric, shown, [*_estimates_of_metric(result, metric)])
        for result in record.completed.values()
        for metric, shown in _leak_metrics(result).items()
    ]
    p_values = {}
    for result, _, _, estimates in asked:
        for estimate in estimates:
            p_values[result.attack, estimate.name] = _p_value(estimate)
    adjusted = p_values if level is None else holm(p_values)
    found = []
    for result, metric, shown, methods in asked:
        own = LEVEL / len(methods) if methods and level is None else level or LEVEL
        shows = [item for item in methods if adjusted[result.attack, item.name] <= own]
        if not shows:
            continue
        reach, worst = max(
            ((_reach(result.attack, item, own), item) for item in shows), key=lambda pair: pair[0]
        )
        about_text = metric in result.about_text
        sentence = _describe_finding(result, metric, worst, shown)
        # Something else than memory may explain that a number lies beyond its null.
        null = worst.null or 0.0
        explained = p_explained(record, result, worst, null, mirrored=worst.value < null)
        why = result.confounded if explained > own else None
        found.append(MeasuredLeak(result.attack, metric, worst, reach, sentence, about_text, why))
    return sorted(found, key=lambda leak: -leak.reach)


def unlimited(record: AuditRecord, verdict: Verdict) -> tuple[MeasuredLeak, ...]:
    """List the measured leaks that no limit of the policy is about, the worst first."""
    limited = {(decision.limit.attack, decision.limit.metric) for decision in verdict.decisions}
    return tuple(leak for leak in leaks(record) if (leak.attack, leak.metric) not in limited)


def within(record: AuditRecord, verdict: Verdict) -> tuple[MeasuredLeak, ...]:
    """List the measured leaks whose limit is met all the same, the worst first.

    All measurements together are held at `FAMILY`, as they are for signs of the training
    (`declared.plausibility`).
    """
    met = {
        (one.limit.attack, one.limit.metric) for one in verdict.decisions if one.outcome == "passed"
    }
    return tuple(leak for leak in leaks(record, FAMILY) if (leak.attack, leak.metric) in met)


def untested(verdict: Verdict) -> str:
    """Name the classes of attack of which no limit was decided."""
    decided = {
        one.limit.attack
        for one in verdict.decisions
        if one.outcome in ("passed", "violated", "waived")
    }
    classes = (
        (EXTRACTING, "what the model gives back (no attack that extracts was decided)"),
        (RECOGNISING, "which documents it was trained on (membership was not decided)"),
    )
    return " and ".join(words for attacks, words in classes if not decided & {*attacks})


def headline(record: AuditRecord, verdict: Verdict) -> str:
    """Return the verdict's reason, with how the policy is looser, and the findings that no limit of it is about."""
    return f"{verdict.reason}{looser_policy(verdict)}{findings_outside(record, verdict)}"


def looser_policy(verdict: Verdict) -> str:
    """Say how the policy asks less than the shipped one, to append to a sentence; or empty."""
    if verdict.identity is None or not verdict.identity.looser:
        return ""
    return f"; the policy: {verdict.identity.looser}"


def leaves_findings(record: AuditRecord, verdict: Verdict) -> bool:
    """Test whether something was measured that limits accept or that no limit is about: a pass does not answer it."""
    return bool(within(record, verdict) or unlimited(record, verdict))


def findings_outside(record: AuditRecord, verdict: Verdict) -> str:
    """Count the findings that limits accept or that no limit is about, to append to a sentence.

    Or empty.
    """
    accepted, outside = len(within(record, verdict)), len(unlimited(record, verdict))
    told = (
        f"; {accepted} met {'limit leaves' if accepted == 1 else 'limits leave'} a measured leak"
        if accepted
        else ""
    )
    if not outside:
        return told
    return f"{told}; {outside} measured {'finding lies' if outside == 1 else 'findings lie'} outside this policy"


def _leak_metrics(result: Result) -> dict[str, str]:
    """Return the metrics that show a leak by themselves.

    Of an unknown attack those that policies limit.
    """
    text = TEXTS.get(result.attack)
    if text is None:
        return {metric: metric for metric in result.methods}
    return text.tells or {metric: metric for metric in text.trend.summary.values()}


def _estimates_of_metric(result: Result, metric: str) -> Iterator[Estimate]:
    """Yield the estimates with a null that belong to a metric."""
    names = result.methods.get(metric, (metric,))
    for item in result.measurements:
        if isinstance(item, Estimate) and item.name in names and item.null is not None:
            yield item


def _null_value(measured: Estimate) -> float:
    """Return the value without a leak; one measured on held-out documents is at least 0."""
    null = measured.null or 0.0
    return max(null, 0.0) if measured.null_kind == "held-out" else null


def _p_value(measured: Estimate) -> float:
    """Return a p-value against no leak: one-sided, two-sided of an area.

    Without bounds by the interval.
    """
    null = _null_value(measured)
    if not measured.bounds:
        beyond = measured.low > null or (measured.is_area and measured.high < null)
        return LEVEL if beyond else 1.0
    # An area under chance tells as much; each side is held at the level of its own bound.
    return min(measured.p_above(null), measured.p_below(null) if measured.is_area else 1.0)


def _reach(attack: str, measured: Estimate, level: float) -> float:
    """Return how much of the way from the null to the maximum a one-sided bound shows.

    0 or less: no leak.
    """
    null = _null_value(measured)
    bounds = [bound for bound in measured.bounds if bound.alpha <= level]
    beyond = max((bound.lower for bound in bounds), default=measured.low) - null
    if measured.is_area:
        beyond = max(beyond, null - min((bound.upper for bound in bounds), default=measured.high))
    text = TEXTS.get(attack)
    most = (
        None
        if text is None or measured.name not in text.names
        else text.metric(measured.name).upper
    )
    if most is None:
        return math.copysign(abs(beyond) / (1 + abs(beyond)), beyond)
    return beyond / (most - null) if most > null else 0.0


def _describe_finding(result: Result, metric: str, strongest: Estimate, shown: str) -> str:
    """Describe a finding by its plainest number, or by that of the strongest method."""
    plain = next(
        (item for item in result.measurements if item.name == shown and isinstance(item, Estimate)),
        None,
    )
    told = strongest if plain is None or shown == metric else plain
    text = TEXTS.get(result.attack)
    if told.low == told.high and text is not None:
        return f"{text.label(told.name)}: {show(told.value, text.metric(told.name).form)}".replace(
            "\u00a0", " "
        )
    return finding_sentence(result.attack, told)


_SPLITS = {
    "member": ("member documents", "declared as trained on"),
    "heldout": ("held-out documents", "declared as never seen"),
}
"""By split, the count of an attack, and the words for it."""


@dataclass(frozen=True)
class Plausibility:
    """Whether anything that was measured shows that the model saw the documents declared as trained on.

    Attributes:
        state: "signs": something does; "none": nothing does; "open": nothing does, and not all that
            would show it was decided; "unmeasured": nothing that could was measured.
        sentence: the same in plain words.
    """

    state: Literal["signs", "none", "open", "unmeasured"]
    sentence: str


def plausibility(record: AuditRecord, verdict: Verdict) -> Plausibility | None:
    """Look for signs that the model saw the documents which its owner declares as trained on.

    Any measurement on these documents that lies beyond what it would be without them is a sign (at
    1 % false alarms on each side, for all of them together). None says nothing against the owner,
    but then a wrong list of documents would have given the same report.

    Returns:
        None where no model was audited, or one that was to forget them.
    """
    if not record.target.is_model or record.corpus.forgotten:
        return None
    signs = [
        leak for leak in leaks(record, FAMILY) if not leak.about_text and leak.confounded is None
    ]
    if signs and verdict.overall in ("passed", "waived") and leaves_findings(record, verdict):
        return Plausibility("signs", LABELS["declared"]["signs outside"])
    if signs:
        return Plausibility("signs", LABELS["declared"]["signs"])
    if not any(result.confounded is None for result in record.completed.values()):
        return Plausibility("unmeasured", LABELS["declared"]["unmeasured"])
    if gap := untested(verdict):
        return Plausibility("open", LABELS["declared"]["open"].format(gap=gap))
    return Plausibility("none", LABELS["declared"]["none"])


def documents_used(record: AuditRecord) -> Iterator[str]:
    """Say how many documents each attack used, and why, where it used fewer than the data set holds."""
    for result in record.completed.values():
        counts = {count.name: count.value for count in result.counts}
        used = [
            (counts[name], record.corpus.documents.get(split, 0), words)
            for split, (name, words) in _SPLITS.items()
            if name in counts
        ]
        if any(count < held for count, held, _ in used):
            parts = " and ".join(f"{count:,} of {held:,} {words}" for count, held, words in used)
            left_out = {
                name: n for name, n in counts.items() if name.startswith("left out: ") and n
            }
            why = "; ".join(f"{n:,} {name}" for name, n in left_out.items())
            title = text_of(result.attack).title or result.attack
            yield f"{title}: used {parts}{f' ({why})' if why else ''}"


def tried_in_part(record: AuditRecord) -> Iterator[str]:
    """Say that a budget or a bound left a part untried.

    Nothing where all that could be tried was tried.
    """
    if record.share < 1:
        tried = share_tried(record.share, record.shares)
        yield f"The budget “{record.budget}” took {tried} of what could be tried."
    bounds = record.bounds
    if bounds is not None and bounds.documents is not None:
        yield f"At most {bounds.documents:,} of the documents trained on and never seen were tried."
    elif bounds is not None and bounds.seconds is not None and bounds.part < 1:
        yield f"Documents were tried as far as {duration(bounds.seconds)} allowed."


MOST_LISTED = 4
"""Findings outside the policy that are listed, the worst first; the others are counted."""
ACCEPTED = "Within the limits of this policy, and yet a leak"
NoteKind = Literal["policy", "another policy", "baseline", "waiver", "count", "outside", "declared"]


@dataclass(frozen=True)
class Note:
    """One line under a verdict."""

    kind: NoteKind
    text: str


def notes(record: AuditRecord, verdict: Verdict) -> Iterator[Note]:
    """Yield the notes that qualify a verdict; `plausibility` only beside a pass.

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
        yield from (Note("baseline", text) for text in _compare_with_baseline(verdict.baseline))
    for entry in verdict.waivers:
        yield Note("waiver", f"Waiver: {entry.sentence}")
    yield from _name_wide_counts(verdict)
    yield from _list_findings(ACCEPTED, within(record, verdict))
    yield from _list_findings(
        "Measured, but not limited by this policy", unlimited(record, verdict)
    )
    word = plausibility(record, verdict) if verdict.overall in ("passed", "waived") else None
    if word is not None:
        yield Note("declared", word.sentence)


def _name_wide_counts(verdict: Verdict) -> Iterator[Note]:
    """Say of each count that met its limit, and may lie over it, what is shown and what is not excluded."""
    for decision in verdict.decisions:
        limit, measured = decision.limit, decision.measured
        if decision.outcome != "passed" or not decision.count_range or measured is None:
            continue
        if limit.max is not None and measured.high > limit.max:
            value = f"{show(measured.value, 'number')} {measured.unit}"
            yield Note(
                "count",
                f"{limit.attack} {limit.metric}: {value}, {decision.count_range}; limit {limit.max:g}",
            )


def _compare_with_baseline(baseline: Baseline) -> Iterator[str]:
    """Describe the earlier scan, every limit that is worse or gone, and how the scans differ."""
    yield f"Baseline: {baseline.sentence}"
    for limit in (*baseline.of("worse"), *baseline.of("no longer measured")):
        yield f"  {limit.outcome}: {limit.attack} {limit.metric}: {limit.reason}"
    yield from (f"  {note}" for note in baseline.notes)


def _list_findings(heading: str, found: Sequence[MeasuredLeak]) -> Iterator[Note]:
    """Yield the worst findings under a heading, and count the others.

    Nothing where there are none.
    """
    if found:
        yield Note("outside", heading)
        yield from (Note("outside", f"  {describe_leak(leak)}") for leak in found[:MOST_LISTED])
        if len(found) > MOST_LISTED:
            yield Note("outside", f"  and {len(found) - MOST_LISTED} more")


def describe_leak(leak: MeasuredLeak) -> str:
    """Describe a leak with the names by which a policy would limit it."""
    note = (
        f" (undecided whether this is memory: {leak.confounded})"
        if leak.confounded is not None
        else ""
    )
    return f"{leak.attack} {leak.metric}: {leak.sentence}{note}"
