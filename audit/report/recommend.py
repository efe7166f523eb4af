"""Rank the remedies that answer the findings of one scan, by what was measured of them on this model or on others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from audit.attacks import text_of
from audit.measurements import Estimate
from audit.policy.limits import CANARIES, EPSILON
from audit.policy.reading import shipped_policies
from audit.policy.reasons import ALL, NO_HELDOUT
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.answer import LABELS, UTILITY, decides_most, deciding_outcome
from audit.report.leaks import unlimited, untested, within
from audit.report.remedies import (
    EFFORTS,
    STATES,
    AnsweredFinding,
    Evidence,
    FindingState,
    Remedy,
    remedies,
)

if TYPE_CHECKING:
    from audit.policy import Decision, Verdict
    from audit.report.comparison import Comparison, Effect

STATE_LABELS = LABELS["findings"]
DEFEND = "MODEL_DIR DATA_DIR --policy {policy} --budget {budget} --seed {seed}"
"""What makes the scans of `docaudit defend` comparable with this one."""
MOST_LOSS = 0.1
"""Relative loss of usefulness, by any measure, above which a remedy stands behind all others."""
PROSPECTS = LABELS["prospects"]
"""Whether a remedy can change the verdict: by the state of the findings it answers, or by what is
known of it."""


@dataclass(frozen=True)
class Finding:
    """Something the audit found that may call for an action.

    Attributes:
        aside: whether the verdict is the same without it: it is waived, or of the text, and the
            policy only reports it.
    """

    attack: str
    metric: str
    state: FindingState
    aside: bool = False

    @property
    def words(self) -> str:
        """Name the metric and its state."""
        state = STATE_LABELS[self.state]
        return f"{text_of(self.attack).label(self.metric)} ({state})" if self.attack else state


@dataclass(frozen=True)
class Recommendation:
    """A remedy for this scan.

    Attributes:
        remedy: the remedy.
        findings: those that it answers; never empty.
        measured: in sentences, what it was measured to do to this model.
        expected: in sentences, its effect on other models.
        effect: the same in one sentence for page one; that none was measured, where none was.
        verdict: whether it can change the verdict, in one sentence.
        command: what measures it on this model; empty where no command does.
        rank: the smallest first.
    """

    remedy: Remedy
    findings: tuple[Finding, ...]
    measured: tuple[str, ...]
    expected: tuple[str, ...]
    effect: str
    verdict: str
    command: str
    rank: tuple[int, ...] = field(repr=False, default=())


def findings(record: AuditRecord, verdict: Verdict) -> tuple[Finding, ...]:
    """Return a finding for each limit that is not met.

    One of the audit as a whole where there is no such limit.
    """
    reported = verdict.text is not None and not verdict.text_counts
    listed = [
        Finding(
            one.limit.attack,
            one.limit.metric,
            state,
            state == "waived" or (one.about_text and reported),
        )
        for one in verdict.decisions
        if (state := state_of(one)) is not None
    ]
    if verdict.contradicted is not None:
        listed.append(Finding(CANARIES, EPSILON, "alarm"))
    if verdict.overall in ("passed", "waived"):
        leaks = (*within(record, verdict), *unlimited(record, verdict))
        listed += [Finding(leak.attack, leak.metric, "outside", aside=True) for leak in leaks]
    if verdict.overall == "passed" and not listed and record.target.is_model:
        listed.append(Finding("", "", "unmeasured" if untested(verdict) else "clean"))
    if verdict.overall == "undecided" and not listed:
        listed.append(Finding("", "", "unchecked"))
    return tuple(listed)


def state_of(decision: Decision) -> FindingState | None:
    """Return the state of one limit.

    None when it was met, does not apply, or the policy does without it.
    """
    match decision.outcome:
        case "violated" | "waived":
            return decision.outcome
        case "undecided":
            return "one-sided" if decision.remedy == NO_HELDOUT else decision.cause
    return None


def recommend(
    record: AuditRecord,
    verdict: Verdict,
    comparisons: Sequence[Comparison] = (),
    paths: Mapping[str, str] | None = None,
) -> tuple[Recommendation, ...]:
    """List the remedies that answer a finding, ranked for this scan.

    Those that answer what the verdict rests on come first, then those against violations; among
    these the ones that were not measured to take much usefulness, then those that stand alone, then
    those that more surely meet the limits, then those that answer more of them, then the ones of
    less effort, then in the order of the file.

    Args:
        record: the measurements.
        verdict: on them.
        comparisons: what countermeasures were measured to do to this model.
        paths: what stands for `PARTS` in commands.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    listed = findings(record, verdict)
    chosen = []
    for remedy in remedies():
        answered = tuple(
            one for one in listed if any(_answers_finding(item, one) for item in remedy.answers)
        )
        if answered and remedy.forgetting == (record.corpus.forgotten is not None):
            own = [one for one in comparisons if one.name in remedy.measured_by]
            chosen.append(_recommendation(remedy, answered, own, record, verdict))
    named = (replace(item, command=with_paths(item.command, paths or {})) for item in chosen)
    return tuple(sorted(named, key=lambda item: item.rank))


