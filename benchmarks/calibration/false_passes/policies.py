"""Policies of owners, made from the default policy of the checkout that is tried."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import Any

STRONGEST = """schema = 1
name = "team-g"
undecided = "warn"
[[limits]]
attack = "membership"
metric = "auc.lira"
max = 0.65
rationale = "the strongest published attack (LiRA)"
"""
"""A whole policy: one limit, on an attack that the scan could not make."""
_TABLE = re.compile(r"^(?=\[\[)", re.MULTILINE)
_NAME = re.compile(r'^name = ".*"$', re.MULTILINE)


def without(text: str, name: str, leave_out: Callable[[str, dict[str, Any]], bool]) -> str:
    """Return a policy under another name without some of its tables.

    Args:
        text: the policy as TOML.
        name: of the new one.
        leave_out: tests an entry: its array ("limits", "demands" or "gaps") and its content.
    """
    head, *tables = _TABLE.split(text)
    chosen = [_NAME.sub(f'name = "{name}"', head, count=1)]
    for table in tables:
        ((array, (entry,)),) = tomllib.loads(table).items()
        if not leave_out(array, entry):
            chosen.append(table)
    return "".join(chosen)


def of_utterances(default: str, undecided: str = "fail") -> str:
    """Leave both demands out: a model of utterances without canaries can never meet the first."""
    text = without(default, "nlu-team", lambda array, _: array == "demands")
    return text.replace('undecided = "fail"', f'undecided = "{undecided}"')


def of_recognition(default: str, undecided: str = "fail") -> str:
    """Keep the limits on membership and the demand that names it: other attacks take long on pages."""

    def about_other_attacks(array: str, entry: dict[str, Any]) -> bool:
        """Test whether an entry of a policy is not about membership."""
        if array == "demands":
            return "membership" not in entry["any_of"]
        return bool(entry["attack"] != "membership")

    text = without(default, "recognition-team", about_other_attacks)
    # A demand may only name attacks that the policy limits.
    text = text.replace('any_of = ["membership", "provider_membership"]', 'any_of = ["membership"]')
    return text.replace('undecided = "fail"', f'undecided = "{undecided}"')


def without_membership(default: str) -> str:
    """Leave out the limits on membership and the demand that names it."""

    def about_membership(array: str, entry: dict[str, Any]) -> bool:
        """Test whether an entry of a policy is about membership."""
        return entry.get("attack") == "membership" or (
            array == "demands" and "membership" in entry["any_of"]
        )

    return without(default, "no-membership", about_membership)
