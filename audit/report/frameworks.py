"""Clauses of laws and taxonomies, and what of a report is evidence for each: `policies/frameworks.toml`."""

from __future__ import annotations

import datetime as dt
from functools import cache
from typing import Annotated, Literal

from pydantic import StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass

from audit.measurements import STRICT
from audit.report.remedies import read_shipped

Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
FOR = "evidence for the resistance"
"""The beginning of the role of every attack: no test can be evidence for more."""
Part = Literal["coverage", "threat models", "ratio", "limits", "record", "sign-off", "countermeasures", "residual risk"]
"""A part of the report that is evidence itself, whatever the attacks found."""


@dataclass(frozen=True, config=STRICT)
class Framework:
    """A law or a taxonomy, and the document that holds it."""

    name: Written
    source: Written


@dataclass(frozen=True, config=STRICT)
class Clause:
    """A place in a law or a taxonomy.

    Attributes:
        framework: its name.
        summary: what it asks, in our words.
        quote: its own words, only where these matter.
        read: the day on which it was read.
        seen: how, where that was not in the source itself.
        attack_class: the class of attack it names, of EDPB Opinion 28/2024, paragraph 55.
        outside: what of that class no attack of docaudit tries.
        unmapped: why nothing in a report is evidence for it.
    """

    id: Written
    framework: Written
    clause: Written
    summary: Written
    read: dt.date
    seen: Literal["", "as quoted by others", "as summarised by others", "in a copy on another site"] = ""
    quote: str = ""
    attack_class: str = ""
    outside: str = ""
    unmapped: str = ""


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """What an attack, or a part of the report, is evidence for.

    Attributes:
        role: in words, without a full stop; that of an attack begins with `FOR`.
        clauses: their ids.
        metrics: those of the attack that count; empty: all of it.
        none: why an attack is evidence for no clause; then it has neither role nor clauses.
    """

    role: str = ""
    clauses: tuple[Written, ...] = ()
    attack: Written | None = None
    part: Part | None = None
    metrics: tuple[Written, ...] = ()
    none: str = ""


@dataclass(frozen=True, config=STRICT)
class Frameworks:
    """Laws and taxonomies, their clauses, each in its order, and all evidence, as `policies/frameworks.toml` has them.

    A test keeps that every attack is mapped and every clause has evidence or a reason why it has none.
    """

    schema: Literal[1]
    frameworks: tuple[Framework, ...]
    clauses: tuple[Clause, ...]
    mappings: tuple[Evidence, ...]

    def of_clause(self, clause: str) -> tuple[Evidence, ...]:
        """Return what is evidence for a clause."""
        return tuple(one for one in self.mappings if clause in one.clauses)

    def of_attack(self, attack: str) -> tuple[Evidence, ...]:
        """Return what an attack is evidence for; empty for one that nobody has mapped."""
        return tuple(one for one in self.mappings if one.attack == attack)


@cache
def frameworks() -> Frameworks:
    """Read the shipped clauses and mappings.

    Raises:
        RenderError: the file cannot be read, with every problem of its fields.
    """
    return read_shipped("frameworks.toml", TypeAdapter(Frameworks))
