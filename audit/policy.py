"""A policy, and what it says about a record. Pure: the one place where a verdict is reached."""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.errors import PolicyError
from audit.record import (
    STRICT,
    AttackResult,
    AuditRecord,
    Completed,
    Estimate,
    Failed,
    Inapplicable,
    Skipped,
    Unresolved,
)
from audit.resources import folder

Outcome = Literal["passed", "violated", "undecided", "waived", "inapplicable", "not run"]
Overall = Literal["passed", "violated", "undecided"]
EXIT_CODES: dict[Overall, int] = {"passed": 0, "violated": 10, "undecided": 11}
STRONGER = "a stronger attacker: more candidates (--budget full) or a better public model"
MORE = "audit more documents"
MORE_PROVIDERS = "audit more providers, as docaudit plan counts them"
MISSPELT = 0.8
"""Likeness of two names from which one is taken for a mistake (ours): provider_membership and membership are less."""
BEYOND_ONE = frozenset({"exposure", "extractable_simplicity", "hd", "ipf", "ld"})
"""Metrics that may be above 1; all others are shares and areas."""
SIGNIFICANCE = 0.05
"""Family-wise level at which a violation is confirmed (Holm over the gated checks)."""


@dataclass(frozen=True, config=STRICT)
class Limit:
    """One thing the policy asks: `metric` of `attack` at most `max` (or at least `min`).

    Attributes:
        required: whether a limit that could not be checked keeps the policy from passing.
        min_power: the attack's own strength under which nothing can be passed.
        rationale: why this limit, printed in the report.
    """

    attack: str
    metric: str
    rationale: str
    max: float | None = Field(default=None, strict=True)
    min: float | None = Field(default=None, strict=True)
    required: bool = Field(default=True, strict=True)
    min_power: float | None = Field(default=None, ge=0, le=1, strict=True)


@dataclass(frozen=True, config=STRICT)
class Waiver:
    """A violation somebody takes responsibility for, until a day."""

    attack: str
    metric: str
    owner: str
    reason: str
    expires: dt.date


@dataclass(frozen=True, config=STRICT)
class Policy:
    """What an owner accepts. `undecided` = "warn" lets an audit without a decision exit 0; the default fails closed."""

    schema: Literal[1]
    name: str
    limits: tuple[Limit, ...]
    description: str = ""
    undecided: Literal["fail", "warn"] = "fail"
    waivers: tuple[Waiver, ...] = ()


@dataclass(frozen=True, config=STRICT)
class Decision:
    """What became of one limit.

    Attributes:
        reason: one sentence.
        remedy: what would decide it, for an undecided one.
        measured: the number it was held against, when there is one.
        power: the attack's strength, when the limit asks for one.
        p_value: one-sided, against the limit, conservative (read from the record's bounds), after Holm.
        waiver: who took responsibility, when somebody did.
    """

    limit: Limit
    outcome: Outcome
    reason: str
    remedy: str = ""
    measured: Estimate | None = None
    power: Estimate | None = None
    p_value: float | None = None
    waiver: Waiver | None = None


@dataclass(frozen=True, config=STRICT)
class Verdict:
    """The one verdict that console, PDF and exit code are drawn from."""

    policy: str
    overall: Overall
    decisions: tuple[Decision, ...]
    exit_code: int
    reason: str


_POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)


