"""`docaudit plan`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
    from audit.workflows.plan import Cost, Joint, LimitPlan, Plan

LONG_SECONDS = 2 * 3600.0
"""Trials that take longer are advised to be run elsewhere."""
NEARLY_ALWAYS = 0.995
"""A chance that is written as 100 %."""
NOT_DECIDED: Mapping[str, str] = {
    "confounded": "Confounded, for what is compared differs without the model:",
    "too small": "It is too small for",
    "blind check too weak": 'The blind check is too weak (if a lot chose the members, state assigned = "random" in '
    'manifest.toml, or "by-provider" for providers) for',
    "inapplicable": "This kind of model is not asked for",
    "no plan": "Nothing can be said of",
    "lacks": "Something is missing (above) for",
    "cannot pass": "Without a reference (above) no model passes",
}
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


LEGEND = (
    "units: members + others; at most so many, as a model's tokens may leave some out",
    "shows: the smallest limit that a model which leaks nothing passes; passes: how often it passes this one, if "
    "nothing else stands in the way; >=: at least, for a limit that several methods must meet, or a number that is a "
    "mean over many attackers",
    "needs: units a side with which a model that leaks nothing passes in 80 % of audits",
)
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
    """Sum up what this data set can decide, what it is too small for and what it lacks, a sentence each."""
    decided = _limits_with_outcome(plan, "decides")
    parts = [f"{plan.corpus} can decide {len(decided)} of {len(plan.limits)} limits of the policy"]
    parts[0] += f": {_join_limit_names(decided)}." if decided else "."
    for outcome, opening in NOT_DECIDED.items():
        if limits := _limits_with_outcome(plan, outcome):
            parts.append(f"{opening} {_join_limit_names(limits)}.")
    later = [
        limit
        for limit in (*_limits_with_outcome(plan, "lacks"), *_limits_with_outcome(plan, "cannot pass"))
        if limit.resolution is not None
    ]
    if later:
        parts.append(f"With that it could decide {_join_limit_names(later)}.")
    return " ".join([*parts, *_chance_to_pass_all(plan.joint), *_advice(plan)])


def _chance_to_pass_all(chance: Joint) -> Iterator[str]:
    """Say how often a model that leaks nothing passes all limits."""
    if chance.blocked:
        yield f"As it is, no model passes the whole policy: see {_join_limit_names(chance.blocked)}."
    if chance.limits:
        n = len(chance.limits)
        which = "the limit" if n == 1 else f"all {n} limits"
        subject, units = "A leak-free model", ""
        if chance.blocked:
            subject, units = "Once that is mended, a leak-free model", " that the data set has units for"
        yield f"{subject} would pass {which}{units} in about {100 * chance.chance:.0f} % of audits."


def _advice(plan: Plan) -> Iterator[str]:
    """Recommend another device, or a first look, where the trials take hours."""
    if plan.total_seconds is not None and plan.total_seconds >= LONG_SECONDS:
        hours, device = f"{plan.total_seconds / 3600:,.0f} hours", "GPU" if plan.device == "cuda" else "CPU"
        other = "" if plan.device == "cuda" else "run it on a GPU (--device cuda), or "
        yield f"A scan takes about {hours} on this {device}: {other}look first with --documents 30 or --time 30m."


def _limits_with_outcome(plan: Plan, outcome: str) -> list[LimitPlan]:
    return [limit for limit in plan.limits if limit.outcome == outcome]


def _join_limit_names(limits: Sequence[LimitPlan]) -> str:
    return ", ".join(f"{limit.attack} {limit.metric}" for limit in limits)


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
