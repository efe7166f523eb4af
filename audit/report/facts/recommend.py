"""Rank the remedies that answer the findings of one scan.

They are ranked by what was measured of them on this model or on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from audit.attacks import text_of
from audit.attacks.figure_text import Form
from audit.defenses.remedy import EFFORTS, STATES, AnsweredFinding, Evidence, FindingState, Remedy
from audit.measurements import Estimate, Measurement
from audit.policy import grounds
from audit.policy.decision import word_of
from audit.policy.guarantees import CANARIES, EPSILON
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.commands import Called, Commands, left_to_put_in
from audit.report.facts.actions import Finding, Recommendation
from audit.report.facts.definitions import EXTRACTING, RECOGNISING, NextStep, decided_attacks
from audit.report.facts.leaks import unlimited, within
from audit.report.facts.undecided import next_step
from audit.report.labels import LABELS, UTILITY
from audit.report.remedies import remedies

if TYPE_CHECKING:
    from audit.compare.defended import Effect, MeasuredDefense
    from audit.policy import Decision, Verdict

MOST_LOSS = 0.1
"""Relative loss of usefulness, by any measure, above which a remedy is dear."""
USE_DIGITS = 3
"""Digits of usefulness, so that its loss in per cent can be recomputed."""
RUINOUS_LOSS = 0.5
"""Relative loss above which a remedy stands behind all others that may change the verdict."""
PROSPECTS = LABELS["prospects"]
"""Whether a remedy can change the verdict: by the state of the findings it answers, or by what is
known of it."""


def findings(record: AuditRecord, verdict: Verdict) -> tuple[Finding, ...]:
    """Return a finding for each limit that is not met.

    One of the audit as a whole where there is no such limit.
    """
    listed = [*_limit_findings(verdict)]
    if verdict.contradicted is not None:
        listed.append(Finding(CANARIES, EPSILON, "alarm"))
    if verdict.overall in ("passed", "waived"):
        leaks = (*within(verdict), *unlimited(verdict))
        listed += [Finding(leak.attack, leak.metric, "outside", aside=True) for leak in leaks]
    if not listed:
        listed += _overall_findings(record, verdict)
    return tuple(listed)


def _limit_findings(verdict: Verdict) -> Iterator[Finding]:
    """Yield a finding for each limit that is not met."""
    reported = verdict.text is not None and not verdict.text_counts
    for decision in verdict.decisions:
        state = state_of(decision)
        if state is not None:
            aside = state == "waived" or (decision.about_text and reported)
            yield Finding(decision.limit.attack, decision.limit.metric, state, aside)


def _overall_findings(record: AuditRecord, verdict: Verdict) -> Iterator[Finding]:
    """Yield the finding of an audit without any other."""
    if verdict.overall == "passed" and record.target.is_model:
        decided = decided_attacks(verdict)
        open_class = decided.isdisjoint(EXTRACTING) or decided.isdisjoint(RECOGNISING)
        yield Finding("", "", "unmeasured" if open_class else "clean")
    if verdict.overall == "undecided":
        yield Finding("", "", "unchecked")


_STATES_BY_REMEDY: Mapping[grounds.Remedy | None, FindingState] = {
    grounds.Remedy.NO_HELDOUT: "one-sided",
    grounds.Remedy.ALL: "untried",
}
"""States of undecided limits that their remedy tells, and not their cause."""


def state_of(decision: Decision) -> FindingState | None:
    """Return the state of one limit.

    None when it was met, does not apply, or the policy does without it.
    """
    match decision.outcome:
        case "violated" | "waived":
            return decision.outcome
        case "undecided":
            return _STATES_BY_REMEDY.get(decision.remedy_id, decision.cause)
    return None


def recommend(
    record: AuditRecord,
    verdict: Verdict,
    comparisons: Sequence[MeasuredDefense] = (),
    called: Called | None = None,
) -> tuple[Recommendation, ...]:
    """List the remedies that answer a finding, ranked for this scan.

    Those that answer what the verdict rests on come first, and of an open verdict what would decide
    most limits. Then come those against violations; among these the ones that may change the
    verdict, not those that only limit access. Then come the ones that leave a useful model, stand
    alone, answer every exceeded attack, and more surely meet the limits. Then come those that take
    little usefulness, answer more limits and ask for less effort, in the order of the file. What is
    against an exceeded attack that no earlier one is against moves forward.

    Args:
        record: the measurements.
        verdict: on them.
        comparisons: what countermeasures were measured to do to this model.
        called: how the scan was called; None: nobody knows it.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    listed = findings(record, verdict)
    commands = Commands(record, verdict, called or Called())
    step = None
    if verdict.overall == "undecided":
        step = next_step(record, verdict)
    recommendations: list[Recommendation] = []
    for remedy in remedies():
        answered = tuple(finding for finding in listed if _any_answer_fits(remedy, finding))
        if answered and remedy.forgetting == (record.corpus.forgotten is not None):
            measured = [item for item in comparisons if item.name in remedy.measured_by]
            recommendation = _recommendation(remedy, answered, measured, commands)
            n_decided = _count_decided(step, recommendation)
            aside, *further = recommendation.rank
            rank = (aside, -n_decided, *further)
            recommendations.append(replace(recommendation, rank=rank))
    ranked = sorted(recommendations, key=lambda item: item.rank)
    return tuple(_cover_exceeded(ranked))


