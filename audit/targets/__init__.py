"""Checkpoints, seen only through what an attacker may ask of them.

`TABLE` is families.toml: data on models and their files, such as transformers' own tables lack.
`wording` fills the errors of texts.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from audit.files import table_beside

TABLE: dict[str, Any] = table_beside(__file__, "families.toml")
TEXTS: dict[str, list[str]] = table_beside(__file__, "texts.toml")
OWN_VOCABULARIES: frozenset[str] = frozenset(TABLE["answering"]["own_vocabularies"])
"""Answering families whose tokens no masked language model shares."""


def fill_text(texts: Mapping[str, Sequence[str]], key: str, /, **values: object) -> tuple[str, ...]:
    """Return problem and hint of the error `key`, with the values in their placeholders."""
    return tuple(text.format(**values) for text in texts[key])


wording = partial(fill_text, TEXTS)