def load(name_or_path: str) -> Policy:
    """Read a policy: the name of a shipped one ("default", "strict") or the path of a TOML file.

    Raises:
        PolicyError: every problem of the file.
    """
    shipped = {item.stem: item for item in folder("policies").glob("*.toml") if item.stem != "defenses"}
    path = shipped.get(name_or_path, Path(name_or_path))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise PolicyError(f"policy {path}: {reason}", f"shipped policies: {', '.join(sorted(shipped))}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(f"policy {path}: not TOML: {error}") from None
    try:
        policy = _POLICY.validate_python(content)
    except ValidationError as error:
        raise PolicyError(
            [f"policy {path} {'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
        ) from None
    problems = _contradictions(policy)
    if problems:
        raise PolicyError([f"policy {path} {problem}" for problem in problems])
    return policy


def _contradictions(policy: Policy) -> list[str]:
    problems = []
    if not policy.limits:
        problems.append("limits: there is none, so nothing could ever be violated")
    for index, limit in enumerate(policy.limits):
        if (limit.max is None) == (limit.min is None):
            problems.append(f"limits.{index}: give either max or min")
        problems += [
            f"limits.{index}: {name} {bound:g}: {limit.metric} lies between 0 and 1, so that 65 % is 0.65"
            for name, bound in (("max", limit.max), ("min", limit.min))
            if bound is not None and not 0 <= bound <= 1 and limit.metric.partition(".")[0] not in BEYOND_ONE
        ]
    gated = {(limit.attack, limit.metric) for limit in policy.limits}
    problems += [
        f"waivers.{index}: no limit on {waiver.attack} {waiver.metric}"
        for index, waiver in enumerate(policy.waivers)
        if (waiver.attack, waiver.metric) not in gated
    ]
    return problems


def today() -> dt.date:
    """The day that waivers are held against (UTC)."""
    return dt.datetime.now(dt.UTC).date()


def evaluate(record: AuditRecord, policy: Policy, today: dt.date) -> Verdict:
    """Hold a record against a policy.

    A limit is *passed* when the whole two-sided interval is within it and the attack had the power to find a leak (one
    that was weakened on purpose, an ablation, had not),
    *violated* when the leak is confirmed over it (one-sided p at most 0.05 after Holm over the gated checks), and
    *undecided* otherwise. The overall verdict is the worst one.

    Raises:
        PolicyError: the policy names an attack or a metric that the record's version does not know.
    """
    results = {result.attack: result for result in record.attacks}
    # An attack that this scan left out gave no list of metrics: its limits are taken at their word.
    asked = {limit.metric for limit in policy.limits}
    metrics = {name: results[name].metrics if name in results else asked for name in record.battery}
    check_names(policy, metrics, complete=False)
    confirmed = _holm({index: _p_value(limit, results) for index, limit in enumerate(policy.limits)})
    decisions = tuple(
        _waive(
            _decide(limit, results.get(limit.attack), confirmed.get(index))
            if limit.attack in record.battery
            else _unknown(limit),
            policy,
            today,
        )
        for index, limit in enumerate(policy.limits)
    )
    overall, reason = _overall(decisions)
    exit_code = 0 if overall == "undecided" and policy.undecided == "warn" else EXIT_CODES[overall]
    return Verdict(policy.name, overall, decisions, exit_code, reason)


def check_names(policy: Policy, metrics: Mapping[str, Collection[str]], complete: bool = True) -> None:
    """Refuse a policy that misspells something; called before a scan too, which may take hours.

    Args:
        policy: what to check.
        metrics: the metrics a policy may ask for, by attack.
        complete: whether these are all the attacks there are. An older record does not know those that came later: only
            a name close to one that it knows is then taken for a mistake.

    Raises:
        PolicyError: the policy names an attack or a metric that does not exist.
    """
    problems = []
    for limit in policy.limits:
        if limit.attack not in metrics and (complete or get_close_matches(limit.attack, metrics, 1, MISSPELT)):
            problems.append(f"policy {policy.name}: no attack is called {limit.attack!r}")
        elif limit.attack in metrics and limit.metric not in metrics[limit.attack]:
            close = get_close_matches(limit.metric, metrics[limit.attack], 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            problems.append(f"policy {policy.name}: {limit.attack} has no metric {limit.metric!r}{meant}")
    if problems:
        raise PolicyError(problems, f"attacks: {', '.join(metrics)}")


def _measurement(limit: Limit, result: AttackResult | None) -> Estimate | Unresolved | None:
    if not isinstance(result, Completed):
        return None
    return next((item for item in result.measurements if item.name == limit.metric), None)


def _p_value(limit: Limit, results: dict[str, AttackResult]) -> float | None:
    """The smallest recorded level at which the one-sided bound lies beyond the limit; 1.0 when none does."""
    measured = _measurement(limit, results.get(limit.attack))
    if not isinstance(measured, Estimate):
        return None
    if limit.max is not None:
        beyond = [bound.alpha for bound in measured.bounds if bound.lower > limit.max]
    else:
        assert limit.min is not None
        beyond = [bound.alpha for bound in measured.bounds if bound.upper < limit.min]
    return min(beyond, default=1.0)


def _holm(p_values: dict[int, float | None]) -> dict[int, float]:
    """Holm's step-down adjustment over the limits that have a p-value."""
    tested = sorted((p, index) for index, p in p_values.items() if p is not None)
    adjusted: dict[int, float] = {}
    running = 0.0
    for rank, (p, index) in enumerate(tested):
        running = max(running, min(1.0, p * (len(tested) - rank)))
        adjusted[index] = running
    return adjusted


def _decide(limit: Limit, result: AttackResult | None, p_value: float | None) -> Decision:
    missing = _without_result(limit, result)
    if missing is not None:
        return missing
    assert isinstance(result, Completed)
    measured = _measurement(limit, result)
    power = _power(result)
    if isinstance(measured, Unresolved):
        needed = f"; {measured.needed} would be needed" if measured.needed else ""
        reason = f"{measured.reason} (n = {measured.n}{needed})"
        return Decision(limit, "undecided" if limit.required else "not run", reason, MORE)
    assert measured is not None
    if result.confounded is not None:
        return Decision(limit, "undecided", result.confounded, "", measured, power, p_value)
    if p_value is not None and p_value <= SIGNIFICANCE:
        return Decision(limit, "violated", "the leak is confirmed over the limit", "", measured, power, p_value)
    weak = _too_weak(limit, power)
    if weak is not None:
        return Decision(limit, "undecided", weak, STRONGER, measured, power, p_value)
    if result.ablations:
        reason = f"the attacker was weakened: {', '.join(result.ablations)}"
        return Decision(limit, "undecided", reason, "mend that and scan again", measured, power, p_value)
    within = measured.high <= limit.max if limit.max is not None else measured.low >= (limit.min or 0.0)
    if within:
        return Decision(limit, "passed", "the whole interval is within the limit", "", measured, power, p_value)
    reason = "the interval reaches over the limit"
    more = MORE_PROVIDERS if measured.unit == "providers" else MORE
    return Decision(limit, "undecided", reason, more, measured, power, p_value)


def _without_result(limit: Limit, result: AttackResult | None) -> Decision | None:
    """The decision for a limit whose attack gave no numbers; None when it did."""
    match result:
        case Completed():
            measured = _measurement(limit, result)
            if measured is None:
                return Decision(limit, "undecided", "the record lacks this number", "run the scan again")
            return None
        case Inapplicable():
            return Decision(limit, "inapplicable", result.reason)
        case Skipped():
            outcome, reason, remedy = "undecided", f"skipped: {result.reason}", result.provide
        case Failed():
            outcome, reason = "undecided", f"the attack broke down ({result.type} at {result.place})"
            remedy = "report this failure with the record"
        case None:
            outcome, reason, remedy = "undecided", "this attack was not run", "scan without --only"
    if not limit.required:
        outcome = "not run"
    return Decision(limit, outcome, reason, remedy)  # type: ignore[arg-type]


def _unknown(limit: Limit) -> Decision:
    """The decision for an attack that the record's version of docaudit did not know."""
    reason = "the docaudit that wrote the record had no such attack"
    return Decision(limit, "undecided" if limit.required else "not run", reason, "scan again with this version")


def _power(result: Completed) -> Estimate | None:
    found = next((item for item in result.measurements if item.name == result.power), None)
    return found if isinstance(found, Estimate) else None


def _too_weak(limit: Limit, power: Estimate | None) -> str | None:
    if limit.min_power is None:
        return None
    if power is None:
        return "attacker too weak: its power could not be measured"
    if power.value < limit.min_power:
        return f"attacker too weak: power {power.value:.2f}, the policy asks for {limit.min_power:.2f}"
    return None


def _waive(decision: Decision, policy: Policy, today: dt.date) -> Decision:
    if decision.outcome != "violated":
        return decision
    limit = decision.limit
    waivers = [waiver for waiver in policy.waivers if (waiver.attack, waiver.metric) == (limit.attack, limit.metric)]
    if not waivers:
        return decision
    latest = max(waivers, key=lambda waiver: waiver.expires)
    if latest.expires < today:
        reason = f"{decision.reason}; a waiver by {latest.owner} expired on {latest.expires}"
        return replace(decision, reason=reason)
    return replace(decision, outcome="waived", waiver=latest)


def _overall(decisions: tuple[Decision, ...]) -> tuple[Overall, str]:
    outcomes = [decision.outcome for decision in decisions]
    if "violated" in outcomes:
        count = outcomes.count("violated")
        return "violated", f"{count} of {len(outcomes)} limits violated"
    if "undecided" in outcomes:
        return "undecided", f"{outcomes.count('undecided')} of {len(outcomes)} limits undecided"
    if not {"passed", "waived"} & set(outcomes):
        return "undecided", "no limit of the policy could be checked on this model"
    return "passed", "every limit that applies is met" + (" or waived" if "waived" in outcomes else "")
