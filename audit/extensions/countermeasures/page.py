"""Draw the comparison of countermeasures.

Every number without and with each, and leak against usefulness.

Of several countermeasures the leak is one number: the worst limit used up, the largest of number /
limit over the limits of the policy that every one of the compared scans could be held against
(areas counted from chance). It is that of the interval's end that the policy looks at, so that
under 100 % all of these limits are met; the same of the numbers themselves stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.attacks import text_of
from audit.attacks.figure_text import Form
from audit.compare.defended import KINDS, Effect, LimitChange, MeasuredDefense
from audit.errors import DocauditError
from audit.measurements import Estimate
from audit.policy import contradiction
from audit.policy.checks import settle
from audit.policy.decision import word_of
from audit.record import AuditRecord
from audit.report import numbers, tables
from audit.report.files import remove_stale, write_pages
from audit.report.html import guarantee_view
from audit.report.labels import UTILITY
from audit.report.tables import OUTCOME_LABELS
from audit.report.templates import environment, template_errors

HTML_NAME = "defences.html"
PDF_NAME = "defences.pdf"
KIND_WORDS = {"query": "while the model is used", "training": "another training"}
Measured = tuple[MeasuredDefense, AuditRecord]
"""A countermeasure, measured, and the record of the scan with it."""


@dataclass(frozen=True)
class EffectLine:
    """A number before and after.

    Cells, the difference with p as text, and a note where there is none.

    Attributes:
        outcomes: outcomes of its limit before and after; empty where it has none.
    """

    label: str
    attack: str
    outcomes: tuple[str, ...]
    before: tables.TableCell
    after: tables.TableCell
    difference: str
    note: str


@dataclass(frozen=True)
class Choice:
    """The model as it was, or one countermeasure.

    Attributes:
        kind: kind in words; empty for the model as it was.
        verdict: verdict of the policy.
        value, reach: the worst limit used up by the numbers, and by the ends of their intervals;
            None: no limit.
        worst: the limit of `reach`, in words.
        useful: the first measure of usefulness.
        cell, difference: the same as text, and its difference from the model as it was.
        on_front: whether no other is both at most as leaky and more useful, or less leaky and at
            least as useful.
    """

    name: str
    kind: str
    verdict: str
    value: float | None
    reach: float | None
    worst: str
    useful: Estimate | None
    cell: tables.TableCell
    difference: str
    on_front: bool = False


def write(
    before: AuditRecord, after: Sequence[Measured], out: Path, left_out: Mapping[str, str]
) -> list[str]:
    """Write `defences.html` and `defences.pdf` into `out`, each whole or not at all.

    Args:
        before: the model as it was.
        after: the countermeasures, at least one.
        out: an existing folder.
        left_out: countermeasures that do not apply, with the reasons.

    Returns:
        Warnings, one line each: why there is no PDF.

    Raises:
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    try:
        text = html(before, after, left_out)
    except DocauditError as error:
        remove_stale(out / HTML_NAME, out / PDF_NAME, after=error)
        raise
    return list(write_pages(text, out / HTML_NAME, out / PDF_NAME))


def html(before: AuditRecord, after: Sequence[Measured], left_out: Mapping[str, str]) -> str:
    """Return the HTML of the page that compares countermeasures with the model as it was."""
    comparisons = [comparison for comparison, _ in after]
    guarantees = []
    for comparison, record in after:
        view = guarantee_view(record, contradiction(settle(record, ())))
        if view is not None:
            guarantees.append((comparison.title, view))
    with template_errors():
        page = environment().get_template("defenses.html")
        return page.render(
            first=before,
            finished=max(
                record.timing.finished for record in (before, *(record for _, record in after))
            ),
            left_out=left_out,
            sentence=cheapest_sentence(comparisons),
            choices=choices(comparisons) if len(comparisons) > 1 else (),
            measure=measure_of(comparisons),
            tables=[
                (comparison, effect_lines(comparison), methods(comparison))
                for comparison in comparisons
            ],
            channel=lambda comparison: tables.cell(comparison.side_channel, text_of("membership")),
            percent=percent,
            guarantees=guarantees,
        )


def effect_lines(comparison: MeasuredDefense) -> list[EffectLine]:
    """Return a line for every number before and after; usefulness comes last."""
    limits = {
        (limit.attack, limit.metric): (limit.before.outcome, limit.after.outcome)
        for limit in comparison.limits
    }
    lines = []
    for effect in (*comparison.effects, *comparison.usefulness):
        report = text_of(effect.attack) if effect.attack else UTILITY
        lines.append(
            EffectLine(
                label=report.label(effect.metric),
                attack=effect.attack.replace("_", " "),
                outcomes=tuple(
                    OUTCOME_LABELS.get(outcome, outcome)
                    for outcome in limits.get((effect.attack, effect.metric), ())
                ),
                before=tables.cell(effect.before, report),
                after=tables.cell(effect.after, report),
                difference=difference_text(effect, report.metric(effect.metric).form),
                note=effect.note,
            )
        )
    return lines


def difference_text(effect: Effect, form: Form) -> str:
    """Write the difference with its interval and p; empty where there is none."""
    item = effect.difference
    if item is None or effect.p is None:
        return ""
    p = "under 0.0001" if effect.p < 0.0001 else f"{effect.p:.2g}"
    points: Form = "points" if form == "share" else form
    sign = "+" if item.value > 0 else ""
    paired = "" if effect.paired else "; not paired"
    return (
        f"{sign}{numbers.show(item.value, points)} ({numbers.between(item, points)}; p {p}{paired})"
    )


