"""The comparison of two scans: a row for each number that both could have measured.

No text of documents is in it. Names and docstrings of its types are those of the published schema
of `docaudit diff --format json`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, PlainSerializer
from pydantic.dataclasses import dataclass

from audit.measurements import STRICT, Estimate, Measurement, format_change, format_value

Outcome = Literal["better", "lower", "worse", "cannot be told"]
OUTCOMES: tuple[Outcome, ...] = ("worse", "better", "lower", "cannot be told")
"""The worst first. Lower: the number fell for certain, but the attacker was weak there."""
Good = Literal["less", "more", "nearer to chance"]
"""The direction in which a number is better."""
WITHIN = "the interval of the change reaches over zero"
"""Why most of what cannot be told cannot be told."""
RULE = (
    "Better and worse: the 95 % interval of the change excludes zero, and p after Holm over all "
    "comparisons is at most 0.05. For two models that leak alike, such a word appears in at most "
    "one of 20 comparisons of two scans. Lower: the number fell as surely, but the attacker was "
    "weak there. Cannot be told does not mean alike."
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

    def sentence(self, name: str) -> str:
        """Describe the scan of a side in one line, which begins with `name`."""
        model = f"{name} {self.subject} (sha256 {self.sha256[:12]})"
        return f"{model}, scanned {self.scanned[:10]} by docaudit {self.docaudit}"


@dataclass(frozen=True, config=STRICT)
class MetricChange:
    """A number in both scans.

    Attributes:
        attack: empty for usefulness.
        limits: the metrics that the policy limits and that this number answers for, itself or as
            one of the methods.
        good: the direction in which it is better.
        difference: new minus old, null 0; of an area its distance from chance. None where there is
            none.
        p: two-sided, of a difference as large without any effect.
        p_adjusted: after Holm over all numbers of the comparison.
        paired: whether units were compared one by one; False: both intervals were joined, which is
            wider.
        reason: why it cannot be told, or why a lower number is not called better; empty otherwise.
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
        """Test whether the old scan measured the number and the new one did not."""
        return isinstance(self.before, Estimate) and not isinstance(self.after, Estimate)

    @property
    def compared(self) -> bool:
        """Test whether a difference between both scans could be computed."""
        return self.difference is not None

    @property
    def values(self) -> tuple[str, str]:
        """Return the numbers before and after; a dash where there is none."""
        return format_value(self.before), format_value(self.after)

    @property
    def interval(self) -> str:
        """Return the change with its 95 % interval; a dash where there is none."""
        return format_change(self.difference)

    @property
    def words(self) -> str:
        """Describe the change in one line: the number, before and after, and the interval."""
        old, new = self.values
        unpaired = "" if self.paired else ", not paired"
        return f"{self.metric} {old} before, {new} now, change {self.interval}{unpaired}"

    @property
    def place(self) -> str:
        """Return the attack, or "usefulness"."""
        return self.attack or "usefulness"


@dataclass(frozen=True, config=STRICT)
class MissingAttack:
    """An attack without a number on either side, and why."""

    attack: str
    reason: str

    @property
    def words(self) -> str:
        """Name the attack and the reason, as the published schema has them."""
        return f"{self.attack}: {self.reason}"


Missing = Annotated[MissingAttack, PlainSerializer(lambda attack: attack.words, return_type=str)]
"""Written as one sentence, as the published schema has it."""


@dataclass(frozen=True, config=ConfigDict(**STRICT, title="ScanDiff"))
class Comparison:
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
    missing: tuple[Missing, ...] = ()
    rule: str = RULE

    def of(self, outcome: Outcome) -> list[MetricChange]:
        """List the numbers with this outcome."""
        return [change for change in self.changes if change.outcome == outcome]

    @property
    def summary(self) -> str:
        """Count the numbers by outcome, in words."""
        counts = {outcome: len(self.of(outcome)) for outcome in OUTCOMES}
        if not counts["lower"]:
            del counts["lower"]
        counted = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        compared = sum(change.compared for change in self.changes)
        return f"{counted}; {compared} of {len(self.changes)} numbers could be compared"

    def reasons(self, *outcomes: Outcome) -> dict[str, str]:
        """Group by reason the numbers that cannot be told, or with these outcomes.

        The commonest reason comes last.
        """
        groups: dict[str, dict[str, list[str]]] = {}
        chosen = outcomes or ("cannot be told",)
        for change in [change for change in self.changes if change.outcome in chosen]:
            places = groups.setdefault(change.reason, {})
            places.setdefault(change.place, []).append(change.metric)
        within = groups.pop(WITHIN, None)
        reasons = {reason: _list_metrics(places) for reason, places in groups.items()}
        if within is not None:
            reasons[WITHIN] = "all others" if reasons else "all of them"
        return reasons


def _list_metrics(places: Mapping[str, Sequence[str]]) -> str:
    """Write metrics by place on one line: "ATTACK metric, metric; ATTACK metric"."""
    return "; ".join(f"{place} {', '.join(metrics)}" for place, metrics in places.items())
