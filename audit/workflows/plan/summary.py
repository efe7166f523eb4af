"""The conclusion of a plan in words, and the whole as JSON for a machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from audit.policy.checks import LEVEL
from audit.workflows.plan.limits import Cost, LimitPlan, Outlook, Plan

LONG_SECONDS = 2 * 3600.0
"""Trials that take longer are advised to be run elsewhere."""
_NOT_DECIDED: dict[Outlook, str] = {
    "confounded": "Confounded, for what is compared differs without the model:",
    "too small": "It is too small for",
    "blind check too weak": 'The blind check is too weak (if a lot chose the members, state assigned = "random" in '
    'manifest.toml, or "by-provider" for providers) for',
    "inapplicable": "This kind of model is not asked for",
    "no plan": "Nothing can be said of",
    "lacks": "Something is missing (above) for",
    "cannot pass": "Without a reference (above) no model passes",
}


@dataclass(frozen=True)
class Joint:
    """Whether a model that leaks nothing passes all limits on models.

    Attributes:
        limits: that there are units for, in the policy's order, so that an audit would hold numbers against them.
        chance: that it passes all of them and that no check fires. An estimate, see `joint_chance`.
        blocked: limits that no model passes on this data set as it is, so that none passes the policy.
    """

    limits: tuple[LimitPlan, ...]
    chance: float
    blocked: tuple[LimitPlan, ...]


def joint(plan: Plan) -> Joint:
    """Compute the chance that a model which leaks nothing passes all limits of the policy that are on models."""
    own = [limit for limit in plan.limits if not limit.about_text]
    resolved = tuple(limit for limit in own if limit.resolution is not None)
    chances = [limit.resolution.pass_power for limit in resolved if limit.resolution is not None]
    return Joint(resolved, joint_chance(chances), tuple(limit for limit in own if _blocked(limit)))


def joint_chance(chances: Iterable[float]) -> float:
    """Estimate how often a leak-free model passes all limits, taken as independent, while no check of the scan fires.

    The checks share one false-alarm rate (`audit.policy.checks.LEVEL`), whatever the number of documents.
    `benchmarks/leak_free_audits.md` compares the estimate with simulated audits.

    Args:
        chances: that it passes each limit, as far as the number of units goes.
    """
    return (1 - LEVEL) * math.prod(chances)


def _blocked(limit: LimitPlan) -> bool:
    """Whether no model passes the limit; one that a data set without its units leaves out blocks nothing."""
    match limit.outcome:
        case "confounded" | "blind check too weak" | "cannot pass":
            return True
        case "lacks":
            return limit.required or limit.resolution is not None
        case "no plan":
            return False
        case _:
            return any(outcome in ("lacks", "cannot pass", "blind check too weak") for outcome, _ in limit.blockers)


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
    if time is None or time[0] < LONG_SECONDS:
        return
    seconds, least = time
    hours = f"{seconds / 3600:,.0f} hours" + (" or more" if least else "")
    look = "look first with --documents 30 or --time 30m"
    if plan.device == "cuda":
        yield f"A scan takes about {hours} on this GPU: {look}."
    else:
        yield f"A scan takes about {hours} on this CPU: run it on a GPU (--device cuda), or {look}."


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


def total_time(costs: Sequence[Cost]) -> tuple[float, bool] | None:
    """Add up the seconds of the attacks that were timed; True: they take longer, as those of one of them do."""
    timed = [cost for cost in costs if cost.seconds is not None]
    return (sum(cost.seconds or 0.0 for cost in timed), any(cost.least for cost in timed)) if timed else None


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
        "time": None if time is None else {"seconds": time[0], "least": time[1]},
        "conclusion": conclusion(plan),
    }
    return (json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
