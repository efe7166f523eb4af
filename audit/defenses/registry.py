"""The countermeasures, by name; all of them come from extensions."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib.metadata import EntryPoint

from audit import plugins
from audit.defenses.interface import Defense, QueryDefense
from audit.errors import UsageError


class _Registered(MutableMapping[str, Defense]):
    """Countermeasures of installed packages: each is imported when it is first asked for, so that a gate needs none."""

    def __init__(self) -> None:
        self._items: dict[str, EntryPoint | Defense] = dict(plugins.entries("docaudit.countermeasures"))

    def __getitem__(self, name: str) -> Defense:
        found = self._items[name]
        if isinstance(found, EntryPoint):
            item = plugins.item_of(found)
            found = self._items[name] = item() if isinstance(item, type) else item
        return found

    def __setitem__(self, name: str, defense: Defense) -> None:
        self._items[name] = defense

    def __delitem__(self, name: str) -> None:
        del self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


DEFENSES = _Registered()


def query_defenses() -> dict[str, QueryDefense]:
    """Return those that work while a model is used."""
    return {name: defense for name, defense in DEFENSES.items() if isinstance(defense, QueryDefense)}


def query_defense(name: str, seed: int = 0) -> QueryDefense:
    """Return the countermeasure of this name that works while a model is used.

    Args:
        name: one of `query_defenses`.
        seed: of its random choices.

    Raises:
        UsageError: there is none of this name.
    """
    known = query_defenses()
    if name not in known:
        raise UsageError(f"no countermeasure is called {name!r}", f"one of {', '.join(known)}")
    return known[name].seeded(seed)
