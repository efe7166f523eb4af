"""Load extensions: what installed packages add to docaudit through entry points, this project's own included.

A package adds an item with an entry point in one of eight groups (docs/extending.md has the first
seven):

| group | an entry point names |
|---|---|
| `docaudit.attacks` | a subclass of `audit.attacks.interface.Attack`, with a text beside its module |
| `docaudit.targets` | an encoder `Family`, an `AnsweringFamily`, or an `Opener` (`audit.targets.opening`) |
| `docaudit.importers` | a subclass of `audit.importers.interface.Importer` |
| `docaudit.commands` | a function that adds a command to a `typer.Typer` |
| `docaudit.engines` | a function that makes an `Engine` from `EngineSettings` (`audit.engine.interface`) |
| `docaudit.countermeasures` | a subclass or an instance of `audit.defenses.interface.Defense` |
| `docaudit.exporters` | an `audit.report.exporting.Exporter`, for `docaudit export --to NAME` |
| `docaudit.sources` | a function that downloads what is named behind `NAME://`, as `audit.extensions.hub.fetch` does |

Three sources are of servers (`audit.extensions.remote`): `http` and `https` open a model, `answers`
takes its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

from audit.errors import EngineError

Group = (
    Literal["docaudit.attacks", "docaudit.targets", "docaudit.importers", "docaudit.commands"]
    | Literal[
        "docaudit.engines", "docaudit.countermeasures", "docaudit.exporters", "docaudit.sources"
    ]
)
T = TypeVar("T")


@cache
def entries(group: Group) -> dict[str, EntryPoint]:
    """List the entry points of a group by name, in the order of names; nothing is imported.

    Raises:
        EngineError: two packages add one of the same name.
    """
    by_name: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        if entry.name in by_name:
            both = f"{_package(by_name[entry.name])} and {_package(entry)}"
            raise EngineError(f"{both} both add {entry.name!r} to {group}", "uninstall one of them")
        by_name[entry.name] = entry
    return by_name


def locate(group: Group) -> dict[str, Path]:
    """Find the modules of a group's items without importing them.

    Returns:
        The path of each module without ".py", by the item's name; an item whose package is not
        found is left out.

    Raises:
        EngineError: two packages add an item of the same name.
    """
    loaded = {}
    for name, entry in entries(group).items():
        root, *submodules = entry.module.split(".")
        spec = find_spec(root)
        if spec is not None and spec.submodule_search_locations:
            loaded[name] = Path(spec.submodule_search_locations[0]).joinpath(*submodules)
        elif spec is not None and spec.origin is not None:
            loaded[name] = Path(spec.origin).with_suffix("")
    return loaded


def package_of(group: Group, name: str) -> str:
    """Name the package that adds an item of a group."""
    return _package(entries(group)[name])


@cache
def find(group: Group, name: str) -> Any:
    """Load the item of this name alone; None where the group has none.

    Raises:
        EngineError: see `entries` and `item_of`.
    """
    entry = entries(group).get(name)
    return None if entry is None else item_of(entry)


@cache
def load(group: Group) -> dict[str, Any]:
    """Load all items of a group.

    Returns:
        The items by name, in the order of names.

    Raises:
        EngineError: see `entries` and `item_of`.
    """
    return {name: item_of(entry) for name, entry in entries(group).items()}


def extend(core: Mapping[str, T], group: Group) -> dict[str, T]:
    """Add the items of a group to a table of the core; classes among them are instantiated.

    Raises:
        EngineError: see `load`; or an item has the name of one of the core.
    """
    items = load(group)
    for name in items.keys() & core.keys():
        raise EngineError(
            f"an installed package adds {name!r} to {group}, which docaudit has", "uninstall it"
        )
    return {
        **core,
        **{name: item() if isinstance(item, type) else item for name, item in items.items()},
    }


def item_of(entry: EntryPoint) -> Any:
    """Load what an entry point names.

    Raises:
        EngineError: it cannot be imported.
    """
    try:
        return entry.load()
    except Exception as error:
        raise EngineError(
            f"{_package(entry)}: its {entry.group.removeprefix('docaudit.')} {entry.name!r} ({entry.value}) cannot be "
            f"loaded: {type(error).__name__}: {error}",
            f"update or uninstall {_package(entry)}",
        ) from error


def _package(entry: EntryPoint) -> str:
    """Name the package that an entry point comes from; its module where that is unknown."""
    return entry.dist.name if entry.dist is not None else entry.module
