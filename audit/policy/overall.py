"""From decisions to the verdict: waivers, counts, headline and exit code."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from audit.policy.checks import SettledRecord
from audit.policy.decision import (
    EXIT_CODES,
    SOON,
    Cause,
    Counts,
    Decision,
    Outcome,
    Overall,
    RegisteredWaiver,
    Verdict,
    WaiverState,
)
from audit.policy.limits import LONGEST_WAIVER, TEXTS, Demand, Policy, Waiver
from audit.record import AuditRecord

WIDTH: frozenset[Cause] = frozenset({"wide", "unresolved"})
"""Causes that more units would mend, and that say nothing for or against a leak. A missing
reference is none."""
_WORST_FIRST: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")
_COUNTED_AS = {"passed": "met", "not run": "not_tested"}
"""Names of counts, by the outcome that they count; others have the outcome's name."""


def waive(decision: Decision, policy: Policy, today: dt.date) -> Decision:
    """Return the decision waived where it is a violation and a waiver holds, else as it is."""
    limit = decision.limit
    holding = []
    for waiver in policy.waivers:
        is_of_limit = (waiver.attack, waiver.metric) == (limit.attack, limit.metric)
        if is_of_limit and _waiver_state(waiver, today) == "in force":
            holding.append(waiver)
    if decision.outcome != "violated" or not holding:
        return decision
    longest = max(holding, key=lambda waiver: waiver.expires)
    return replace(decision, outcome="waived", waiver=longest)


def register(
    decisions: Sequence[Decision], policy: Policy, today: dt.date
) -> Iterator[RegisteredWaiver]:
    """Yield every waiver of the policy, in order, with its effect on these decisions."""
    used = [decision.waiver for decision in decisions if decision.waiver is not None]
    for waiver in policy.waivers:
        days = (waiver.expires - today).days
        state: WaiverState = _waiver_state(waiver, today)
        if state == "in force" and waiver not in used:
            state = "not needed"
        elif state == "in force" and days <= SOON:
            state = "ending"
        yield RegisteredWaiver(waiver, state, days)


def _waiver_state(waiver: Waiver, today: dt.date) -> Literal["in force", "expired", "too long"]:
    """Tell whether a waiver has effect on a day, whatever it is for."""
    if waiver.expires < today:
        return "expired"
    if waiver.expires - today > LONGEST_WAIVER:
        return "too long"
    return "in force"


def verdict_on_text(
    settled: SettledRecord, policy: Policy, decisions: Sequence[Decision]
) -> Verdict:
    """Return the verdict where no model was audited: that of the limits on the text.

    These always count then.
    """
    on_text = [decision for decision in decisions if decision.about_text]
    counts = count(on_text)
    overall, reason = _worst_outcome(
        counts, "no limit of the policy could be checked on the text alone"
    )
    code, uncovered = exit_code(policy, overall, on_text)
    before = "on the text alone, "
    after = f"; no model was audited{uncovered}"
    return Verdict(
        policy.name,
        overall,
        tuple(decisions),
        code,
        f"{before}{reason}{after}",
        settled,
        counts=counts,
        counted=counts.sentence if _is_checked(counts) else "",
        before=before,
        after=after,
    )


def verdict_on_model(
    settled: SettledRecord,
    policy: Policy,
    decisions: Sequence[Decision],
    unasked: Sequence[Demand],
    contradicted: str | None,
) -> Verdict:
    """Return the verdict on a model, and the one on what the documents' own text gives away.

    Args:
        settled: settled record of the scan.
        policy: policy that it is held against.
        decisions: one for each limit.
        unasked: demands that the policy permits to stay open.
        contradicted: why the guarantee that the training claims is false; None where it is not.
    """
    on_model = [decision for decision in decisions if not decision.about_text]
    on_text = [decision for decision in decisions if decision.about_text]
    headline = _headline_on_model(settled.record, on_model, unasked, contradicted)
    text, text_reason = _outcome_on_text(on_text)
    worst = headline.overall
    deciding = on_model
    gates = policy.text == "fail"
    if gates:
        deciding = [*decisions]
        if text is not None:
            worst = min(worst, text, key=_WORST_FIRST.index)
    code, uncovered = exit_code(policy, worst, deciding)
    after = f"{headline.after}{uncovered}"
    return Verdict(
        policy.name,
        headline.overall,
        tuple(decisions),
        code,
        f"{headline.before}{headline.reason}{after}",
        settled,
        text,
        text_reason,
        contradicted,
        headline.counts,
        headline.counted,
        text_counts=gates,
        before=headline.before,
        after=after,
    )


class _Headline(NamedTuple):
    """What the limits on the model come to, and the sentence that says so.

    Attributes:
        overall: the outcome.
        counts: the limits by what became of them.
        reason: the middle of the sentence.
        counted: the counts in words, as `reason` has them; empty where it has none.
        before, after: what stands before and behind `reason`.
    """

    overall: Overall
    counts: Counts
    reason: str
    counted: str
    before: str = ""
    after: str = ""


def _headline_on_model(
    record: AuditRecord,
    decisions: Sequence[Decision],
    unasked: Sequence[Demand],
    contradicted: str | None,
) -> _Headline:
    """Sum up the limits on the model: a false guarantee is violated, whatever they come to."""
    counts = count(decisions)
    overall, reason = _worst_outcome(
        counts, "no limit of the policy could be checked on this model"
    )
    counted = ""
    if _is_checked(counts):
        counted = counts.sentence
    headline = _Headline(overall, counts, reason, counted)
    if overall in ("passed", "waived"):
        counted = name_unexamined(counts, record, decisions)
        after = _name_unproven(record, unasked)
        headline = headline._replace(reason=counted, counted=counted, after=after)
    if contradicted is None:
        return headline
    return headline._replace(overall="violated", before=f"{contradicted}; ")


