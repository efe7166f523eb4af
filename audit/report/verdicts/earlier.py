"""The earlier scan that a verdict was held against, in the types of the JSON format."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT
from audit.policy.compared import Baseline, Change


@dataclass(frozen=True, config=STRICT)
class BaselineLimit:
    """What became of a limit since the baseline: its largest change, or why there is none."""

    attack: str
    metric: str
    outcome: Change
    reason: str


@dataclass(frozen=True, config=STRICT)
class BaselineCounts:
    """Limits by what became of them since the baseline."""

    limits: int
    worse: int
    no_longer_measured: int
    better: int
    cannot_be_told: int
    not_compared: int


@dataclass(frozen=True, config=STRICT)
class BaselineState:
    """The earlier scan that the verdict was held against too.

    Attributes:
        record_sha256: of the file of its record.
        subject: the name of the model, or of the data set where its text was audited alone.
        notes: what differs between both scans, OLD and NEW, and what was not paired.
    """

    record_sha256: str
    subject: str
    model_sha256: str
    scanned: str
    docaudit: str
    counts: BaselineCounts
    limits: tuple[BaselineLimit, ...]
    notes: tuple[str, ...]


def baseline_state(baseline: Baseline) -> BaselineState:
    """The baseline in the types of the JSON format."""
    counts = BaselineCounts(
        limits=len(baseline.limits),
        worse=len(baseline.of("worse")),
        no_longer_measured=len(baseline.of("no longer measured")),
        better=len(baseline.of("better")),
        cannot_be_told=len(baseline.of("cannot be told")),
        not_compared=len(baseline.of("not compared")),
    )
    limits = tuple(BaselineLimit(one.attack, one.metric, one.outcome, one.reason) for one in baseline.limits)
    return BaselineState(
        baseline.record_sha256,
        baseline.subject,
        baseline.model_sha256,
        baseline.scanned,
        baseline.docaudit,
        counts,
        limits,
        baseline.notes,
    )
