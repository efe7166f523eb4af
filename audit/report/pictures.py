"""Numbers before and after each countermeasure, for its picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from audit.attacks import text_of
from audit.attacks.figure_text import Form
from audit.attacks.text import sentence_case
from audit.measurements import Estimate
from audit.policy import Verdict
from audit.report import numbers
from audit.report.answer import UTILITY
from audit.report.comparison import Comparison
from audit.report.recommend import Recommendation

MOST_CHANGES = 6
"""Numbers before and after in one picture."""
Limits = Mapping[tuple[str, str], float | None]


@dataclass(frozen=True)
class Change:
    """A number before and after a countermeasure.

    `limit` is what the policy allows, None where it has no limit.
    """

    label: str
    before: float
    after: float
    form: Form = "number"
    limit: float | None = None
    useful: bool = False

    @property
    def shown(self) -> str:
        """Return both numbers as text."""
        return " → ".join(numbers.show(value, self.form) for value in (self.before, self.after))

    def place(self, value: float) -> float:
        """Return where a value lies from 0 to 100: usefulness on a scale to 1, a leak to the largest of its numbers."""
        top = max(
            abs(self.before), abs(self.after), self.limit or 0.01, 1.0 if self.useful else 0.0
        )
        return round(100 * max(0.0, value) / top, 1)


def changes_of(
    recommendations: Sequence[Recommendation], comparisons: Sequence[Comparison], verdict: Verdict
) -> dict[str, list[Change]]:
    """List by remedy what it changed: on this model where that was measured, else on another one."""
    limits = {(one.limit.attack, one.limit.metric): one.limit.max for one in verdict.decisions}
    found = {}
    for item in recommendations:
        own = [one for one in comparisons if one.name in item.remedy.measured_by]
        found[item.remedy.id] = [
            *(_own_changes(own[0], item, limits) if own else _other_changes(item))
        ][:MOST_CHANGES]
    return found


def _own_changes(comparison: Comparison, item: Recommendation, limits: Limits) -> Iterator[Change]:
    effects = [comparison.effect(found.attack, found.metric) for found in item.findings]
    for one in (*filter(None, effects), *comparison.usefulness):
        if isinstance(one.before, Estimate) and isinstance(one.after, Estimate):
            report = text_of(one.attack) if one.attack else UTILITY
            label, form = report.short(one.metric), report.metric(one.metric).form
            limit = limits.get((one.attack, one.metric))
            yield Change(
                label, one.before.value, one.after.value, form, limit, useful=not one.attack
            )


def _other_changes(item: Recommendation) -> Iterator[Change]:
    """Yield the evidence on the findings that an item answers, each measurement once, usefulness last."""
    changes: dict[tuple[float, float], Change] = {}
    useful: dict[str, Change] = {}
    for found in item.findings:
        for one in item.remedy.evidence:
            if fnmatchcase(found.attack, one.attack) and fnmatchcase(found.metric, one.metric):
                label = text_of(found.attack).short(found.metric)
                changes.setdefault((one.before, one.after), Change(label, one.before, one.after))
                for use in one.useful:
                    useful[use.measure] = Change(
                        sentence_case(use.measure), use.before, use.after, useful=True
                    )
    yield from (*changes.values(), *useful.values())
