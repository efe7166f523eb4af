"""`docaudit plan`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from audit.attacks import text_of
from audit.cli import console, options
from audit.cli.options import HELP
from audit.cli.places import FORMS, split_places
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
    folders: options.Folders,
    policy: options.PolicyName = "default",
    budget: options.BudgetOption = "standard",
    model: options.OldModel = None,
    reference: options.References = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    bounds: options.Bounds = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=HELP["plan.out"])] = None,
    verbose: options.Verbose = False,
) -> None:
    """Show what a data set can decide and how long a scan takes.

    With MODEL_DIR docaudit counts the model's tokens and times a few trials. It also checks that
    training and unseen documents do not differ without any model (the blind check). Times of
    attacks leave out the training of reference models. Exits 0 whatever the data set can decide.
    """
    from audit.workflows.options import ScanOptions
    from audit.workflows.places import check_places

    if out is not None:
        check_file("--out", out)
        if not out.parent.is_dir():
            raise UsageError(
                f"--out {out}: no file can be written there",
                "name a file in a folder that there is",
            )
    model, data_dir = split_places("plan", folders, model)
    scan_options = ScanOptions(
        model or Path(),
        data_dir,
        Path(),
        budget=budget,
        references=options.named_paths(reference),
        device=device,
        dtype=dtype,
        **options.bounds_of(bounds),
    )
    check_places(model, data_dir, scan_options.references, FORMS["plan"])
    with console.Reporter() as progress:
        if model is not None:
            progress.stage(console.OPENING_MODEL)
        # Loads torch, which a missing folder does without.
        from audit.workflows.planning import plan_audit

        [planned] = progress.follow(plan_audit(scan_options, policy, progress))
    if verbose:
        console.show_table(*limits_table(planned))
        console.say(*LEGEND, "", *reasons(planned), "")
        console.show_table(*costs_table(planned))
    console.show_table(*attacks_table(planned), spaced=False)
    console.say(SIDES, "", conclusion(planned, detailed=verbose), *_training_lines(planned))
    if out is not None:
        write_atomically(out, as_json(planned))


def _training_lines(plan: Plan) -> list[str]:
    """Say how long references train here, and that training split models is recommended."""
    lines = []
    for name, seconds in plan.training.items():
        least, most = map(console.duration, seconds)
        lines.append(f"Training {name} takes {least} to {most} here.")
    if recommends_splits(plan.training):
        lines.append(HELP["references.recommended"])
    return lines


CAN_BE_MET: dict[Outlook, str] = {
    "decides": "yes",
    "not applicable": "not applicable",
    "no plan": "not planned",
    "too small": "too small",
    "lacks": "incomplete",
    "cannot pass": "no reference",
    "blind check too weak": "groups may differ",
    "confounded": "groups differ",
}
"""Whether limits can be confirmed as met, in words, the best first."""


class AttackRow(NamedTuple):
    """What a data set can decide about one attack, in words.

    Attributes:
        question: question that the attack answers.
        sides: units that the data set has on each side.
        needed: units that the limits need on each side.
        passes: how often a leak-free model passes.
        can_be_met: whether an audit can confirm the limits as met.
        time: duration of the attack.
    """

    question: str
    sides: str
    needed: str
    passes: str
    can_be_met: str
    time: str


def attacks_table(plan: Plan) -> Table:
    """Tabulate for each attack the units that it has and needs, and which limits can be met."""
    title = f"{plan.corpus}, policy {plan.policy}, budget {plan.budget}"
    columns = ("question", "you have", "you need", "passes", "can be met", "time")
    seconds = {cost.attack: cost.seconds for cost in plan.costs}
    limits_of: dict[str, list[LimitPlan]] = defaultdict(list)
    for limit in plan.limits:
        limits_of[limit.attack].append(limit)
    rows = [
        _attack_row(attack, limits, seconds.get(attack)) for attack, limits in limits_of.items()
    ]
    if plan.total_seconds is None:
        return title, columns[:-1], [row[:-1] for row in rows]
    return title, columns, [*rows]


def _attack_row(attack: str, limits: Sequence[LimitPlan], seconds: float | None) -> AttackRow:
    """Describe what a data set can decide about an attack.

    Args:
        attack: name of the attack.
        limits: plans of its limits.
        seconds: how long it takes; None where it was not timed.
    """
    text = text_of(attack)
    resolutions = [limit.resolution for limit in limits if limit.resolution is not None]
    sides = "-"
    passes = "-"
    if resolutions:
        sides = _units_of_sides(resolutions[0].members, resolutions[0].others)
        lowest = min(resolution.pass_power for resolution in resolutions)
        passes = f"{100 * lowest:.0f} %"
    outlooks: list[Outlook] = [limit.outcome for limit in limits if limit.outcome != "no plan"]
    worst: Outlook = max(outlooks, key=[*CAN_BE_MET].index, default="no plan")
    return AttackRow(
        question=text.short_question or text.title or attack,
        sides=sides,
        needed=_units_needed(resolutions),
        passes=passes,
        can_be_met=CAN_BE_MET[worst],
        time="-" if seconds is None else console.duration(seconds),
    )


def _units_of_sides(members: int, others: int) -> str:
    """Write the units of both sides, "40 + 38"; of members alone where the others are 0."""
    return f"{members} + {others}" if others else f"{members}"


def _units_needed(resolutions: Sequence[Resolution]) -> str:
    """Say how many units limits need on the sides that they compare."""
    needed = [resolution.needed for resolution in resolutions if resolution.needed is not None]
    if not needed or len(needed) < len(resolutions):
        return "-"
    most = max(needed)
    return _units_of_sides(most, most if resolutions[0].others else 0)


def limits_table(plan: Plan) -> Table:
    """Tabulate every limit with the units that the data set has for it."""
    columns = ("limit", "units", "shows", "passes", "needs", "outcome")
    title = f"What {plan.corpus} can decide, policy {plan.policy}, budget {plan.budget}"
    return title, columns, [_limit_row(limit) for limit in plan.limits]


def _limit_row(limit: LimitPlan) -> tuple[Cell, ...]:
    """Make the table row of a limit: units, smallest shown leak, chance to pass, units needed."""
    metric = limit.metric
    if limit.max is not None:
        metric += f" <= {limit.max:g}"
    name = (limit.attack, metric)
    resolution = limit.resolution
    if resolution is None:
        return (name, "-", "-", "-", "-", limit.outcome)
    sides = _units_of_sides(resolution.members, resolution.others)
    shows = f"{resolution.certified:.3f}"
    passes = f"{100 * resolution.pass_power:.0f} %"
    if resolution.at_least and resolution.pass_power < NEARLY_ALWAYS:
        passes = f">= {passes}"
    needs = "-"
    if resolution.needed is not None:
        bound = "<= " if resolution.at_least else ""
        needs = f"{bound}{resolution.needed}"
    return (name, (sides, resolution.unit), shows, passes, needs, limit.outcome)


SIDES = HELP["plan.sides"]
"""The columns of `attacks_table`."""
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
    """Tabulate trials, waiting time and peak memory of every attack."""
    rows: list[tuple[Cell, ...]] = []
    for cost in plan.costs:
        bound = "" if cost.exact else "at most "
        rows.append((cost.attack, f"{bound}{cost.trials}", *_cost_cells(cost)))
    if plan.total_seconds is not None:
        waiting = console.duration(plan.total_seconds)
        rows.append(("in all", "", waiting, f"{plan.peak_memory / 1e9:.1f} GB"))
    return "What a scan costs", ("attack", "trials", "waiting time", "peak memory"), rows


def _cost_cells(cost: Cost) -> tuple[str, str]:
    """Write waiting time and peak memory of an attack, or why it was not timed."""
    if cost.seconds is None or cost.memory is None:
        return cost.inapplicable or cost.lacks or cost.untimed, "-"
    return console.duration(cost.seconds), f"{cost.memory / 1e9:.1f} GB"


def conclusion(plan: Plan, *, detailed: bool = True) -> str:
    """Sum up what a data set can decide and how often a leak-free model passes.

    `detailed`: limit by limit.
    """
    from audit.report.templates import render_text
    from audit.workflows.outlook import WANTED_POWER

    waiting = ""
    if plan.total_seconds is not None:
        waiting = console.duration(plan.total_seconds)
    return render_text(
        "plan.txt",
        plan=plan,
        waiting=waiting,
        long_seconds=LONG_SECONDS,
        wanted_power=WANTED_POWER,
        detailed=detailed,
    )


def as_json(plan: Plan) -> bytes:
    """Write the plan with its conclusion.

    Beside it: the chance to pass the whole policy, and the time of all timed attacks.
    """
    chance = plan.joint
    seconds = plan.total_seconds
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
