"""Rules that a policy has to keep, so that its verdict says something."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from audit.errors import PolicyError
from audit.policy.limits import Limit, Policy

MISSPELT = 0.8
"""Likeness of two names from which one is taken for a mistake (ours): provider_membership and membership are less."""
HINT = "what a policy may say stands in docs/policies.md; docaudit's own limits are the starting point"


def contradictions(policy: Policy) -> list[str]:
    """List what no policy may say, whatever attacks there are, each with its place."""
    problems = []
    if not policy.limits:
        problems.append("limits: there is none, so nothing could ever be violated")
    for index, limit in enumerate(policy.limits):
        if (limit.max is None) == (limit.min is None):
            problems.append(f"limits.{index}: give either max or min")
        if limit.holds == "lower" and limit.max is None:
            problems.append(f"limits.{index}: holds: a lower bound is held against a max")
    if isinstance(policy.min_examined, int) and policy.min_examined > len(policy.limits):
        problems.append(
            f"min_examined: {policy.min_examined} of {len(policy.limits)} limits; a share has a point, as 0.5"
        )
    gated = {(limit.attack, limit.metric) for limit in policy.limits}
    problems += [
        f"waivers.{index}: no limit on {waiver.attack} {waiver.metric}"
        for index, waiver in enumerate(policy.waivers)
        if (waiver.attack, waiver.metric) not in gated
    ]
    return problems


def check_names(policy: Policy, metrics: Mapping[str, Collection[str]], complete: bool = True) -> None:
    """Refuse a policy that misspells something; called before a scan too, which may take hours.

    Args:
        policy: what to check.
        metrics: the metrics a policy may ask for, by attack.
        complete: whether these are all the attacks there are. An older record does not know those that came later: only
            a name close to one that it knows is then taken for a mistake.

    Raises:
        PolicyError: the policy names an attack or a metric that does not exist.
    """
    problems = []
    for limit in policy.limits:
        if limit.attack not in metrics and (complete or get_close_matches(limit.attack, metrics, 1, MISSPELT)):
            problems.append(f"policy {policy.name}: no attack is called {limit.attack!r}")
        elif limit.attack in metrics and limit.metric not in metrics[limit.attack]:
            close = get_close_matches(limit.metric, metrics[limit.attack], 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            problems.append(f"policy {policy.name}: {limit.attack} has no metric {limit.metric!r}{meant}")
    if problems:
        raise PolicyError(problems, f"attacks: {', '.join(metrics)}")


def check_ranges(policy: Policy, metrics: Mapping[str, Mapping[str, float | None]]) -> None:
    """Refuse limits that a metric can never reach: 65 where 65 % is meant would pass every model, as 1 would.

    Args:
        policy: what to check.
        metrics: the most that a metric can be, by attack and metric: 1 for shares and areas; None: any number. One that
            is not among them is taken for a share.

    Raises:
        PolicyError: every limit at or beyond the end of its metric's range.
    """
    problems = []
    for index, limit in enumerate(policy.limits):
        upper = metrics.get(limit.attack, {}).get(limit.metric, 1.0)
        problem = _out_of_range(limit, upper)
        if problem:
            problems.append(f"policy {policy.name} limits.{index}: {problem}")
    if problems:
        raise PolicyError(problems, HINT)


def _out_of_range(limit: Limit, upper: float | None) -> str:
    """Say that nothing could violate a limit, or nothing meet it; empty where that is not so."""
    name, bound = ("max", limit.max) if limit.max is not None else ("min", limit.min)
    if bound is None:
        return ""
    if upper is not None and not 0 <= bound <= upper:
        percent = ", so that 65 % is 0.65" if upper == 1 else ""
        return f"{name} {bound:g}: {limit.metric} lies between 0 and {upper:g}{percent}"
    if name == "max" and bound == upper:
        return f"max {bound:g}: {limit.metric} is never more than {upper:g}, so that nothing could violate it"
    if name == "min" and bound <= 0:
        return f"min {bound:g}: {limit.metric} is never less than 0, so that nothing could violate it"
    return ""


def check_lower_bounds(policy: Policy, tallies: Mapping[str, Collection[str]]) -> None:
    """Refuse `holds = "lower"` where a pass would rest on too little having been tried.

    Args:
        policy: what to check.
        tallies: by attack, the metrics that count what was found.

    Raises:
        PolicyError: a lower bound of another metric, or one that asks for no strength of the attacker.
    """
    problems = []
    for index, limit in enumerate(policy.limits):
        place = f"policy {policy.name} limits.{index}: holds"
        if limit.holds == "lower" and limit.metric not in tallies.get(limit.attack, ()):
            problems.append(f"{place}: {limit.metric} is no count of what was found: its whole interval has to be held")
        elif limit.holds == "lower" and not limit.min_power:
            problems.append(f"{place}: a lower bound says nothing of a weak attacker: give min_power as well")
    if problems:
        counts = ", ".join(f"{attack} {metric}" for attack, metrics in tallies.items() for metric in metrics)
        raise PolicyError(problems, f'holds = "lower" is for counts ({counts}); {HINT}')


def check_sides(policy: Policy, leaks: Mapping[str, Collection[str]]) -> None:
    """Refuse limits that hold a leak against the wrong end: a leaking model would meet them.

    Args:
        policy: what to check.
        leaks: by attack, the metrics that grow with the leak; those of their methods have further parts in the name.

    Raises:
        PolicyError: every such limit.
    """
    problems = [
        f"policy {policy.name} limits.{index}: min: {limit.metric} grows with the leak: limit it with max"
        for index, limit in enumerate(policy.limits)
        if limit.min is not None
        and any(limit.metric == one or limit.metric.startswith(f"{one}.") for one in leaks.get(limit.attack, ()))
    ]
    if problems:
        raise PolicyError(problems, HINT)
