"""Checks that can only leave limits undecided, and gaps in what a scan attacked.

All checks of a scan share one false-positive rate of 5 %.

Method: methods.md#statistics, "Checks". A scan of a model that leaks nothing, on data that are as
declared, is left undecided by its checks in at most 5 % of audits, however many checks it makes.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from audit.cards import CorpusCard
from audit.measurements import Check, Condition, Estimate, Unresolved
from audit.policy.decision import Cause, Counts, Decision
from audit.policy.limits import TEXTS, Demand, Limit, Policy
from audit.record import AuditRecord, Result
from audit.stats.p_values import holm

LEVEL = 0.05
"""Family-wise false-positive rate of all checks of a scan."""
AGAIN = "fix this and scan again"
BLIND = "blind"
"""The name of the check of whether the two sides can be told apart without the model."""
_WRONG_SIDE = "wrong side"


def settle(record: AuditRecord, limits: Sequence[Limit]) -> AuditRecord:
    """Adjust the p-values of all checks of a scan, and mark the attacks whose numbers a check confounds.

    Args:
        record: with the checks that attacks made; settling it again changes nothing.
        limits: a number on the wrong side of its null is looked for among the metrics that these
            limit.

    Returns:
        The record; `Result.confounded` names the first check of that cause that fires.
    """
    results = [_with_wrong_side(result, limits) for result in record.attacks]
    checks = [(result.attack, check) for result in results for check in result.checks]
    checks += [("", check) for check in record.checks]
    # Several attacks compare the same documents: their blind check is one test.
    distinct = {_identity(attack, check): check for attack, check in checks}
    weights = {key: check.weight for key, check in distinct.items()}
    adjusted = holm({key: check.p_value for key, check in distinct.items()}, weights)

    def settled(attack: str, checks: Sequence[Check]) -> tuple[Check, ...]:
        return tuple(
            replace(check, p_adjusted=adjusted[_identity(attack, check)]) for check in checks
        )

    whole = settled("", record.checks)
    attacks = []
    for result in results:
        own = settled(result.attack, result.checks)
        fired = _confounding(replace(result, checks=own), whole)
        settled_result = replace(result, checks=own)
        if fired:
            settled_result = replace(settled_result, confounded=fired[0].reason, unvouched=False)
        attacks.append(settled_result)
    return replace(record, attacks=tuple(attacks), checks=whole)


def fires(check: Check) -> bool:
    """Test whether a settled check is significant among all checks of its scan."""
    return check.p_adjusted is not None and check.p_adjusted <= LEVEL


def _confounding(result: Result, whole: Sequence[Check]) -> list[Check]:
    """List the checks of an attack, then of the whole scan, that fire and can explain the attack's numbers."""
    concerning = [check for check in whole if check.concerns(result.attack)]
    return [
        check
        for check in (*result.checks, *concerning)
        if check.cause == "confounded" and fires(check)
    ]


def p_explained(
    record: AuditRecord, result: Result, measured: Estimate, limit: float, *, mirrored: bool = False
) -> float:
    """Return a one-sided p-value against "something else than memory explains what lies over the limit".

    0 where nothing speaks for such an explanation, or only checks that spare the measurement. Of a
    confounded attack it is that of its controls: of the reference where there is one whose
    condition is met, else of the blind check. Where the blind check tells the two sides apart, of
    both. 1 where a control is missing, or something else confounds the attack.

    Args:
        record: settled.
        result: of one of its attacks.
        measured: a measurement of that attack.
        limit: the most that the policy allows.
        mirrored: see `Control.p_explains`.
    """
    if result.confounded is None:
        return 0.0
    confounding = _confounding(result, record.checks)
    name = f"{result.attack}.{measured.name}"
    fired = [check for check in confounding if name not in check.spares]
    if confounding and not fired:
        return 0.0
    if any(check.name != BLIND for check in fired):
        return 1.0
    met = met_conditions(record)
    controls = [control for control in result.controls if measured.name in control.measurements]
    controls = [
        control for control in controls if not control.condition or control.condition in met
    ]
    found = {
        control.kind: control.p_explains(measured, limit, mirrored=mirrored) for control in controls
    }
    if fired:
        return max(found.get("reference", 1.0), found.get("blind", 1.0))
    return found.get("reference", found.get("blind", 1.0))


