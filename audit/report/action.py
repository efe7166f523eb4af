"""Say what to do first, with the command for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from audit.policy.grounds import Remedy
from audit.policy.reading import shipped_policies
from audit.report.answer import decides_most
from audit.report.facts.definitions import Facts
from audit.report.facts.recommend import PARTS, with_paths
from audit.report.labels import LABELS

FIX = "docaudit fix SCAN_DIR"
"""Tries the countermeasures that may lift a violation, on the model of a scan."""


@dataclass(frozen=True)
class Action:
    """Something to do, with the command for it where there is one."""

    text: str
    command: str = ""


def first_action(facts: Facts, paths: Mapping[str, str] | None = None) -> Action | None:
    """Return the first action: an alarm, the next step of an open verdict, else the plan's first.

    Args:
        facts: the facts of the scan.
        paths: what stands for `PARTS`, as somebody gave it on this machine: for a terminal only,
            never for a report.
    """
    action = _next_scan(facts) or _first_planned(facts)
    if action is None:
        return None
    paths = paths or {}
    text = with_paths(action.text, paths)
    command = with_paths(action.command, paths)
    names = [name for name in PARTS if name in command and name not in paths]
    if names:
        text = f"{text.removesuffix('.')} (put in your {' and '.join(names)})."
    return Action(text, command)


def _next_scan(facts: Facts) -> Action | None:
    """Return an alarm, or what to do about undecided limits; None where nothing is open."""
    if facts.alarm is None and facts.outcome != "undecided":
        return None
    text = decides_most(facts)
    if not text:
        return None
    step = facts.next_step
    if facts.alarm is not None or step is None or step.remedy_id is not Remedy.ALL:
        return Action(text)
    policy = facts.verdict.policy
    if policy not in shipped_policies():
        policy = "POLICY.toml"
    scan = "docaudit scan MODEL_DIR DATA_DIR --policy"
    return Action(text, f"{scan} {policy} --budget standard --seed {facts.record.seed}")


def _first_planned(facts: Facts) -> Action | None:
    """Return the report's first planned action; None where no remedy answers a finding.

    Where countermeasures can be tried on this model, and none has been, that is to try them.
    """
    if not facts.actions:
        return None
    planned = facts.actions[0]
    was_measured = any(action.measured for action in facts.actions)
    can_be_tried = any(
        action.remedy.measured_by and action.remedy.lifts for action in facts.actions
    )
    if facts.outcome == "violated" and can_be_tried and not was_measured:
        return Action(LABELS["actions"]["try"], FIX)
    if planned.measured:
        return Action(f"{planned.remedy.name}. {planned.effect}")
    return Action(f"{planned.remedy.name}.", planned.command)
