"""A plan as tables and sentences for a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from audit.cli import console
from audit.cli.console import duration
from audit.workflows.plan.costs import Cost
from audit.workflows.plan.limits import EXCESS, WANTED_POWER, LimitPlan, Plan, Resolution
from audit.workflows.plan.summary import conclusion, percent, total_time

NEARLY_ALWAYS = 0.995
"""A chance that is written as 100 %."""
Table = tuple[str, tuple[str, ...], list[tuple[str | tuple[str, str], ...]]]
"""Title, columns, rows."""


def show_plan(plan: Plan) -> None:
    """Print the plan of an audit."""
    console.show_table(*limits_table(plan))
    console.say(*legend(), "", *reasons(plan), "")
    console.show_table(*costs_table(plan))
    console.say(conclusion(plan))


def limits_table(plan: Plan) -> Table:
    """Tabulate every limit with what the data set has for it."""
    columns = ("limit", "units", "shows", "passes", "confirms", "needs", "outcome")
    title = f"What {plan.corpus} can decide, policy {plan.policy}, budget {plan.budget}"
    return title, columns, [_row(limit) for limit in plan.limits]


def _row(limit: LimitPlan) -> tuple[str | tuple[str, str], ...]:
    asked = (limit.attack, limit.metric + (f" <= {limit.max:g}" if limit.max is not None else ""))
    resolution = limit.resolution
    if resolution is None:
        return (asked, *["-"] * 5, limit.outcome)
    least = ">= " if resolution.at_least and resolution.pass_power < NEARLY_ALWAYS else ""
    return (
        asked,
        (_units(resolution).removesuffix(f" {resolution.unit}"), resolution.unit),
        f"{resolution.certified:.3f}",
        least + percent(resolution.pass_power),
        (percent(resolution.power), f"of {resolution.effect:.3g}"),
        "-" if resolution.needed is None else f"{'<= ' if resolution.at_least else ''}{resolution.needed}",
        limit.outcome,
    )


def _units(resolution: Resolution) -> str:
    others = f" + {resolution.others}" if resolution.others else ""
    return f"{resolution.members}{others} {resolution.unit}"


def legend() -> tuple[str, ...]:
    """Explain the columns of `limits_table`, a line each."""
    return (
        "units: members + others; at most so many, as a model's tokens may leave some out",
        "shows: the smallest limit that a model which leaks nothing passes; passes: how often it passes this one, if "
        "nothing else stands in the way; >=: at least, for a limit that several methods must meet, or a number that is "
        "a mean over many attackers",
        f"confirms: how often a leak {EXCESS:g} over the limit, or as large as can be, is confirmed, when it is the "
        "only one, and one method finds it",
        f"needs: units a side with which a model that leaks nothing passes in {percent(WANTED_POWER)} of audits",
    )


def reasons(plan: Plan) -> Iterator[str]:
    """Give a line for each reason why limits are not decided."""
    metrics_of: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for limit in plan.limits:
        if limit.outcome != "decides":
            metrics_of[limit.attack, limit.outcome, limit.reason].append(limit.metric)
    for (attack, outcome, reason), metrics in metrics_of.items():
        yield f"{attack} {', '.join(metrics)}: {outcome}: {reason}"


def costs_table(plan: Plan) -> Table:
    """Tabulate trials and time of every attack."""
    rows: list[tuple[str | tuple[str, str], ...]] = [(cost.attack, _trials(cost), _time(cost)) for cost in plan.costs]
    total = total_time(plan.costs)
    if total is not None:
        rows.append(("in all", "", _span(*total)))
    return "What a scan costs", ("attack", "trials", "time"), rows


def _trials(cost: Cost) -> str:
    return f"{cost.trials}" if cost.exact else f"at most {cost.trials}"


def _time(cost: Cost) -> str:
    if cost.seconds is not None:
        return _span(cost.seconds, cost.least)
    return cost.inapplicable or cost.lacks or cost.untimed


def _span(seconds: float, least: bool) -> str:
    return f"more than {duration(seconds)}" if least else f"about {duration(seconds)}"
