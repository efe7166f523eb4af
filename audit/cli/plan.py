"""`docaudit plan`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import (
    HELP,
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
from audit.errors import UsageError
from audit.files import check_file, write_atomically

if TYPE_CHECKING:
    from audit.workflows.plan import Cost, LimitPlan, Plan

LONG_SECONDS = 2 * 3600.0
"""Trials that take longer are advised to be run elsewhere."""
NEARLY_ALWAYS = 0.995
"""A chance that is written as 100 %."""
Cell = str | tuple[str, str]
Table = tuple[str, tuple[str, ...], list[tuple[Cell, ...]]]
"""Title, columns, rows."""


def plan(
    data_dir: DataDir,
    policy: PolicyName = "default",
    budget: Annotated[Budget, typer.Option(help=HELP["plan.budget"])] = "standard",
    model: Annotated[Path | None, typer.Option(help=HELP["plan.model"])] = None,
    reference: References = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    documents: Documents = None,
    time: Time = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=HELP["plan.out"])] = None,
) -> None:
    """Say before any model runs which limits a data set can decide, what it is too small for, and what a scan costs.

    Describes the documents to check that those in training and those kept aside do not differ in themselves (the blind
    check), which opens their page images. Exits 0 whatever the data set can decide. Times are those of the trials,
    without training reference models.
    """
    from audit.workflows.options import ScanOptions
    from audit.workflows.planning import plan_audit

    options = ScanOptions(
        model or Path(),
        data_dir,
        Path(),
        budget=budget,
        references=named_paths(reference),
        device=device,
        dtype=dtype,
        documents=documents,
        seconds=seconds_of(time),
    )
    if out is not None:
        check_file("--out", out)
        if not out.parent.is_dir():
            raise UsageError(f"--out {out}: no file can be written there", "name a file in a folder that there is")
    with console.Reporter() as progress:
        for planned in progress.follow(plan_audit(options, policy, progress)):
            console.show_table(*limits_table(planned))
            console.say(*LEGEND, "", *reasons(planned), "")
            console.show_table(*costs_table(planned))
            console.say(conclusion(planned))
            if out is not None:
                write_atomically(out, as_json(planned))


def limits_table(plan: Plan) -> Table:
    """Tabulate every limit with the units that the data set has for it."""
    columns = ("limit", "units", "shows", "passes", "needs", "outcome")
    title = f"What {plan.corpus} can decide, policy {plan.policy}, budget {plan.budget}"
    return title, columns, [_limit_row(limit) for limit in plan.limits]


def _limit_row(limit: LimitPlan) -> tuple[Cell, ...]:
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


LEGEND = HELP["plan.legend"].splitlines()
"""The columns of `limits_table`, a line each."""


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
    rows: list[tuple[Cell, ...]] = [
        (cost.attack, f"{cost.trials}" if cost.exact else f"at most {cost.trials}", _cost_time(cost))
        for cost in plan.costs
    ]
    if plan.total_seconds is not None:
        rows.append(("in all", "", f"about {console.duration(plan.total_seconds)}"))
    return "What a scan costs", ("attack", "trials", "time"), rows


def _cost_time(cost: Cost) -> str:
    if cost.seconds is not None:
        return f"about {console.duration(cost.seconds)}"
    return cost.inapplicable or cost.lacks or cost.untimed


def conclusion(plan: Plan) -> str:
    """Sum up what a data set can decide, what it lacks, how often a leak-free model passes, and what to do."""
    from audit.report.templates import render_text

    return render_text("plan.txt", plan=plan, long_seconds=LONG_SECONDS)


def as_json(plan: Plan) -> bytes:
    """Write the plan, the chance to pass the whole policy, the time of all timed attacks, and the conclusion."""
    chance, seconds = plan.joint, plan.total_seconds
    content = {
        "schema": 1,
        **asdict(plan),
        "joint": {
            "limits": [[limit.attack, limit.metric] for limit in chance.limits],
            "chance": chance.chance,
            "blocked": [[limit.attack, limit.metric] for limit in chance.blocked],
        },
        "time": None if seconds is None else {"seconds": seconds},
        "conclusion": conclusion(plan),
    }
    return (json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
