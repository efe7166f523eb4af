"""The answer of an audit in plain sentences, and what to do first; for page one and for a terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from audit.attacks.text import sentence_case
from audit.policy import Overall, Verdict
from audit.policy.reasons import ALL
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.found import decides_most


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
    from audit.report.recommend import recommend, scan_again

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


def decided(verdict: Verdict) -> Overall:
    """The outcome that decides: of the limits on the model, or of those on the text where these are worse and count."""
    if not verdict.text_counts or verdict.text is None:
        return verdict.overall
    worst: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")
    return min(verdict.overall, verdict.text, key=worst.index)


def headline(record: AuditRecord, verdict: Verdict) -> str:
    """The answer in a sentence that names what leaks: the model, or the redacted text itself."""
    outcome, name = decided(verdict), f"the policy “{verdict.policy}”"
    if verdict.contradicted is not None:
        return "The guarantee that this model’s training claims is false."
    own = verdict.overall if record.target.is_model else None
    text = verdict.overall if own is None else verdict.text if verdict.text_counts else None
    worst = [subject for subject, one in (("model", own), ("redacted text itself", text)) if one == outcome]
    subject = " and the ".join(worst) if outcome in ("violated", "waived") and worst[1:] else worst[0]
    if outcome == "violated":
        return f"The {subject} {'give' if worst[1:] else 'gives'} away more than {name} allows."
    if outcome == "waived":
        return f"The {subject} {'give' if worst[1:] else 'gives'} away more than {name} allows; {_accepted(verdict)}."
    if outcome == "undecided":
        asked = f"whether {name} is met" if record.target.is_model else f"whether the redacted text meets {name}"
        return f"This audit cannot say {asked}."
    if record.target.is_model:
        return f"The limits of {name} that were tested are met."
    return f"The redacted text meets the limits of {name} on text."


def _accepted(verdict: Verdict) -> str:
    """Who accepted the leaks, and until when."""
    waivers = list(dict.fromkeys(item.waiver for item in verdict.decisions if item.waiver is not None))
    named = dict.fromkeys((waiver.owner, waiver.role, waiver.expires) for waiver in waivers)
    who = [f"{owner} ({role}) accepts this until {numbers.day(str(day))}" for owner, role, day in named]
    return f"as the waiver states, {' and '.join(who)}"


def explanation(record: AuditRecord, verdict: Verdict) -> str:
    """What follows from the answer, and what it does not say."""
    outcome = decided(verdict)
    if verdict.contradicted is not None:
        words = f"{verdict.contradicted}. Nobody should rely on the guarantee, and the model is not fit to be deployed"
        return f"{sentence_case(words)} as it is."
    told = {
        "violated": "Under this policy the model is not fit to be deployed as it is.",
        "waived": "The leak is as large as without a waiver: the conditions are in the register of waivers.",
        "undecided": _open(verdict),
        "passed": "This speaks of the attacks that were run; it is no proof that nothing leaks.",
    }
    if not record.target.is_model:
        told["violated"] = "Under this policy redacted copies of these documents are not fit to be shared as they are."
        told["passed"] = (
            "This speaks of sharing redacted copies, and of what was tried on them; it says nothing about any model "
            "that was trained on these documents."
        )
    elif outcome == "violated" != verdict.overall:
        told["violated"] = (
            "Whoever shares redacted copies gives this away, whatever the model. It is no finding about the model; the "
            "policy counts it all the same."
        )
    return told[outcome]


def _open(verdict: Verdict) -> str:
    reason = verdict.reason.replace(verdict.counts.sentence, "").strip(" :,;")
    told = f"{sentence_case(reason)}. " if reason else ""
    if verdict.exit_code == 0:
        return f"{told}Undecided is not passed: the policy lets it through with a warning, and someone answers for it."
    return f"{told}Undecided is not passed: do what would decide it, and scan again."
