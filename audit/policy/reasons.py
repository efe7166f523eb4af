"""The sentences of findings: on what ground a limit was decided, and what would decide it.

The one room where they are written; nothing is decided here.
"""

from collections.abc import Callable, Sequence

from audit.errors import listed
from audit.measurements import Check, Condition, Count, Coverage, Estimate, Unresolved
from audit.policy.checks import below_chance
from audit.policy.decision import Decision, count_range
from audit.policy.facts import NOT_RUN
from audit.policy.findings import Finding, LeftOut, OtherAttacks, Shortfall
from audit.policy.grounds import Ground, Remedy
from audit.policy.limits import TEXTS, Limit
from audit.record import SIGNIFICANCE, Reason, Result

MORE = "add documents to the data set, as docaudit plan counts them, and scan again"
"""What helps where all that the data set holds was tried; `Remedy.ALL` where it was not."""
CONFIRMED = "the leak above the limit is confirmed"
LITTLE = 0.25
"""Share of a category's values under which a pass names the category."""
REMEDIES: dict[Remedy, str] = {
    Remedy.AS_IN_BASELINE: "measure it as in the baseline, or choose another baseline",
    Remedy.ASK_ALIKE: TEXTS["ask_alike"],
    Remedy.AUDIT_WEIGHTS: TEXTS["audit_weights"],
    Remedy.CHECK_SIDES: TEXTS["check_sides"],
    Remedy.FIT_ALIKE: TEXTS["fit_alike"],
    Remedy.GIVE_BASELINE: TEXTS["give_baseline"],
    Remedy.LIST_COPIES: TEXTS["list_copies"],
    Remedy.LIST_MORE: TEXTS["list_more"],
    Remedy.LIST_MORE_OR_LIMIT: TEXTS["list_more_or_limit"],
    Remedy.MEASURABLE: TEXTS["measurable"],
    Remedy.MORE: MORE,
    Remedy.MORE_OF_THEM: "attack more values: --budget full",
    Remedy.MORE_PROVIDERS: "audit more providers, as docaudit plan counts them",
    Remedy.NO_HELDOUT: TEXTS["no_heldout"],
    Remedy.NO_OTHER_ATTACK: TEXTS["no_other_attack"],
    Remedy.OTHER_DOCUMENTS: TEXTS["other_documents"],
    Remedy.REPORT_FAILURE: "report this failure with the record",
    Remedy.RUN_AGAIN: "run the scan again",
    Remedy.SCAN_WITH_THIS_VERSION: "scan again with this version",
    Remedy.SPLIT_MODELS: TEXTS["split_models"].format(more=MORE),
    Remedy.STATE_RULE: TEXTS["state_rule"],
    Remedy.STRENGTHEN: TEXTS["strengthen"],
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
        ground=finding.ground,
        remedy_id=finding.remedy_id,
        urgency=finding.urgency,
    )


def _restated(finding: Finding) -> str:
    """Return the beginning of a reason that only repeats outcome and bounds; empty for others."""
    if finding.ground is Ground.CONFIRMED:
        return CONFIRMED
    if finding.ground is Ground.WITHIN:
        return what_is_within(finding.facts.limit, _measured_estimate(finding))
    return ""


def reason_of(finding: Finding) -> str:
    """Say in one sentence on what ground a limit was decided."""
    reason = _reason_sentence(finding)
    if finding.also is not None:
        reason = f"{reason}; {reason_of(finding.also)}"
    if finding.least is not None:
        documents = finding.facts.record.corpus.documents
        reason = TEXTS["margin"].format(reason=reason, least=finding.least, sides=documents)
    if finding.demand is not None:
        reason = f"{reason}; {finding.demand.sentence}"
    return reason


def _reason_sentence(finding: Finding) -> str:
    """Return the sentence of a finding's ground: a fixed one, or the one its writer makes."""
    if finding.ground in SENTENCES:
        return SENTENCES[finding.ground]
    return WRITERS[finding.ground](finding)


def rerun_without(options: Sequence[str]) -> str:
    """Say without which options a scan tries all that the data set holds."""
    return f"rerun without {listed(options, 'and')}"


def remedy_of(finding: Finding) -> str:
    """Say what would decide a limit; empty of one that is decided."""
    match finding.remedy_id:
        case None:
            return ""
        case Remedy.OF_ATTACK:
            return _why_not_run(finding).fix
        case Remedy.OF_RECORD:
            return _quoted_check_or_condition(finding.also or finding).remedy
        case Remedy.OTHER_ATTACK:
            names = " or ".join(finding.quoted(OtherAttacks).names)
            return TEXTS["other_attack"].format(attacks=names)
        case Remedy.ALL:
            return rerun_without(finding.facts.record.limiting_options(finding.facts.limit.attack))
    return REMEDIES[finding.remedy_id]