def _cover_exceeded(ranked: Sequence[Recommendation]) -> Iterator[Recommendation]:
    """Yield remedies in their order, but next to the first what is against other exceeded attacks.

    No verdict changes before all of them are answered. What only limits access answers none.
    """
    answered = set[str]()
    later = []
    for recommendation in ranked:
        if not answered or recommendation.lifts_exceeded - answered:
            answered |= recommendation.lifts_exceeded
            yield recommendation
        else:
            later.append(recommendation)
    yield from later


def _count_decided(step: NextStep | None, recommendation: Recommendation) -> int:
    """Count the limits that the next step decides and that a recommendation answers."""
    if step is None:
        return 0
    answered = {(finding.attack, finding.metric) for finding in recommendation.findings}
    return len(step.limits & answered)


@dataclass(frozen=True)
class _Support:
    """What is known of a remedy's effect.

    Attributes:
        violated: the violated limits that it answers.
        comparisons: what it was measured to do to this model.
        evidence: what it was measured to do to other models, on these limits.
    """

    violated: Sequence[Decision]
    comparisons: Sequence[MeasuredDefense]
    evidence: Sequence[Evidence]

    @property
    def largest_loss(self) -> float:
        """Return the largest relative loss of usefulness: on this model, else on others."""
        losses = [comparison.largest_loss for comparison in self.comparisons]
        if not losses:
            losses = [_published_loss(evidence) for evidence in self.evidence]
        return max(losses, default=0.0)


def _recommendation(
    remedy: Remedy,
    answered: tuple[Finding, ...],
    comparisons: Sequence[MeasuredDefense],
    commands: Commands,
) -> Recommendation:
    """Recommend a remedy.

    Args:
        remedy: the remedy.
        answered: the findings that it answers, at least one.
        comparisons: what it was measured to do to this model.
        commands: what goes on from the scan.
    """
    verdict = commands.verdict
    command = commands.of_remedy(remedy)
    violated = _violated_limits(verdict, answered)
    support = _Support(violated, comparisons, _evidence_on(remedy, violated))
    gravest = min(STATES.index(finding.state) for finding in answered)
    prospect = _Prospect(PROSPECTS.get(STATES[gravest], PROSPECTS["open"]), 0)
    if violated:
        prospect = _prospect(remedy, support)
    expected: tuple[str, ...] = ()
    if not comparisons:
        expected = tuple(map(_describe_evidence, support.evidence))
    return Recommendation(
        remedy=remedy,
        findings=answered,
        measured=tuple(effect_sentence(comparison, answered) for comparison in comparisons),
        expected=expected,
        effect=_short_effect(remedy, support) if violated else "",
        verdict=prospect.sentence,
        verdict_after=_best_comparison(support).verdict_after if comparisons else "",
        ends_leak=bool(comparisons) and prospect.rank in (MEETS, STOPS),
        command=command,
        put_in=left_to_put_in(command),
        rank=(
            all(finding.aside for finding in answered),
            gravest,
            not remedy.lifts,
            support.largest_loss > RUINOUS_LOSS,
            remedy.beside_only,
            prospect.rank >= HELPS_IN_PART,
            _leaves_an_attack(verdict, support),
            prospect.rank,
            support.largest_loss > MOST_LOSS,
            -len(violated),
            EFFORTS.index(remedy.effort),
        ),
    )


