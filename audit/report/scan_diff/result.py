"""Two scans compared, as data: every format is drawn from it. It has no text of documents or of models."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT, Estimate, Measurement

Outcome = Literal["better", "worse", "cannot be told"]
OUTCOMES: tuple[Outcome, ...] = ("worse", "better", "cannot be told")
"""The worst first."""
Good = Literal["less", "more", "nearer to chance"]
"""The direction in which a number is better."""
WITHIN = "the interval of the change reaches over zero"
"""Why most of what cannot be told cannot be told."""
RULE = (
    "Better and worse: the 95 % interval of the change excludes zero, and its p is at most 0.05 after Holm over all "
    "comparisons. So with two models that leak alike, any of these words falls anywhere in at most one of 20 "
    "comparisons of two scans. Cannot be told does not mean alike."
)


@dataclass(frozen=True, config=STRICT)
class Side:
    """One of the two scans.

    Attributes:
        subject: the name of the model, or of the data set where its text was audited alone.
        sha256: of the model.
        docaudit: the version that wrote the record.
        scanned: when the scan began.
    """

    subject: str
    sha256: str
    docaudit: str
    scanned: str


@dataclass(frozen=True, config=STRICT)
class MetricChange:
    """A number in both scans.

    Attributes:
        attack: empty for usefulness.
        limits: the metrics that the policy limits and that this number answers for, itself or as one of the methods.
        good: the direction in which it is better.
        difference: new minus old, null 0; of an area its distance from chance. None where there is none.
        p: two-sided, of a difference as large without any effect.
        p_adjusted: after Holm over all numbers of the comparison.
        paired: whether units were compared one by one; False: both intervals were joined, which is wider.
        reason: why it cannot be told; empty otherwise.
    """

    attack: str
    metric: str
    limits: tuple[str, ...]
    good: Good
    before: Measurement | None
    after: Measurement | None
    difference: Estimate | None = None
    p: float | None = None
    p_adjusted: float | None = None
    paired: bool = False
    outcome: Outcome = "cannot be told"
    reason: str = ""

    @property
    def lost(self) -> bool:
        """Whether the old scan measured it and the new one did not."""
        return isinstance(self.before, Estimate) and not isinstance(self.after, Estimate)

    @property
    def compared(self) -> bool:
        """Whether there is a difference at all."""
        return self.difference is not None


@dataclass(frozen=True, config=STRICT)
class ScanDiff:
    """Two scans of the same data, seed, budget and parameters.

    Attributes:
        policy: whose limits are among the numbers.
        notes: what differs all the same, and what was not paired, in sentences.
        missing: attacks without a number on either side, each with the reason.
    """

    schema_version: Literal[1]
    old: Side
    new: Side
    policy: str
    changes: tuple[MetricChange, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rule: str = RULE

    def of(self, outcome: Outcome) -> list[MetricChange]:
        """List the numbers with this outcome."""
        return [change for change in self.changes if change.outcome == outcome]

    @property
    def summary(self) -> str:
        """The numbers by outcome, in words."""
        counted = ", ".join(f"{len(self.of(outcome))} {outcome}" for outcome in OUTCOMES)
        compared = sum(change.compared for change in self.changes)
        return f"{counted}; {compared} of {len(self.changes)} numbers could be compared"