def _outcome_on_text(decisions: Sequence[Decision]) -> tuple[Overall | None, str]:
    """Return the outcome of the limits on the text, and the reason; None where there are none."""
    if not decisions:
        return None, ""
    return _worst_outcome(count(decisions), "no limit on the text could be checked")


def count(decisions: Sequence[Decision]) -> Counts:
    """Count decisions by their outcome."""
    counts: Counter[str] = Counter()
    for decision in decisions:
        counts[_COUNTED_AS.get(decision.outcome, decision.outcome)] += 1
    return Counts(**counts)


def _is_checked(counts: Counts) -> bool:
    """Tell whether anything is known of any limit, so that the reason of a verdict counts them."""
    return bool(counts.undecided or counts.examined)


def _worst_outcome(counts: Counts, unchecked: str) -> tuple[Overall, str]:
    """Return the worst outcome among counted limits, and the reason for it.

    `unchecked` where nothing is known of any.
    """
    if counts.violated:
        return "violated", counts.sentence
    if counts.undecided:
        return "undecided", counts.sentence
    if not _is_checked(counts):
        return "undecided", unchecked
    if counts.waived:
        return "waived", counts.sentence
    return "passed", counts.sentence


def name_unexamined(counts: Counts, record: AuditRecord, decisions: Sequence[Decision]) -> str:
    """Write the counts of a verdict, with the names of attacks that were not tested.

    Those that were not applicable are named as well.
    """
    reasons: dict[str, str] = {}
    inapplicable: dict[str, None] = {}
    tested = set()
    for decision in decisions:
        attack = decision.limit.attack
        if decision.outcome == "not run":
            reasons.setdefault(attack, _why_not_run(record, decision))
        elif decision.outcome == "inapplicable":
            inapplicable[_attack_in_words(attack)] = None
        else:
            tested.add(attack)
    untested = []
    for attack, why in reasons.items():
        extent = ""
        if attack in tested:
            extent = " in part"
        untested.append(f"{_attack_in_words(attack)}{extent}: {why}")
    remarks = {"not_tested": "; ".join(untested), "inapplicable": ", ".join(inapplicable)}
    return counts.sentence_with(remarks)


def _why_not_run(record: AuditRecord, decision: Decision) -> str:
    """Return the bare reason of an attack that was not run; else that of its limit."""
    result = record.results.get(decision.limit.attack)
    if result is None or result.reason is None:
        return decision.reason
    return result.reason.why


def _attack_in_words(attack: str) -> str:
    """Write the name of an attack with blanks for its underscores."""
    return attack.replace("_", " ")


def _name_unproven(record: AuditRecord, unasked: Sequence[Demand]) -> str:
    """Say in clauses what a pass leaves unproven; empty where it leaves nothing."""
    clauses = []
    of_family = TEXTS.get(f"passed {record.target.family}")
    if of_family:
        clauses.append(of_family)
    for demand in unasked:
        none_applies = f"no attack on {demand.question} applies to this kind of model"
        clauses.append(f"{none_applies}, as the policy permits")
    return "".join(f"; {clause}" for clause in clauses)


def exit_code(policy: Policy, overall: Overall, decisions: Sequence[Decision]) -> tuple[int, str]:
    """Return the exit code of an outcome, and what `undecided = "warn"` does not cover.

    That is a clause, or empty.

    Args:
        policy: policy that was held against the record.
        overall: outcome of all limits.
        decisions: decisions that it follows from.
    """
    if overall != "undecided" or policy.undecided == "fail":
        return EXIT_CODES[overall], ""
    uncovered = _uncovered(policy, decisions)
    if not uncovered:
        return 0, ""
    clause = f'; undecided = "warn" covers only wide intervals, not {uncovered}'
    return EXIT_CODES["undecided"], clause


def lets_through(policy: Policy, decision: Decision) -> bool:
    """Tell whether the policy warns of an undecided limit instead of failing.

    It does where the interval is too wide, and no more.
    """
    return policy.undecided == "warn" and decision.outcome == "undecided" and _is_width(decision)


def _uncovered(policy: Policy, decisions: Sequence[Decision]) -> str:
    """Say what keeps a warning from being enough; empty where only width leaves limits undecided.

    Width is no excuse where nothing was decided: one limit has to be met, or waived, on each
    demanded question.
    """
    for decision in decisions:
        if decision.outcome == "undecided" and not _is_width(decision):
            return _name_cause(decision)
    met = _attacks_with(decisions, "passed", "waived")
    if not met:
        return "an audit that decides nothing"
    undecided = _attacks_with(decisions, "undecided")
    for demand in policy.demands:
        if undecided.intersection(demand.any_of) and not met.intersection(demand.any_of):
            return f"a question of which no limit is met ({demand.question})"
    return ""


def _attacks_with(decisions: Sequence[Decision], *outcomes: Outcome) -> set[str]:
    """Collect the attacks with a decision of any of these outcomes."""
    return {decision.limit.attack for decision in decisions if decision.outcome in outcomes}


def _is_width(decision: Decision) -> bool:
    """Tell whether nothing but width leaves a limit undecided."""
    if decision.measured is not None and decision.limit.excess(decision.measured) > 0:
        return False
    return decision.cause in WIDTH


def _name_cause(decision: Decision) -> str:
    """Name the limit that a decision is about, and in brackets why it is undecided."""
    cause: str | None = decision.cause
    if decision.cause in WIDTH:
        cause = "the interval lies above the limit"
    return f"{decision.limit.attack} {decision.limit.metric} ({cause})"