def _leaves_an_attack(verdict: Verdict, support: _Support) -> bool:
    """Test whether an attack exceeds limits that a remedy does not answer.

    Then it cannot change the verdict alone, unless it did so on this model.
    """
    if any(comparison.verdict_after == "passed" for comparison in support.comparisons):
        return False
    exceeding = {
        decision.limit.attack for decision in verdict.decisions if decision.outcome == "violated"
    }
    return bool(exceeding - {decision.limit.attack for decision in support.violated})


def _violated_limits(verdict: Verdict, answered: Sequence[Finding]) -> list[Decision]:
    """List the decisions on violated limits among the answered findings."""
    pairs = {(finding.attack, finding.metric) for finding in answered}
    violated = [decision for decision in verdict.decisions if decision.outcome == "violated"]
    return [item for item in violated if (item.limit.attack, item.limit.metric) in pairs]


class _Prospect(NamedTuple):
    """Whether a remedy can change the verdict; the more surely, the smaller the rank."""

    sentence: str
    rank: int


MEETS = 0
"""Measured on this model: all limits that it answers are met."""
STOPS = 1
"""Measured on this model: none of them is exceeded any more."""
HELPED_ELSEWHERE = 2
UNKNOWN = 3
HELPS_IN_PART = 4
DOES_NOT_HELP = 5
LIMITS_ACCESS = 6
"""It hinders no attacker who holds the model."""


def _prospect(remedy: Remedy, support: _Support) -> _Prospect:
    """Say whether a remedy can change the verdict on violated limits."""
    if support.comparisons:
        return _measured_prospect(support)
    if not remedy.lifts:
        return _Prospect(PROSPECTS["cannot"], LIMITS_ACCESS)
    if support.evidence:
        return _Prospect(PROSPECTS["elsewhere"], HELPED_ELSEWHERE)
    return _Prospect(PROSPECTS["unknown"], UNKNOWN)


def _measured_prospect(support: _Support) -> _Prospect:
    """Say how many limits are still exceeded on this model, by the comparison that left fewest."""
    best = _best_comparison(support)
    met = _count(support.violated, best, "passed")
    exceeded = _count(support.violated, best, "violated")
    n_violated = len(support.violated)
    reached = "Yes" if best.verdict_after == "passed" else "No"
    if reached == "No" and not exceeded:
        reached = "Open"
    before = LABELS["verdicts"][best.verdict_before]
    after = LABELS["verdicts"][best.verdict_after]
    sentence = (
        f"{reached}. Measured on this model: of the {n_violated} exceeded limits that it answers "
        f"{met} {'is' if met == 1 else 'are'} met, {exceeded} still exceeded; "
        f"the verdict goes from “{before}” to “{after}”"
    )
    if met == n_violated:
        return _Prospect(sentence, MEETS)
    if not exceeded:
        return _Prospect(sentence, STOPS)
    return _Prospect(sentence, HELPS_IN_PART if exceeded < n_violated else DOES_NOT_HELP)


def _best_comparison(support: _Support) -> MeasuredDefense:
    """Return the comparison that leaves fewest limits exceeded, then meets most, at least one."""

    def badness(item: MeasuredDefense) -> tuple[int, int, float]:
        """Return limits that stay exceeded, limits that are not met, and the loss."""
        exceeded = _count(support.violated, item, "violated")
        met = _count(support.violated, item, "passed")
        return exceeded, -met, item.largest_loss

    return min(support.comparisons, key=badness)


