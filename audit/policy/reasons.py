"""Why a limit cannot be decided, or cannot be passed, one function a reason."""

import math
from collections.abc import Mapping
from dataclasses import replace

from audit.cards import SERVED, Forgotten
from audit.measurements import WAY_OF_WRITING, Estimate, Role, Unresolved
from audit.policy.checks import (
    AGAIN,
    against_pass,
    fires,
    left_untried,
    missing_condition,
    too_much_unread,
    untried,
)
from audit.policy.decision import Cause, Decision, count_range
from audit.policy.limits import MEMBERSHIP, TEXTS, Limit, Policy
from audit.record import AuditRecord, Result

STRONGER = "use a stronger attacker: --budget full, or a better public model"
_STRONGER = {"reference_power": TEXTS["stronger_reference"]}
"""The remedy for a weak attacker, by the metric that is its power; `STRONGER` for the others."""
MORE = "audit more documents"
ASK_ALIKE = "ask the model as in training, and scan again"
MORE_PROVIDERS = "audit more providers, as docaudit plan counts them"
MORE_OF_THEM = "attack more values: --budget full"
NO_HELDOUT = TEXTS["no_heldout"]
STATE_RULE = TEXTS["state_rule"].format(more=MORE)
SPLIT_MODELS = TEXTS["split_models"].format(more=MORE)
REFERENCES: dict[Role, str] = {"baselines": TEXTS["give_baseline"], "splits": TEXTS["train_splits"]}
"""What gives a reference that a number lacks, by its role."""
QUESTIONS = (
    ("reconstruction", "memorisation", "attribute_inference", "canaries"),
    ("membership", "provider_membership"),
)
"""Attacks that ask one question each: what a model gives back, and what it was trained on."""
ALL = "rerun without --documents, --time or --budget quick"
LITTLE = 0.25
"""Share of a category's values under which a pass names the category."""
NOT_RUN = "this attack was not run"
Reason = tuple[str, str, Cause]
"""Why, what would help, and of which kind it is."""


def missing_result(record: AuditRecord, policy: Policy, limit: Limit) -> Decision | None:
    """Decide on a limit whose attack gave no number for it; None when it did."""
    if limit.attack not in record.battery:
        reason = "the docaudit version of this record had no such attack"
        return _undecided(
            limit, reason, "scan again with this version", "unmeasured", excused=not limit.required
        )
    result = record.results.get(limit.attack)
    if result is None:
        return _undecided(limit, NOT_RUN, "scan without --only", "unmeasured")
    if result.reason is None:
        if any(item.name == limit.metric for item in result.measurements):
            return None
        return _undecided(limit, "the record lacks this number", "run the scan again", "unmeasured")
    why, fix = result.reason.why, result.reason.fix
    if result.reason.kind == "model":
        return _inapplicable(record, policy, limit, why)
    if result.status == "failed":
        return _undecided(
            limit, f"the attack failed ({why})", "report this failure with the record", "unmeasured"
        )
    # A gap that is permitted to models of this task whatever they read is permitted to those that
    # could be asked, and of whose pages the data set says nothing that can be asked.
    excused = result.reason.kind == "data" and (
        not limit.required or _permitted(record, policy, limit)
    )
    if result.status == "skipped":
        why = f"skipped: {why}"
    elif result.reason.kind == "data":
        why = f"{NOT_RUN}: {why}"
    return _undecided(limit, why, fix, "unmeasured", excused=excused)


def _undecided(
    limit: Limit, reason: str, remedy: str, cause: Cause, *, excused: bool = False
) -> Decision:
    """Undecided, or not run where the policy does without."""
    if excused:
        return Decision(limit, "not run", reason, remedy)
    return Decision(limit, "undecided", reason, remedy, cause=cause)


def _permitted(record: AuditRecord, policy: Policy, limit: Limit) -> bool:
    return any(
        gap.attack == limit.attack and record.target.task in gap.tasks for gap in policy.gaps
    )


def _inapplicable(record: AuditRecord, policy: Policy, limit: Limit, reason: str) -> Decision:
    if not record.target.is_model or _permitted(record, policy, limit):
        return Decision(limit, "inapplicable", reason)
    gap = f"the attack does not apply to this model, and the policy permits no such gap: {reason}"
    return _undecided(limit, gap, _instead(record, limit), "gap")


def _instead(record: AuditRecord, limit: Limit) -> str:
    """Say what would answer the question of an attack that this model cannot be put to."""
    if record.target.family == SERVED:
        return TEXTS["audit_weights"]
    possible = [attack for attack in _asking_the_same(limit.attack) if _can_ask(record, attack)]
    if not possible:
        return TEXTS["no_other_attack"]
    return TEXTS["other_attack"].format(attacks=" or ".join(possible))


