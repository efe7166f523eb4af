"""List every attack, and read files of their parameters (`docaudit scan --attack-parameters`).

Importing it takes a second: who only reads a record needs `audit.attacks.TEXTS`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from audit import plugins
from audit.attacks.attributes import AttributeInference
from audit.attacks.canaries import Canaries
from audit.attacks.interface import Attack
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.redaction import RedactionContext
from audit.errors import UsageError
from audit.files import read_file, read_toml

BATTERY: tuple[type[Attack], ...] = (
    Reconstruction,
    Memorisation,
    AttributeInference,
    MembershipInference,
    ProviderMembership,
    RedactionContext,
    Canaries,
    *plugins.load("docaudit.attacks").values(),
)
"""Every attack, those of extensions last, in the order in which they run and are reported."""


PROVENANCE = "provenance"
"""The table that says where the parameters come from; every other table is named after an
attack."""
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, hide_input_in_errors=True, defer_build=True)


@dataclass(frozen=True)
class AttackParameters:
    """What a file sets.

    Attributes:
        values: values by attack, by parameter; all known and valid.
        sha256: sha256 of the file.
    """

    values: Mapping[str, Mapping[str, Any]]
    sha256: str

    def applied(self, attack: Attack) -> Attack:
        """Return the attack with its parameters replaced by those that the file sets."""
        return dataclasses.replace(attack, **self.values.get(attack.name, {}))


def read_parameters(path: Path) -> AttackParameters:
    """Read and check a file of attack parameters.

    Raises:
        UsageError: it cannot be read, or names an attack or a parameter that does not exist, or a
            value that the parameter cannot take; all of them at once.
    """
    try:
        raw = read_file(path)
        content = read_toml(raw)
    except OSError as error:
        raise UsageError(f"--attack-parameters {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--attack-parameters {path}: not readable as TOML: {error}") from None
    content.pop(PROVENANCE, None)
    values: dict[str, dict[str, Any]] = {}
    problems = []
    kinds = {kind.name: kind for kind in BATTERY}
    for name, table in content.items():
        if name not in kinds:
            problems.append(f"{path}: [{name}]: no attack is called so; one of {', '.join(kinds)}")
        elif not isinstance(table, dict):
            problems.append(f"{path}: {name}: must be a table")
        else:
            values[name], wrong = _validate(kinds[name], table)
            problems += [f"{path}: [{name}] {problem}" for problem in wrong]
    if problems:
        raise UsageError(
            problems,
            "correct the file, or fit one in a checkout: python -m benchmarks.tools.tune_attack",
        )
    return AttackParameters(values, hashlib.sha256(raw).hexdigest())


def _validate(kind: type[Attack], table: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the valid parameters of an attack in a table, and the problems of the others.

    Return valid parameters, and problems of the others.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    types = get_type_hints(kind, include_extras=True)
    values = {}
    problems = []
    for name, value in table.items():
        if name not in names:
            problems.append(f"{name}: no such parameter; one of {', '.join(names)}")
            continue
        try:
            # TOML knows lists only.
            setting = tuple(value) if isinstance(value, list) else value
            values[name] = TypeAdapter(types[name], config=_STRICT).validate_python(setting)
        except ValidationError as error:
            problems += [f"{name}: {detail['msg']}" for detail in error.errors(include_input=False)]
    if not problems:
        try:
            kind(**values)
        except ValueError as error:
            problems.append(str(error))
    return values, problems