def _recommendation(
    remedy: Remedy,
    found: tuple[Finding, ...],
    comparisons: Sequence[Comparison],
    record: AuditRecord,
    verdict: Verdict,
) -> Recommendation:
    pairs = {(one.attack, one.metric) for one in found}
    violated = [
        one
        for one in verdict.decisions
        if one.outcome == "violated" and (one.limit.attack, one.limit.metric) in pairs
    ]
    evidence = [
        one
        for one in dict.fromkeys(_evidence_for(remedy, decision) for decision in violated)
        if one
    ]
    state = min(STATES.index(finding.state) for finding in found)
    unmet = PROSPECTS.get(STATES[state], PROSPECTS["open"]), 0
    words, prospect = _prospect(remedy, violated, comparisons, evidence) if violated else unmet
    losses = [_largest_loss(one) for one in comparisons] or [
        _published_loss(one) for one in evidence
    ]
    costly = max(losses, default=0.0) > MOST_LOSS
    policy = verdict.policy if verdict.policy in shipped_policies() else "POLICY.toml"
    command = remedy.command or (
        f"docaudit defend {remedy.measured_by[0]} {DEFEND}" if remedy.measured_by else ""
    )
    return Recommendation(
        remedy=remedy,
        findings=found,
        measured=tuple(effect_sentence(one, found) for one in comparisons),
        expected=() if comparisons else tuple(_describe_evidence(one) for one in evidence),
        effect=_short_effect(remedy, comparisons, evidence) if violated else "",
        verdict=words,
        command=command.format(policy=policy, budget=record.budget, seed=record.seed),
        rank=(
            all(one.aside for one in found),
            state,
            costly,
            remedy.beside_only,
            prospect,
            -len(violated),
            EFFORTS.index(remedy.effort),
        ),
    )


def _prospect(
    remedy: Remedy,
    violated: Sequence[Decision],
    comparisons: Sequence[Comparison],
    evidence: Sequence[Evidence],
) -> tuple[str, int]:
    """Say whether a remedy can change the verdict on violated limits.

    The more surely, the smaller the number.
    """
    if comparisons:
        met, best = max(
            ((_count_met_limits(violated, one), one) for one in comparisons),
            key=lambda pair: pair[0],
        )
        text = (
            f"{'Yes' if best.verdict_after == 'passed' else 'No'}. Measured on this model: {met} of the "
            f"{len(violated)} violated limits that it answers {'is' if met == 1 else 'are'} met, the verdict goes from "
            f"{best.verdict_before} to {best.verdict_after}"
        )
        return text, 0 if met == len(violated) else 1 if met else 3
    if not remedy.lifts:
        return PROSPECTS["cannot"], 4
    return (PROSPECTS["elsewhere"], 1) if evidence else (PROSPECTS["unknown"], 2)


def _short_effect(
    remedy: Remedy, comparisons: Sequence[Comparison], evidence: Sequence[Evidence]
) -> str:
    """Say in one sentence what the remedy does to the leak, and what it costs."""
    if comparisons:
        before, after = (
            LABELS["verdicts"][getattr(comparisons[0], f"verdict_{side}")]
            for side in ("before", "after")
        )
        return f"Measured on this model: {before} → {after}."
    if evidence:
        found = evidence[0]
        cost = _relative_change(1.0, 1.0 - _published_loss(found), "usefulness")
        cut = _relative_change(found.before, found.after, "leak")
        return f"Measured on another model: {cut}{f', {cost}' if found.useful else ''}."
    return LABELS["effects"]["unmeasured" if remedy.lifts else "cannot"]


def _relative_change(before: float, after: float, what: str) -> str:
    """Say by how many per cent something fell or rose."""
    change = 100 * (after - before) / before if before else 0.0
    return f"{what} {'down' if change <= 0 else 'up'} {abs(change):.0f} %"


def _count_met_limits(violated: Sequence[Decision], comparison: Comparison) -> int:
    after = {(item.attack, item.metric): item.after.outcome for item in comparison.limits}
    return sum(after.get((one.limit.attack, one.limit.metric)) == "passed" for one in violated)


def _largest_loss(comparison: Comparison) -> float:
    """Return the largest relative loss of usefulness that was measured on this model, at least 0."""
    losses = (
        1 - one.after.value / one.before.value
        for one in comparison.usefulness
        if isinstance(one.before, Estimate)
        and isinstance(one.after, Estimate)
        and one.before.value > 0
    )
    return max(losses, default=0.0)


def _published_loss(evidence: Evidence) -> float:
    return max((1 - one.after / one.before for one in evidence.useful), default=0.0)


