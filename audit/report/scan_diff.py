"""Compare two scans as data, and draw the comparison as text, JSON or Markdown.

No text of documents is in it.
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from audit.measurements import STRICT, Estimate, Measurement
from audit.report.answer import LABELS
from audit.report.templates import render_markdown, render_text

Format = Literal["text", "json", "markdown"]
Outcome = Literal["better", "worse", "cannot be told"]
OUTCOMES: tuple[Outcome, ...] = ("worse", "better", "cannot be told")
"""The worst first."""
Good = Literal["less", "more", "nearer to chance"]
"""The direction in which a number is better."""
WITHIN = "the interval of the change reaches over zero"
"""Why most of what cannot be told cannot be told."""
RULE = (
    "Better and worse: the 95 % interval of the change excludes zero, and p after Holm over all "
    "comparisons is at most 0.05. For two models that leak alike, such a word appears in at most "
    "one of 20 comparisons of two scans. Cannot be told does not mean alike."
)
LEGEND = LABELS["diff"]["legend"]
_VALUE = 7
"""Columns of a value."""
_CHANGE = 25
"""Columns of a change with its interval."""
_LEAST_NAME = 16
"""Columns of a name at least."""


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
        """Return the scan in one line."""
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
        """Test whether the old scan measured it and the new one did not."""
        return isinstance(self.before, Estimate) and not isinstance(self.after, Estimate)

    @property
    def compared(self) -> bool:
        """Test whether there is a difference at all."""
        return self.difference is not None

    @property
    def values(self) -> tuple[str, str]:
        """Return the numbers before and after; a dash where there is none."""
        return _format_value(self.before), _format_value(self.after)

    @property
    def interval(self) -> str:
        """Return the change with its 95 % interval; a dash where there is none."""
        item = self.difference
        if item is None:
            return "-"
        sign = "+" if item.value > 0 else ""
        ends = f"[{_format_number(item.low)}, {_format_number(item.high)}]"
        return f"{sign}{_format_number(item.value)} {ends}"

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
        """Count the numbers by outcome, in words."""
        counted = ", ".join(f"{len(self.of(outcome))} {outcome}" for outcome in OUTCOMES)
        compared = sum(change.compared for change in self.changes)
        return f"{counted}; {compared} of {len(self.changes)} numbers could be compared"

    def reasons(self) -> dict[str, str]:
        """Group by reason what cannot be told; the commonest reason last."""
        groups: dict[str, dict[str, list[str]]] = {}
        for change in self.of("cannot be told"):
            places = groups.setdefault(change.reason, {})
            places.setdefault(change.place, []).append(change.metric)
        within = groups.pop(WITHIN, None)
        reasons = {reason: _list_metrics(places) for reason, places in groups.items()}
        if within is not None:
            reasons[WITHIN] = "all others" if reasons else "all of them"
        return reasons


def _list_metrics(places: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{place} {', '.join(metrics)}" for place, metrics in places.items())


_DIFF: TypeAdapter[ScanDiff] = TypeAdapter(ScanDiff)


def _format_value(item: Measurement | None) -> str:
    """Write a measured number; a dash where there is none."""
    return _format_number(item.value) if isinstance(item, Estimate) else "-"


def _format_number(value: float) -> str:
    """Write a number in four digits or three decimals, whichever is shorter."""
    size = abs(value)
    if size < 9.9995:
        return f"{value:.3f}"
    if size < 99.995:
        return f"{value:.2f}"
    return f"{value:.1f}"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of `docaudit diff --format json`."""
    properties = _DIFF.json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **properties}


def render(diff: ScanDiff, chosen: Format, width: int) -> str:
    """Draw a comparison; `width` is that of a terminal."""
    match chosen:
        case "text":
            return _draw_text(diff, width)
        case "json":
            content = _DIFF.dump_python(diff, mode="json")
            return json.dumps(content, indent=1, allow_nan=False) + "\n"
        case "markdown":
            return render_markdown("diff.md", diff=diff, outcomes=OUTCOMES, legend=LEGEND)


def _draw_text(diff: ScanDiff, width: int) -> str:
    """Draw lines for a terminal, none longer than `width` where its names allow it."""
    changes = {outcome: diff.of(outcome) for outcome in OUTCOMES}
    tables = {f"{name.capitalize()} ({len(rows)})": rows for name, rows in changes.items()}
    names = [f"  {change.metric}" for change in diff.changes]
    longest = max(map(len, [*tables, *names]))
    room = max(min(longest + 1, width - 2 * _VALUE - _CHANGE - 3), _LEAST_NAME)
    row = f"%-{room}s%{_VALUE}s%{_VALUE}s  %s"
    fold = partial(
        textwrap.fill,
        width=width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return render_text(
        "diff.txt", diff=diff, tables=tables, room=room, row=row, fold=fold, legend=LEGEND
    )