def _asking_the_same(attack: str) -> list[str]:
    """List the other attacks that ask the question of an attack; empty where it asks one alone."""
    for attacks in QUESTIONS:
        if attack in attacks:
            return [name for name in attacks if name != attack]
    return []


def _can_ask(record: AuditRecord, attack: str) -> bool:
    result = record.results.get(attack)
    return result is None or result.status != "inapplicable"


def unresolved(
    record: AuditRecord, policy: Policy, limit: Limit, result: Result
) -> Decision | None:
    """Return the decision where the question's own number could not be had; None when it could.

    More units help where `Unresolved.needed` says so, and nowhere else: its cause alone is
    "unresolved". A check that fires, and what a pass rests on and the scan does not show, are
    looked at as for a number.
    """
    measured = next(item for item in result.measurements if item.name == limit.metric)
    if isinstance(measured, Estimate):
        few = _cannot_exceed(record, limit, result, measured)
        return None if few is None else _checked_all_the_same(record, result, few)
    if measured.inapplicable:
        return _inapplicable(record, policy, limit, measured.reason)
    if measured.needed is None:
        return _unmeasured(record, limit, result, measured)
    return _checked_all_the_same(record, result, _too_few(record, limit, result, measured))


def _too_few(record: AuditRecord, limit: Limit, result: Result, measured: Unresolved) -> Decision:
    """Decide on a number that more units would give: those left untried first, then more of them."""
    reason = f"{measured.reason} (n = {measured.n}; {measured.needed} needed)"
    if limit.metric not in result.about_text and untried(record, result, measured):
        return _undecided(limit, f"{reason}, among those tried", ALL, "unresolved")
    remedy, left_out = _remedy_for_none(record, result, measured)
    # More units than the data set holds: what is not required does without. Other reasons can be
    # mended.
    excused = not limit.required and not result.ablations
    return _undecided(limit, f"{reason}{left_out}", remedy or MORE, "unresolved", excused=excused)


def _unmeasured(
    record: AuditRecord, limit: Limit, result: Result, measured: Unresolved
) -> Decision:
    """Decide on a number that no larger number of units would give: what it lacks has to be there."""
    reason = f"{measured.reason} (n = {measured.n})"
    if measured.lacks is not None:
        return _undecided(limit, reason, REFERENCES[measured.lacks], "unmeasured")
    remedy, left_out = _remedy_for_none(record, result, measured)
    return _undecided(limit, f"{reason}{left_out}", remedy or AGAIN, "unmeasured")


def _remedy_for_none(record: AuditRecord, result: Result, measured: Unresolved) -> tuple[str, str]:
    """Return what helps where not one unit was there, and a clause on those left out.

    Both empty elsewhere.
    """
    left_out = [
        count for count in result.counts if count.name.startswith("left out") and count.value
    ]
    if measured.n:
        return "", ""
    if not record.corpus.documents.get("heldout"):
        return NO_HELDOUT, ""
    if left_out:
        most = max(left_out, key=lambda count: count.value)
        return AGAIN, f"; left out: {most.value} {most.meaning}"
    return "", ""


def _checked_all_the_same(record: AuditRecord, result: Result, decision: Decision) -> Decision:
    """Let a check that fires keep its say on a number that has too few units: more of them would not be enough."""
    if decision.outcome != "undecided" or decision.limit.metric in result.about_text:
        return decision
    against = _confounded_by(record, decision, result)
    against = (
        against
        or against_attack(record, decision.limit, result)
        or _checked(decision.limit, result)
    )
    if against is None:
        return decision
    why, remedy, cause = against
    return replace(decision, reason=f"{decision.reason}; {why}", remedy=remedy, cause=cause)


def _confounded_by(record: AuditRecord, decision: Decision, result: Result) -> Reason | None:
    """Return what else than memory can explain an attack's numbers, with what would settle it.

    None where nothing.
    """
    if result.confounded is None:
        return None
    remedies = {check.reason: check.remedy for check in (*result.checks, *record.checks)}
    return result.confounded, remedies.get(result.confounded, decision.remedy), "confounded"


def _cannot_exceed(
    record: AuditRecord, limit: Limit, result: Result, measured: Estimate
) -> Decision | None:
    """Return the decision on a count of so few units that none could violate the limit.

    None where one could.
    """
    total = measured.n if measured.total is None else measured.total
    if limit.max is None or total > limit.max:
        return None
    reason = f"there are only {total} {measured.unit}: the count cannot exceed {limit.max:g}"
    left = measured.total is None and left_untried(record, limit.attack)
    return _undecided(
        limit, reason, ALL if left else MORE, "unresolved", excused=not limit.required and not left
    )


