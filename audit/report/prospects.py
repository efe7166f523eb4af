"""Expectation of a remedy on one scan: its measured effect here, or elsewhere, held against the limits it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from audit.measurements import Estimate
from audit.report import numbers
from audit.report.labels import report_of

if TYPE_CHECKING:
    from audit.defenses.measured import Comparison
    from audit.defenses.remedies import Evidence, Remedy
    from audit.policy import Decision, Verdict

Prospect = Literal["met here", "met elsewhere", "less here", "less elsewhere", "unknown", "none here", "cannot"]
RANKS: tuple[Prospect, ...] = (
    "met here",
    "met elsewhere",
    "less here",
    "less elsewhere",
    "unknown",
    "none here",
    "cannot",
)
"""The more surely it changes the verdict, the earlier.

    met here        measured on this model: the violated limits that it answers are met
    met elsewhere   by what was measured on another model they would be
    less here       measured on this model: less is given away, and not little enough
    less elsewhere  by what was measured on another model
    unknown         nobody has measured it
    none here       measured on this model: nothing changed
    cannot          the attacker of this audit is not hindered by it
"""
MOST_LOSS = 0.1
"""Relative loss of usefulness, by any measure, above which a remedy stands behind all others (ours)."""


@dataclass(frozen=True)
class Expectation:
    """What a remedy can be expected to do to this audit.

    Attributes:
        prospect: see `RANKS`.
        effects: sentences on the effect, measured here or elsewhere.
        verdict: whether it can change the verdict: "Yes", "No" or "Not known", and why.
        answered: how many violated limits it answers.
        costly: whether it was measured to take more than `MOST_LOSS` of the usefulness.
    """

    prospect: Prospect
    effects: tuple[str, ...]
    verdict: str
    answered: int
    costly: bool = False


def expect(
    remedy: Remedy,
    answered: Iterable[tuple[str, str]],
    verdict: Verdict,
    comparisons: Sequence[Comparison],
) -> Expectation | None:
    """Tell what a remedy can do to the violated limits that it answers; None where it answers none.

    Args:
        remedy: the remedy.
        answered: attack and metric of the findings that it answers.
        verdict: on the scan.
        comparisons: countermeasures of this remedy that were measured on this model.
    """
    pairs = set(answered)
    violated = [
        decision
        for decision in verdict.decisions
        if decision.outcome == "violated" and (decision.limit.attack, decision.limit.metric) in pairs
    ]
    if not violated:
        return None
    if comparisons:
        return _measured(violated, comparisons)
    if not remedy.lifts:
        return Expectation(
            "cannot",
            (),
            "No: docaudit attacks as somebody who holds the model, so the limit stays violated; only a waiver in the "
            "policy changes the verdict",
            len(violated),
        )
    return _elsewhere(remedy, violated)


def _measured(violated: Sequence[Decision], comparisons: Sequence[Comparison]) -> Expectation:
    """The expectation where `docaudit defend` measured this model with the remedy; its sentences stand beside it."""
    best = max(comparisons, key=lambda one: _met(violated, one))
    met, helped = _met(violated, best), any(_fell(decision, best) for decision in violated)
    prospect: Prospect = "met here" if met == len(violated) else "less here" if met or helped else "none here"
    text = (
        f"{'Yes' if best.verdict_after == 'passed' else 'No'}. Measured on this model: {met} of the {len(violated)} "
        f"violated limits that it answers {_are(met)} met, the verdict goes from {best.verdict_before} to "
        f"{best.verdict_after}"
    )
    return Expectation(prospect, (), text, len(violated), _loss(best) > MOST_LOSS)


def _loss(comparison: Comparison) -> float:
    """The largest relative loss of usefulness that was measured on this model, at least 0."""
    pairs = ((one.before, one.after) for one in comparison.usefulness)
    losses = (
        1 - after.value / before.value
        for before, after in pairs
        if isinstance(before, Estimate) and isinstance(after, Estimate) and before.value > 0
    )
    return max(losses, default=0.0)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _met(violated: Sequence[Decision], comparison: Comparison) -> int:
    after = {(item.attack, item.metric): item.after.outcome for item in comparison.limits}
    return sum(after.get((one.limit.attack, one.limit.metric)) == "passed" for one in violated)


def _fell(decision: Decision, comparison: Comparison) -> bool:
    """Whether the number behind a limit fell, by an interval that excludes no change."""
    effect = comparison.effect(decision.limit.attack, decision.limit.metric)
    return effect is not None and effect.difference is not None and effect.difference.high < 0


def _elsewhere(remedy: Remedy, violated: Sequence[Decision]) -> Expectation:
    shown: dict[Evidence, list[tuple[Decision, float]]] = {}
    for decision in violated:
        evidence = _evidence_for(remedy, decision)
        if evidence is not None and decision.measured is not None and decision.limit.max is not None:
            shown.setdefault(evidence, []).append((decision, _scaled(decision.measured, evidence.left)))
    projected = [(decision, value) for pairs in shown.values() for decision, value in pairs]
    met = sum(value <= decision.limit.max for decision, value in projected if decision.limit.max is not None)
    effects = tuple(_sentence(evidence, pairs) for evidence, pairs in shown.items())
    if not projected:
        return Expectation("unknown", (), "Not known: nobody has measured it", len(violated))
    prospect: Prospect = "met elsewhere" if met == len(violated) else "less elsewhere"
    costly = any(evidence.loss > MOST_LOSS for evidence in shown)
    text = (
        f"Not known: it was measured on another model alone. In the same proportion {met} of the {len(violated)} "
        f"violated limits would be met{'; there it cost much of the usefulness' if costly else ''}. "
        "Confirm it with a new scan"
    )
    return Expectation(prospect, effects, text, len(violated), costly)


def _evidence_for(remedy: Remedy, decision: Decision) -> Evidence | None:
    """The evidence on this limit: docaudit's own before published, of one metric before that on any."""
    attack, metric = decision.limit.attack, decision.limit.metric
    fitting = [one for one in remedy.evidence if fnmatchcase(attack, one.attack) and fnmatchcase(metric, one.metric)]
    return min(fitting, key=lambda one: (one.by != "docaudit", one.metric == "*"), default=None)


def _scaled(measured: Estimate, left: float) -> float:
    null = measured.null or 0.0
    return null + (measured.value - null) * left


def _sentence(evidence: Evidence, projected: Sequence[tuple[Decision, float]]) -> str:
    author = "Measured by docaudit on" if evidence.by == "docaudit" else "Published for"
    change = f"{numbers.plain(evidence.before)} → {numbers.plain(evidence.after)}"
    lost = [f"{one.measure} {numbers.plain(one.before)} → {numbers.plain(one.after)}" for one in evidence.useful]
    costs = [*filter(None, [evidence.cost]), *lost]
    cost = f"; cost in usefulness there: {', '.join(costs)}" if costs else "; no cost in usefulness is stated there"
    here = ", ".join(_projection(decision, value) for decision, value in projected)
    caveat = "Measured once, on another model; in the same proportion here"
    return f"{author} {evidence.setting}: {change}{cost} ({evidence.source}). {caveat}: {here}"


def _projection(decision: Decision, value: float) -> str:
    limit, report = decision.limit, report_of(decision.limit.attack)
    assert decision.measured is not None
    assert limit.max is not None
    form, label = report.form(limit.metric), report.label(limit.metric)
    label = label if label.isupper() else label[:1].lower() + label[1:]
    return (
        f"{label} {numbers.show(decision.measured.value, form)} → "
        f"{numbers.show(value, form)} (limit {numbers.limit_text(limit.max, form)})"
    )
