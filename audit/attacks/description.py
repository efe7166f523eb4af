"""What is told of an attack without running it: its name, its metrics, its part of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, overload

from audit import plugins
from audit.attacks.reporting import AttackReport

if TYPE_CHECKING:
    from audit.attacks.interface import Attack


class Description:
    """What policies, verdicts and reports say of an attack.

    An attack declares it in its own class; one that takes long to import has a base class for it in a module of its
    own, `description.py`, which imports nothing of what the attack computes with.

    Attributes:
        name: as policies write it.
        metrics: the metrics a policy may ask for, by name.
        unbounded: those of them that are no shares or areas and may exceed 1, as bits: names, or first parts of the
            names of several ("ipf" of "ipf.member").
        caps: by metric or first part of its name, the smallest maximum over data sets and budgets, where it is under
            that of `upper`: there are scans in which nothing exceeds a limit there or beyond.
        tallies: those of them that count what was found, of which a policy may hold the lower bound alone.
        report: labels, figures, tables and trend, checked against the metrics when the class of the attack is made.
        power: the metric that says how strong the attacker was; None when the attack has none.
        text_metrics: metrics that may tell what the documents give away, whatever the model.
        follows: by metric, numbers beside which it is never missing, where each rests on two units or more.
    """

    name: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    unbounded: ClassVar[tuple[str, ...]] = ()
    caps: ClassVar[Mapping[str, float]] = {}
    tallies: ClassVar[tuple[str, ...]] = ()
    report: ClassVar[AttackReport] = AttackReport()
    power: ClassVar[str | None] = None
    text_metrics: ClassVar[tuple[str, ...]] = ()
    follows: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def load(cls) -> type[Attack]:
        """Import the attack that is described."""
        raise NotImplementedError

    @classmethod
    def upper(cls, metric: str) -> float | None:
        """Return the largest value that a metric can have: 1 for shares and areas; None: any number."""
        return None if {metric, metric.partition(".")[0]} & {*cls.unbounded} else 1.0

    @classmethod
    def cap(cls, metric: str) -> float | None:
        """Return the value that a limit on a metric must stay under; None: any number."""
        return cls.caps.get(metric, cls.caps.get(metric.partition(".")[0], cls.upper(metric)))

    @classmethod
    def summary(cls) -> dict[str, str]:
        """The metrics that sum the attack up, by heading."""
        return dict(cls.report.trend.summary)

    @classmethod
    def leaks(cls) -> tuple[str, ...]:
        """List the metrics that grow with the leak, less being better; areas on either side of chance.

        Those that speak for a leak by themselves, and those that sum the attack up.
        """
        return tuple(dict.fromkeys([*cls.report.tells, *cls.summary().values()]))


class Battery(Sequence["type[Attack]"]):
    """Attacks in their order, then those of extensions; they are imported when one of them is first asked for."""

    def __init__(self, descriptions: Sequence[type[Description]]) -> None:
        """Describe the attacks; the class of an attack describes itself."""
        self._core = tuple(descriptions)

    @cached_property
    def descriptions(self) -> tuple[type[Description], ...]:
        """The descriptions of all attacks, in the same order."""
        return (*self._core, *plugins.load("docaudit.attacks").values())

    @cached_property
    def _attacks(self) -> tuple[type[Attack], ...]:
        return tuple(one.load() for one in self.descriptions)

    def __len__(self) -> int:
        return len(self.descriptions)

    @overload
    def __getitem__(self, index: int) -> type[Attack]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[type[Attack], ...]: ...

    def __getitem__(self, index: int | slice) -> type[Attack] | tuple[type[Attack], ...]:
        return self._attacks[index]


def describe(battery: Sequence[type[Attack]]) -> Sequence[type[Description]]:
    """Return what is told of attacks without importing them, where that can be told."""
    return battery.descriptions if isinstance(battery, Battery) else battery


def import_when_asked(description: type[Description], name: str) -> Callable[[str], type[Attack]]:
    """Make the `__getattr__` of a package: the attack under its short name, imported when that is asked for."""

    def get(asked: str) -> type[Attack]:
        if asked == name:
            return description.load()
        raise AttributeError(f"module {description.__module__.rpartition('.')[0]!r} has no attribute {asked!r}")

    return get
