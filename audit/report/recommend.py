"""Which defence to consider, from what was found. The defences and their words are `policies/defenses.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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
    "wide",
    "unresolved",
    "unmeasured",
    "clean",
    "unchecked",
    "waived",
    "above",
]
"""What became of a limit, more finely than its outcome.

    violated    the leak is confirmed over the limit
    confounded  no decision: something else than memory can explain the attack's numbers, whatever they are
    weak        no decision: the attacker had too little power
    weakened    no decision: the attacker was weakened on purpose, or lacked something
    wide        no decision: the interval reaches over the limit
    unresolved  no decision: too few units for this number
    unmeasured  no decision: the attack was skipped, broke down or was not run
    clean       the audit as a whole passed, and nobody had to waive anything
    unchecked   no limit of the policy applies to this model
    waived      somebody took responsibility
    above       a measurement, gated or not, lies wholly above a value that the defence names
"""
ORDER: tuple[State, ...] = (
    "violated",
    "unmeasured",
    "confounded",
    "weak",
    "weakened",
    "unresolved",
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
    completed = {result.attack: result for result in record.attacks if isinstance(result, Completed)}
    states = [(decision, state_of(decision, completed)) for decision in verdict.decisions]
    found = [Finding(item.limit.attack, item.limit.metric, state) for item, state in states if state is not None]
    if verdict.overall == "passed" and not found:
        found.append(Finding("", "", "clean"))
    if verdict.overall == "undecided" and not found:
        found.append(Finding("", "", "unchecked"))
    return tuple(found)


def state_of(decision: Decision, completed: Mapping[str, Completed]) -> State | None:
    """The state of one limit, from the attacks that ran to their end; None when it was met or does not apply."""
    match decision.outcome:
        case "violated":
            return "violated"
        case "waived":
            return "waived"
        case "passed" | "inapplicable" | "not run":
            # The policy does without what was not run; "What was not tested" says how to have it.
            return None
        case "undecided":
            return _why_undecided(decision, completed)


def _why_undecided(decision: Decision, completed: Mapping[str, Completed]) -> State:
    result = completed.get(decision.limit.attack)
    if decision.measured is None:
        return "unresolved" if result is not None else "unmeasured"
    if result is not None and result.confounded is not None:
        return "confounded"
    wanted = decision.limit.min_power
    if wanted is not None and (decision.power is None or decision.power.value < wanted):
        return "weak"
    return "weakened" if result is not None and result.ablations else "wide"


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
