"""Numbers before and after each countermeasure, for its picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from audit.attacks import text_of
from audit.attacks.figure_text import Form
from audit.attacks.text import sentence_case
from audit.compare.defended import MeasuredDefense
from audit.defenses.remedy import Evidence, Remedy
from audit.measurements import Estimate
from audit.policy import Verdict
from audit.report import numbers
from audit.report.facts.actions import Finding, Recommendation
from audit.report.labels import UTILITY

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
        """Return the numbers before and after as text."""
        return " → ".join(numbers.show(value, self.form) for value in (self.before, self.after))

    def place(self, value: float) -> float:
        """Return where a value lies from 0 to 100.

        Usefulness lies on a scale to 1, a leak on one to the largest of its numbers.
        """
        least_top = 1.0 if self.useful else 0.0
        top = max(abs(self.before), abs(self.after), self.limit or 0.01, least_top)
        return round(100 * max(0.0, value) / top, 1)


def changes_of(
    recommendations: Sequence[Recommendation],
    comparisons: Sequence[MeasuredDefense],
    verdict: Verdict,
) -> dict[str, list[Change]]:
    """List by remedy the changes that it made: measured on this model, else on another."""
    limits = {(item.limit.attack, item.limit.metric): item.limit.max for item in verdict.decisions}
    changes: dict[str, list[Change]] = {}
    for item in recommendations:
        measured = [entry for entry in comparisons if entry.name in item.remedy.measured_by]
        drawn = _published_changes(item)
        if measured:
            drawn = _measured_changes(measured[0], item, limits)
        changes[item.remedy.id] = [*drawn][:MOST_CHANGES]
    return changes


def _measured_changes(
    comparison: MeasuredDefense, item: Recommendation, limits: Limits
) -> Iterator[Change]:
    """Yield what a countermeasure changed on this model, usefulness last."""
    answered = [comparison.effect(finding.attack, finding.metric) for finding in item.findings]
    for effect in (*filter(None, answered), *comparison.usefulness):
        before = effect.before
        after = effect.after
        if isinstance(before, Estimate) and isinstance(after, Estimate):
            report = text_of(effect.attack) if effect.attack else UTILITY
            yield Change(
                report.short(effect.metric),
                before.value,
                after.value,
                report.metric(effect.metric).form,
                limits.get((effect.attack, effect.metric)),
                useful=not effect.attack,
            )


def _published_changes(item: Recommendation) -> Iterator[Change]:
    """Yield the evidence on the answered findings, each measurement once, usefulness last."""
    changes: dict[tuple[float, float], Change] = {}
    useful: dict[str, Change] = {}
    for finding in item.findings:
        for evidence in _evidence_on(finding, item.remedy):
            label = text_of(finding.attack).short(finding.metric)
            sides = evidence.leaks
            changes.setdefault(sides, Change(label, *sides, evidence.form))
            for use in evidence.useful:
                use_label = sentence_case(use.measure)
                useful[use.measure] = Change(use_label, use.before, use.after, "share", useful=True)
    yield from (*changes.values(), *useful.values())


def _evidence_on(finding: Finding, remedy: Remedy) -> Iterator[Evidence]:
    """Yield the evidence of a remedy that speaks for a finding."""
    for evidence in remedy.evidence:
        attack_fits = fnmatchcase(finding.attack, evidence.attack)
        if attack_fits and fnmatchcase(finding.metric, evidence.metric):
            yield evidence