def _quoted_check_or_condition(finding: Finding) -> Check | Condition:
    """Return the check or condition whose reason a finding quotes."""
    assert isinstance(finding.source, Check | Condition)
    return finding.source


# Of attacks that gave no number.


def _why_not_run(finding: Finding) -> Reason:
    """Return the stated reason why the attack of a finding did not run."""
    reason = finding.facts.result.reason
    assert reason is not None
    return reason


def _failed_attack_reason(finding: Finding) -> str:
    """Say that the attack failed, and why."""
    return f"the attack failed ({_why_not_run(finding).why})"


def _skipped_attack_reason(finding: Finding) -> str:
    """Say that the attack was skipped, and why."""
    return f"skipped: {_why_not_run(finding).why}"


def _no_data_reason(finding: Finding) -> str:
    """Say that the attack was not run for lack of data, and which data it lacks."""
    return f"{NOT_RUN}: {_why_not_run(finding).why}"


def _stated_reason(finding: Finding) -> str:
    """Return the words of the record on why the attack was not run."""
    return _why_not_run(finding).why


def _inapplicable_reason(finding: Finding) -> str:
    """Say why the attack, or its number, does not apply to this model."""
    number = finding.facts.number
    if isinstance(number, Unresolved):
        return number.reason
    return _why_not_run(finding).why


def _unpermitted_gap_reason(finding: Finding) -> str:
    """Say that the attack does not apply to this model, and that the policy permits no such gap."""
    gap = "the attack does not apply to this model, and the policy permits no such gap"
    return f"{gap}: {_inapplicable_reason(finding)}"


# Of numbers that could not be had, or that no model could exceed.


def _cannot_exceed(finding: Finding) -> str:
    """Say that there are too few units for their count to exceed the limit."""
    number = finding.facts.number
    assert isinstance(number, Estimate)
    total = number.n
    if number.total is not None:
        total = number.total
    most = finding.facts.limit.max
    return f"there are only {total} {number.unit}: the count cannot exceed {most:g}"


def _unresolved_number(finding: Finding) -> Unresolved:
    """Return the number of a finding, which is one that could not be measured."""
    number = finding.facts.number
    assert isinstance(number, Unresolved)
    return number


def _no_units(finding: Finding) -> str:
    """Say why a number could not be measured, how many units it has, and which were left out."""
    number = _unresolved_number(finding)
    return f"{number.reason} (n = {number.n}){_left_out_units(finding)}"


def _few_units(finding: Finding) -> str:
    """Say that a number has too few units, how many it needs, and which were left out."""
    number = _unresolved_number(finding)
    few = f"{number.reason} (n = {number.n}; {number.needed} needed)"
    return f"{few}{_left_out_units(finding)}"


def _untried_units(finding: Finding) -> str:
    """Say that a number has too few units among those that were tried."""
    return f"{_few_units(finding)}, among those tried"


def _left_out_units(finding: Finding) -> str:
    """Say in a clause which units were left out; empty where the finding quotes none."""
    count = finding.source
    if not isinstance(count, Count):
        return ""
    return f"; left out: {count.value} {count.meaning}"


# Of estimates.


def _confounded_reason(finding: Finding) -> str:
    """Return the record's words on what else than memory explains the attack's numbers."""
    confounded = finding.facts.confounded
    assert confounded is not None
    return confounded


def _below_chance(finding: Finding) -> str:
    """Say that the model knows the unseen side better, and how far the area is from chance."""
    is_forgotten = finding.facts.record.corpus.forgotten is not None
    return below_chance(_measured_estimate(finding), is_forgotten=is_forgotten)


def _confirmed_below_chance(finding: Finding) -> str:
    """Say the same of a leak that is confirmed over the mirrored limit."""
    return f"{_below_chance(finding)}; {CONFIRMED}"


def _swapped_sides_reason(finding: Finding) -> str:
    """Say that the model knows the unseen side better, and whether that lies over the limit."""
    if finding.facts.over is None:
        return _below_chance(finding)
    return f"{_below_chance(finding)}; {_insignificance(finding)}"


def _insignificance(finding: Finding) -> str:
    """Say that a leak over the limit is not significant among all limits, with its p-value."""
    return TEXTS["not_confirmed"].format(p=finding.p_value, level=SIGNIFICANCE)


def _not_confirmed(finding: Finding) -> str:
    """Say that a leak over the limit is not confirmed, and the alarm of its attack where it has."""
    reason = _insignificance(finding)
    if finding.source is None:
        return reason
    return f"{finding.quoted(Check).reason}; {reason}"


def _weakened_attacker_reason(finding: Finding) -> str:
    """Say that the attacker was weakened, and by which ablations."""
    return f"the attacker was weakened: {', '.join(finding.facts.result.ablations)}"


