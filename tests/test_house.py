"""How the house is built: files stay short, and the design page shows the layers that are checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_LINES = 400


def test_no_file_of_the_package_is_long() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "audit").rglob("*.py")}
    assert len(lines) > 300
    assert {str(path.relative_to(ROOT)): n for path, n in lines.items() if n > MOST_LINES} == {}


def test_the_design_page_shows_the_layers_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (checked,) = (one["layers"] for one in contracts if one.get("containers") == ["audit"])
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == [*range(1, len(checked) + 1)]
    shown = [set(re.findall(r"`(\w+)`", modules)) for _, modules in rows]
    assert shown == [set(layer.split(" | ")) for layer in checked]
