"""Identity of the policy that a record is held against: was it declared before the scan, and is it looser than ours?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT
from audit.policy.limits import Limit, Policy
from audit.policy.reading import load
from audit.record import AuditRecord

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


PREFIX = 12
"""Digits of a sha256 that sentences show (ours); the whole one is in the record and in the report's parameters."""


@dataclass(frozen=True, config=STRICT)
class PolicyIdentity:
    """The policy of a verdict beside the one that its record declares.

    Attributes:
        sha256: of the file that it was read from; None where it was read from none.
        shipped: whether docaudit ships this very file.
        state: "declared": it is the one that was declared before the scan; "another": it is not; "undeclared": the
            record is older and declares none.
        warning: a sentence on why it could have been chosen for its outcome; empty where it could not.
        looser: how many of its limits ask less than the shipped ones; empty where none does.
    """

    name: str
    sha256: str | None
    shipped: bool
    state: Literal["declared", "another", "undeclared"]
    warning: str
    looser: str = ""

    @property
    def sentence(self) -> str:
        """The name with what identifies the file, and whether it was declared before the scan."""
        kind = "shipped with docaudit, unchanged" if self.shipped else "the owner's own"
        digest = "not read from a file" if self.sha256 is None else f"{kind}, SHA-256 {self.sha256[:PREFIX]}"
        declared = ", declared before the scan" if self.state == "declared" and not self.warning else ""
        return f"{self.name} ({digest}{declared})"


def identify(record: AuditRecord, policy: Policy) -> PolicyIdentity:
    """Hold a policy against the one that a record declares."""
    return replace(_identify(record, policy), looser=_looser(policy))


def _looser(policy: Policy) -> str:
    count = len(looser(policy))
    if not count:
        return ""
    limits = f"{count} of its {len(policy.limits)} limits {'is' if count == 1 else 'are'} looser"
    return f"{limits} than those of docaudit's {COMPARED} policy"


def _identify(record: AuditRecord, policy: Policy) -> PolicyIdentity:
    origin, declared = policy.origin, record.policy
    sha256 = None if origin is None else origin.sha256
    shipped = origin is not None and origin.shipped
    if declared is None:
        warning = "the record declares no policy: nothing shows that this one was chosen before the results were known"
        return PolicyIdentity(policy.name, sha256, shipped, "undeclared", warning)
    if declared.sha256 != sha256:
        before = f"{declared.name} (SHA-256 {declared.sha256[:PREFIX]})"
        same = " of the same name" if declared.name == policy.name else ""
        warning = f"the policy that was declared before the scan is another one{same}: {before}"
        return PolicyIdentity(policy.name, sha256, shipped, "another", warning)
    return PolicyIdentity(policy.name, sha256, shipped, "declared", _late(record))


def _late(record: AuditRecord) -> str:
    """Say that outcomes are older than the declaration of the policy, or may be; empty where none is."""
    timing = record.timing
    unshown = "nothing shows that it was chosen before the results were known"
    if timing.resumed and timing.oldest is None:
        return (
            f"nothing says when the {timing.resumed:,} outcomes that were read from a journal were computed, and the "
            f"scan of {timing.started[:10]} declares this policy: {unshown}"
        )
    if timing.oldest is None or timing.same_policy or timing.oldest >= timing.started:
        return ""
    return (
        f"outcomes were computed on {timing.oldest[:10]}, before the scan of {timing.started[:10]} that declares this "
        f"policy: {unshown}"
    )
