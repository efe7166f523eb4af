"""The countermeasures that work while a model is used, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from audit.defenses.interface import Defence
from audit.defenses.paraphrase import Paraphrase
from audit.defenses.random_string import RandomString
from audit.errors import UsageError

DEFENCES: Mapping[str, Callable[[int], Defence]] = {
    "paraphrase": Paraphrase,
    "random-before": partial(RandomString, "before"),
    "random-after": partial(RandomString, "after"),
}
"""By name, what makes the countermeasure from a seed."""


def defence(name: str, seed: int = 0) -> Defence:
    """The countermeasure of this name.

    Args:
        name: one of `DEFENCES`.
        seed: of its random choices.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in DEFENCES:
        raise UsageError(f"no countermeasure is called {name!r}", f"one of {', '.join(DEFENCES)}")
    return DEFENCES[name](seed)
