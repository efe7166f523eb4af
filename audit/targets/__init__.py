"""Checkpoints, seen only through what an attacker may ask of them.

`TABLE` is families.toml: data on models and their files, such as transformers' own tables lack.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("families.toml").read_text(encoding="utf-8"))
OWN_VOCABULARIES: frozenset[str] = frozenset(TABLE["answering"]["own_vocabularies"])
"""Answering families whose tokens no masked language model shares."""
