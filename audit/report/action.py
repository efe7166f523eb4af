"""Say what to do first, with the command for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from audit.policy.grounds import Remedy
from audit.report.answer import decides_most
from audit.report.commands import Commands, left_to_put_in
from audit.report.facts.definitions import Facts
from audit.report.labels import LABELS

_COMMANDS: Mapping[Remedy | None, Callable[[Commands], str]] = {
    Remedy.ALL: Commands.scan_that_can_pass,
    Remedy.SPLIT_MODELS: lambda commands: commands.train("splits"),
    Remedy.TRAIN_SPLITS: lambda commands: commands.train("splits"),
    Remedy.GIVE_BASELINE: lambda commands: commands.train("baselines"),
    Remedy.STRONGER_REFERENCE: Commands.references,
    Remedy.MORE_OF_THEM: lambda commands: commands.scan("full"),
    Remedy.STRONGER: lambda commands: commands.scan("full"),
    Remedy.MORE: Commands.plan,
    Remedy.MORE_PROVIDERS: Commands.plan,
    Remedy.RUN_AGAIN: Commands.scan,
    Remedy.SCAN_WITH_THIS_VERSION: Commands.scan,
}
"""What does the remedy of an undecided limit, where one command does it."""


@dataclass(frozen=True)
class Action:
    """Something to do, with the command for it where there is one."""

    text: str
    command: str = ""


def first_action(facts: Facts) -> Action | None:
    """Return the first action: an alarm, the next step of an open verdict, else the plan's first.

    Its names stand for arguments that nobody knows; the text says what to put in for them.

    Args:
        facts: the facts of the scan.
    """
    action = _next_scan(facts) or _first_planned(facts)
    if action is None:
        return None
    text = facts.commands.put_in(action.text)
    missing = left_to_put_in(action.command)
    if missing:
        text = f"{text.removesuffix('.')} ({missing})."
    return Action(text, action.command)


def _next_scan(facts: Facts) -> Action | None:
    """Return an alarm, or what to do about undecided limits; None where nothing is open."""
    if facts.alarm is None and facts.outcome != "undecided":
        return None
    text = decides_most(facts)
    if not text:
        return None
    return Action(text, _command_of_step(facts))


def _command_of_step(facts: Facts) -> str:
    """Return the command of what would decide most undecided limits; empty where none does it."""
    step = facts.next_step
    commands = facts.commands
    if facts.alarm is not None or step is None:
        return ""
    if step.documents is not None:
        return commands.scan_that_can_pass()
    write = _COMMANDS.get(step.remedy_id)
    if write is None:
        return ""
    return write(commands)


def _trying(facts: Facts) -> Action:
    """Return the action that tries countermeasures; a served model has no weights to train."""
    commands = facts.commands
    texts = LABELS["actions"]
    if not commands.is_served:
        return Action(texts["try"], commands.fix())
    for action in facts.actions:
        if action.remedy.is_a_setting:
            return Action(texts["try_served"], commands.fix())
    return Action(texts["fix_checkpoint"], commands.scan_checkpoint())


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
        return _trying(facts)
    if planned.measured:
        return Action(f"{planned.remedy.name}. {planned.effect}")
    return Action(f"{planned.remedy.name}.", planned.command)
