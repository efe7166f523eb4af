"""Checks that can only leave limits undecided, and gaps in what a scan attacked.

All checks of a scan share one false-positive rate of 5 %.

Method: methods/checks.md#error-rate. A scan of a model that leaks nothing, on data that are as
declared, is left undecided by its checks in at most 5 % of audits, however many checks it makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic.dataclasses import dataclass

from audit.measurements import CHECKS_ALPHA, STRICT, Check, Control, Estimate
from audit.policy.limits import TEXTS, Limit
from audit.record import AuditRecord, Result
from audit.stats.p_values import holm

LEVEL = CHECKS_ALPHA
"""Family-wise false-positive rate of all checks of a scan."""
BLIND = "blind"
"""The name of the check of whether the two sides can be told apart without the model."""
_WRONG_SIDE = "wrong side"
UNDER_CHANCE = "under chance"
"""The name of the check of an area that lies far under chance."""
WRONG_SIDES = (_WRONG_SIDE, UNDER_CHANCE)
"""The names of the checks of numbers on the wrong side of their null."""
_ONE_SIDED = ("held-out", "chance")
"""Kinds of nulls that neither a leak nor chance puts a number far below."""
_Identity = tuple[str, ...]
"""What tells one test from another: attack and check, or the sentence of a blind check."""


@dataclass(frozen=True, config=STRICT)
class SettledRecord:
    """A record whose checks are settled by the limits of one policy; `settle` makes it.

    What the attacks themselves measured and said stays in the record. So a record that is settled
    again, by other limits, gives what it would have given before.

    Attributes:
        record: copy of the record, with adjusted p-values and the checks of wrong sides.
        confounding: by attack, the first check that fires and can explain its numbers; without
            attacks that no such check concerns.
    """

    record: AuditRecord
    confounding: dict[str, Check]

    def confounded(self, attack: str) -> str | None:
        """Return what else than memory can explain the numbers of an attack; None: nothing.

        Records of older versions hold the sentence of a check as the attack's own words. Which
        words it replaced is not known, and so it stands even where the check does not fire.
        """
        check = self.confounding.get(attack)
        if check is not None:
            return check.reason
        result = self.record.results.get(attack)
        if result is None:
            return None
        return result.confounded

    def is_unvouched(self, attack: str) -> bool:
        """Tell whether nothing but a blind check over too few units confounds an attack."""
        if attack in self.confounding:
            return False
        result = self.record.results.get(attack)
        if result is None:
            return False
        return result.unvouched


def settle(record: AuditRecord, limits: Sequence[Limit]) -> SettledRecord:
    """Adjust the p-values of all checks of a scan, and find the attacks that one confounds.

    Args:
        record: with the checks that attacks made, settled before by any limits or not.
        limits: a number on the wrong side of its null is looked for among the metrics that these
            limit.
    """
    is_forgotten = record.corpus.forgotten is not None
    results = [
        _with_wrong_side(result, limits, is_forgotten=is_forgotten) for result in record.attacks
    ]
    adjusted = _adjust(record.checks, results)
    of_scan = _with_adjusted("", record.checks, adjusted)
    attacks = []
    confounding = {}
    for result in results:
        checks = _with_adjusted(result.attack, result.checks, adjusted)
        attacks.append(replace(result, checks=checks))
        fired = _confounding_checks(attacks[-1], of_scan)
        if fired:
            confounding[result.attack] = fired[0]
    return SettledRecord(replace(record, attacks=tuple(attacks), checks=of_scan), confounding)


def _adjust(of_scan: Sequence[Check], results: Sequence[Result]) -> dict[_Identity, float]:
    """Adjust the p-values of all checks by Holm's weighted rule, each test counted once."""
    # Several attacks compare the same documents: their blind check is one test.
    distinct: dict[_Identity, Check] = {}
    for result in results:
        for check in result.checks:
            distinct[_identity(result.attack, check)] = check
    for check in of_scan:
        distinct[_identity("", check)] = check
    p_values = {key: check.p_value for key, check in distinct.items()}
    weights = {key: check.weight for key, check in distinct.items()}
    return holm(p_values, weights)


def _identity(attack: str, check: Check) -> _Identity:
    """Return what two checks of one test share, so that the test is adjusted once."""
    if check.name == BLIND:
        return check.name, check.reason
    return attack, check.name


def _with_adjusted(
    attack: str, checks: Sequence[Check], adjusted: Mapping[_Identity, float]
) -> tuple[Check, ...]:
    """Return checks with their adjusted p-values; `attack` is empty for those of the scan."""
    return tuple(replace(check, p_adjusted=adjusted[_identity(attack, check)]) for check in checks)


def _confounding_checks(result: Result, of_scan: Sequence[Check]) -> list[Check]:
    """List the checks of an attack, then of the scan, that fire and can explain its numbers."""
    concerning = [check for check in of_scan if check.concerns(result.attack)]
    return [
        check
        for check in (*result.checks, *concerning)
        if check.cause == "confounded" and check.fires
    ]


