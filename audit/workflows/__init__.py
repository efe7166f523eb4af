"""The work of each command: a workflow takes options and returns what came of them.

It prints nothing.
"""

from audit.files import table_beside

_TEXTS = table_beside(__file__, "texts.toml")


def wording(key: str, /, **values: object) -> tuple[str, ...]:
    """Return the problem and the hint of the error of this key, with the values filled in."""
    return tuple(text.format(**values) for text in _TEXTS[key])
