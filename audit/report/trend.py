"""Checkpoints of one training run: leak and usefulness against epoch (Dentan et al. 2024, figure 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from audit.attacks import BATTERY
from audit.errors import DocauditError
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Verdict
from audit.record import AuditRecord, Completed
from audit.report import compact, figures, numbers
from audit.report.attack_figures import as_point
from audit.report.files import remove, write_pages
from audit.report.jinja import environment, template_errors
from audit.report.sweep_page import Stop, check_comparable, weaknesses
from audit.report.words import AttackText

HTML_NAME = "trend.html"
PDF_NAME = "trend.pdf"
FIGURE_HEIGHT = 6.1
"""Inches for all panels together (chosen here: what the first page has left under the sentences of two limits)."""
Find = Callable[[Stop], Estimate | Unresolved | None]


@dataclass(frozen=True)
class Column:
    """A column of the table: its heading, how its numbers are written, and where to find them."""

    label: str
    words: AttackText
    find: Find


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint in the table."""

    x: str
    label: str
    verdict: str
    cells: tuple[compact.TableCell, ...]


def write(records: Sequence[tuple[float, str, AuditRecord, Verdict]], axis: str, out: Path) -> list[str]:
    """Write `trend.html` and `trend.pdf` into `out`, each whole or not at all.

    Args:
        records: place on the axis, name of the checkpoint, its record, and what the same policy said of it.
        axis: what the places count, in words: "epoch".
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
    except DocauditError:
        remove(out / HTML_NAME, out / PDF_NAME)
        raise
    return [*weaknesses(stops), *write_pages(text, out / HTML_NAME, out / PDF_NAME)]


def html(stops: Sequence[Stop], axis: str) -> str:
    """The whole page.

    Args:
        stops: in the order of the axis, comparable, at least one.
        axis: what their places count.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        templates = environment()
        limits = [decision.limit for decision in stops[0].verdict.decisions]
        ran = [item.attack for stop in stops for item in stop.record.attacks if isinstance(item, Completed)]
        words = {
            name: AttackText(templates, name) for name in dict.fromkeys([*ran, *(limit.attack for limit in limits)])
        }
        utility = AttackText(templates, "_utility")
        useful = list(dict.fromkeys(item.name for stop in stops for item in stop.record.utility))
        columns = _columns(words, limits, utility, useful)
        panels = _panels(stops, axis, words, limits, utility, useful)
        return templates.get_template("trend.html").render(
            stops=stops,
            first=stops[0],
            axis=axis,
            finished=max(stop.record.timing.finished for stop in stops),
            sentences=[
                *(limit_sentence(limit, words[limit.attack], stops, axis) for limit in limits),
                *(sentence for name in useful if (sentence := _best(name, utility, stops, axis))),
            ],
            figure=_figure(panels),
            columns=[column.label for column in columns],
            rows=[_row(stop, columns) for stop in stops],
            gaps=_gaps(stops, columns),
            weaknesses=weaknesses(stops),
        )