def against_pass(result: Result, metric: str) -> Check | None:
    """Return the strongest check of a settled attack that keeps a limit on this metric from being passed."""
    fired = [check for check in result.checks if check.bears_on(metric) and fires(check)]
    return min(fired, key=lambda check: check.p_value, default=None)


def _conditions(record: AuditRecord) -> list[Condition]:
    """List the conditions of the scan, then those of its attacks."""
    conditions = [*record.conditions]
    for result in record.completed.values():
        conditions += result.conditions
    return conditions


def met_conditions(record: AuditRecord) -> frozenset[str]:
    """Return the names of the conditions that the scan shows."""
    return frozenset(
        condition.name for condition in _conditions(record) if condition.state == "met"
    )


def missing_condition(record: AuditRecord, attack: str) -> Condition | None:
    """Return the first condition of a pass on this attack that the scan does not show.

    None when it shows all.
    """
    met = met_conditions(record)
    for condition in _conditions(record):
        if attack not in condition.attacks or condition.name in met:
            continue
        replaced = bool(condition.substitutes) and met.issuperset(condition.substitutes)
        if not replaced:
            return condition
    return None


def _identity(attack: str, check: Check) -> tuple[str, ...]:
    return (check.name, check.reason) if check.name == BLIND else (attack, check.name)


def _with_wrong_side(result: Result, limits: Sequence[Limit]) -> Result:
    others = tuple(check for check in result.checks if check.cause != _WRONG_SIDE)
    return replace(result, checks=(*others, *_wrong_side(result, limits)))


def _wrong_side(result: Result, limits: Sequence[Limit]) -> Iterator[Check]:
    """Yield one check of whether a limited number lies where neither a leak nor chance puts it."""
    # Of a count only the lower end of its interval says something.
    two_sided = (limit for limit in limits if limit.max is not None and limit.holds == "interval")
    metrics = [limit.metric for limit in two_sided if limit.attack == result.attack]
    measured = {
        item.name: item
        for item in result.measurements
        if isinstance(item, Estimate) and item.null is not None
    }
    measured = {
        name: item for name, item in measured.items() if item.null_kind in ("held-out", "chance")
    }
    methods = [
        (metric, name) for metric in metrics for name in result.methods.get(metric, (metric,))
    ]
    tested = [(metric, measured[name]) for metric, name in methods if name in measured]
    if not tested:
        return
    metric, worst = min(tested, key=lambda pair: _p_below_null(pair[1]))
    p_value = min(1.0, 2 * len(tested) * _p_below_null(worst))
    shown = f"{worst.value:.3f} [{worst.low:.3f}, {worst.high:.3f}]"
    if worst.is_area:
        reason = f"an AUC below 0.5 also distinguishes documents: {shown}; check that the splits are right"
        remedy = AGAIN
    else:
        trained_on = "the unseen documents look trained on, unless this is chance"
        reason = f"the leak is larger on unseen documents than on training documents: {shown}; {trained_on}"
        remedy = "check the list of training documents, draw other unseen documents, and scan again"
    yield Check(_WRONG_SIDE, p_value, "wrong side", reason, remedy, (metric,))


def _p_below_null(measured: Estimate) -> float:
    assert measured.null is not None
    # A null that was measured on held-out documents is as uncertain as the number itself: then it
    # is 0.
    return measured.p_below(
        min(measured.null, 0.0) if measured.null_kind == "held-out" else measured.null
    )


MOST_DOCUMENTS = 0.1
"""Share of the member, or of the held-out, documents that a pass may do without."""
MOST_QUESTIONS = 0.5
"""The same of questions: the documents are judged by the others that they are asked."""
_COMPARED = {"member": "member", "heldout": "held-out"}


def too_much_unread(corpus: CorpusCard) -> tuple[str, str, Cause] | None:
    """Return the reason against a pass where too much was left out, as the model cannot name what it says."""
    documents = ("documents", corpus.unread, corpus.documents, MOST_DOCUMENTS)
    questions = ("questions", corpus.unread_questions, corpus.questions, MOST_QUESTIONS)
    for unit, left_out, kept, most in (documents, questions):
        for split, title in _COMPARED.items():
            gone = left_out.get(split, 0)
            total = gone + kept.get(split, 0)
            if gone > most * total:
                reason = TEXTS["left_out"].format(
                    gone=gone, total=total, title=title, unit=unit, most=most
                )
                return reason, "audit the model with its training labels and answers", "uncovered"
    return None


