"""The sentences of findings: on what ground a limit was decided, and what would decide it.

The one room where they are written; nothing is decided here.
"""

from collections.abc import Callable

from audit.measurements import Check, Condition, Count, Coverage, Estimate, Unresolved
from audit.policy.checks import AGAIN
from audit.policy.decision import Decision, count_range
from audit.policy.facts import NOT_RUN
from audit.policy.findings import Finding, Ground, LeftOut, OtherAttacks, Remedy, Shortfall
from audit.policy.limits import TEXTS, Limit
from audit.record import SIGNIFICANCE, Reason, Result

MORE = "audit more documents"
NO_HELDOUT = TEXTS["no_heldout"]
ALL = "rerun without --documents, --time or --budget quick"
CONFIRMED = "the leak above the limit is confirmed"
LITTLE = 0.25
"""Share of a category's values under which a pass names the category."""
REMEDIES: dict[Remedy, str] = {
    Remedy.AGAIN: AGAIN,
    Remedy.ALL: ALL,
    Remedy.ASK_ALIKE: "ask the model as in training, and scan again",
    Remedy.AUDIT_WEIGHTS: TEXTS["audit_weights"],
    Remedy.GIVE_BASELINE: TEXTS["give_baseline"],
    Remedy.LIST_COPIES: TEXTS["list_copies"],
    Remedy.LIST_MORE: TEXTS["list_more"],
    Remedy.LIST_MORE_OR_LIMIT: TEXTS["list_more_or_limit"],
    Remedy.MORE: MORE,
    Remedy.MORE_OF_THEM: "attack more values: --budget full",
    Remedy.MORE_PROVIDERS: "audit more providers, as docaudit plan counts them",
    Remedy.NO_HELDOUT: NO_HELDOUT,
    Remedy.NO_OTHER_ATTACK: TEXTS["no_other_attack"],
    Remedy.REPORT_FAILURE: "report this failure with the record",
    Remedy.RUN_AGAIN: "run the scan again",
    Remedy.SCAN_WITH_THIS_VERSION: "scan again with this version",
    Remedy.SPLIT_MODELS: TEXTS["split_models"].format(more=MORE),
    Remedy.STATE_RULE: TEXTS["state_rule"].format(more=MORE),
    Remedy.STRONGER: "use a stronger attacker: --budget full, or a better public model",
    Remedy.STRONGER_REFERENCE: TEXTS["stronger_reference"],
    Remedy.TRAIN_SPLITS: TEXTS["train_splits"],
    Remedy.TRAINING_LABELS: "audit the model with its training labels and answers",
}
"""Remedies that are the same whatever the record."""
SENTENCES: dict[Ground, str] = {
    Ground.UNKNOWN_ATTACK: "the docaudit version of this record had no such attack",
    Ground.NO_NUMBER: "the record lacks this number",
    Ground.CONFIRMED: CONFIRMED,
    Ground.CONFIRMED_MIRRORED: f"the documents have the opposite sign: {CONFIRMED}",
    Ground.UNMEASURED_POWER: ("the attacker may be too weak: its strength could not be measured"),
    Ground.UNMEASURED_USEFULNESS: (
        "the model's accuracy was not measured: it may leak nothing because it does nothing"
    ),
    Ground.UNKNOWN_COVERAGE: "the record does not say how many possible leaks were tried",
}
"""Sentences that are the same whatever the record; `WRITERS` has the others."""
_SIDES = {"member": "member", "heldout": "held-out"}
_POWERS = ("reference_power",)
"""Measures of power that a sentence names; of others it says "power"."""


def write_decision(finding: Finding) -> Decision:
    """Return the decision of a finding, in words."""
    facts = finding.facts
    power = None
    if finding.measured is not None:
        power = facts.power
    return Decision(
        facts.limit,
        finding.outcome,
        reason_of(finding),
        remedy_of(finding),
        finding.measured,
        power,
        finding.p_value,
        about_text=facts.about_text,
        cause=finding.cause,
        restates=_restated(finding),
    )


def _restated(finding: Finding) -> str:
    """Return the beginning of a reason that says no more than outcome and bounds."""
    if finding.ground is Ground.CONFIRMED:
        return CONFIRMED
    if finding.ground is Ground.WITHIN:
        return what_is_within(finding.facts.limit, _measured(finding))
    return ""


