"""Reference models that an audit compares with: given, found or trained, and cached by content.

`TEXTS` is texts.toml: what is said where one is missing.
"""

from __future__ import annotations

from typing import Any

from audit.files import table_beside

TEXTS: dict[str, Any] = table_beside(__file__, "texts.toml")
