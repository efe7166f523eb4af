"""The formats of a comparison, by name; each is a pure function of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import TypeAdapter

from audit.report.scan_diff import markdown, text
from audit.report.scan_diff.result import ScanDiff

Format = Literal["text", "json", "markdown"]
_DIFF: TypeAdapter[ScanDiff] = TypeAdapter(ScanDiff)


def schema() -> dict[str, Any]:
    """The JSON Schema of `docaudit diff --format json`."""
    own = _DIFF.json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **own}


def render(diff: ScanDiff, chosen: Format, width: int) -> str:
    """Draw a comparison; `width` is that of a terminal."""
    drawn: Mapping[Format, Callable[[], str]] = {
        "text": lambda: text.render(diff, width),
        "json": lambda: json.dumps(_DIFF.dump_python(diff, mode="json"), indent=1, allow_nan=False) + "\n",
        "markdown": lambda: markdown.render(diff),
    }
    return drawn[chosen]()
