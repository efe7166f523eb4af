"""Reference models that an audit compares with: given, found or trained, and cached by content.

`TEXTS` is texts.toml: what is said where one is missing, and errors, which `wording` fills.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from audit.files import table_beside
from audit.targets import fill_text

TEXTS: dict[str, Any] = table_beside(__file__, "texts.toml")
SHORT = 600.0
"""Seconds of training that all split models may take together, to be recommended."""
wording = partial(fill_text, TEXTS["errors"])


def recommends_splits(times: Mapping[str, tuple[float, float]]) -> bool:
    """Test whether split models train quickly enough to be recommended.

    `times` are the seconds of each training, at least and at most.
    """
    return "splits" in times and bool(times["splits"][1] <= SHORT)
