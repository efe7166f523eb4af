"""Read the file that says which client holds which providers (docs/federated.md#clients)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audit.corpus.folding import fold
from audit.errors import UsageError
from audit.files import read_file, read_toml

_HINT = 'name every provider once: [clients], then a line such as north = ["provider 1", "provider 2"] for each client'


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    clients: dict[str, list[str]] = Field(min_length=1)


def read_clients(path: Path, providers: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Read a TOML file whose table `clients` has, by client, the list of its providers.

    Args:
        path: of the file.
        providers: the names of all units that are trained on; names are folded, as theirs are.

    Returns:
        The folded names of providers, by client in the file's order.

    Raises:
        UsageError: the file cannot be read, a client has no provider, a provider is named twice or not at all, or one
            is named that is not trained on; all that is wrong is said at once.
    """
    named = {client: tuple(fold(name) for name in group) for client, group in _read(path).items()}
    expected, counts = set(map(fold, providers)), Counter(name for group in named.values() for name in group)
    problems = [f"client {client!r} has no provider" for client, group in named.items() if not group]
    problems += [f"provider {provider!r} is named {times} times" for provider, times in counts.items() if times > 1]
    problems += [f"provider {provider!r} has no document that is trained on" for provider in counts.keys() - expected]
    problems += [f"provider {provider!r} has no client" for provider in expected - counts.keys()]
    if problems:
        raise UsageError(sorted(f"{path}: {problem}" for problem in problems), _HINT)
    return named


def _read(path: Path) -> dict[str, list[str]]:
    try:
        return _File.model_validate(read_toml(read_file(path))).clients
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", _HINT) from None
    except ValidationError as error:
        problems = [f"{path}: {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise UsageError(problems, _HINT) from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}", _HINT) from None
