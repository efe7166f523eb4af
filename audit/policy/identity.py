"""Identity of the policy that a record is held against: was it declared before the scan, and is it looser than ours?"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT
from audit.policy.limits import Limit, Policy
from audit.policy.reading import load
from audit.record import AuditRecord

COMPARED = "default"
"""The shipped policy that others are compared with: strict is for sensitive documents."""


PREFIX = 12
"""Digits of a sha256 that sentences show; the whole one is in the record and in the report's parameters."""


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
    """Say how many limits of an owner's own policy ask less than the shipped ones; empty where none does."""
    if policy.origin is None or policy.origin.shipped:
        return ""
    theirs = {(limit.attack, limit.metric): limit for limit in load(COMPARED).limits}
    count = sum(_asks_less(one, theirs.get((one.attack, one.metric), one)) for one in policy.limits)
    if not count:
        return ""
    limits = f"{count} of its {len(policy.limits)} limits {'is' if count == 1 else 'are'} looser"
    return f"{limits} than those of docaudit's {COMPARED} policy"


def _asks_less(own: Limit, other: Limit) -> bool:
    names = ("min_power", "min_coverage", "min_category_coverage")
    return (
        (own.max is not None and other.max is not None and own.max > other.max)
        or any((getattr(own, name) or 0.0) < (getattr(other, name) or 0.0) for name in names)
        or (other.required and not own.required)
        or (own.holds == "lower" != other.holds)
    )


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