def methods(comparison: MeasuredDefense) -> list[str]:
    """List how the intervals of the differences were computed, one sentence each."""
    effects = (*comparison.effects, *comparison.usefulness)
    return list(
        dict.fromkeys(
            effect.difference.method for effect in effects if effect.difference is not None
        )
    )


def choices(comparisons: Sequence[MeasuredDefense]) -> tuple[Choice, ...]:
    """Return rows of the table that puts the model and its countermeasures side by side.

    They are of the same model, data set and policy.
    """
    every = set.intersection(
        *(
            _limits_with_numbers(comparison, side)
            for comparison in comparisons
            for side in ("before", "after")
        )
    )
    rows = [
        _choice(comparisons[0], "before", every),
        *(_choice(comparison, "after", every) for comparison in comparisons),
    ]
    return tuple(replace(row, on_front=_undominated(row, rows)) for row in rows)


def measure_of(comparisons: Sequence[MeasuredDefense]) -> str:
    """Return the name of the first measure of usefulness."""
    effect = next(iter(comparisons[0].usefulness), None)
    return UTILITY.label(effect.metric) if effect is not None else "Usefulness"


def cheapest_sentence(comparisons: Sequence[MeasuredDefense]) -> str:
    """Name the cheapest countermeasure that meets the policy.

    It is chosen by kind, then by the usefulness lost.
    """
    first = comparisons[0]
    policy = comparisons[0].policy
    passing = [comparison for comparison in comparisons if comparison.verdict_after == "passed"]
    if first.verdict_before == "passed":
        return f"The model meets the policy “{policy}” without a countermeasure."
    if len(comparisons) == 1:
        before = word_of(first.verdict_before)
        after = word_of(first.verdict_after)
        sides = f"{before} without it, {after} with it"
        return f"{first.title}: the verdict by the policy “{policy}” is {sides}."
    if not passing:
        return f"None of the countermeasures that were measured meets the policy “{policy}”."
    best = min(
        passing, key=lambda comparison: (KINDS.index(comparison.kind), _usefulness_lost(comparison))
    )
    return (
        f"{best.title} is the cheapest countermeasure that meets the policy “{policy}” ({KIND_WORDS[best.kind]}; "
        f"{len(passing)} of {len(comparisons)} meet it)."
    )


def percent(share: float | None) -> str:
    """Write the share of a limit that is used up in percent; "not measured" without one."""
    return "not measured" if share is None else numbers.show(share, "share")


def _usefulness_lost(comparison: MeasuredDefense) -> float:
    """Return the usefulness lost by the first measure; infinite where it is not known."""
    effect = next(iter(comparison.usefulness), None)
    return float("inf") if effect is None or effect.difference is None else -effect.difference.value


def _limits_with_numbers(comparison: MeasuredDefense, side: str) -> set[tuple[str, str]]:
    """Return the limits (attack, metric) of which the scan on this side has a number."""
    return {
        (change.attack, change.metric)
        for change in comparison.limits
        if getattr(change, side).reach is not None
    }


def _worst_limit(changes: Sequence[LimitChange], side: str) -> tuple[float | None, str]:
    """Return the largest used-up share of a limit on this side, and that limit in words.

    Args:
        changes: limits that both scans could be held against.
        side: "before" or "after".
    """
    if not changes:
        return None, ""
    change = max(changes, key=lambda change: getattr(change, side).reach)
    return getattr(change, side).reach, text_of(change.attack).label(change.metric)


def _choice(comparison: MeasuredDefense, side: str, every: set[tuple[str, str]]) -> Choice:
    """Make the row of the model before or after a countermeasure.

    Args:
        comparison: both scans.
        side: "before" or "after".
        every: limits, as attack and metric, that all scans could be held against.
    """
    changes = [change for change in comparison.limits if (change.attack, change.metric) in every]
    uses = [getattr(change, side) for change in changes]
    reach, worst = _worst_limit(changes, side)
    effect = next(iter(comparison.usefulness), None)
    useful = None if effect is None else getattr(effect, side)
    as_it_was = Choice(
        name="As it was",
        kind="",
        verdict=comparison.verdict_before,
        value=max((use.value or 0.0 for use in uses), default=None),
        reach=reach,
        worst=worst,
        useful=useful if isinstance(useful, Estimate) else None,
        cell=tables.cell(useful, UTILITY),
        difference="",
    )
    if side != "after":
        return as_it_was
    difference = ""
    if effect is not None:
        difference = difference_text(effect, UTILITY.metric(effect.metric).form)
    return replace(
        as_it_was,
        name=comparison.title,
        kind=KIND_WORDS[comparison.kind],
        verdict=comparison.verdict_after,
        difference=difference,
    )


def _undominated(row: Choice, rows: Sequence[Choice]) -> bool:
    """Test whether no other row leaks at most as much and is at least as useful."""
    if row.reach is None or row.useful is None:
        return False
    position = row.reach, -row.useful.value
    for rival in rows:
        if rival.reach is None or rival.useful is None:
            continue
        place = rival.reach, -rival.useful.value
        if place != position and place[0] <= position[0] and place[1] <= position[1]:
            return False
    return True
