"""The limits of a policy in a scan and in an earlier one, as data."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT
from audit.policy.identity import PREFIX

Change = Literal["worse", "no longer measured", "better", "cannot be told", "not compared"]
"""What became of a limit since the baseline, the worst first: that of its worst method."""


@dataclass(frozen=True, config=STRICT)
class ComparedLimit:
    """What became of a limit since the baseline.

    Attributes:
        reason: the largest change where there is one, else why there is none.
    """

    attack: str
    metric: str
    outcome: Change
    reason: str


@dataclass(frozen=True, config=STRICT)
class Baseline:
    """An earlier scan that a verdict was held against.

    Attributes:
        record_sha256: of the file of its record.
        subject: the name of the model, or of the data set where its text was audited alone.
        model_sha256: of the model.
        scanned: when the scan began.
        limits: all of the policy's, in its order, each metric once.
        notes: what differs between both scans all the same, and what was not paired, in sentences.
    """

    record_sha256: str
    subject: str
    model_sha256: str
    scanned: str
    docaudit: str
    limits: tuple[ComparedLimit, ...]
    notes: tuple[str, ...] = ()

    def of(self, outcome: Change) -> list[ComparedLimit]:
        """List the limits with this outcome."""
        return [limit for limit in self.limits if limit.outcome == outcome]

    @property
    def compared(self) -> bool:
        """Whether any limit could be compared."""
        return any(limit.outcome in ("worse", "better", "cannot be told") for limit in self.limits)

    @property
    def counted(self) -> str:
        """The limits by outcome, in words."""
        counts = ", ".join(f"{len(own)} {outcome}" for outcome in get_args(Change) if (own := self.of(outcome)))
        return f"{len(self.limits)} {'limit' if len(self.limits) == 1 else 'limits'}: {counts}"

    @property
    def sentence(self) -> str:
        """The scan, and what became of the limits since."""
        scan = f"{self.subject}, scanned {self.scanned[:10]} (sha256 of the record {self.record_sha256[:PREFIX]})"
        return f"{scan}; {self.counted}"