def _short_effect(remedy: Remedy, support: _Support) -> str:
    """Say in one sentence what the remedy does to the leak, and what it costs."""
    if support.comparisons:
        return _measured_effect(support)
    if support.evidence:
        evidence = support.evidence[0]
        effect = _relative_change(*evidence.leaks, "leak")
        if evidence.useful:
            cost = _relative_change(1.0, 1.0 - _published_loss(evidence), "usefulness")
            effect = f"{effect}, {cost}"
        return f"Measured on another model: {effect}."
    return LABELS["effects"]["unmeasured" if remedy.lifts else "cannot"]


def _measured_effect(support: _Support) -> str:
    """Say leak, price and verdict of the best comparison on this model."""
    best = _best_comparison(support)
    changes = [*_leak_change(support.violated, best)]
    changes += [_describe_shortly(effect) for effect in best.usefulness[:1]]
    before = LABELS["verdicts"][best.verdict_before]
    after = LABELS["verdicts"][best.verdict_after]
    changes.append(f"{before} → {after}")
    return f"Measured on this model: {'; '.join(changes)}."


def _leak_change(violated: Sequence[Decision], best: MeasuredDefense) -> Iterator[str]:
    """Write the first exceeded limit's number before and after.

    It is that of the method that decides, as the row of page one has it.
    """
    for decision in violated:
        limit = decision.limit
        text = text_of(limit.attack)
        form = text.metric(limit.metric).form
        change = show_deciding(best, limit.attack, limit.metric)
        if change:
            label = "leak"
            if form != "points":
                label = _lowered(text.short(limit.metric))
            yield f"{label} {change}"
            return
        effect = best.effect(limit.attack, limit.metric)
        if effect is not None and isinstance(effect.after, Estimate):
            yield _describe_shortly(effect)
            return


def _lowered(label: str) -> str:
    """Return a label as it stands within a sentence; one in capitals stays."""
    if label.isupper():
        return label
    return label[:1].lower() + label[1:]


def _describe_shortly(effect: Effect) -> str:
    """Write the shortest label of a number, and the number before and after."""
    report = text_of(effect.attack) if effect.attack else UTILITY
    form = report.metric(effect.metric).form
    label = _lowered(report.short(effect.metric))
    if not effect.attack:
        label = f"usefulness: {label}"
    return f"{label} {show_value(effect.before, form)} → {show_value(effect.after, form)}"


def _relative_change(before: float, after: float, what: str) -> str:
    """Say by how many per cent `what` fell; a rise in one experiment promises none."""
    change = max(-100.0, 100 * (after - before) / before) if before else 0.0
    if change > 0:
        return f"{what} did not fall (it often does)"
    return f"{what} fell by {abs(change):.0f} %"


def _count(violated: Sequence[Decision], comparison: MeasuredDefense, outcome: str) -> int:
    """Count the violated limits that have an outcome with a countermeasure."""
    outcomes = {(item.attack, item.metric): item.after.outcome for item in comparison.limits}
    count = 0
    for decision in violated:
        count += outcomes.get((decision.limit.attack, decision.limit.metric)) == outcome
    return count


def _published_loss(evidence: Evidence) -> float:
    """Return the largest relative loss of usefulness that the evidence reports, at least 0."""
    return max((1 - use.after / use.before for use in evidence.useful), default=0.0)


def _evidence_on(remedy: Remedy, violated: Sequence[Decision]) -> list[Evidence]:
    """List the evidence on violated limits, each once."""
    chosen: dict[Evidence, None] = {}
    for decision in violated:
        evidence = _evidence_for(remedy, decision)
        if evidence is not None:
            chosen[evidence] = None
    return [*chosen]