def _weak_attacker_reason(finding: Finding) -> str:
    """Say that the attacker is too weak: its strength, and what the policy asks for."""
    power = finding.facts.power
    assert power is not None
    name = "power"
    if power.name in _POWERS:
        name = power.name.replace("_", " ")
    least = finding.facts.limit.min_power
    weak = f"the attacker is too weak: {name} {power.value:.2f}"
    return f"{weak}; the policy asks for {least:.2f}"


def _unresolved_usefulness(finding: Finding) -> str:
    """Say that the model's accuracy could not be measured, and why."""
    item = finding.quoted(Unresolved)
    name = _name_of_usefulness(item.name)
    return f"the model's accuracy could not be measured ({name}: {item.reason})"


def _useless_model_reason(finding: Finding) -> str:
    """Say that the model does not do its task: its held-out score beside the commonest answer's."""
    return useless_sentence(finding.quoted(Estimate))


def useless_sentence(item: Estimate) -> str:
    """Say that a model does its task no better than the commonest answer would."""
    return TEXTS["does_not_answer"].format(name=_name_of_usefulness(item.name), item=item)


def _name_of_usefulness(name: str) -> str:
    """Write the name of a measure of usefulness in words: "held-out field accuracy"."""
    return f"held-out {name.replace('_', ' ')}"


def _check_or_condition(finding: Finding) -> str:
    """Return the reason that the quoted check or condition gives."""
    return _quoted_check_or_condition(finding).reason


def _left_out_reason(finding: Finding) -> str:
    """Say how many units of one side were left out, and how many the policy allows."""
    left_out = finding.quoted(LeftOut)
    return TEXTS["left_out"].format(
        gone=left_out.gone,
        total=left_out.total,
        title=_SIDES[left_out.side],
        unit=left_out.unit,
        most=left_out.most,
    )


def _low_coverage_reason(finding: Finding) -> str:
    """Say how few possible leaks were tried in each category, and what the policy asks for."""
    shortfall = finding.quoted(Shortfall)
    metric = finding.facts.limit.metric
    places = [
        f"{item.category}: {item.behind(metric)} of {item.total} {item.unit}"
        for item in shortfall.places
    ]
    few = f"too few possible leaks were tried ({', '.join(places)})"
    return f"{few}; the policy asks for {shortfall.share:.0%}"


def _crossing_interval_reason(finding: Finding) -> str:
    """Say that the interval crosses the limit; of a count, what it shows and does not exclude."""
    if finding.facts.limit.holds != "estimate":
        return "the interval crosses the limit"
    return TEXTS["count_over"].format(range=count_range(_measured_estimate(finding)))


def _measured_estimate(finding: Finding) -> Estimate:
    """Return the estimate that a finding rests on."""
    assert finding.measured is not None
    return finding.measured


def _met_limit_reason(finding: Finding) -> str:
    """Say which number lies within a limit that is met, and on which part of the possible leaks."""
    limit = finding.facts.limit
    words = what_is_within(limit, _measured_estimate(finding))
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
    """Test whether only a small share of one category's possible leaks lies behind a metric."""
    return item.category != "all" and item.behind(metric) < LITTLE * item.total


WRITERS: dict[Ground, Callable[[Finding], str]] = {
    Ground.FAILED: _failed_attack_reason,
    Ground.SKIPPED: _skipped_attack_reason,
    Ground.NO_DATA: _no_data_reason,
    Ground.NOT_RUN: _stated_reason,
    Ground.INAPPLICABLE: _inapplicable_reason,
    Ground.GAP: _unpermitted_gap_reason,
    Ground.CANNOT_EXCEED: _cannot_exceed,
    Ground.NO_UNITS: _no_units,
    Ground.UNTRIED_UNITS: _untried_units,
    Ground.FEW_UNITS: _few_units,
    Ground.CONFIRMED_MIRRORED: _confirmed_below_chance,
    Ground.CONFOUNDED: _confounded_reason,
    Ground.SWAPPED: _swapped_sides_reason,
    Ground.NOT_CONFIRMED: _not_confirmed,
    Ground.WEAKENED: _weakened_attacker_reason,
    Ground.WEAK: _weak_attacker_reason,
    Ground.UNRESOLVED_USEFULNESS: _unresolved_usefulness,
    Ground.USELESS: _useless_model_reason,
    Ground.CHECK: _check_or_condition,
    Ground.CONDITION: _check_or_condition,
    Ground.LEFT_OUT: _left_out_reason,
    Ground.UNCOVERED: _low_coverage_reason,
    Ground.WITHIN: _met_limit_reason,
    Ground.CROSSES: _crossing_interval_reason,
}
"""What writes the sentence of a ground that quotes the record."""