def _figure(panels: Sequence[figures.LinePanel]) -> Markup:
    """All panels, as high as leaves them on the first page."""
    rows = -(-len(panels) // 2)
    return Markup(figures.lines("trend", panels, min(1.7, FIGURE_HEIGHT / rows))) if panels else Markup()


def limit_sentence(limit: Limit, words: AttackText, stops: Sequence[Stop], axis: str) -> str:
    """What the verdicts together say about one limit, and no more: "from ... on" only when none after it says less."""
    outcomes = [found.outcome if (found := stop.decision(limit)) else "not run" for stop in stops]
    over = [stop for stop, outcome in zip(stops, outcomes, strict=True) if outcome in ("violated", "waived")]
    bound = limit.max if limit.max is not None else (limit.min or 0.0)
    side = "over" if limit.max is not None else "under"
    head = f"“{words.label(limit.metric)}” is confirmed {side} its limit of "
    head += numbers.limit_text(bound, words.form(limit.metric))
    rest = _unconfirmed(outcomes.count("passed"), len(stops) - len(over))
    if not over:
        return f"{head} at none of {len(stops)} checkpoints; {rest}."
    first, last = numbers.place(over[0].x), numbers.place(stops[-1].x)
    count = f"{len(over)} of {len(stops)} checkpoints"
    if len(over) == len(stops):
        return f"{head} at every checkpoint, from {axis} {first} on ({count})."
    if over == list(stops[-len(over) :]):
        where = f"from {axis} {first} on" if len(over) > 1 else f"at the last checkpoint, {axis} {last}"
        return f"{head} {where} ({count}); before that, {rest}."
    listed = ", ".join(numbers.place(stop.x) for stop in over)
    return f"{head} at {count} ({axis} {listed}); elsewhere, {rest}."


def _unconfirmed(passed: int, others: int) -> str:
    """Checkpoints whose limit is not confirmed to be broken: "met" only where the verdict says so."""
    if passed == others:
        return "it is met" if others == 1 else f"it is met at all {others}"
    if passed == 0:
        return "it is undecided or not checked"
    return f"it is met at {passed} and undecided or not checked at {others - passed}"


def _best(name: str, words: AttackText, stops: Sequence[Stop], axis: str) -> str:
    """Where the model was most useful, and what the verdict says there; empty when that was measured nowhere."""
    found = [(item, stop) for stop in stops if isinstance(item := stop.useful(name), Estimate)]
    if not found or len(stops) < 2:
        return ""
    item, stop = max(found, key=lambda pair: pair[0].value)
    form = words.form(name)
    return (
        f"“{words.family(name)}” is highest at {axis} {numbers.place(stop.x)}, {numbers.show(item.value, form)} "
        f"({numbers.interval(item, form)}), where the verdict is {stop.verdict.overall}."
    )


def _panels(
    stops: Sequence[Stop],
    axis: str,
    words: dict[str, AttackText],
    limits: Sequence[Limit],
    utility: AttackText,
    useful: Sequence[str],
) -> list[figures.LinePanel]:
    """Usefulness, then what each attack's template asks for, then every limited number with its limit."""
    panels = [_panel(utility.family(name), axis, utility, {"": name}, stops, Stop.useful) for name in useful]
    for attack, about in words.items():
        for spec in about.trend["panels"]:
            asked = {str(series["label"]): str(series["metric"]) for series in spec["series"]}
            panels.append(_panel(spec["title"], axis, about, asked, stops, partial(Stop.measured, attack=attack)))
    for limit in limits:
        about = words[limit.attack]
        panels.append(_limited(limit, axis, about, stops))
    return [panel for panel in panels if any(point for line in panel.lines for point in line.points)]


def _limited(limit: Limit, axis: str, words: AttackText, stops: Sequence[Stop]) -> figures.LinePanel:
    title = words.short(limit.metric)
    bound = limit.max if limit.max is not None else limit.min
    return _panel(title, axis, words, {"": limit.metric}, stops, partial(Stop.measured, attack=limit.attack), bound)


def _panel(
    title: str,
    axis: str,
    words: AttackText,
    asked: dict[str, str],
    stops: Sequence[Stop],
    find: Callable[..., Estimate | Unresolved | None],
    limit: float | None = None,
) -> figures.LinePanel:
    """One line for each label and metric in `asked`."""
    form = words.form(next(iter(asked.values())))
    quantity = {"share": "per cent", "points": "points", "ratio": "factor", "number": ""}[form]
    spots = tuple(stop.x for stop in stops)
    drawn = tuple(
        figures.FigureLine(label, spots, tuple(as_point(find(stop, name=metric)) for stop in stops))
        for label, metric in asked.items()
    )
    return figures.LinePanel(title, axis, quantity, drawn, form, limit)


def _columns(
    words: dict[str, AttackText], limits: Sequence[Limit], utility: AttackText, useful: Sequence[str]
) -> list[Column]:
    """Usefulness, what each attack is summed up by, and the limited numbers."""
    asked = [(attack, metric, label) for attack, about in words.items() for metric, label in _asked(attack, about)]
    asked += [(limit.attack, limit.metric, words[limit.attack].short(limit.metric)) for limit in limits]
    return [
        *(Column(utility.family(name), utility, partial(Stop.useful, name=name)) for name in useful),
        *(
            Column(label, words[attack], partial(Stop.measured, attack=attack, name=metric))
            for attack, metric, label in asked
        ),
    ]


def _asked(attack: str, about: AttackText) -> list[tuple[str, str]]:
    """Metric and heading of an attack's columns: those of its template, or what sums it up where that names none."""
    given = about.trend["columns"]
    if given:
        return [(str(spec["metric"]), str(spec["label"])) for spec in given]
    return [(metric, heading) for kind in BATTERY if kind.name == attack for heading, metric in kind.summary().items()]


def _row(stop: Stop, columns: Sequence[Column]) -> CheckpointRow:
    cells = tuple(compact.cell(column.find(stop), column.words) for column in columns)
    return CheckpointRow(f"{numbers.place(stop.x)}", stop.label, stop.verdict.overall, cells)


def _gaps(stops: Sequence[Stop], columns: Sequence[Column]) -> list[str]:
    """Why numbers in the table are missing."""
    found = [item for stop in stops for column in columns if isinstance(item := column.find(stop), Unresolved)]
    return list(dict.fromkeys(compact.gap(item) for item in found))
