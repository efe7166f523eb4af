"""Keys of JSON that one service spells in several ways: textAnchor, text_anchor, TextAnchor."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


@cache
def spellings(name: str) -> tuple[str, ...]:
    """Return the spellings of a key: as it is, then in snake case, camel case, Pascal case."""
    words = [word.lower() for word in _WORD.findall(name)] or [name]
    pascal = "".join(map(str.capitalize, words))
    camel = words[0] + "".join(map(str.capitalize, words[1:]))
    return tuple(dict.fromkeys((name, "_".join(words), camel, pascal)))


def member(table: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key, in whichever spelling the table has it.

    Raises:
        KeyError: the table has it in none.
        TypeError: it is no table.
    """
    if not isinstance(table, Mapping):
        raise TypeError("no table")
    for key in spellings(name):
        if key in table:
            return table[key]
    raise KeyError(name)


def optional(table: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return the value of a key in whichever spelling, or the default for none and for null."""
    try:
        value = member(table, name)
    except KeyError:
        return default
    return default if value is None else value


def first_of(table: Mapping[str, Any], *names: str) -> Any:
    """Return the value of the first of these keys that a table has and that is not null.

    Raises:
        KeyError: the table has none of them.
    """
    for name in names:
        value = optional(table, name)
        if value is not None:
            return value
    raise KeyError(names[0])
