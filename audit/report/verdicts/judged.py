"""A record with its verdict, as every machine format is drawn from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from audit.corpus.paths import printable
from audit.measurements import Estimate
from audit.policy import EXIT_CODES, Decision, Limit, Outcome, Verdict
from audit.record import AuditRecord, Failed
from audit.report.verdicts.places import NOWHERE, Places

OPEN: tuple[Literal["violated", "undecided"], ...] = ("violated", "undecided")
"""Outcomes that keep a model from being let through."""


@dataclass(frozen=True)
class Check:
    """What became of one limit, as a pipeline lists it.

    Attributes:
        decision: on the limit.
        metric: its name; a second limit on the same metric is told by a number.
        index: of the limit in the policy.
        counts: whether an open outcome has its part in the exit code: findings on the text alone may have none, and a
            policy may let undecided ones pass.
        broke: what became of the attack when it broke down.
    """

    decision: Decision
    metric: str
    index: int
    counts: bool
    broke: Failed | None

    @property
    def attack(self) -> str:
        """Of the limit."""
        return self.decision.limit.attack

    @property
    def open(self) -> bool:
        """Whether the limit is violated or undecided."""
        return self.decision.outcome in OPEN

    @property
    def sentence(self) -> str:
        """The outcome with its reason, and what would decide it."""
        decision = self.decision
        helps = f"; to decide it: {decision.remedy}" if decision.remedy else ""
        by = decision.waiver
        waived = f"; waived by {by.owner} ({by.role}) until {by.expires}" if by is not None else ""
        counts = "; it does not count for the exit code" if self.open and not self.counts else ""
        return printable(f"{decision.reason}{helps}{waived}{counts}")


@dataclass(frozen=True)
class Whole:
    """A verdict that no single limit explains: none could be checked, or a claimed guarantee is false.

    Attributes:
        name: "overall", or "text" of what the documents' own text gives away.
        outcome: of all limits together.
        reason: one sentence.
        counts: see `Check`.
    """

    name: str
    outcome: Outcome
    reason: str
    counts: bool


@dataclass(frozen=True)
class Judged:
    """A record with the verdict on it.

    Attributes:
        places: where the limits lie in the repository.
        decides_exit: False for a command whose exit code is not the verdict's.
    """

    record: AuditRecord
    verdict: Verdict
    places: Places = NOWHERE
    decides_exit: bool = True

    @property
    def checks(self) -> tuple[Check, ...]:
        """One for each limit, in the policy's order."""
        broken = {result.attack: result for result in self.record.attacks if isinstance(result, Failed)}
        seen: Counter[tuple[str, str]] = Counter()
        checks = []
        for index, decision in enumerate(self.verdict.decisions):
            limit = decision.limit
            seen[limit.attack, limit.metric] += 1
            number = seen[limit.attack, limit.metric]
            metric = limit.metric if number == 1 else f"{limit.metric} {number}"
            undecided = decision.outcome == "undecided"
            broke = broken.get(limit.attack) if undecided else None
            checks.append(Check(decision, metric, index, self._counts(decision.outcome), broke))
        return tuple(checks)

    @property
    def wholes(self) -> Iterator[Whole]:
        """Verdicts that no single limit explains."""
        verdict = self.verdict
        for name, outcome, reason in (
            ("overall", verdict.overall, verdict.reason),
            ("text", verdict.text, verdict.text_reason),
        ):
            own = {one.outcome for one in verdict.decisions if name == "overall" or one.about_text}
            if outcome in OPEN and outcome not in own:
                yield Whole(name, outcome, printable(reason), self._counts(outcome))

    def _counts(self, outcome: Outcome) -> bool:
        """Whether an open outcome is in the exit code: one that is better than it cannot be."""
        return outcome in OPEN and self.verdict.exit_code in (EXIT_CODES["violated"], EXIT_CODES[outcome])


def bound(limit: Limit) -> str:
    """What a limit allows, in words."""
    return f"at most {limit.max:g}" if limit.max is not None else f"at least {limit.min:g}"


def measured(estimate: Estimate) -> str:
    """A value with its interval and the number of units, in words."""
    level = f"{100 * estimate.level:g} % interval {estimate.low:.3f} to {estimate.high:.3f}"
    return f"{estimate.value:.3f} ({level}, n = {estimate.n} {estimate.unit})"


def compared(decision: Decision) -> str:
    """What was measured against a limit, in words."""
    if decision.measured is None:
        return f"nothing measured, limit {bound(decision.limit)}"
    by = "" if decision.measured.name == decision.limit.metric else f" by {decision.measured.name}"
    return f"measured {measured(decision.measured)}{by}, limit {bound(decision.limit)}"