def _evidence_for(remedy: Remedy, decision: Decision) -> Evidence | None:
    """Choose the evidence on a limit: docaudit's own before published, of one metric before that on any."""
    attack, metric = decision.limit.attack, decision.limit.metric
    fitting = [
        one
        for one in remedy.evidence
        if fnmatchcase(attack, one.attack) and fnmatchcase(metric, one.metric)
    ]
    return min(fitting, key=lambda one: (one.by != "docaudit", one.metric == "*"), default=None)


def _describe_evidence(evidence: Evidence) -> str:
    author = "Measured by docaudit on" if evidence.by == "docaudit" else "Published for"
    change = f"{numbers.plain(evidence.before)} → {numbers.plain(evidence.after)}"
    lost = [
        f"{one.measure} {numbers.plain(one.before)} → {numbers.plain(one.after)}"
        for one in evidence.useful
    ]
    costs = [*filter(None, [evidence.cost]), *lost]
    cost = (
        f"cost in usefulness there: {', '.join(costs)}"
        if costs
        else "no cost in usefulness is stated there"
    )
    return f"{author} {evidence.setting}: {change}; {cost} ({evidence.source}). Measured once, on another model"


def effect_sentence(comparison: Comparison, answered: Sequence[Finding]) -> str:
    """Return what a countermeasure was measured to do: the metrics of these findings, usefulness, verdict."""
    metrics = dict.fromkeys((finding.attack, finding.metric) for finding in answered)
    effects = [effect for pair in metrics if (effect := comparison.effect(*pair)) is not None]
    shown = [_describe_effect(effect) for effect in (*effects, *comparison.usefulness)]
    useful = [] if comparison.usefulness else ["usefulness was not measured"]
    verdict = f"the verdict {comparison.verdict_before} → {comparison.verdict_after}"
    return f"Measured on this model with docaudit defend {comparison.name}: {', '.join([*shown, *useful, verdict])}"


def _describe_effect(effect: Effect) -> str:
    report = text_of(effect.attack) if effect.attack else UTILITY
    label, form = report.label(effect.metric), report.metric(effect.metric).form
    label = label if label.isupper() else label[:1].lower() + label[1:]
    values = (effect.before, effect.after)
    shown = (
        numbers.show(one.value, form) if isinstance(one, Estimate) else "not measured"
        for one in values
    )
    sides = " → ".join(shown)
    difference = effect.difference
    if difference is None:
        return f"{label} {sides}"
    unsure = "" if difference.low > 0 or difference.high < 0 else ", no change shown"
    return f"{label} {sides} (change {numbers.between(difference, form)}{unsure})"


def _answers_finding(answer: AnsweredFinding, finding: Finding) -> bool:
    # What the policy does not limit is a leak all the same: it is answered by what answers a
    # violation.
    state = "violated" if finding.state == "outside" else finding.state
    named = fnmatchcase(finding.attack, answer.attack) and fnmatchcase(
        finding.metric, answer.metric
    )
    return named and state in answer.finding


@dataclass(frozen=True)
class Action:
    """Something to do, with the command for it where there is one."""

    text: str
    command: str = ""


PARTS = ("MODEL_DIR", "DATA_DIR", "POLICY.toml")
"""Names in commands that stand for paths of the machine."""


def with_paths(command: str, paths: Mapping[str, str]) -> str:
    """Put paths in place of the names in a command, quoted for a shell."""
    for name, path in paths.items():
        quoted = shlex.quote(path).replace("\\", r"\\")
        command = re.sub(rf"\b{re.escape(name)}\b", quoted, command)
    return command


def first_action(
    record: AuditRecord, verdict: Verdict, paths: Mapping[str, str] | None = None
) -> Action | None:
    """Find what to do first: what decides most where the verdict is open, else the first of the report's plan.

    Args:
        record: the scan.
        verdict: on it.
        paths: what stands for `PARTS`, as somebody gave it on this machine: for a terminal only,
            never for a report.
    """
    text = decides_most(record, verdict) if deciding_outcome(verdict) == "undecided" else ""
    command = ""
    if text and any(one.remedy == ALL for one in verdict.decisions if one.outcome == "undecided"):
        policy = verdict.policy if verdict.policy in shipped_policies() else "POLICY.toml"
        command = f"docaudit scan MODEL_DIR DATA_DIR --policy {policy} --budget standard --seed {record.seed}"
    elif not text:
        planned = recommend(record, verdict)
        if not planned:
            return None
        text, command = f"{planned[0].remedy.name}.", planned[0].command
    text, command = (with_paths(one, paths or {}) for one in (text, command))
    left = [name for name in PARTS if name in command and name not in (paths or {})]
    return Action(
        f"{text.removesuffix('.')} (put in your {' and '.join(left)})." if left else text, command
    )
