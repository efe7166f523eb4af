"""Remedies to consider for the findings: of `policies/defenses.toml`, or a countermeasure's own."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.defenses.registry import DEFENSES
from audit.defenses.remedies import EFFORTS, ORDER, AnsweredFinding, FindingState, Remedy
from audit.errors import RenderError
from audit.measurements import STRICT, Estimate
from audit.policy.guarantee import CANARIES, EPSILON
from audit.policy.reading import shipped_policies
from audit.policy.reasons import ALL
from audit.record import AuditRecord, Completed
from audit.report import numbers
from audit.report.answer import decided, decides_most
from audit.report.labels import UTILITY, report_of
from audit.report.leaks import unlimited, untested, within
from audit.report.prospects import RANKS, expect
from audit.resources import folder

if TYPE_CHECKING:
    from audit.defenses.measured import Comparison, Effect
    from audit.policy import Decision, Verdict


@strict_dataclass(frozen=True, config=STRICT)
class _File:
    schema: Literal[1]
    defenses: tuple[Remedy, ...]


@dataclass(frozen=True)
class Finding:
    """Something the audit found that may call for an action."""

    attack: str
    metric: str
    state: FindingState


@dataclass(frozen=True)
class Recommendation:
    """A remedy for this scan.

    Attributes:
        remedy: the remedy.
        findings: those that it answers; never empty.
        measured: in sentences, what it was measured to do to this model.
        expected: in sentences, its effect on other models, and in the same proportion here.
        effort: the work that it asks for, in words.
        verdict: whether it can change the verdict, in one sentence.
        command: what measures it on this model; empty where no command does.
    """

    remedy: Remedy
    findings: tuple[Finding, ...]
    measured: tuple[str, ...]
    expected: tuple[str, ...]
    effort: str
    verdict: str
    command: str


_FILE: TypeAdapter[_File] = TypeAdapter(_File)
DEFEND = "MODEL_DIR DATA_DIR --policy {policy} --budget {budget} --seed {seed}"
"""What makes the scans of `docaudit defend` comparable with this one."""


def remedies() -> tuple[Remedy, ...]:
    """The shipped remedies in the order they should be considered, then those that countermeasures bring themselves.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    path = folder("policies") / "defenses.toml"
    try:
        shipped = _FILE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")), strict=False).defenses
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise RenderError(f"{path.name}: {error}") from None
    except ValidationError as error:
        problems = [f"{path.name} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise RenderError(problems) from None
    named = {name for remedy in shipped for name in remedy.measured_by}
    own = (DEFENSES[name].remedy for name in DEFENSES if name not in named)
    return (*shipped, *(remedy for remedy in own if remedy is not None))


def findings(record: AuditRecord, verdict: Verdict) -> tuple[Finding, ...]:
    """Return a finding for each limit that is not met; one of the audit as a whole where there is no such limit."""
    states = [(decision, state_of(decision)) for decision in verdict.decisions]
    listed = [Finding(item.limit.attack, item.limit.metric, state) for item, state in states if state is not None]
    if verdict.contradicted is not None:
        listed.append(Finding(CANARIES, EPSILON, "alarm"))
    if verdict.overall in ("passed", "waived"):
        leaks = (*within(record, verdict), *unlimited(record, verdict))
        listed += [Finding(leak.attack, leak.metric, "outside") for leak in leaks]
    if verdict.overall == "passed" and not listed and record.target.is_model:
        listed.append(Finding("", "", "unmeasured" if untested(verdict) else "clean"))
    if verdict.overall == "undecided" and not listed:
        listed.append(Finding("", "", "unchecked"))
    return tuple(listed)


def state_of(decision: Decision) -> FindingState | None:
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


def recommend(
    record: AuditRecord, verdict: Verdict, comparisons: Sequence[Comparison] = ()
) -> tuple[Recommendation, ...]:
    """The remedies that answer a finding, ranked for this scan.

    Those against violations come first; among these the ones that were not measured to take much usefulness, then
    those that stand alone, then those that more surely meet the
    limits (`prospects.RANKS`), then those that answer more of them, then the ones of less effort, then in the order of
    the file.

    Args:
        record: the measurements.
        verdict: on them.
        comparisons: what countermeasures were measured to do to this model.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    listed = findings(record, verdict)
    chosen = []
    for remedy in remedies():
        answered = tuple(finding for finding in listed if any(_answers(item, finding) for item in remedy.answers))
        answered += tuple(finding for item in remedy.answers for finding in _above(item, record))
        if answered:
            own = [one for one in comparisons if one.name in remedy.measured_by]
            chosen.append(_recommendation(remedy, tuple(dict.fromkeys(answered)), own, record, verdict))
    return tuple(item for _, item in sorted(chosen, key=lambda item: item[0]))


Rank = tuple[int, bool, bool, int, int, int]


def _recommendation(
    remedy: Remedy,
    found: tuple[Finding, ...],
    comparisons: Sequence[Comparison],
    record: AuditRecord,
    verdict: Verdict,
) -> tuple[Rank, Recommendation]:
    expectation = expect(remedy, ((one.attack, one.metric) for one in found), verdict, comparisons)
    state = min(ORDER.index(finding.state) for finding in found)
    item = Recommendation(
        remedy=remedy,
        findings=found,
        measured=tuple(effect_sentence(one, found) for one in comparisons),
        expected=() if expectation is None else expectation.effects,
        effort=EFFORTS[remedy.effort],
        verdict=_without_violation(ORDER[state]) if expectation is None else expectation.verdict,
        command=_command(remedy, verdict, record),
    )
    effort = list(EFFORTS).index(remedy.effort)
    if expectation is None:
        return (state, False, remedy.beside_only, 0, 0, effort), item
    rank = RANKS.index(expectation.prospect)
    return (state, expectation.costly, remedy.beside_only, rank, -expectation.answered, effort), item


def _without_violation(state: FindingState) -> str:
    """Whether a remedy that answers no violated limit can change the verdict."""
    match state:
        case "waived":
            return "No: the limit stays violated and waived; this is what can be done meanwhile"
        case "clean":
            return "No: there is nothing to change"
        case "above" | "outside":
            return "No: no limit of the policy asks for it"
        case _:
            return "Not known: it changes no number, and lets the limit be decided one way or the other"


def scan_again(record: AuditRecord, verdict: Verdict, budget: str) -> str:
    """Return the command that scans the same again with another budget."""
    policy = verdict.policy if verdict.policy in shipped_policies() else "POLICY.toml"
    return f"docaudit scan MODEL_DIR DATA_DIR --policy {policy} --budget {budget} --seed {record.seed}"


def _command(remedy: Remedy, verdict: Verdict, record: AuditRecord) -> str:
    command = remedy.command
    if not command and remedy.measured_by:
        command = f"docaudit defend {remedy.measured_by[0]} {DEFEND}"
    policy = verdict.policy if verdict.policy in shipped_policies() else "POLICY.toml"
    return command.format(policy=policy, budget=record.budget, seed=record.seed)


def effect_sentence(comparison: Comparison, answered: Sequence[Finding]) -> str:
    """Return what a countermeasure was measured to do: the metrics of these findings, usefulness, verdict."""
    metrics = dict.fromkeys((finding.attack, finding.metric) for finding in answered)
    effects = [effect for pair in metrics if (effect := comparison.effect(*pair)) is not None]
    shown = [f"{_label(effect)} {_change(effect)}" for effect in (*effects, *comparison.usefulness)]
    useful = [] if comparison.usefulness else ["usefulness was not measured"]
    verdict = f"the verdict {comparison.verdict_before} → {comparison.verdict_after}"
    return f"Measured on this model with docaudit defend {comparison.name}: {', '.join([*shown, *useful, verdict])}"


def _label(effect: Effect) -> str:
    report = report_of(effect.attack) if effect.attack else UTILITY
    label = report.label(effect.metric)
    return label if label.isupper() else label[:1].lower() + label[1:]


def _change(effect: Effect) -> str:
    form = (report_of(effect.attack) if effect.attack else UTILITY).form(effect.metric)
    sides = [
        numbers.show(side.value, form) if isinstance(side, Estimate) else "not measured"
        for side in (effect.before, effect.after)
    ]
    difference = effect.difference
    if difference is None:
        return " → ".join(sides)
    unsure = "" if difference.low > 0 or difference.high < 0 else ", no change shown"
    return f"{' → '.join(sides)} (change {numbers.between(difference, form)}{unsure})"


def _answers(answer: AnsweredFinding, finding: Finding) -> bool:
    # What the policy does not limit is a leak all the same: it is answered by what answers a violation.
    state = "violated" if finding.state == "outside" else finding.state
    return (
        state in answer.finding
        and fnmatchcase(finding.attack, answer.attack)
        and fnmatchcase(finding.metric, answer.metric)
    )


def _above(answer: AnsweredFinding, record: AuditRecord) -> list[Finding]:
    """The measurements whose whole interval lies above what the remedy names."""
    if "above" not in answer.finding:
        return []
    return [
        Finding(result.attack, item.name, "above")
        for result in record.attacks
        if isinstance(result, Completed) and fnmatchcase(result.attack, answer.attack)
        for item in result.measurements
        if isinstance(item, Estimate) and fnmatchcase(item.name, answer.metric) and item.low > answer.above
    ]


@dataclass(frozen=True)
class Action:
    """Something to do, with the command for it where there is one."""

    text: str
    command: str = ""


PARTS = ("MODEL_DIR", "DATA_DIR", "POLICY.toml")
"""Names in commands that stand for paths of the machine."""


def first_action(record: AuditRecord, verdict: Verdict, paths: Mapping[str, str] | None = None) -> Action | None:
    """Find what to do first: what decides most where the verdict is open, else the first of the report's plan.

    Args:
        record: the scan.
        verdict: on it.
        paths: what stands for `PARTS`, as somebody gave it on this machine: for a terminal only, never for a report.
    """
    step = decides_most(record, verdict) if decided(verdict) == "undecided" else ""
    if step:
        more = any(one.remedy == ALL for one in verdict.decisions if one.outcome == "undecided")
        return _filled(Action(step, scan_again(record, verdict, "standard") if more else ""), paths or {})
    planned = recommend(record, verdict)
    return _filled(Action(f"{planned[0].remedy.name}.", planned[0].command), paths or {}) if planned else None


def _filled(action: Action, paths: Mapping[str, str]) -> Action:
    """Put paths in place of the names that stand for them, and name what is left to be put in."""
    text, command = action.text, action.command
    for name, path in paths.items():
        quoted = shlex.quote(path).replace("\\", r"\\")
        text, command = (re.sub(rf"\b{re.escape(name)}\b", quoted, one) for one in (text, command))
    left = [name for name in PARTS if re.search(rf"\b{re.escape(name)}\b", command) and name not in paths]
    hint = f" Put your own paths in place of {' and '.join(left)}." if left else ""
    return Action(f"{text}{hint}", command)
