"""The size that the gate allows: what counts as a line of code, and the limits that it compares."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from scripts import load

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def size():
    return load(ROOT / ".ci" / "size.py")


def test_blanks_comments_and_docstrings_are_no_code(size):
    documented = '"""A module."""\n\nimport os  # why\n\n\ndef f() -> str:\n    """Do it.\n\n    Twice.\n    """\n'
    source = documented + '    # reason\n    return """a\nb"""\n'
    assert size.code_lines(source) == 4


@pytest.mark.parametrize(("options", "c", "kept"), [([], 11, (9, 9)), ([], 9, (9, 9)), (["--lower"], 9, (7, 5))])
def test_the_check_fails_above_a_limit_and_lowering_stops_at_the_goal_and_never_raises(
    size, options, c, kept, tmp_path, monkeypatch
):
    table, text = tmp_path / "size.toml", '# reasons\n[limits]\n"a" = {}\n"b" = {}\n"c" = {}\n\n[goals]\n"b" = 5\n'
    table.write_text(text.format(9, 9, c), encoding="utf-8")
    monkeypatch.setattr(size, "LIMITS", table)
    monkeypatch.setattr(size, "measure", lambda root: {"a": 7, "b": 3, "c": 11})
    monkeypatch.setattr(sys, "argv", ["size.py", *options])
    with pytest.raises(SystemExit, match=r"above the limit .*: c;") if c < 11 else nullcontext():
        size.main()
    assert table.read_text() == text.format(*kept, c)
