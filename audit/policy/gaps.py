"""What an audit did without: documents and trials left out, and questions of the policy that nothing answered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from audit.cards import CorpusCard
from audit.measurements import Unresolved
from audit.policy.decision import Cause, Decision
from audit.policy.limits import Demand, Policy
from audit.record import AuditRecord

MOST_DOCUMENTS = 0.1
"""Share of the member, or of the held-out, documents that a pass may do without: leaks of all of these alone
would stay under most limits."""
MOST_QUESTIONS = 0.5
"""The same of questions: the documents are judged by the others that they are asked."""
_COMPARED = {"member": "member", "heldout": "held-out"}


def too_much_unread(corpus: CorpusCard) -> tuple[str, str, Cause] | None:
    """Return the reason against a pass where too much was left out, as the model cannot name what it says."""
    counts = (
        ("documents", corpus.unread, corpus.documents, MOST_DOCUMENTS),
        ("questions", corpus.unread_questions, corpus.questions, MOST_QUESTIONS),
    )
    for unit, left_out, kept, most in counts:
        for split, title in _COMPARED.items():
            gone = left_out.get(split, 0)
            total = gone + kept.get(split, 0)
            if gone > most * total:
                reason = (
                    f"{gone} of {total} {title} {unit} were left out, as the model lacks their names or cannot point "
                    f"at their answers; a pass does without {most:.0%} at most"
                )
                return reason, "audit the model with the labels and answers of its training", "uncovered"
    return None


def untried(record: AuditRecord, number: Unresolved) -> bool:
    """True where the data set may hold the units that a number needs, and a bound or budget left them untried."""
    if number.needed is None or min(_sides(record)) < number.needed:
        return False
    return left_untried(record)


def left_untried(record: AuditRecord) -> bool:
    """True where a bound or the budget left untried what the data set holds."""
    return record.share < 1 or bounded(record)


def bounded(record: AuditRecord) -> bool:
    """True where a bound (--documents, --time) left untried what the data set holds."""
    bounds = record.bounds
    if bounds is None:
        return False
    return bounds.part < 1 or (bounds.documents is not None and bounds.documents < sum(_sides(record)))


def _sides(record: AuditRecord) -> list[int]:
    return [record.corpus.documents.get(split, 0) for split in _COMPARED]


UNEXAMINED = ("inapplicable", "not run")


def unanswered(
    policy: Policy, task: str, asked: Collection[str], could_be: Collection[str]
) -> Iterator[tuple[Demand, str | None]]:
    """Yield the demands that no attack answers, each with the attack that would; None where the gaps permit them all.

    Args:
        policy: with demands and gaps.
        task: of the model.
        asked: attacks with a limit that was decided, or that is undecided already.
        could_be: attacks that the policy excuses for what the data set does not hold.
    """
    permitted = {gap.attack for gap in policy.gaps if task in gap.tasks}
    for demand in policy.demands:
        if not {*demand.any_of} & {*asked}:
            yield demand, next((name for name in demand.any_of if name in could_be and name not in permitted), None)


def hold_demands(record: AuditRecord, policy: Policy, decisions: Sequence[Decision]) -> tuple[list[Decision], str]:
    """Leave undecided what a demand needs, and name the demands that nothing can answer.

    Args:
        record: the scan.
        policy: that it is held against.
        decisions: one for each limit.

    Returns:
        The decisions, and a clause for the headline, empty where every demand is answered or undecided.
    """
    if not record.target.is_model:
        return [*decisions], ""
    of_model = [one for one in decisions if not one.about_text]
    asked = {one.limit.attack for one in of_model if one.outcome not in UNEXAMINED}
    could_be = {one.limit.attack for one in of_model if one.outcome == "not run"}
    needed, closed = {}, []
    for demand, attack in unanswered(policy, record.target.task, asked, could_be):
        if attack is None:
            closed.append(f"no attack can ask a model of this kind {demand.question}, as the policy permits")
        else:
            needed[attack] = demand
    held = [_leave_open(one, needed.get(one.limit.attack)) for one in decisions]
    return held, "".join(f"; {clause}" for clause in closed)


def _leave_open(decision: Decision, demand: Demand | None) -> Decision:
    if demand is None or decision.outcome != "not run" or decision.about_text:
        return decision
    reason = f"{decision.reason}; {demand.sentence}"
    return replace(decision, outcome="undecided", reason=reason, cause="unmeasured")


def name_unexamined(sentence: str, decisions: Sequence[Decision]) -> str:
    """Name in the counts of a verdict the attacks that were not tested, with the reason, and those not applicable."""
    reasons: dict[str, str] = {}
    for one in decisions:
        if one.outcome == "not run":
            why = one.reason.removeprefix("skipped: ").removeprefix("this attack was not run: ")
            reasons.setdefault(one.limit.attack, why)
    tested = {one.limit.attack for one in decisions if one.outcome not in UNEXAMINED}
    named = [f"{_words(attack)}{' in part' * (attack in tested)}: {why}" for attack, why in reasons.items()]
    others = dict.fromkeys(_words(one.limit.attack) for one in decisions if one.outcome == "inapplicable")
    sentence = sentence.replace(" not tested", f" not tested ({'; '.join(named)})")
    return sentence.replace(" not applicable", f" not applicable ({', '.join(others)})")


def _words(attack: str) -> str:
    return attack.replace("_", " ")
