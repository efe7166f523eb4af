"""Checks that can only leave limits undecided: all checks of a scan share one false-positive rate of 5 %.

Method: methods.md#statistics, "Checks". A scan of a model that leaks nothing, on data that are as declared, is left
undecided by its checks in at most 5 % of audits, however many checks it makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit.measurements import Check, Estimate
from audit.policy.limits import Limit
from audit.record import AuditRecord, Result
from audit.stats.p_values import holm

LEVEL = 0.05
"""Family-wise false-positive rate of all checks of a scan."""
AGAIN = "mend that and scan again"
BLIND = "blind"
"""The name of the check of whether the two sides can be told apart without the model."""
_WRONG_SIDE = "wrong side"


def settle(record: AuditRecord, limits: Sequence[Limit]) -> AuditRecord:
    """Adjust the p-values of all checks of a scan, and mark the attacks whose numbers a check confounds.

    Args:
        record: with the checks that attacks made; settling it again changes nothing.
        limits: a number on the wrong side of its null is looked for among the metrics that these limit.

    Returns:
        The record; `Result.confounded` names the first check of that cause that fires.
    """
    results = [_with_wrong_side(result, limits) for result in record.attacks]
    checks = [(result.attack, check) for result in results for check in result.checks]
    checks += [("", check) for check in record.checks]
    # Several attacks compare the same documents: their blind check is one test.
    distinct = {_identity(attack, check): check for attack, check in checks}
    adjusted = holm(
        {key: check.p_value for key, check in distinct.items()}, {key: check.weight for key, check in distinct.items()}
    )

    def settled(attack: str, checks: Sequence[Check]) -> tuple[Check, ...]:
        return tuple(replace(check, p_adjusted=adjusted[_identity(attack, check)]) for check in checks)

    whole = settled("", record.checks)
    attacks = []
    for result in results:
        own = settled(result.attack, result.checks)
        fired = [check.reason for check in (*own, *whole) if check.cause == "confounded" and fires(check)]
        attacks.append(replace(result, checks=own, confounded=next(iter(fired), result.confounded)))
    return replace(record, attacks=tuple(attacks), checks=whole)


def fires(check: Check) -> bool:
    """Test whether a settled check is significant among all checks of its scan."""
    return check.p_adjusted is not None and check.p_adjusted <= LEVEL


def p_explained(
    record: AuditRecord, result: Result, measured: Estimate, limit: float, *, mirrored: bool = False
) -> float:
    """Return a one-sided p-value against "something else than memory explains what lies over the limit".

    0 where nothing speaks for such an explanation. Of a confounded attack it is that of its controls: of the reference
    where there is one, else of the blind check. Where the blind check tells the two sides apart, of both. 1 where a
    control is missing, or something else confounds the attack.

    Args:
        record: settled.
        result: of one of its attacks.
        measured: a measurement of that attack.
        limit: the most that the policy allows.
        mirrored: see `Control.p_explains`.
    """
    if result.confounded is None:
        return 0.0
    fired = [check for check in (*result.checks, *record.checks) if check.cause == "confounded" and fires(check)]
    if any(check.name != BLIND for check in fired):
        return 1.0
    found = {
        control.kind: control.p_explains(measured, limit, mirrored=mirrored)
        for control in result.controls
        if measured.name in control.measurements
    }
    if fired:
        return max(found.get("reference", 1.0), found.get("blind", 1.0))
    return found.get("reference", found.get("blind", 1.0))


def against_pass(result: Result, metric: str) -> Check | None:
    """Return the strongest check of a settled attack that keeps a limit on this metric from being passed."""
    fired = [check for check in result.checks if check.bears_on(metric) and fires(check)]
    return min(fired, key=lambda check: check.p_value, default=None)


def _identity(attack: str, check: Check) -> tuple[str, ...]:
    return (check.name, check.reason) if check.name == BLIND else (attack, check.name)


def _with_wrong_side(result: Result, limits: Sequence[Limit]) -> Result:
    others = tuple(check for check in result.checks if check.cause != _WRONG_SIDE)
    return replace(result, checks=(*others, *_wrong_side(result, limits)))


def _wrong_side(result: Result, limits: Sequence[Limit]) -> Iterator[Check]:
    """Yield one check of whether a limited number lies where neither a leak nor chance puts it."""
    metrics = [limit.metric for limit in limits if limit.attack == result.attack and _two_sided(limit)]
    measured = {item.name: item for item in result.measurements if isinstance(item, Estimate) and item.null is not None}
    tested = [
        (metric, measured[name])
        for metric in metrics
        for name in result.methods.get(metric, (metric,))
        if name in measured and measured[name].null_kind in ("held-out", "chance")
    ]
    if not tested:
        return
    metric, worst = min(tested, key=lambda pair: _p_below_null(pair[1]))
    p_value = min(1.0, 2 * len(tested) * _p_below_null(worst))
    shown = f"{worst.value:.3f} [{worst.low:.3f}, {worst.high:.3f}]"
    if worst.is_area:
        reason = f"an area under chance tells members as well: {shown}, chance is 0.5; are the splits right?"
        remedy = AGAIN
    else:
        trained_on = "the held-out documents look trained on, unless this is chance"
        reason = f"less on documents of training than on held-out ones: {shown}; {trained_on}"
        remedy = "see which documents the model was trained on, draw other held-out documents, and scan again"
    yield Check(_WRONG_SIDE, p_value, "wrong side", reason, remedy, (metric,))


def _two_sided(limit: Limit) -> bool:
    """Test whether both ends of a limit's interval say something: of a count only the lower one does."""
    return limit.max is not None and limit.holds == "interval"


def _p_below_null(measured: Estimate) -> float:
    assert measured.null is not None
    # A null that was measured on held-out documents is as uncertain as the number itself: then it is 0.
    return measured.p_below(min(measured.null, 0.0) if measured.null_kind == "held-out" else measured.null)