def _evidence_for(remedy: Remedy, decision: Decision) -> Evidence | None:
    """Choose the evidence on a limit.

    docaudit's own stands before what was published, and what is of one metric before that on any.
    """
    fitting = [
        evidence
        for evidence in remedy.evidence
        if fnmatchcase(decision.limit.attack, evidence.attack)
        and fnmatchcase(decision.limit.metric, evidence.metric)
    ]
    return min(fitting, key=lambda item: (item.by != "docaudit", item.metric == "*"), default=None)


def _describe_evidence(evidence: Evidence) -> str:
    """Say what was measured on another model, and what it cost in usefulness there."""
    author = "Measured by docaudit on" if evidence.by == "docaudit" else "Published for"
    change = f"{evidence.leak} {_before_and_after(*evidence.leaks, evidence.form)}"
    costs = [evidence.cost] if evidence.cost else []
    costs += [
        f"{use.measure} {_before_and_after(use.before, use.after, 'share', USE_DIGITS)}"
        for use in evidence.useful
    ]
    cost = "usefulness is not stated there"
    if costs:
        cost = f"usefulness there: {', '.join(costs)}"
    return (
        f"{author} {evidence.setting}: {change}; {cost} ({evidence.source}). "
        "Measured once, on another model"
    )


def _before_and_after(before: float, after: float, form: Form, digits: int = 2) -> str:
    """Write two numbers with as many digits, with their unit behind the second."""
    return f"{numbers.bare(before, form, digits)} → {numbers.show(after, form, digits)}"


def effect_sentence(comparison: MeasuredDefense, answered: Sequence[Finding]) -> str:
    """Say what a countermeasure was measured to do.

    To the metrics of the answered findings, to usefulness and to the verdict.
    """
    metrics = dict.fromkeys((finding.attack, finding.metric) for finding in answered)
    effects = [*filter(None, (comparison.effect(*pair) for pair in metrics))]
    changes = [_describe_effect(effect) for effect in (*effects, *comparison.usefulness)]
    if not comparison.usefulness:
        changes.append("usefulness was not measured")
    before = word_of(comparison.verdict_before)
    after = word_of(comparison.verdict_after)
    changes.append(f"the verdict {before} → {after}")
    return f"Measured on this model. {comparison.title}: {', '.join(changes)}"


def _describe_effect(effect: Effect) -> str:
    """Say how one number changed, in the words of its attack."""
    report = text_of(effect.attack) if effect.attack else UTILITY
    label = _lowered(report.label(effect.metric))
    form = report.metric(effect.metric).form
    change = f"{label} {show_value(effect.before, form)} → {show_value(effect.after, form)}"
    difference = effect.difference
    if difference is None:
        return change
    unsure = "" if difference.low > 0 or difference.high < 0 else ", no change shown"
    return f"{change} (change {numbers.between(difference, form)}{unsure})"


def show_deciding(comparison: MeasuredDefense, attack: str, metric: str) -> str:
    """Write the number that decides a limit before and after; empty where either is unknown."""
    deciding = comparison.deciding_numbers(attack, metric)
    if deciding is None:
        return ""
    form = text_of(attack).metric(metric).form
    return " → ".join(numbers.show(value, form) for value in deciding)


def show_value(item: Measurement | None, form: Form) -> str:
    """Write a measurement's value with its unit, "not measured" where it has none."""
    return numbers.show(item.value, form) if isinstance(item, Estimate) else "not measured"


def _any_answer_fits(remedy: Remedy, finding: Finding) -> bool:
    """Test whether any answer of a remedy fits a finding."""
    return any(_answer_fits(answer, finding) for answer in remedy.answers)


def _answer_fits(answer: AnsweredFinding, finding: Finding) -> bool:
    """Test whether state, attack and metric of a finding fit the patterns of an answer."""
    # What the policy does not limit is a leak all the same: it is answered by what answers a
    # violation.
    state = "violated" if finding.state == "outside" else finding.state
    return (
        state in answer.finding
        and fnmatchcase(finding.attack, answer.attack)
        and fnmatchcase(finding.metric, answer.metric)
    )
