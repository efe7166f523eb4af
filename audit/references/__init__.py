"""Reference models that an audit compares with: given, found or trained, and cached by content.

`TEXTS` is texts.toml: what is said where one is missing, and errors, which `wording` fills.
"""

from functools import partial
from typing import Any

from audit.files import table_beside
from audit.targets import fill_text

TEXTS: dict[str, Any] = table_beside(__file__, "texts.toml")
wording = partial(fill_text, TEXTS["errors"])
