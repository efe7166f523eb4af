"""The conclusion of a plan in words, and the whole as JSON for a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from audit.workflows.plan.cost import Cost, Time
from audit.workflows.plan.joint import Joint, joint
from audit.workflows.plan.limits import LimitPlan, Outlook, Plan

LONG_SECONDS = 2 * 3600.0
"""Trials that take longer are advised to be run elsewhere (ours)."""
GPU_TIMES = (100.0, 500.0)
"""How many times as fast as a CPU of a few cores a data-centre GPU is taken to be (ours, a rule of thumb)."""
_NOT_DECIDED: dict[Outlook, str] = {
    "confounded": "Confounded, for what is compared differs without the model:",
    "cannot be violated": "No leak could exceed, for one kind of value is so common,",
    "too small": "It is too small for",
    "blind check too weak": 'The blind check is too weak (if a lot chose the members, state assigned = "random" in '
    'manifest.toml, or "by-provider" for providers) for',
    "inapplicable": "This kind of model is not asked for",
    "no plan": "Nothing can be said of",
    "lacks": "Something is missing (above) for",
    "cannot pass": "Without a reference (above) no model passes",
}


def conclusion(plan: Plan) -> str:
    """Sum up what this data set can decide, what it is too small for and what it lacks, a sentence each."""
    decided = _of(plan, "decides")
    parts = [f"{plan.corpus} can decide {len(decided)} of {len(plan.limits)} limits of the policy"]
    parts[0] += f": {_listed(decided)}." if decided else "."
    for outcome, opening in _NOT_DECIDED.items():
        if limits := _of(plan, outcome):
            parts.append(f"{opening} {_listed(limits)}.")
    later = [limit for limit in (*_of(plan, "lacks"), *_of(plan, "cannot pass")) if limit.resolution is not None]
    if later:
        parts.append(f"With that it could decide {_listed(later)}.")
    return " ".join([*parts, *_whole_policy(joint(plan)), *_advice(plan)])


def _advice(plan: Plan) -> Iterator[str]:
    """Recommend another device, or a first look, where the trials take hours."""
    time = total_time(plan.costs)
    if time is None or time.seconds < LONG_SECONDS:
        return
    hours = f"{time.seconds / 3600:,.0f} hours" + (" or more" if time.high is None else "")
    look = "look first with --documents 30 or --time 30m"
    if plan.device == "cuda":
        yield f"A scan takes about {hours} on this GPU: {look}."
        return
    fewer = time.seconds / GPU_TIMES[1], time.seconds / GPU_TIMES[0]
    low, high = (max(1, round(seconds / 60)) for seconds in fewer)
    span = f"{low} to {high} minutes" if high < 120 else f"{max(1, low // 60):,} to {high // 60:,} hours"
    yield (
        f"A scan takes about {hours} on this CPU; on a data-centre GPU perhaps {span} (a rule of thumb, not measured "
        f"here): run it there with --device cuda, or {look}."
    )


def _whole_policy(chance: Joint) -> Iterator[str]:
    """How often a model that leaks nothing passes all limits."""
    if chance.blocked:
        yield f"As it is, no model passes the whole policy: see {_listed(chance.blocked)}."
    if chance.limits:
        n = len(chance.limits)
        which = "the limit" if n == 1 else f"all {n} limits"
        subject, units = "A leak-free model", ""
        if chance.blocked:
            subject, units = "Once that is mended, a leak-free model", " that the data set has units for"
        yield f"{subject} would pass {which}{units} in about {percent(chance.chance)} of audits."


def _of(plan: Plan, outcome: Outlook) -> list[LimitPlan]:
    return [limit for limit in plan.limits if limit.outcome == outcome]


def _listed(limits: Sequence[LimitPlan]) -> str:
    return ", ".join(f"{limit.attack} {limit.metric}" for limit in limits)


def percent(power: float) -> str:
    """A chance as text."""
    return f"{100 * power:.0f} %"


def total_time(costs: Sequence[Cost]) -> Time | None:
    """Add up the times of the attacks that were timed; without an upper end where one of them has none."""
    times = [cost.time for cost in costs if cost.time is not None]
    if not times:
        return None
    highs = [one.high for one in times if one.high is not None]
    high = sum(highs) if len(highs) == len(times) else None
    return Time(
        sum(one.seconds for one in times), sum(one.low for one in times), high, min(one.trials for one in times)
    )


def as_json(plan: Plan) -> bytes:
    """Write the plan, the chance to pass the whole policy, the time of all timed attacks, and the conclusion."""
    chance, time = joint(plan), total_time(plan.costs)
    content = {
        "schema": 1,
        **asdict(plan),
        "joint": {
            "limits": [[limit.attack, limit.metric] for limit in chance.limits],
            "chance": chance.chance,
            "blocked": [[limit.attack, limit.metric] for limit in chance.blocked],
        },
        "time": None if time is None else asdict(time),
        "conclusion": conclusion(plan),
    }
    return (json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
