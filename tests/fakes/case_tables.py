"""Cases of tests that differ in data only: tables in a TOML file beside the test module, by the test's name."""

import functools
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

read_tables = functools.cache(lambda path: tomllib.loads(path.read_text(encoding="utf-8")))


def table(
    names: str, scope: Mapping[str, Any] | None = None, **options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrise a test by the rows of its table; a value that a row lacks is None.

    The table is an array of rows, or has a row by the name of each case. Where there is one name,
    the row is its value. With a scope, rows may name its objects (`with_objects`), and those of the
    file's table `constants`.
    """

    def parametrise(test: Callable[..., None]) -> Callable[..., None]:
        tables = read_tables(Path(str(sys.modules[test.__module__].__file__)).with_suffix(".toml"))
        cases = tables[test.__name__]
        own = {"ids": list(cases)} if isinstance(cases, dict) else {}
        rows = list(cases.values()) if isinstance(cases, dict) else cases
        if scope is not None:
            known = dict(scope)
            for name, value in tables.get("constants", {}).items():
                known[name] = with_objects(value, known)
            rows = [with_objects(row, known) for row in rows]
        wanted = names.count(",") + 1
        values = rows if wanted == 1 else [[*row, *[None] * (wanted - len(row))] for row in rows]
        return pytest.mark.parametrize(names, values, **{**own, **options})(test)

    return parametrise


def with_objects(value: Any, scope: Mapping[str, Any]) -> Any:
    """Replace a constant's name by the constant, and `{function = [arguments], keyword = ...}` by what it returns.

    Constants are written in capitals, `NULL` is None. Arrays become tuples, into which `*NAME` puts
    all of a constant.
    """
    if isinstance(value, str):
        return scope.get(value, None if value == "NULL" else value) if value.isupper() else value
    if isinstance(value, list):
        parts = [
            scope[one[1:]] if str(one)[:1] == "*" else [with_objects(one, scope)] for one in value
        ]
        return tuple(one for part in parts for one in part)
    if not isinstance(value, dict):
        return value
    first, found = (
        next(iter(value), ""),
        {name: with_objects(one, scope) for name, one in value.items()},
    )
    called = callable(scope.get(first)) and isinstance(value[first], list)
    return scope[first](*found.pop(first), **found) if called else found