def remedy_at_hand(record: AuditRecord, decision: Decision) -> Decision:
    """Send for unseen documents where there are none, and for more only where all that the data set holds were tried.

    What is unresolved knows its need. Where one reference was compared with, split models come
    before more documents.
    """
    if record.corpus.forgotten is not None and decision.outcome == "undecided":
        longer = _remedy_for_list(record, record.corpus.forgotten, decision)
        if longer is not decision:
            return longer
    alone = [split for split, n in record.corpus.documents.items() if n and split != "public"] == [
        "member"
    ]
    if alone and decision.remedy in (MORE, ASK_ALIKE) and record.target.is_model:
        return replace(decision, remedy=NO_HELDOUT)
    more = (
        decision.remedy in (MORE, MORE_PROVIDERS, MORE_OF_THEM) and decision.cause != "unresolved"
    )
    if more and not decision.about_text and left_untried(record, decision.limit.attack):
        return replace(decision, remedy=ALL)
    single = (
        not any(card.role.startswith("split") for card in record.references)
        and record.target.is_model
    )
    if single and (decision.limit.attack, decision.remedy, decision.cause) == (
        MEMBERSHIP,
        MORE,
        "wide",
    ):
        return replace(decision, remedy=SPLIT_MODELS)
    return decision


def _remedy_for_list(record: AuditRecord, forgotten: Forgotten, decision: Decision) -> Decision:
    """Send for a longer list of documents to be forgotten where that helps.

    Say which limit this list can show.
    """
    if decision.cause == "uncovered":
        return replace(decision, remedy=TEXTS["list_copies"])
    least = forgotten.shown.get(decision.limit.metric, 0.0)
    if least and (decision.cause == "wide" or least > (decision.limit.max or 0.0)):
        reason = TEXTS["margin"].format(
            reason=decision.reason, least=least, sides=record.corpus.documents
        )
        decision = replace(decision, reason=reason, remedy=TEXTS["list_more_or_limit"])
    result = record.completed.get(decision.limit.attack)
    # No limit of an own policy strengthens the blind check.
    if decision.cause == "confounded" and result is not None and result.unvouched:
        return replace(decision, remedy=TEXTS["list_more"])
    return decision


def over_limit(limit: Limit, methods: Mapping[str, Estimate]) -> Estimate | None:
    """Return the number whose whole interval lies over the limit, the farthest.

    None where there is none.
    """
    beyond = {name: _beyond(limit, measured) for name, measured in methods.items()}
    name = max(beyond, key=lambda name: beyond[name])
    return methods[name] if beyond[name] > 0 else None


def _beyond(limit: Limit, measured: Estimate) -> float:
    if limit.max is None:
        return (limit.min or 0.0) - measured.high
    return max(
        measured.low - limit.max, 1 - limit.max - measured.high if measured.is_area else -math.inf
    )


def not_confirmed(limit: Limit, result: Result, p_value: float, level: float) -> Reason:
    """Say that an interval lies over its limit, and that this is not significant among all limits.

    Args:
        limit: that it is held against.
        result: of its attack, whose alarm is named first.
        p_value: against the limit, after Holm's rule.
        level: family-wise level.
    """
    reason = TEXTS["not_confirmed"].format(p=p_value, level=level)
    alarm = _checked(limit, result)
    if alarm is not None and alarm[2] == "alarm":
        return f"{alarm[0]}; {reason}", alarm[1], alarm[2]
    return reason, MORE, "wide"


def power_of(result: Result) -> Estimate | None:
    """Return the attacker's strength, as the attack measured it.

    None when it has no such number.
    """
    power = next((item for item in result.measurements if item.name == result.power), None)
    return power if isinstance(power, Estimate) else None


def not_useful(record: AuditRecord) -> str | None:
    """Explain that the model does not do its task, so that its silence says nothing.

    None when it does.
    """
    if not record.utility:
        return "the model's accuracy was not measured: it may leak nothing because it does nothing"
    for item in record.utility:
        name = f"held-out {item.name.replace('_', ' ')}"
        if isinstance(item, Unresolved):
            return f"the model's accuracy could not be measured ({name}: {item.reason})"
        if item.null is not None and item.low <= item.null:
            return TEXTS["does_not_answer"].format(name=name, item=item)
    return None


def against_model(record: AuditRecord, attack: str) -> Reason | None:
    """Reason of the whole scan against a pass of any limit on this attack.

    None when there is none.
    """
    alarms = [
        check
        for check in record.checks
        if check.cause == "alarm" and check.concerns(attack) and fires(check)
    ]
    # A model fails at its task where pages are written otherwise than in training: the cause is
    # named first.
    alarm = next((check for check in alarms if check.name == WAY_OF_WRITING), None)
    if alarm is None:
        useless = not_useful(record)
        if useless is not None:
            return useless, ASK_ALIKE, "useless"
        alarm = next(iter(alarms), None)
    if alarm is not None:
        return alarm.reason, alarm.remedy, "alarm"
    return too_much_unread(record.corpus)


