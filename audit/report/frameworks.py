"""Clauses of laws and taxonomies, and what of a report is evidence for each: `policies/frameworks.toml`."""

from __future__ import annotations

import datetime as dt
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.attacks import known_metrics
from audit.errors import RenderError
from audit.measurements import STRICT
from audit.resources import folder

Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
FOR = "evidence for the resistance"
"""The beginning of the role of every attack: no test can be evidence for more."""
Part = Literal["coverage", "threat models", "ratio", "limits", "record", "sign-off", "countermeasures", "residual risk"]
"""A part of the report that is evidence itself, whatever the attacks found."""


@strict_dataclass(frozen=True, config=STRICT)
class Framework:
    """A law or a taxonomy, and the document that holds it."""

    name: Written
    source: Written


@strict_dataclass(frozen=True, config=STRICT)
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


@strict_dataclass(frozen=True, config=STRICT)
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


@strict_dataclass(frozen=True, config=STRICT)
class _File:
    schema: Literal[1]
    frameworks: tuple[Framework, ...]
    clauses: tuple[Clause, ...]
    mappings: tuple[Evidence, ...]


@dataclass(frozen=True)
class Frameworks:
    """Laws and taxonomies, their clauses, each in its order, and all evidence."""

    frameworks: tuple[Framework, ...]
    clauses: tuple[Clause, ...]
    evidence: tuple[Evidence, ...]

    def of_clause(self, clause: str) -> tuple[Evidence, ...]:
        """Return what is evidence for a clause."""
        return tuple(one for one in self.evidence if clause in one.clauses)

    def of_attack(self, attack: str) -> tuple[Evidence, ...]:
        """Return what an attack is evidence for; empty for one that nobody has mapped."""
        return tuple(one for one in self.evidence if one.attack == attack)


_FILE: TypeAdapter[_File] = TypeAdapter(_File)


@cache
def frameworks() -> Frameworks:
    """The shipped clauses and mappings.

    Raises:
        RenderError: as `load` does.
    """
    return load(folder("policies") / "frameworks.toml", known_metrics())


def load(path: Path, metrics: Mapping[str, Collection[str]]) -> Frameworks:
    """Read clauses and mappings.

    Args:
        path: of the file.
        metrics: those that each attack measures.

    Raises:
        RenderError: every problem of the file: it cannot be read, names an attack, a metric or a clause that there is
            not, or leaves a clause without evidence and without a reason.
    """
    try:
        content = _FILE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")), strict=False)
    except (OSError, ValueError) as error:
        if not isinstance(error, ValidationError):
            raise RenderError(f"{path.name}: {error}") from None
        problems = [f"{path.name} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise RenderError(problems) from None
    found = [*_clause_problems(content), *(problem for one in content.mappings for problem in _problems(one, metrics))]
    if found:
        raise RenderError([f"{path.name} {problem}" for problem in found])
    return Frameworks(content.frameworks, content.clauses, content.mappings)


def _name(evidence: Evidence) -> str:
    return evidence.attack or evidence.part or "a mapping"


def _clause_problems(content: _File) -> Iterator[str]:
    """A clause is there once, and has evidence or a reason why it has none, and only one of both."""
    counts = Counter(clause.id for clause in content.clauses)
    yield from (f"{name}: is there {count} times" for name, count in counts.items() if count > 1)
    used = {name: _name(one) for one in content.mappings for name in one.clauses}
    yield from (f"{place}: no clause is called {name!r}" for name, place in used.items() if name not in counts)
    names = {framework.name for framework in content.frameworks}
    for clause in content.clauses:
        if clause.framework not in names:
            yield f"{clause.id}: no framework is called {clause.framework!r}"
        if (clause.id in used) == bool(clause.unmapped):
            yield f"{clause.id}: give it evidence, or say in `unmapped` why it has none"


def _problems(evidence: Evidence, metrics: Mapping[str, Collection[str]]) -> Iterator[str]:
    name = _name(evidence)
    if (evidence.attack is None) == (evidence.part is None):
        yield f"{name}: name either an attack or a part"
    if evidence.attack is not None and evidence.attack not in metrics:
        yield f"{name}: no attack is called that"
    unknown = [metric for metric in evidence.metrics if metric not in metrics.get(evidence.attack or "", ())]
    yield from (f"{name}: there is no metric {metric!r}" for metric in unknown)
    if bool(evidence.none) == bool(evidence.clauses) or bool(evidence.role) != bool(evidence.clauses):
        yield f"{name}: give clauses and a role, or say in `none` why there are none"
    if evidence.attack is not None and evidence.role and not evidence.role.startswith(FOR):
        yield f"{name}: its role has to begin with {FOR!r}"