def untried(record: AuditRecord, result: Result, number: Unresolved) -> bool:
    """Test whether the data set may hold the units that a number needs, and a bound or budget left them untried."""
    return (
        number.needed is not None
        and min(_sides(record)) >= number.needed
        and left_untried(record, result.attack)
    )


def left_untried(record: AuditRecord, attack: str) -> bool:
    """Test whether a bound or the budget left untried what the data set holds for an attack."""
    return record.share_of(attack) < 1 or bounded(record)


def bounded(record: AuditRecord) -> bool:
    """Test whether a bound (--documents, --time) left untried what the data set holds."""
    bounds = record.bounds
    if bounds is None:
        return False
    return bounds.part < 1 or (
        bounds.documents is not None and bounds.documents < sum(_sides(record))
    )


def _sides(record: AuditRecord) -> list[int]:
    return [record.corpus.documents.get(split, 0) for split in _COMPARED]


UNEXAMINED = ("inapplicable", "not run")


def unanswered(
    policy: Policy, task: str, asked: Collection[str], could_be: Collection[str]
) -> Iterator[tuple[Demand, str | None]]:
    """Yield the demands that no attack answers, each with the attack that would.

    None where the gaps permit them all.

    Args:
        policy: with demands and gaps.
        task: of the model.
        asked: attacks with a limit that was decided, or that is undecided already.
        could_be: attacks that the policy excuses for what the data set does not hold.
    """
    permitted = {gap.attack for gap in policy.gaps if task in gap.tasks}
    for demand in policy.demands:
        if not {*demand.any_of} & {*asked}:
            yield (
                demand,
                next(
                    (name for name in demand.any_of if name in could_be and name not in permitted),
                    None,
                ),
            )


def hold_demands(
    record: AuditRecord, policy: Policy, decisions: Sequence[Decision]
) -> tuple[list[Decision], str]:
    """Leave undecided what a demand needs, and name the demands that nothing can answer.

    Args:
        record: the scan.
        policy: that it is held against.
        decisions: one for each limit.

    Returns:
        The decisions, and a clause for the headline, empty where every demand is answered or
        undecided.
    """
    if not record.target.is_model:
        return [*decisions], ""
    of_model = [one for one in decisions if not one.about_text]
    asked = {one.limit.attack for one in of_model if one.outcome not in UNEXAMINED}
    could_be = {one.limit.attack for one in of_model if one.outcome == "not run"}
    needed, closed = {}, [*filter(None, [TEXTS.get(f"passed {record.target.family}")])]
    for demand, attack in unanswered(policy, record.target.task, asked, could_be):
        if attack is None:
            closed.append(
                f"no attack on {demand.question} applies to this kind of model, as the policy permits"
            )
        else:
            needed[attack] = demand
    held = [_leave_open(one, needed.get(one.limit.attack)) for one in decisions]
    return held, "".join(f"; {clause}" for clause in closed)


def _leave_open(decision: Decision, demand: Demand | None) -> Decision:
    """Make a limit that was not run undecided where the policy demands its attack.

    Keep all other decisions.
    """
    if demand is None or decision.outcome != "not run" or decision.about_text:
        return decision
    reason = f"{decision.reason}; {demand.sentence}"
    return replace(decision, outcome="undecided", reason=reason, cause="unmeasured")


def name_unexamined(counts: Counts, record: AuditRecord, decisions: Sequence[Decision]) -> str:
    """Write the counts of a verdict, with the attacks that were not tested and why, and those not applicable."""
    reasons: dict[str, str] = {}
    inapplicable: dict[str, None] = {}
    tested = set()
    for decision in decisions:
        attack = decision.limit.attack
        if decision.outcome == "not run":
            reasons.setdefault(attack, _why_not_run(record, decision))
        elif decision.outcome == "inapplicable":
            inapplicable[_words(attack)] = None
        else:
            tested.add(attack)
    untested = []
    for attack, why in reasons.items():
        extent = " in part" if attack in tested else ""
        untested.append(f"{_words(attack)}{extent}: {why}")
    remarks = {"not_tested": "; ".join(untested), "inapplicable": ", ".join(inapplicable)}
    return counts.sentence_with(remarks)


def _why_not_run(record: AuditRecord, decision: Decision) -> str:
    """Return the bare reason of an attack that was not run; that of the limit where the attack has none."""
    result = record.results.get(decision.limit.attack)
    if result is None or result.reason is None:
        return decision.reason
    return result.reason.why


def _words(attack: str) -> str:
    return attack.replace("_", " ")
