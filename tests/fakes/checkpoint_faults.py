"""Faults of checkpoints, from `tests/targets/checkpoint_faults.json`: files that are changed, replaced or removed."""

import json
from functools import partial
from pathlib import Path
from typing import Any

FAULTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "targets" / "checkpoint_faults.json").read_text(encoding="utf-8")
)
"""By kind of checkpoint and name: the file, what to `set` in it or its new `text` (neither: remove
it), the problem."""
Case = tuple[Any, ...]
"""What breaks a folder, a pattern of the problem and, where one is expected, of the hint."""


def change(path: Path, **settings: Any) -> None:
    """Set keys of a JSON file; None removes one."""
    content = {**json.loads(path.read_text()), **settings}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def cases(kind: str) -> dict[str, Case]:
    """The faults of a kind of checkpoint."""
    return {
        name: (
            partial(spoil, fault=fault),
            *(fault[key] for key in ("problem", "hint") if key in fault),
        )
        for name, fault in FAULTS[kind].items()
    }


def spoil(folder: Path, fault: dict[str, Any]) -> None:
    """Break a checkpoint in a folder of its own."""
    path = folder / fault["file"]
    if "set" in fault:
        change(path, **fault["set"])
    elif "text" in fault:
        path.write_text(fault["text"])
    else:
        path.unlink()
