"""Which defence to consider, from what was found. The defences and their words are `policies/defenses.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.errors import RenderError
from audit.policy import Decision, Verdict
from audit.record import STRICT, AuditRecord, Completed, Estimate
from audit.resources import folder

State = Literal[
    "violated",
    "confounded",
    "weak",
    "weakened",
    "useless",
    "alarm",
    "uncovered",
    "wide",
    "unresolved",
    "unmeasured",
    "gap",
    "clean",
    "unchecked",
    "waived",
    "above",
]
"""What became of a limit, more finely than its outcome.

    violated    the leak is confirmed over the limit
    clean       the audit as a whole passed, and nobody had to waive anything
    unchecked   no limit of the policy applies to this model
    waived      somebody took responsibility
    (others)    no decision, see `audit.policy.decision.Cause`
    above       a measurement, gated or not, lies wholly above a value that the defence names
"""
ORDER: tuple[State, ...] = (
    "violated",
    "alarm",
    "unmeasured",
    "useless",
    "confounded",
    "weak",
    "weakened",
    "uncovered",
    "unresolved",
    "gap",
    "wide",
    "clean",
    "unchecked",
    "waived",
    "above",
)


@strict_dataclass(frozen=True, config=STRICT)
class Answer:
    """A finding that a defence answers: `attack` and `metric` are shell patterns; `above` is for the state "above"."""

    attack: str
    metric: str
    finding: tuple[State, ...]
    above: float = 0.0


@strict_dataclass(frozen=True, config=STRICT)
class Defense:
    """One thing the owner can do.

    Attributes:
        does: what it does, for somebody who knows no ML.
        cost: what it takes away or asks for.
        check: how docaudit can tell later whether it helped.
        source: the citation it rests on.
    """

    id: str
    name: str
    does: str
    cost: str
    check: str
    source: str
    answers: tuple[Answer, ...]


@strict_dataclass(frozen=True, config=STRICT)
class _File:
    schema: Literal[1]
    defenses: tuple[Defense, ...]


@dataclass(frozen=True)
class Finding:
    """Something the audit found that may call for an action."""

    attack: str
    metric: str
    state: State


@dataclass(frozen=True)
class Recommendation:
    """A defence, and the findings it answers (never empty)."""

    defense: Defense
    findings: tuple[Finding, ...]


_FILE: TypeAdapter[_File] = TypeAdapter(_File)


def defenses() -> tuple[Defense, ...]:
    """The shipped defences, in the order they should be considered.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    path = folder("policies") / "defenses.toml"
    try:
        return _FILE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")), strict=False).defenses
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise RenderError(f"{path.name}: {error}") from None
    except ValidationError as error:
        places = [f"{path.name} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise RenderError(places) from None


def findings(record: AuditRecord, verdict: Verdict) -> tuple[Finding, ...]:
    """What the verdict says of each limit that is not met; of the audit as a whole where there is no such limit."""
    states = [(decision, state_of(decision)) for decision in verdict.decisions]
    found = [Finding(item.limit.attack, item.limit.metric, state) for item, state in states if state is not None]
    if verdict.overall == "passed" and not found:
        found.append(Finding("", "", "clean"))
    if verdict.overall == "undecided" and not found:
        found.append(Finding("", "", "unchecked"))
    return tuple(found)


def state_of(decision: Decision) -> State | None:
    """The state of one limit; None when it was met or does not apply."""
    match decision.outcome:
        case "violated":
            return "violated"
        case "waived":
            return "waived"
        case "passed" | "inapplicable" | "not run":
            # The policy does without what was not run; "What was not tested" says how to have it.
            return None
        case "undecided":
            return decision.cause


def recommend(record: AuditRecord, verdict: Verdict) -> tuple[Recommendation, ...]:
    """The defences that answer a finding: those against violations first, then in the order of the file.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    found = findings(record, verdict)
    chosen = []
    for defense in defenses():
        answered = tuple(finding for finding in found if any(_answers(item, finding) for item in defense.answers))
        answered += tuple(finding for item in defense.answers for finding in _above(item, record))
        if answered:
            chosen.append(Recommendation(defense, tuple(dict.fromkeys(answered))))
    return tuple(sorted(chosen, key=lambda item: min(ORDER.index(finding.state) for finding in item.findings)))


def _answers(answer: Answer, finding: Finding) -> bool:
    return (
        finding.state in answer.finding
        and fnmatchcase(finding.attack, answer.attack)
        and fnmatchcase(finding.metric, answer.metric)
    )


def _above(answer: Answer, record: AuditRecord) -> list[Finding]:
    """The measurements whose whole interval lies above what the defence names."""
    if "above" not in answer.finding:
        return []
    return [
        Finding(result.attack, item.name, "above")
        for result in record.attacks
        if isinstance(result, Completed) and fnmatchcase(result.attack, answer.attack)
        for item in result.measurements
        if isinstance(item, Estimate) and fnmatchcase(item.name, answer.metric) and item.low > answer.above
    ]
