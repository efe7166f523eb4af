"""The size that the gate allows: what counts as a line of code, and the limits that it compares."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("size_of_the_house", ROOT / ".ci" / "size.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blanks_comments_and_docstrings_are_no_code(size: ModuleType) -> None:
    documented = '"""A module."""\n\nimport os  # why\n\n\ndef f() -> str:\n    """Do it.\n\n    Twice.\n    """\n'
    source = documented + '    # reason\n    return """a\nb"""\n'
    assert size.code_lines(source) == 4


@pytest.mark.parametrize(("limit", "fails"), [(3, False), (2, True)])
def test_the_check_fails_above_a_limit(
    size: ModuleType, limit: int, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "size.toml"
    table.write_text(f'# reasons\n[limits]\n"audit" = {limit}\n\n[goals]\n"audit" = 1\n', encoding="utf-8")
    monkeypatch.setattr(size, "LIMITS", table)
    monkeypatch.setattr(size, "measure", lambda root: {"audit": 3})
    monkeypatch.setattr(sys, "argv", ["size.py"])
    if fails:
        with pytest.raises(SystemExit, match="above the limit"):
            size.main()
    else:
        size.main()


def test_lowering_never_raises_a_limit_and_stops_at_the_goal(
    size: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "size.toml"
    table.write_text('# reasons\n[limits]\n"a" = 9\n"b" = 9\n"c" = 9\n\n[goals]\n"b" = 5\n', encoding="utf-8")
    monkeypatch.setattr(size, "LIMITS", table)
    monkeypatch.setattr(size, "measure", lambda root: {"a": 7, "b": 3, "c": 11})
    monkeypatch.setattr(sys, "argv", ["size.py", "--lower"])
    with pytest.raises(SystemExit, match=r"above the limit .*: c"):
        size.main()
    assert table.read_text() == '# reasons\n[limits]\n"a" = 7\n"b" = 5\n"c" = 9\n\n[goals]\n"b" = 5\n'
