"""The interface of countermeasures, and those that installed packages register."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from audit import plugins
from audit.defenses.remedy import Remedy
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.targets.interface import Target


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
        """Return the name of the countermeasure on the command line and in the record."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the title of the countermeasure in a comparison."""


class QueryDefense(Defense):
    """Wrap a model while it is used: a target around a target."""

    def seeded(self, seed: int) -> Self:
        """Return a copy with its random choices drawn from `seed`; itself where it makes none."""
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
        """Return the countermeasure of this name; one of a plugin is imported at its first use."""
        entry = self.data[name]
        if isinstance(entry, EntryPoint):
            item = plugins.item_of(entry)
            if isinstance(item, type):
                item = item()
            self.data[name] = item
        return cast("Defense", self.data[name])


DEFENSES = _Registered(plugins.entries("docaudit.countermeasures"))


def query_defenses() -> dict[str, QueryDefense]:
    """Return the countermeasures that work while a model is used, by name."""
    return {
        name: defense for name, defense in DEFENSES.items() if isinstance(defense, QueryDefense)
    }


def query_defense(name: str, seed: int = 0) -> QueryDefense:
    """Return the countermeasure of this name that works while a model is used.

    Args:
        name: a name among `query_defenses`.
        seed: seed of its random choices.

    Raises:
        UsageError: there is none of this name.
    """
    defenses = query_defenses()
    if name not in defenses:
        raise UsageError(f"no countermeasure is called {name!r}", f"one of {', '.join(defenses)}")
    return defenses[name].seeded(seed)


def refuse_unknown(names: Sequence[str]) -> None:
    """Refuse names of which there is no countermeasure.

    Raises:
        UsageError: one of them is such a name.
    """
    unknown = dict.fromkeys(names).keys() - DEFENSES.keys()
    if unknown:
        problems = [f"no countermeasure is called {name!r}" for name in sorted(unknown)]
        raise UsageError(problems, f"one of {', '.join(DEFENSES)}")