def against_attack(record: AuditRecord, limit: Limit, result: Result) -> Reason | None:
    """Reason against a pass of a limit: of the model, or a condition that is not shown.

    None when there is none.

    A check that fires says more than a condition that nothing shows, and is named in its place.
    """
    whole = against_model(record, limit.attack)
    if whole is not None or against_pass(result, limit.metric) is not None:
        return whole
    condition = missing_condition(record, limit.attack)
    if condition is None:
        return None
    if condition.state == "unmeasured":
        return condition.reason, condition.remedy, "unmeasured"
    return condition.reason, condition.remedy, "weak"


def hindrance(
    limit: Limit, result: Result, methods: Mapping[str, Estimate], whole: Reason | None
) -> Reason | None:
    """Reason against a pass, whatever the interval; None when there is none.

    Args:
        limit: which is not violated.
        result: of its attack.
        methods: the measurements that it is held against.
        whole: see `against_attack`; None for findings about the documents' own text.
    """
    if result.ablations:
        return f"the attacker was weakened: {', '.join(result.ablations)}", AGAIN, "weakened"
    return (
        _too_weak(limit, result)
        or whole
        or _checked(limit, result)
        or _covers_little(limit, result)
    )


def crosses(limit: Limit, worst: Estimate) -> Reason:
    """Say that a number is too wide to be within its limit.

    Args:
        limit: that it is held against.
        worst: of its methods, the one that reaches farthest.
    """
    remedy = MORE_PROVIDERS if worst.unit == "providers" else MORE
    if limit.holds == "estimate":
        return TEXTS["count_over"].format(range=count_range(worst)), remedy, "wide"
    return "the interval crosses the limit", remedy, "wide"


def within(limit: Limit, result: Result, worst: Estimate) -> str:
    """Explain that a limit is met, by what, and on which part of what could leak.

    Args:
        limit: that is met.
        result: of its attack.
        worst: of its methods, the one that reaches farthest.
    """
    words = what_is_within(limit, worst)
    overall = next((item for item in result.coverage if item.category == "all"), None)
    if overall is None:
        return words
    unit = (
        f"{overall.unit} in training documents"
        if overall.unit != "documents"
        else "training documents"
    )
    words += f", for {overall.behind(limit.metric):,} of {overall.total:,} {unit}"
    counts = [
        (item, item.behind(limit.metric)) for item in result.coverage if item.category != "all"
    ]
    short = [(item, behind) for item, behind in counts if behind < LITTLE * item.total]
    little = [f"{behind:,} of {item.total:,} of category {item.category}" for item, behind in short]
    return f"{words}; only {', '.join(little)}" if little else words


def what_is_within(limit: Limit, worst: Estimate) -> str:
    """Say which number lies within a limit that is met, see `within`."""
    if limit.holds == "estimate":
        return TEXTS["count_within"].format(range=count_range(worst))
    bound = worst.pass_bound
    numbers = {"level": 100 * (1 - bound.alpha), "lower": bound.lower, "upper": bound.upper}
    if worst.is_area:
        return TEXTS["bounds_within"].format(**numbers)
    return TEXTS["upper_within" if limit.max is not None else "lower_within"].format(**numbers)


def _too_weak(limit: Limit, result: Result) -> Reason | None:
    if limit.min_power is None:
        return None
    power, stronger = power_of(result), _STRONGER.get(result.power or "", STRONGER)
    if power is None:
        return "the attacker may be too weak: its strength could not be measured", stronger, "weak"
    if power.value >= limit.min_power:
        return None
    name = power.name.replace("_", " ") if power.name in _STRONGER else "power"
    reason = f"the attacker is too weak: {name} {power.value:.2f}; the policy asks for {limit.min_power:.2f}"
    return reason, stronger, "weak"


def _checked(limit: Limit, result: Result) -> Reason | None:
    check = against_pass(result, limit.metric)
    if check is None:
        return None
    return check.reason, check.remedy, "alarm" if check.cause == "alarm" else "confounded"


def _covers_little(limit: Limit, result: Result) -> Reason | None:
    for wanted, places in (
        (limit.min_coverage, [item for item in result.coverage if item.category == "all"]),
        (limit.min_category_coverage, [item for item in result.coverage if item.category != "all"]),
    ):
        if wanted is None:
            continue
        if not places:
            return (
                "the record does not say how many possible leaks were tried",
                "run the scan again",
                "uncovered",
            )
        short = [item for item in places if item.behind(limit.metric) < wanted * item.total]
        if short:
            tried = ", ".join(
                f"{one.category}: {one.behind(limit.metric)} of {one.total} {one.unit}"
                for one in short
            )
            reason = (
                f"too few possible leaks were tried ({tried}); the policy asks for {wanted:.0%}"
            )
            return reason, MORE_OF_THEM, "uncovered"
    return None
