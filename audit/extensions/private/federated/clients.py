"""The file that says which client holds which providers (docs/federated.md#clients)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.corpus.folding import fold
from audit.errors import UsageError
from audit.files import read_file, read_toml

_HINT = 'name every provider once: [clients], then a line such as north = ["provider 1", "provider 2"] for each client'


@dataclass(frozen=True)
class Clients:
    """Parties and their providers.

    Attributes:
        providers: folded, by client in the file's order; at least one each, and none with two clients.
    """

    providers: Mapping[str, tuple[str, ...]]

    @property
    def note(self) -> str | None:
        """A remark for the user; None where there is nothing to remark."""
        if len(self.providers) > 1:
            return None
        return "there is one client only: it is the server as well, and the training is a central one"


def read_clients(path: Path, providers: Iterable[str]) -> Clients:
    """Read a TOML file whose table `clients` has, by client, the list of its providers.

    Args:
        path: of the file.
        providers: the names of all units that are trained on; names are folded, as theirs are.

    Raises:
        UsageError: the file cannot be read, a client has no provider, a provider is named twice or not at all, or one
            is named that is not trained on; all that is wrong is said at once.
    """
    named = {client: [fold(name) for name in group] for client, group in _table(path).items()}
    expected = set(map(fold, providers))
    counts = Counter(provider for group in named.values() for provider in group)
    problems = [f"{path}: client {client!r} has no provider" for client, group in named.items() if not group]
    problems += [f"{path}: provider {provider!r} is named {times} times" for provider, times in _repeated(counts)]
    problems += [
        f"{path}: provider {provider!r} has no document that is trained on" for provider in counts.keys() - expected
    ]
    problems += [f"{path}: provider {provider!r} has no client" for provider in expected - counts.keys()]
    if problems:
        raise UsageError(sorted(problems), _HINT)
    return Clients({client: tuple(group) for client, group in named.items()})


def _repeated(counts: Counter[str]) -> list[tuple[str, int]]:
    return [(provider, times) for provider, times in counts.items() if times > 1]


def _table(path: Path) -> dict[str, list[str]]:
    try:
        content = read_toml(read_file(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", _HINT) from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}", _HINT) from None
    table = content.get("clients")
    if not isinstance(table, dict) or not table or content.keys() != {"clients"}:
        raise UsageError(f"{path}: needs one table, clients, with a line for each client", _HINT)
    wrong = [f"{path}: client {client!r} needs a list of providers" for client in table if not _is_list(table[client])]
    wrong += [f"{path}: a client needs a name"] * ("" in table)
    if wrong:
        raise UsageError(wrong, _HINT)
    return table


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