def reason_of(finding: Finding) -> str:
    """Say in one sentence on what ground a limit was decided."""
    reason = _sentence(finding)
    if finding.also is not None:
        reason = f"{reason}; {reason_of(finding.also)}"
    if finding.least is not None:
        documents = finding.facts.record.corpus.documents
        reason = TEXTS["margin"].format(reason=reason, least=finding.least, sides=documents)
    if finding.demand is not None:
        reason = f"{reason}; {finding.demand.sentence}"
    return reason


def _sentence(finding: Finding) -> str:
    if finding.ground in SENTENCES:
        return SENTENCES[finding.ground]
    return WRITERS[finding.ground](finding)


def remedy_of(finding: Finding) -> str:
    """Say what would decide a limit; empty of one that is decided."""
    match finding.remedy:
        case None:
            return ""
        case Remedy.OF_ATTACK:
            return _why_not_run(finding).fix
        case Remedy.OF_RECORD:
            return _speaker(finding.also or finding).remedy
        case Remedy.OTHER_ATTACK:
            names = " or ".join(finding.quoted(OtherAttacks).names)
            return TEXTS["other_attack"].format(attacks=names)
    return REMEDIES[finding.remedy]


def _speaker(finding: Finding) -> Check | Condition:
    """Return the check or condition that a finding quotes."""
    assert isinstance(finding.source, Check | Condition)
    return finding.source


# Of attacks that gave no number.


def _why_not_run(finding: Finding) -> Reason:
    reason = finding.facts.result.reason
    assert reason is not None
    return reason


def _failed(finding: Finding) -> str:
    return f"the attack failed ({_why_not_run(finding).why})"


def _skipped(finding: Finding) -> str:
    return f"skipped: {_why_not_run(finding).why}"


def _no_data(finding: Finding) -> str:
    return f"{NOT_RUN}: {_why_not_run(finding).why}"


def _not_run(finding: Finding) -> str:
    return _why_not_run(finding).why


def _inapplicable(finding: Finding) -> str:
    number = finding.facts.number
    if isinstance(number, Unresolved):
        return number.reason
    return _why_not_run(finding).why


def _gap(finding: Finding) -> str:
    gap = "the attack does not apply to this model, and the policy permits no such gap"
    return f"{gap}: {_inapplicable(finding)}"


# Of numbers that could not be had, or that no model could exceed.


def _cannot_exceed(finding: Finding) -> str:
    number = finding.facts.number
    assert isinstance(number, Estimate)
    total = number.n
    if number.total is not None:
        total = number.total
    most = finding.facts.limit.max
    return f"there are only {total} {number.unit}: the count cannot exceed {most:g}"


def _unresolved(finding: Finding) -> Unresolved:
    number = finding.facts.number
    assert isinstance(number, Unresolved)
    return number


def _no_units(finding: Finding) -> str:
    number = _unresolved(finding)
    return f"{number.reason} (n = {number.n}){_left_out_units(finding)}"


def _few_units(finding: Finding) -> str:
    number = _unresolved(finding)
    few = f"{number.reason} (n = {number.n}; {number.needed} needed)"
    return f"{few}{_left_out_units(finding)}"


def _untried_units(finding: Finding) -> str:
    return f"{_few_units(finding)}, among those tried"


def _left_out_units(finding: Finding) -> str:
    """Say in a clause which units were left out; empty where the finding quotes none."""
    count = finding.source
    if not isinstance(count, Count):
        return ""
    return f"; left out: {count.value} {count.meaning}"


# Of estimates.


def _confounded(finding: Finding) -> str:
    confounded = finding.facts.result.confounded
    assert confounded is not None
    return confounded


def _not_confirmed(finding: Finding) -> str:
    reason = TEXTS["not_confirmed"].format(p=finding.p_value, level=SIGNIFICANCE)
    if finding.source is None:
        return reason
    return f"{finding.quoted(Check).reason}; {reason}"


def _weakened(finding: Finding) -> str:
    return f"the attacker was weakened: {', '.join(finding.facts.result.ablations)}"


def _weak(finding: Finding) -> str:
    power = finding.facts.power
    assert power is not None
    name = "power"
    if power.name in _POWERS:
        name = power.name.replace("_", " ")
    least = finding.facts.limit.min_power
    weak = f"the attacker is too weak: {name} {power.value:.2f}"
    return f"{weak}; the policy asks for {least:.2f}"


