"""Remedies that a report recommends.

Shipped ones are `policies/defenses.toml`; a countermeasure may bring its own.
"""

from __future__ import annotations

import tomllib
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.defenses.interface import DEFENSES
from audit.defenses.remedy import Remedy
from audit.errors import RenderError
from audit.files import shipped_folder
from audit.measurements import STRICT

T = TypeVar("T")


@dataclass(frozen=True, config=STRICT)
class _File:
    schema: Literal[1]
    defenses: tuple[Remedy, ...]


def remedies() -> tuple[Remedy, ...]:
    """Return the shipped remedies in the order they should be considered.

    Those that countermeasures bring follow.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    shipped = read_shipped("defenses.toml", TypeAdapter(_File)).defenses
    measured: set[str] = set()
    for remedy in shipped:
        measured.update(remedy.measured_by)
    brought = [DEFENSES[name].remedy for name in DEFENSES if name not in measured]
    return (*shipped, *(remedy for remedy in brought if remedy is not None))


def read_shipped(name: str, kind: TypeAdapter[T]) -> T:
    """Read a shipped file of `policies/`.

    Raises:
        RenderError: it cannot be read, with every problem of its fields.
    """
    try:
        return kind.validate_python(
            tomllib.loads((shipped_folder("policies") / name).read_text("utf-8")), strict=False
        )
    except ValidationError as error:
        problems = [
            f"{name} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        ]
        raise RenderError(problems) from None
    except (OSError, ValueError) as error:
        raise RenderError(f"{name}: {error}") from None
