"""Limits of an owner's own policy that ask less than those that docaudit ships."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from audit.policy.limits import Limit, Policy
from audit.policy.reading import load

COMPARED = "default"
"""The shipped policy that others are compared with (ours): strict is for sensitive documents."""


@dataclass(frozen=True)
class Looser:
    """A limit that asks less than the shipped one on the same metric, and in which respect."""

    attack: str
    metric: str
    respects: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The respects in words."""
        return f"looser than docaudit's {COMPARED} policy: {'; '.join(self.respects)}"


def looser(policy: Policy) -> tuple[Looser, ...]:
    """List the limits of an owner's own policy that ask less than the shipped ones; a shipped one has none."""
    if policy.origin is None or policy.origin.shipped:
        return ()
    theirs = _shipped_limits()
    compared = (
        Looser(limit.attack, limit.metric, tuple(_respects(limit, theirs[limit.attack, limit.metric])))
        for limit in policy.limits
        if (limit.attack, limit.metric) in theirs
    )
    return tuple(one for one in compared if one.respects)


@cache
def _shipped_limits() -> dict[tuple[str, str], Limit]:
    return {(limit.attack, limit.metric): limit for limit in load(COMPARED).limits}


def _respects(own: Limit, other: Limit) -> Iterator[str]:
    if own.max is not None and other.max is not None and own.max > other.max:
        yield f"at most {own.max:g}, there {other.max:g}"
    for name in ("min_power", "min_coverage", "min_category_coverage"):
        asked, there = getattr(own, name), getattr(other, name)
        if there is not None and (asked is None or asked < there):
            yield f"{'no ' if asked is None else ''}{name}{'' if asked is None else f' {asked:g}'}, there {there:g}"
    if other.required and not own.required:
        yield "not required, there it is"
    if own.holds == "lower" != other.holds:
        yield "only its lower bound is held, there the whole interval"