def p_explained(
    settled: SettledRecord,
    result: Result,
    measured: Estimate,
    limit: float,
    *,
    mirrored: bool = False,
) -> float:
    """Return a one-sided p-value against "something other than memory explains the excess".

    The excess is what lies over the limit. 0 where nothing speaks for such an explanation, or only
    checks that spare the measurement. Of a confounded attack it is that of its controls: of the
    reference where there is one whose condition is met, else of the blind check. Where the blind
    check tells the two sides apart, of both. 1 where a control is missing, or something else
    confounds the attack.

    Args:
        settled: the settled record.
        result: of one of its attacks.
        measured: a measurement of that attack.
        limit: the most that the policy allows.
        mirrored: see `Control.p_explains`.
    """
    if settled.confounded(result.attack) is None:
        return 0.0
    record = settled.record
    confounding = _confounding_checks(result, record.checks)
    name = f"{result.attack}.{measured.name}"
    fired = [check for check in confounding if name not in check.spares]
    if confounding and not fired:
        return 0.0
    if any(check.name != BLIND for check in fired):
        return 1.0
    p_values = {
        control.kind: control.p_explains(measured, limit, mirrored=mirrored)
        for control in _controls_of(record, result, measured.name)
    }
    if fired:
        return max(p_values.get("reference", 1.0), p_values.get("blind", 1.0))
    return p_values.get("reference", p_values.get("blind", 1.0))


def _controls_of(record: AuditRecord, result: Result, measurement: str) -> list[Control]:
    """List the controls that bear on a measurement, without those whose condition is not met."""
    met = record.met_conditions
    controls = []
    for control in result.controls:
        is_usable = not control.condition or control.condition in met
        if is_usable and measurement in control.measurements:
            controls.append(control)
    return controls


def _with_wrong_side(result: Result, limits: Sequence[Limit], *, is_forgotten: bool) -> Result:
    """Add to a result a check for limited numbers that lie on the wrong side of their null.

    `is_forgotten`: whether the members are documents that the model was to forget.
    """
    checks = [check for check in result.checks if check.cause != _WRONG_SIDE]
    tested = _limited_numbers(result, limits)
    if tested:
        checks.append(_wrong_side(tested, is_forgotten=is_forgotten))
    return replace(result, checks=tuple(checks))


def _limited_numbers(result: Result, limits: Sequence[Limit]) -> list[tuple[str, Estimate]]:
    """List the numbers that chance or a leak puts on one side, each with its limited metric."""
    with_null = _numbers_with_null(result)
    tested = []
    for limit in limits:
        # Of a count only the lower end of its interval says something.
        is_two_sided = limit.max is not None and limit.holds == "interval"
        if not is_two_sided or limit.attack != result.attack:
            continue
        names = result.methods.get(limit.metric, (limit.metric,))
        tested += [(limit.metric, with_null[name]) for name in names if name in with_null]
    return tested


def _numbers_with_null(result: Result) -> dict[str, Estimate]:
    """Return the estimates that neither a leak nor chance puts far below their null, by name."""
    estimates = {}
    for item in result.measurements:
        if isinstance(item, Estimate) and item.null is not None and item.null_kind in _ONE_SIDED:
            estimates[item.name] = item
    return estimates


def _wrong_side(tested: Sequence[tuple[str, Estimate]], *, is_forgotten: bool) -> Check:
    """Check whether a limited number lies where neither a leak nor chance puts it."""
    metric, worst = min(tested, key=lambda pair: _p_below_null(pair[1]))
    p_value = min(1.0, 2 * len(tested) * _p_below_null(worst))
    interval = f"{worst.value:.3f} [{worst.low:.3f}, {worst.high:.3f}]"
    name = _WRONG_SIDE
    if worst.is_area:
        name = UNDER_CHANCE
        reason = below_chance(worst, is_forgotten=is_forgotten)
        remedy = TEXTS["check_sides"]
        if is_forgotten:
            remedy = TEXTS["forget_again"]
    else:
        larger = "the leak is larger on unseen documents than on training documents"
        trained_on = "the unseen documents look trained on, unless this is chance"
        reason = f"{larger}: {interval}; {trained_on}"
        remedy = "check the list of training documents, draw other unseen documents, and scan again"
    return Check(name, p_value, "wrong side", reason, remedy, (metric,))


def below_chance(measured: Estimate, *, is_forgotten: bool) -> str:
    """Say what an area means whose whole interval lies under chance.

    Args:
        measured: the area.
        is_forgotten: whether the members are documents that the model was to forget.
    """
    text = TEXTS["swapped"]
    if is_forgotten:
        text = TEXTS["forgotten_too_well"]
    return text.format(item=measured, mirrored=1 - measured.value)


def _p_below_null(measured: Estimate) -> float:
    """Return the p-value of a number below its null; a null of unseen documents is at most 0."""
    assert measured.null is not None
    null = measured.null
    if measured.null_kind == "held-out":
        # It is as uncertain as the number itself, and is 0 then.
        null = min(null, 0.0)
    return measured.p_below(null)
