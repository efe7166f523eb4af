"""A file of attack parameters: what `docaudit tune-attack` writes and `docaudit scan --attack-parameters` reads."""

from __future__ import annotations

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from audit.attacks import BATTERY
from audit.attacks.interface import Attack
from audit.errors import UsageError

PROVENANCE = "provenance"
"""The table that says where the parameters come from; every other table is named after an attack."""
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, hide_input_in_errors=True)
_RANGES: Mapping[str, Mapping[str, Any]] = {
    "reconstruction": {
        "n_candidates": Field(ge=1),
        "n_attempts": Field(ge=1),
        "temperature": Field(gt=0),
        "temperature_start": Field(gt=0),
        "target_weight": Field(gt=0, le=1),
        "top_p": Field(gt=0, le=1),
        "min_tokens": Field(ge=1),
        "max_tokens": Field(ge=1),
        "screened": Field(ge=1),
    },
    "memorisation": {
        "n_samples": Field(ge=1),
        "min_probability": Field(gt=0, lt=1),
        "anls_threshold": Field(ge=0, le=1),
    },
    "membership": {
        "n_public": Field(ge=0),
        "n_adapted": Field(ge=0),
        "n_questions": Field(ge=1),
        "n_masks": Field(ge=1),
        "max_steps": Field(ge=1),
        "threshold": Field(gt=0),
        "learning_rate": Field(gt=0),
    },
    "provider_membership": {
        "n_seeds": Field(ge=1),
        "n_permutations": Field(ge=1),
        "share": Field(gt=0, lt=1),
        "n_absent": Field(ge=0),
        "n_absent_keys": Field(ge=1),
    },
    "attribute_inference": {"n_candidates": Field(ge=4), "n_per_document": Field(ge=1)},
    "redaction": {"n_folds": Field(ge=2)},
    "canaries": {
        "n_epochs": Field(ge=0),
        "learning_rate": Field(gt=0),
        "decay": Field(gt=0, le=1),
        "temperature": Field(gt=0),
        "temperature_decay": Field(gt=0, le=1),
        "n_restarts": Field(ge=1),
        "spread": Field(ge=0),
        "exhaustive_limit": Field(ge=1),
        "answers_limit": Field(ge=1),
        "n_references": Field(ge=1),
        "n_answers": Field(ge=1),
        "delta": Field(ge=0, lt=1),
    },
}
"""What a parameter may be, beyond its type, by attack."""
_ORDERED: Mapping[str, tuple[tuple[str, str], ...]] = {"reconstruction": (("min_tokens", "max_tokens"),)}
"""Pairs of parameters of which the first may not exceed the second, set or by default, by attack."""


@dataclass(frozen=True)
class AttackParameters:
    """What a file sets.

    Attributes:
        values: by attack, by parameter; all known and valid.
        corpus: sha256 of the data set they were tuned on; None when the file does not say.
        sha256: of the file.
    """

    values: Mapping[str, Mapping[str, Any]]
    corpus: str | None
    sha256: str

    def applied(self, attack: Attack) -> Attack:
        """The attack with the parameters that the file sets."""
        return dataclasses.replace(attack, **self.values.get(attack.name, {}))  # type: ignore[type-var]


def read(path: Path) -> AttackParameters:
    """Read and check a file.

    Raises:
        UsageError: it cannot be read, or names an attack or a parameter that does not exist, or a value that the
            parameter cannot take; all of them at once.
    """
    try:
        raw = path.read_bytes()
        content = tomllib.loads(raw.decode())
    except OSError as error:
        raise UsageError(f"--attack-parameters {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--attack-parameters {path}: not readable as TOML: {error}") from None
    provenance = content.pop(PROVENANCE, {})
    corpus = provenance.get("corpus_sha256") if isinstance(provenance, dict) else None
    values: dict[str, dict[str, Any]] = {}
    problems = []
    kinds = {kind.name: kind for kind in BATTERY}
    for name, table in content.items():
        if name not in kinds:
            problems.append(f"{path}: [{name}]: no attack is called so; one of {', '.join(kinds)}")
        elif not isinstance(table, dict):
            problems.append(f"{path}: {name}: must be a table")
        else:
            values[name], wrong = _checked(kinds[name], table)
            problems += [f"{path}: [{name}] {problem}" for problem in wrong]
    if problems:
        raise UsageError(problems, "correct the file, or write one with: docaudit tune-attack")
    return AttackParameters(values, corpus if isinstance(corpus, str) else None, hashlib.sha256(raw).hexdigest())


def _checked(kind: type[Attack], table: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters in a table, and what is wrong with the others."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    types = get_type_hints(kind)
    values, problems = {}, []
    for name, value in table.items():
        if name not in names:
            problems.append(f"{name}: no such parameter; one of {', '.join(names)}")
            continue
        allowed: Any = Annotated[(types[name], _RANGES.get(kind.name, {}).get(name, Field()))]
        try:
            # TOML knows lists only.
            given = tuple(value) if isinstance(value, list) else value
            values[name] = TypeAdapter(allowed, config=_STRICT).validate_python(given)
        except ValidationError as error:
            problems += [f"{name}: {detail['msg']}" for detail in error.errors(include_input=False)]
    if not problems:
        try:
            kind(**values)
        except ValueError as error:
            problems.append(str(error))
    whole = {**{field.name: field.default for field in dataclasses.fields(kind)}, **values}  # type: ignore[arg-type]
    problems += [
        f"{low}: {whole[low]} is more than {high}, {whole[high]}"
        for low, high in _ORDERED.get(kind.name, ())
        if whole[low] > whole[high]
    ]
    return values, problems
