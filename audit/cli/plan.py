"""`docaudit plan`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.attacks import text_of
from audit.cli import console, options
from audit.cli.options import HELP
from audit.errors import UsageError
from audit.files import check_file, write_atomically
from audit.references import recommends_splits

if TYPE_CHECKING:
    from audit.workflows.outlook import Cost, LimitPlan, Outlook, Plan, Resolution

LONG_SECONDS = 2 * 3600.0
"""Trials that take longer are advised to be run elsewhere."""
NEARLY_ALWAYS = 0.995
"""A chance that is written as 100 %."""
Cell = str | tuple[str, str]
Table = tuple[str, tuple[str, ...], list[tuple[Cell, ...]]]
"""Title, columns, rows."""


def plan(
    data_dir: options.DataDir,
    policy: options.PolicyName = "default",
    budget: Annotated[options.Budget, typer.Option(help=HELP["plan.budget"])] = "standard",
    model: Annotated[Path | None, typer.Option(help=HELP["plan.model"])] = None,
    reference: options.References = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    bounds: options.Bounds = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=HELP["plan.out"])] = None,
    verbose: options.Verbose = False,
) -> None:
    """Show what a data set can decide and how long a scan takes.

    docaudit also checks that training and unseen documents do not differ without any model (the
    blind check). Times of attacks leave out the training of reference models. Exits 0 whatever the
    data set can decide.
    """
    from audit.workflows.options import ScanOptions
    from audit.workflows.planning import plan_audit

    asked = ScanOptions(
        model or Path(),
        data_dir,
        Path(),
        budget=budget,
        references=options.named_paths(reference),
        device=device,
        dtype=dtype,
        **options.bounds_of(bounds),
    )
    if out is not None:
        check_file("--out", out)
        if not out.parent.is_dir():
            raise UsageError(
                f"--out {out}: no file can be written there",
                "name a file in a folder that there is",
            )
    with console.Reporter() as progress:
        [planned] = progress.follow(plan_audit(asked, policy, progress))
    if verbose:
        console.show_table(*limits_table(planned))
        console.say(*LEGEND, "", *reasons(planned), "")
        console.show_table(*costs_table(planned))
    console.show_table(*attacks_table(planned), spaced=False)
    times = [(name, *map(console.duration, own)) for name, own in planned.training.items()]
    trainings = [f"Training {name} takes {least} to {most} here." for name, least, most in times]
    advice = [HELP["references.recommended"]] if recommends_splits(planned.training) else []
    console.say(SIDES, "", conclusion(planned, detailed=verbose), *trainings, *advice)
    if out is not None:
        write_atomically(out, as_json(planned))


DECIDABLE: dict[Outlook, str] = {
    "decides": "yes",
    "inapplicable": "not applicable",
    "no plan": "not planned",
    "too small": "too small",
    "lacks": "incomplete",
    "cannot pass": "no reference",
    "blind check too weak": "groups may differ",
    "confounded": "groups differ",
}
"""Whether limits can be decided, in words, the best first."""


def attacks_table(plan: Plan) -> Table:
    """Tabulate for each attack what the data set has, what it needs, and whether its limits can be decided."""
    seconds = {cost.attack: cost.seconds for cost in plan.costs}
    columns: tuple[str, ...] = ("question", "you have", "you need", "passes", "decidable", "time")
    rows: list[tuple[Cell, ...]] = []
    for attack in dict.fromkeys(limit.attack for limit in plan.limits):
        limits = [limit for limit in plan.limits if limit.attack == attack]
        sized = [limit.resolution for limit in limits if limit.resolution is not None]
        ahead: list[Outlook] = [limit.outcome for limit in limits if limit.outcome != "no plan"]
        text, time = text_of(attack), seconds.get(attack)
        rows.append(
            (
                text.short_question or text.title or attack,
                _sides(sized[0].members, sized[0].others) if sized else "-",
                _needed(sized),
                f"{100 * min(one.pass_power for one in sized):.0f} %" if sized else "-",
                DECIDABLE[max(ahead, key=[*DECIDABLE].index, default="no plan")],
                "-" if time is None else console.duration(time),
            )
        )
    if plan.total_seconds is None:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return f"{plan.corpus}, policy {plan.policy}, budget {plan.budget}", columns, rows


def _sides(members: int, others: int) -> str:
    return f"{members} + {others}" if others else f"{members}"


def _needed(sized: Sequence[Resolution]) -> str:
    """Say how many units limits need on the sides that they compare."""
    needed = [one.needed for one in sized if one.needed is not None]
    if not needed or len(needed) < len(sized):
        return "-"
    return _sides(max(needed), max(needed) if sized[0].others else 0)


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
        "-"
        if resolution.needed is None
        else f"{'<= ' if resolution.at_least else ''}{resolution.needed}",
        limit.outcome,
    )


SIDES, LEGEND = HELP["plan.sides"], HELP["plan.legend"].splitlines()
"""The columns of `attacks_table`, and of `limits_table`, a line each."""


def reasons(plan: Plan) -> Iterator[str]:
    """Give a line for each reason why limits are not decided."""
    metrics_of: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for limit in plan.limits:
        if limit.outcome != "decides":
            metrics_of[limit.attack, limit.outcome, limit.reason].append(limit.metric)
    for (attack, outcome, reason), metrics in metrics_of.items():
        yield f"{attack} {', '.join(metrics)}: {outcome}: {reason}"


def costs_table(plan: Plan) -> Table:
    """Tabulate trials, device hours and peak memory of every attack."""
    rows = [
        (cost.attack, f"{'' if cost.exact else 'at most '}{cost.trials}", *_cost(cost))
        for cost in plan.costs
    ]
    if plan.total_seconds is not None:
        rows.append(
            ("in all", "", f"{plan.total_seconds / 3600:.3g}", f"{plan.peak_memory / 1e9:.1f} GB")
        )
    return "What a scan costs", ("attack", "trials", "device hours", "peak memory"), [*rows]


def _cost(cost: Cost) -> tuple[str, str]:
    if cost.seconds is None or cost.memory is None:
        return cost.inapplicable or cost.lacks or cost.untimed, "-"
    return f"{cost.seconds / 3600:.3g}", f"{cost.memory / 1e9:.1f} GB"


def conclusion(plan: Plan, *, detailed: bool = True) -> str:
    """Sum up what a data set can decide and how often a leak-free model passes.

    `detailed`: limit by limit.
    """
    from audit.report.templates import render_text
    from audit.workflows.outlook import WANTED_POWER

    return render_text(
        "plan.txt",
        plan=plan,
        long_seconds=LONG_SECONDS,
        wanted_power=WANTED_POWER,
        detailed=detailed,
    )


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
