"""Checkpoints of one training run: leak and usefulness against epoch (Dentan et al. 2024, figure 7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.attacks.text import AttackText
from audit.errors import DocauditError
from audit.measurements import Estimate
from audit.policy import Limit, Verdict
from audit.record import AuditRecord, Completed
from audit.report import numbers
from audit.report.files import remove, write_pages
from audit.report.jinja import environment, template_errors
from audit.report.labels import UTILITY, report_of
from audit.report.sweep_page import AXIS_WORDS, Stop, answer, check_comparable, common_origin, place, weaknesses
from audit.report.trend_figures import draw_panels, panels_of
from audit.report.trend_table import TrendTable

HTML_NAME = "trend.html"
PDF_NAME = "trend.pdf"


def write(records: Sequence[tuple[float, str, AuditRecord, Verdict]], axis: str, out: Path) -> list[str]:
    """Write `trend.html` and `trend.pdf` into `out`, each whole or not at all.

    Args:
        records: position on the axis, name of the checkpoint, its record, and the verdict of one policy.
        axis: the unit of the positions: "epoch".
        out: an existing folder.

    Returns:
        Warnings, one line each: why there is no PDF, and what weakens the comparison.

    Raises:
        RecordError: the records cannot be compared, with every difference.
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    stops = [Stop(*entry) for entry in sorted(records, key=lambda entry: entry[0])]
    check_comparable(stops)
    try:
        text = html(stops, axis)
    except DocauditError as error:
        remove(out / HTML_NAME, out / PDF_NAME, after=error)
        raise
    return [*weaknesses(stops), *write_pages(text, out / HTML_NAME, out / PDF_NAME)]


def html(stops: Sequence[Stop], axis: str) -> str:
    """Draw the whole page.

    Args:
        stops: in the order of the axis, comparable, at least one.
        axis: the unit of their positions.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        templates = environment()
        limits = _applicable(stops)
        ran = [item.attack for stop in stops for item in stop.record.attacks if isinstance(item, Completed)]
        reports = {name: report_of(name) for name in dict.fromkeys([*ran, *(limit.attack for limit in limits)])}
        useful = list(dict.fromkeys(item.name for stop in stops for item in stop.record.utility))
        table = TrendTable(stops, axis, reports, limits, useful)
        return templates.get_template("trend.html").render(
            stops=stops,
            first=stops[0],
            axis=axis,
            answer=answer(axis, [(stop.x, stop.label, stop.verdict) for stop in stops]),
            finished=max(stop.record.timing.finished for stop in stops),
            origin=common_origin(stops),
            sentences=[
                *(limit_sentence(limit, reports[limit.attack], stops, axis) for limit in limits),
                *(sentence for name in useful if (sentence := _best(name, stops, axis))),
            ],
            figures=draw_panels(panels_of(stops, axis, reports, limits, useful)),
            blocks=table.blocks(),
            gaps=table.gaps(),
            weaknesses=weaknesses(stops),
        )


def _applicable(stops: Sequence[Stop]) -> list[Limit]:
    """The limits that were held against something at one checkpoint at least."""
    decisions = [decision for stop in stops for decision in stop.verdict.decisions]
    held = {decision.limit for decision in decisions if decision.outcome not in ("inapplicable", "not run")}
    return [decision.limit for decision in stops[0].verdict.decisions if decision.limit in held]


def limit_sentence(limit: Limit, report: AttackText, stops: Sequence[Stop], axis: str) -> str:
    """Return what the verdicts say about one limit, no more: "from ... on" only when none after it says less."""
    outcomes = [decision.outcome if (decision := stop.decision(limit)) else "not run" for stop in stops]
    over = [stop for stop, outcome in zip(stops, outcomes, strict=True) if outcome in ("violated", "waived")]
    bound = limit.max if limit.max is not None else (limit.min or 0.0)
    side = "over" if limit.max is not None else "under"
    head = f"“{report.label(limit.metric)}” is confirmed {side} its limit of "
    head += numbers.limit_text(bound, report.form(limit.metric))
    rest = _unconfirmed(outcomes.count("passed"), len(stops) - len(over))
    if not over:
        return f"{head} at none of {len(stops)} checkpoints; {rest}."
    first, last = place(axis, over[0].x), place(axis, stops[-1].x)
    count = f"{len(over)} of {len(stops)} checkpoints"
    if len(over) == len(stops):
        return f"{head} at every checkpoint, from {first} on ({count})."
    if over == list(stops[-len(over) :]):
        where = f"from {first} on" if len(over) > 1 else f"at the last checkpoint, {last}"
        return f"{head} {where} ({count}); before that, {rest}."
    listed = ", ".join(numbers.axis_value(stop.x) for stop in over)
    return f"{head} at {count} ({AXIS_WORDS.get(axis, axis)} {listed}); elsewhere, {rest}."


def _unconfirmed(passed: int, others: int) -> str:
    """Checkpoints whose limit is not confirmed to be broken: "met" only where the verdict says so."""
    if passed == others:
        return "it is met" if others == 1 else f"it is met at all {others}"
    if passed == 0:
        return "it is undecided or not checked"
    return f"it is met at {passed} and undecided or not checked at {others - passed}"


def _best(name: str, stops: Sequence[Stop], axis: str) -> str:
    """The checkpoint where the model was most useful, with its verdict; empty when that was measured nowhere."""
    measured = [(item, stop) for stop in stops if isinstance(item := stop.useful(name), Estimate)]
    if not measured or len(stops) < 2:
        return ""
    item, stop = max(measured, key=lambda pair: pair[0].value)
    form = UTILITY.form(name)
    return (
        f"“{UTILITY.family(name)}” is highest at {place(axis, stop.x)}, {numbers.show(item.value, form)} "
        f"({numbers.interval(item, form)}), where the verdict is {stop.verdict.overall}."
    )
