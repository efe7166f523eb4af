"""`docaudit plan`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import (
    Budget,
    DataDir,
    Device,
    Documents,
    Dtype,
    PolicyName,
    References,
    Time,
    named_paths,
    seconds_of,
)

if TYPE_CHECKING:
    from audit.workflows.plan.limits import Cost, LimitPlan, Plan

NEARLY_ALWAYS = 0.995
"""A chance that is written as 100 %."""
Table = tuple[str, tuple[str, ...], list[tuple[str | tuple[str, str], ...]]]
"""Title, columns, rows."""


def plan(
    data_dir: DataDir,
    policy: PolicyName = "default",
    budget: Annotated[Budget, typer.Option(help="See scan.")] = "standard",
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint, to count what its tokens leave and to time a few trials.")
    ] = None,
    reference: References = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    documents: Documents = None,
    time: Time = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the plan there, as JSON.")] = None,
) -> None:
    """Say before any model runs which limits a data set can decide, what it is too small for, and what a scan costs.

    Describes the documents to check that those in training and those kept aside do not differ in themselves (the blind
    check), which opens their page images. Exits 0 whatever the data set can decide. Times are those of the trials,
    without training reference models.
    """
    from audit.workflows.plan.audit import plan_audit

    with console.Reporter() as progress:
        steps = plan_audit(
            data_dir,
            policy,
            budget,
            model=model,
            references=named_paths(reference),
            device=device,
            dtype=dtype,
            documents=documents,
            seconds=seconds_of(time),
            out=out,
            progress=progress,
        )
        for planned in progress.follow(steps):
            show_plan(planned)


def show_plan(plan: Plan) -> None:
    """Print the plan of an audit."""
    from audit.workflows.plan.summary import conclusion

    console.show_table(*limits_table(plan))
    console.say(*legend(), "", *reasons(plan), "")
    console.show_table(*costs_table(plan))
    console.say(conclusion(plan))


def limits_table(plan: Plan) -> Table:
    """Tabulate every limit with what the data set has for it."""
    columns = ("limit", "units", "shows", "passes", "needs", "outcome")
    title = f"What {plan.corpus} can decide, policy {plan.policy}, budget {plan.budget}"
    return title, columns, [_row(limit) for limit in plan.limits]


def _row(limit: LimitPlan) -> tuple[str | tuple[str, str], ...]:
    asked = (limit.attack, limit.metric + (f" <= {limit.max:g}" if limit.max is not None else ""))
    resolution = limit.resolution
    if resolution is None:
        return (asked, *["-"] * 4, limit.outcome)
    others = f" + {resolution.others}" if resolution.others else ""
    least = ">= " if resolution.at_least and resolution.pass_power < NEARLY_ALWAYS else ""
    return (
        asked,
        (f"{resolution.members}{others}", resolution.unit),
        f"{resolution.certified:.3f}",
        f"{least}{100 * resolution.pass_power:.0f} %",
        "-" if resolution.needed is None else f"{'<= ' if resolution.at_least else ''}{resolution.needed}",
        limit.outcome,
    )


def legend() -> tuple[str, ...]:
    """Explain the columns of `limits_table`, a line each."""
    from audit.workflows.plan.limits import WANTED_POWER

    return (
        "units: members + others; at most so many, as a model's tokens may leave some out",
        "shows: the smallest limit that a model which leaks nothing passes; passes: how often it passes this one, if "
        "nothing else stands in the way; >=: at least, for a limit that several methods must meet, or a number that is "
        "a mean over many attackers",
        f"needs: units a side with which a model that leaks nothing passes in {100 * WANTED_POWER:.0f} % of audits",
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
    from audit.workflows.plan.summary import total_time

    rows: list[tuple[str | tuple[str, str], ...]] = [
        (cost.attack, f"{cost.trials}" if cost.exact else f"at most {cost.trials}", _time(cost)) for cost in plan.costs
    ]
    total = total_time(plan.costs)
    if total is not None:
        rows.append(("in all", "", _span(*total)))
    return "What a scan costs", ("attack", "trials", "time"), rows


def _time(cost: Cost) -> str:
    if cost.seconds is not None:
        return _span(cost.seconds, cost.least)
    return cost.inapplicable or cost.lacks or cost.untimed


def _span(seconds: float, least: bool) -> str:
    return f"more than {console.duration(seconds)}" if least else f"about {console.duration(seconds)}"
