"""A plan in words: its tables and sentences for a terminal, and the whole as JSON for a machine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from audit.console import duration
from audit.planning.cost import Cost, Time
from audit.planning.joint import Joint, joint
from audit.planning.limits import EXCESS, WANTED_POWER, LimitPlan, Outlook, Plan, Resolution

_NOT_DECIDED: dict[Outlook, str] = {
    "confounded": "Confounded, for what is compared differs without the model:",
    "cannot be violated": "No leak could exceed, for one kind of value is so common,",
    "too small": "It is too small for",
    "blind check too weak": "Too weak is the blind check to rule out other differences for",
    "inapplicable": "This kind of model is not asked for",
    "no plan": "Nothing can be said of",
    "lacks": "Something is missing (above) for",
    "cannot pass": "Without a reference (above) no model passes",
}
NEARLY_ALWAYS = 0.995
"""A chance that is written as 100 %."""
FEW_TRIALS = 5
"""Trials under which a time is said to rest on so few (ours)."""
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""Title, columns, rows."""


def limits_table(plan: Plan) -> Table:
    """Every limit with what the data set has for it."""
    columns = ("limit", "units", "shows", "passes", "confirms", "needs", "outcome")
    title = f"What {plan.corpus} can decide, policy {plan.policy}, budget {plan.budget}"
    return title, columns, [_row(limit) for limit in plan.limits]


def _row(limit: LimitPlan) -> tuple[str, ...]:
    asked = f"{limit.attack}\n{limit.metric}" + (f" <= {limit.max:g}" if limit.max is not None else "")
    found = limit.resolution
    if found is None:
        return (asked, *["-"] * 5, limit.outcome)
    return (
        asked,
        _units(found).replace(f" {found.unit}", f"\n{found.unit}"),
        f"{found.certified:.3f}",
        f"{'>= ' if found.at_least and found.pass_power < NEARLY_ALWAYS else ''}{_share(found.pass_power)}",
        f"{_share(found.power)}\nof {found.effect:.3g}",
        "-" if found.needed is None else f"{'<= ' if found.at_least else ''}{found.needed}",
        limit.outcome,
    )


def _units(found: Resolution) -> str:
    return f"{found.members} + {found.others} {found.unit}" if found.others else f"{found.members} {found.unit}"


def legend() -> tuple[str, ...]:
    """What the columns of `limits_table` say, a line each."""
    return (
        "units: members + others; at most so many, as a model's tokens may leave some out",
        "shows: the smallest limit that a model which leaks nothing passes; passes: how often it passes this one, if",
        "  nothing else stands in the way",
        "  >=: at least, for a limit that several methods must meet, or a number that is a mean over many attackers",
        f"confirms: how often a leak {EXCESS:g} over the limit, or as large as can be, is confirmed, when it is the",
        "  only one, and one method finds it",
        f"needs: units a side with which a model that leaks nothing passes in {_share(WANTED_POWER)} of audits",
    )


def _share(power: float) -> str:
    return f"{100 * power:.0f} %"


def reasons(plan: Plan) -> Iterator[str]:
    """A line for each reason why limits are not decided."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for limit in plan.limits:
        if limit.outcome != "decides":
            found[limit.attack, limit.outcome, limit.reason].append(limit.metric)
    for (attack, outcome, reason), metrics in found.items():
        yield f"{attack} {', '.join(metrics)}: {outcome}: {reason}"


def conclusion(plan: Plan) -> str:
    """What this data set can decide, what it is too small for and what it lacks, a sentence each."""
    decided = _of(plan, "decides")
    parts = [f"{plan.corpus} can decide {len(decided)} of {len(plan.limits)} limits of the policy"]
    parts[0] += f": {_listed(decided)}." if decided else "."
    for outcome, words in _NOT_DECIDED.items():
        if limits := _of(plan, outcome):
            parts.append(f"{words} {_listed(limits)}.")
    later = [limit for limit in (*_of(plan, "lacks"), *_of(plan, "cannot pass")) if limit.resolution is not None]
    if later:
        parts.append(f"With that it could decide {_listed(later)}.")
    return " ".join([*parts, *_whole_policy(joint(plan))])


def _whole_policy(found: Joint) -> Iterator[str]:
    """How often a model that leaks nothing passes all limits."""
    if found.blocked:
        yield f"As it is, no model passes the whole policy: see {_listed(found.blocked)}."
    if found.limits:
        what = "all limits that there are units for" if found.blocked else "the whole policy"
        condition = ", once that is mended," if found.blocked else ""
        yield (
            f"A model that leaks nothing{condition} passes {what} ({len(found.limits)}) in at least "
            f"{_share(found.at_least)} of audits, whatever the attacks have in common "
            f"(in {_share(found.if_independent)}, if they had nothing in common), when nothing else stands in the way."
        )


def _of(plan: Plan, outcome: Outlook) -> list[LimitPlan]:
    return [limit for limit in plan.limits if limit.outcome == outcome]


def _listed(limits: Sequence[LimitPlan]) -> str:
    return ", ".join(f"{limit.attack} {limit.metric}" for limit in limits)


def costs_table(plan: Plan) -> Table:
    """Trials and time of every attack."""
    rows: list[tuple[str, ...]] = [(cost.attack, _trials(cost), _time(cost)) for cost in plan.costs]
    total = total_time(plan.costs)
    if total is not None:
        rows.append(("in all", "", _span(total)))
    return "What a scan costs", ("attack", "trials", "time"), rows


def _trials(cost: Cost) -> str:
    return f"{cost.trials}" if cost.exact else f"at most {cost.trials}"


def _time(cost: Cost) -> str:
    return _span(cost.time) if cost.time is not None else cost.inapplicable or cost.lacks or cost.untimed


def total_time(costs: Sequence[Cost]) -> Time | None:
    """Of the attacks that were timed; without an upper end where one of them has none."""
    times = [cost.time for cost in costs if cost.time is not None]
    if not times:
        return None
    highs = [one.high for one in times if one.high is not None]
    high = sum(highs) if len(highs) == len(times) else None
    return Time(
        sum(one.seconds for one in times), sum(one.low for one in times), high, min(one.trials for one in times)
    )


def _span(time: Time) -> str:
    if time.high is None:
        return f"more than {duration(time.low)} (a trial took too long and was stopped unfinished)"
    rests = f", from {time.trials} trial{'s' if time.trials > 1 else ''}" if time.trials < FEW_TRIALS else ""
    return f"{duration(time.seconds)} ({duration(time.low)} to {duration(time.high)}{rests})"


def as_json(plan: Plan) -> bytes:
    """The plan, the chance to pass the whole policy, the time of all attacks that were timed, and the conclusion."""
    found, time = joint(plan), total_time(plan.costs)
    content = {
        "schema": 1,
        **asdict(plan),
        "joint": {
            "limits": [[limit.attack, limit.metric] for limit in found.limits],
            "at_least": found.at_least,
            "if_independent": found.if_independent,
            "blocked": [[limit.attack, limit.metric] for limit in found.blocked],
        },
        "time": None if time is None else asdict(time),
        "conclusion": conclusion(plan),
    }
    return (json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