def _unresolved_usefulness(finding: Finding) -> str:
    item = finding.quoted(Unresolved)
    name = _name_of_usefulness(item.name)
    return f"the model's accuracy could not be measured ({name}: {item.reason})"


def _useless(finding: Finding) -> str:
    item = finding.quoted(Estimate)
    return TEXTS["does_not_answer"].format(name=_name_of_usefulness(item.name), item=item)


def _name_of_usefulness(name: str) -> str:
    return f"held-out {name.replace('_', ' ')}"


def _check_or_condition(finding: Finding) -> str:
    return _speaker(finding).reason


def _left_out(finding: Finding) -> str:
    left_out = finding.quoted(LeftOut)
    return TEXTS["left_out"].format(
        gone=left_out.gone,
        total=left_out.total,
        title=_SIDES[left_out.side],
        unit=left_out.unit,
        most=left_out.most,
    )


def _uncovered(finding: Finding) -> str:
    shortfall = finding.quoted(Shortfall)
    metric = finding.facts.limit.metric
    places = [
        f"{item.category}: {item.behind(metric)} of {item.total} {item.unit}"
        for item in shortfall.places
    ]
    few = f"too few possible leaks were tried ({', '.join(places)})"
    return f"{few}; the policy asks for {shortfall.share:.0%}"


def _crosses(finding: Finding) -> str:
    if finding.facts.limit.holds != "estimate":
        return "the interval crosses the limit"
    return TEXTS["count_over"].format(range=count_range(_measured(finding)))


def _measured(finding: Finding) -> Estimate:
    assert finding.measured is not None
    return finding.measured


def _within(finding: Finding) -> str:
    limit = finding.facts.limit
    words = what_is_within(limit, _measured(finding))
    return f"{words}{_coverage_clause(limit, finding.facts.result)}"


def what_is_within(limit: Limit, worst: Estimate) -> str:
    """Say which number lies within a limit that is met.

    Args:
        limit: limit that is met.
        worst: estimate of the method that reaches farthest.
    """
    if limit.holds == "estimate":
        return TEXTS["count_within"].format(range=count_range(worst))
    bound = worst.pass_bound
    template = TEXTS["lower_within"]
    if worst.is_area:
        template = TEXTS["bounds_within"]
    elif limit.max is not None:
        template = TEXTS["upper_within"]
    level = 100 * (1 - bound.alpha)
    return template.format(level=level, lower=bound.lower, upper=bound.upper)


def _coverage_clause(limit: Limit, result: Result) -> str:
    """Say on which part of what could leak a met limit rests; empty where nothing says so."""
    overall = next((item for item in result.coverage if item.category == "all"), None)
    if overall is None:
        return ""
    unit = "training documents"
    if overall.unit != "documents":
        unit = f"{overall.unit} in training documents"
    clause = f", for {overall.behind(limit.metric):,} of {overall.total:,} {unit}"
    little = [
        f"{item.behind(limit.metric):,} of {item.total:,} of category {item.category}"
        for item in result.coverage
        if _is_little(item, limit.metric)
    ]
    if not little:
        return clause
    return f"{clause}; only {', '.join(little)}"


def _is_little(item: Coverage, metric: str) -> bool:
    return item.category != "all" and item.behind(metric) < LITTLE * item.total


WRITERS: dict[Ground, Callable[[Finding], str]] = {
    Ground.FAILED: _failed,
    Ground.SKIPPED: _skipped,
    Ground.NO_DATA: _no_data,
    Ground.NOT_RUN: _not_run,
    Ground.INAPPLICABLE: _inapplicable,
    Ground.GAP: _gap,
    Ground.CANNOT_EXCEED: _cannot_exceed,
    Ground.NO_UNITS: _no_units,
    Ground.UNTRIED_UNITS: _untried_units,
    Ground.FEW_UNITS: _few_units,
    Ground.CONFOUNDED: _confounded,
    Ground.NOT_CONFIRMED: _not_confirmed,
    Ground.WEAKENED: _weakened,
    Ground.WEAK: _weak,
    Ground.UNRESOLVED_USEFULNESS: _unresolved_usefulness,
    Ground.USELESS: _useless,
    Ground.CHECK: _check_or_condition,
    Ground.CONDITION: _check_or_condition,
    Ground.LEFT_OUT: _left_out,
    Ground.UNCOVERED: _uncovered,
    Ground.WITHIN: _within,
    Ground.CROSSES: _crosses,
}
"""What writes the sentence of a ground that quotes the record."""
