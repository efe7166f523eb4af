"""A verdict as JSON: `verdict.schema.json` is its schema.

Types of its own, so that a change inside docaudit changes no pipeline that reads this.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from audit import __version__
from audit.measurements import STRICT, Estimate
from audit.policy import Cause, Decision, Outcome, Overall, Verdict
from audit.policy.waivers import WaiverState
from audit.record import Completed, Failed, Inapplicable
from audit.report.leaks import unlimited
from audit.report.verdicts.earlier import BaselineState, baseline_state
from audit.report.verdicts.judged import Check, Judged


@dataclass(frozen=True, config=STRICT)
class Number:
    """A measurement: its name, value, the ends of its interval, and what it is compared with (`null`)."""

    name: str
    value: float
    low: float
    high: float
    level: float
    n: int
    unit: str
    clusters: int
    method: str
    null: float | None
    null_kind: str | None


@dataclass(frozen=True, config=STRICT)
class WaiverEntry:
    """A waiver, with what it does on the day of the verdict; `days` are left until its end."""

    attack: str
    metric: str
    owner: str
    role: str
    reason: str
    measure: str
    expires: dt.date
    state: WaiverState
    days: int


@dataclass(frozen=True, config=STRICT)
class LimitOutcome:
    """What became of one limit.

    Attributes:
        counts: whether an open outcome has its part in the exit code.
        about_text: whether it is a finding about the documents' own text, whatever the model.
        p_value: one-sided, against the limit, after Holm.
        waived_by: who answers for a waived violation.
    """

    attack: str
    metric: str
    max: float | None
    min: float | None
    required: bool
    outcome: Outcome
    counts: bool
    reason: str
    remedy: str
    cause: Cause | None
    about_text: bool
    measured: Number | None
    power: Number | None
    p_value: float | None
    waived_by: str | None


@dataclass(frozen=True, config=STRICT)
class AttackState:
    """What became of an attack that was asked for; `reason` where it did not run to its end."""

    attack: str
    status: Literal["completed", "inapplicable", "skipped", "failed"]
    reason: str


@dataclass(frozen=True, config=STRICT)
class PolicyIdentity:
    """The policy, and whether it is the one that was declared before the scan."""

    name: str
    sha256: str | None
    shipped: bool
    state: Literal["declared", "another", "undeclared"]
    warning: str


@dataclass(frozen=True, config=STRICT)
class Subject:
    """What was audited; the model is None where the text was audited alone."""

    model: str | None
    model_sha256: str | None
    data: str
    data_sha256: str
    scanned: str


@dataclass(frozen=True, config=STRICT)
class LimitCounts:
    """Limits that the verdict is reached on, by what became of them."""

    limits: int
    met: int
    waived: int
    violated: int
    undecided: int
    unexamined: int


@dataclass(frozen=True, config=STRICT)
class Outside:
    """A finding that no limit of the policy is about."""

    attack: str
    metric: str
    measured: Number


@dataclass(frozen=True, config=STRICT)
class VerdictDocument:
    """The verdict on a record.

    Attributes:
        docaudit: the version that reached it.
        exit_code: of `docaudit gate`, unless it is given --no-exit-code.
        text_verdict: on what the documents' own text gives away; None where the policy has no limit on that.
        contradicted: why the guarantee that the training claims is false; None where it is not.
        outside_policy: findings that no limit is about.
        baseline: the earlier scan that it was held against too; None: against none.
    """

    schema_version: Literal[1]
    docaudit: str
    verdict: Overall
    stamp: str
    exit_code: int
    reason: str
    text_verdict: Overall | None
    text_reason: str
    contradicted: str | None
    subject: Subject
    policy: PolicyIdentity | None
    counts: LimitCounts
    limits: tuple[LimitOutcome, ...]
    attacks: tuple[AttackState, ...]
    waivers: tuple[WaiverEntry, ...]
    outside_policy: tuple[Outside, ...]
    baseline: BaselineState | None


_DOCUMENT: TypeAdapter[VerdictDocument] = TypeAdapter(VerdictDocument)


def schema() -> dict[str, Any]:
    """The JSON Schema of the verdict."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_DOCUMENT.json_schema(mode="serialization"),
    }


def as_json(judged: Judged) -> str:
    """Draw the verdict as JSON text."""
    content = _DOCUMENT.dump_python(document(judged), mode="json")
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def document(judged: Judged) -> VerdictDocument:
    """The verdict in the types of the JSON format."""
    record, verdict = judged.record, judged.verdict
    target, corpus, counts = record.target, record.corpus, verdict.counts
    return VerdictDocument(
        schema_version=1,
        docaudit=__version__,
        verdict=verdict.overall,
        stamp=verdict.stamp,
        exit_code=verdict.exit_code,
        reason=verdict.reason,
        text_verdict=verdict.text,
        text_reason=verdict.text_reason,
        contradicted=verdict.contradicted,
        subject=Subject(
            target.name if target.is_model else None,
            target.sha256 if target.is_model else None,
            corpus.name,
            corpus.sha256,
            record.timing.started,
        ),
        policy=_policy(verdict),
        counts=LimitCounts(
            counts.limits, counts.met, counts.waived, counts.violated, counts.undecided, counts.unexamined
        ),
        limits=tuple(_limit(check) for check in judged.checks),
        attacks=tuple(AttackState(one.attack, one.status, _reason(one)) for one in record.attacks),
        waivers=tuple(
            WaiverEntry(
                one.waiver.attack,
                one.waiver.metric,
                one.waiver.owner,
                one.waiver.role,
                one.waiver.reason,
                one.waiver.measure,
                one.waiver.expires,
                one.state,
                one.days,
            )
            for one in verdict.waivers
        ),
        outside_policy=tuple(
            Outside(leak.attack, leak.metric, _number(leak.measured)) for leak in unlimited(record, verdict)
        ),
        baseline=None if verdict.baseline is None else baseline_state(verdict.baseline),
    )


def _policy(verdict: Verdict) -> PolicyIdentity | None:
    one = verdict.identity
    return None if one is None else PolicyIdentity(one.name, one.sha256, one.shipped, one.state, one.warning)


def _limit(check: Check) -> LimitOutcome:
    decision: Decision = check.decision
    limit = decision.limit
    return LimitOutcome(
        attack=limit.attack,
        metric=limit.metric,
        max=limit.max,
        min=limit.min,
        required=limit.required,
        outcome=decision.outcome,
        counts=check.counts,
        reason=decision.reason,
        remedy=decision.remedy,
        cause=decision.cause,
        about_text=decision.about_text,
        measured=None if decision.measured is None else _number(decision.measured),
        power=None if decision.power is None else _number(decision.power),
        p_value=decision.p_value,
        waived_by=None if decision.waiver is None else decision.waiver.owner,
    )


def _number(one: Estimate) -> Number:
    return Number(
        one.name,
        one.value,
        one.low,
        one.high,
        one.level,
        one.n,
        one.unit,
        one.clusters,
        one.method,
        one.null,
        one.null_kind,
    )


def _reason(result: Any) -> str:
    """Why an attack did not run to its end; empty where it did."""
    match result:
        case Completed():
            return ""
        case Failed():
            return f"{result.type} at {result.place}"
        case Inapplicable():
            return result.reason
        case _:
            return f"{result.reason}; to run it: {result.provide}"
