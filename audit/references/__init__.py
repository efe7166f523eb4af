"""Reference models that an audit compares with: given, found or trained, and cached by content.

`TEXTS` is texts.toml: what is said where one is missing.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
