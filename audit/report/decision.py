"""The answer of an audit, for page one: may the model be deployed, and what leaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audit.attacks import text_of
from audit.errors import printable
from audit.policy import Decision, Outcome, Overall, Policy, Verdict
from audit.record import AuditRecord, Result
from audit.report import numbers
from audit.report.answer import LABELS, deciding_outcome, explanation, headline
from audit.report.leaks import findings_outside
from audit.report.templates import AttackMacros, ResultIndex

WORST_FIRST: tuple[Outcome, ...] = ("violated", "waived", "undecided", "passed", "not run", "inapplicable")
LEAK_ORDER = ("violated", "waived", "undecided", "", "passed", "not run", "inapplicable")
"""Of attacks by the worst outcome of their limits, on page one; empty: none limits it."""
MOST_LEAKS = 4
"""Attacks that page one describes, the worst first; the pages behind it describe the others."""
LONGEST_TITLE = 64
"""Signs of a title: two lines of page one."""
ANSWERS = LABELS["answers"]
OUTCOME_WORDS = LABELS["attack_outcomes"]


@dataclass(frozen=True)
class Leak:
    """What one attack found, in a sentence with count and interval.

    Attributes:
        outcome: the worst of its limits; empty where none limits it.
        words: the outcome in words.
        in_full: whether the sentence is that of the attack's template; else it is the number that decides, alone.
    """

    attack: str
    title: str
    outcome: str
    words: str
    sentence: Markup
    in_full: bool


@dataclass(frozen=True)
class DecisionView:
    """Page one.

    Attributes:
        title: of the report: the name of what was audited, never what its owner states.
        outcome: that the answer rests on: of the model, or of the text where it is worse and the policy counts it.
        stamp: the outcome as it is stamped.
        explanation: sentences under the headline.
        counts: of the limits on the model, by what became of them.
        leaks: the worst first, as many as the page holds.
        more_leaks: how many it does not hold.
    """

    title: str
    question: str
    answer: str
    outcome: Overall
    stamp: str
    headline: str
    explanation: str
    counts: str
    leaks: tuple[Leak, ...]
    more_leaks: int


def decision_view(
    record: AuditRecord, verdict: Verdict, policy: Policy, texts: Mapping[str, AttackMacros]
) -> DecisionView:
    """Answer the question of page one from the verdict; `texts` are of every attack that the record names."""
    outcome, leaks, name = deciding_outcome(verdict), _list_leaks(record, verdict, texts), printable(record.subject)
    subject = "this model be deployed" if record.target.is_model else "redacted copies of these documents be shared"
    # What passes names what was not examined; elsewhere the open limits say it.
    counted = verdict.reason if verdict.overall in ("passed", "waived") else verdict.counts.sentence
    return DecisionView(
        title=name if len(name) <= LONGEST_TITLE else f"{name[: LONGEST_TITLE - 1]}…",
        question=f"May {subject} as the policy “{policy.name}” asks?",
        answer=ANSWERS[outcome],
        outcome=outcome,
        stamp=verdict.stamp if outcome == verdict.overall else outcome.upper(),
        headline=headline(record, verdict),
        explanation=explanation(record, verdict),
        counts=f"{counted}{findings_outside(record, verdict)}",
        leaks=tuple(leaks[:MOST_LEAKS]),
        more_leaks=max(0, len(leaks) - MOST_LEAKS),
    )


def outcome_of(attack: str, decisions: Sequence[Decision]) -> str:
    """Return the worst outcome of an attack's limits; empty where the policy has none."""
    own = {decision.outcome for decision in decisions if decision.limit.attack == attack}
    return next((outcome for outcome in WORST_FIRST if outcome in own), "")


def _list_leaks(record: AuditRecord, verdict: Verdict, texts: Mapping[str, AttackMacros]) -> list[Leak]:
    found = []
    for result in record.completed.values():
        text, outcome = texts[result.attack], outcome_of(result.attack, verdict.decisions)
        told = text.leak(ResultIndex(result, text.report.all_labels, verdict))
        decisive = _deciding_number(result, verdict, told)
        sentence = decisive or told
        if result.confounded is not None and outcome not in ("violated", "waived"):
            refused = Markup("<strong>Nothing can be decided on these numbers:</strong> {}. ")
            sentence = refused.format(result.confounded) + sentence
        words = OUTCOME_WORDS.get(outcome, OUTCOME_WORDS[""])
        if result.about_text and record.target.is_model:
            words = f"{words}; a finding about the text, whatever the model"
        found.append(Leak(result.attack, text.title, outcome, words, sentence, not decisive))
    return sorted(found, key=lambda leak: LEAK_ORDER.index(leak.outcome))


def _deciding_number(result: Result, verdict: Verdict, told: Markup) -> Markup:
    """Return the number that decides an attack's worst limit, with the limit; empty where `told` holds it already."""
    own = [one for one in verdict.decisions if one.limit.attack == result.attack and one.measured is not None]
    worst = min(own, key=lambda one: WORST_FIRST.index(one.outcome), default=None)
    if worst is None or worst.measured is None or worst.cause == "confounded":
        return Markup()
    report, measured = text_of(result.attack), worst.measured
    form = report.metric(worst.limit.metric).form
    bound = worst.limit.max if worst.limit.max is not None else worst.limit.min or 0.0
    words = told.striptags().replace(numbers.NBSP, " ")
    between = [numbers.between(measured, form), numbers.between_of_hundred(measured, "share")]
    if measured.name == worst.limit.metric or any(one.replace(numbers.NBSP, " ") in words for one in between):
        return Markup()
    value = f"{numbers.show(measured.value, form)} ({numbers.interval(measured, form)})"
    guessing = f", guessing gives {numbers.show(0.5, form)}" if measured.is_area else ""
    limit = f"{'at most' if worst.limit.max is not None else 'at least'} {numbers.limit_text(bound, form)}"
    what = report.label(measured.name).replace(": ", ", ")
    return Markup("<strong>{}</strong>, the limit is {}{} ({}).").format(value, limit, guessing, what)
