"""Remedies that a report recommends.

Countermeasures of installed packages measure them.
Shipped remedies are `policies/defenses.toml`; a countermeasure may bring its own.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections import UserDict
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit import plugins
from audit.errors import RenderError, UsageError
from audit.files import shipped_folder
from audit.measurements import STRICT

if TYPE_CHECKING:
    from audit.targets.interface import Target

T = TypeVar("T")
_Undecided = Literal[
    "alarm",
    "unmeasured",
    "useless",
    "confounded",
    "weak",
    "weakened",
    "uncovered",
    "unresolved",
    "gap",
    "wide",
]
FindingState = Literal[
    "violated", "one-sided", _Undecided, "clean", "unchecked", "waived", "outside"
]
"""What became of a limit, more finely than its outcome; the first is answered first.

    violated    the leak is confirmed over the limit
    one-sided   undecided, because the data set holds no unseen documents
    clean       the audit as a whole passed, and nobody had to waive anything
    unchecked   no limit of the policy applies to this model
    waived      somebody took responsibility
    outside     the policy passes, and this speaks for a leak that it does not limit; answered as a
    violation is (others)    no decision, see `audit.policy.decision.Cause`
"""
Effort = Literal[
    "a setting, without training",
    "an agreement on who gets what, without training",
    "another scan",
    "new copies of the documents, without training",
    "training again",
    "a pass over the data, and training again",
]
"""The work that a remedy asks for, least first."""
STATES: tuple[FindingState, ...] = get_args(FindingState)
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True, config=STRICT)
class AnsweredFinding:
    """A finding that a remedy answers: `attack` and `metric` are shell patterns."""

    attack: str
    metric: str
    finding: tuple[FindingState, ...]


@dataclass(frozen=True, config=STRICT)
class MeasuredUse:
    """A model's usefulness without and with a remedy by one measure.

    Larger is better; `before` is above 0.
    """

    measure: str
    before: float
    after: float


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """A published effect of a remedy on another model.

    Attributes:
        by: docaudit's own measurement, or a paper's.
        attack, metric: shell patterns of the limits that it speaks for.
        before, after: what was measured, in whatever unit.
        setting: what was measured, on which model and data.
        cost: what it did to usefulness there, in words; empty where numbers say it, or nobody said.
        useful: all measures of usefulness that were taken there.
        source: where the numbers stand.
    """

    by: Literal["docaudit", "paper"]
    attack: str
    metric: str
    before: float
    after: float
    setting: str
    source: str
    cost: str = ""
    useful: tuple[MeasuredUse, ...] = ()


@dataclass(frozen=True, config=STRICT)
class Remedy:
    """One thing the owner can do.

    Attributes:
        does: what it does, for somebody who knows no ML.
        cost: what it takes away or asks for.
        check: how docaudit can tell later whether it helped.
        source: the citation it rests on.
        answers: the findings that call for it.
        measured_by: the registered countermeasures (`docaudit defend NAME`) that show what it
            changes.
        effort: the work that it asks for.
        lifts: whether a model with it may meet the limit; False where the attacker of the audit is
            not hindered by it.
        beside_only: whether it is worth doing only beside another remedy; it ranks behind those
            that stand alone.
        forgetting: whether it helps a model to forget documents, and no other; one without it helps
            no such model.
        command: what measures it, with {policy}, {budget} and {seed} of the scan; empty: `docaudit
            defend` with the first of `measured_by`, where there is one.
        evidence: measured effects, docaudit's own first.
    """

    id: str
    name: str
    does: str
    cost: str
    check: str
    source: str
    answers: tuple[AnsweredFinding, ...]
    measured_by: tuple[str, ...] = ()
    effort: Effort = "training again"
    lifts: bool = True
    beside_only: bool = False
    forgetting: bool = False
    command: str = ""
    evidence: tuple[Evidence, ...] = ()


class Defense(ABC):
    """A countermeasure: it reduces what a model or a data set gives away.

    Attributes:
        remedy: what a report says of it to whom it may help; None where `policies/defenses.toml`
            says it.
    """

    remedy: ClassVar[Remedy | None] = None

    @property
    @abstractmethod
    def name(self) -> str:
        """Return its name on the command line and in the record."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Return its name in a comparison."""


class QueryDefense(Defense):
    """Wrap a model while it is used: a target around a target."""

    def seeded(self, seed: int) -> Self:
        """Return the same with its random choices from `seed`; itself where it makes none."""
        return self

    @abstractmethod
    def wrap(self, target: Target) -> Target:
        """Return the target as the world sees it behind this countermeasure.

        Raises:
            TargetError: it makes no sense around such a target.
        """


class _Registered(UserDict[str, Any]):
    """Countermeasures of installed packages.

    Each is imported when it is first asked for, so that a gate needs none.
    """

    def __getitem__(self, name: str) -> Defense:
        entry = self.data[name]
        if isinstance(entry, EntryPoint):
            item = plugins.item_of(entry)
            self.data[name] = item() if isinstance(item, type) else item
        return cast("Defense", self.data[name])


DEFENSES = _Registered(plugins.entries("docaudit.countermeasures"))


def query_defenses() -> dict[str, QueryDefense]:
    """Return those that work while a model is used."""
    return {
        name: defense for name, defense in DEFENSES.items() if isinstance(defense, QueryDefense)
    }


def query_defense(name: str, seed: int = 0) -> QueryDefense:
    """Return the countermeasure of this name that works while a model is used.

    Args:
        name: one of `query_defenses`.
        seed: of its random choices.

    Raises:
        UsageError: there is none of this name.
    """
    defenses = query_defenses()
    if name not in defenses:
        raise UsageError(f"no countermeasure is called {name!r}", f"one of {', '.join(defenses)}")
    return defenses[name].seeded(seed)


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
