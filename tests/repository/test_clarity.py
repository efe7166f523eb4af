"""The density that the gate allows: what counts against a folder, and the limits that only go down."""

import sys
from pathlib import Path

import pytest
from scripts import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def clarity():
    return load(ROOT / ".ci" / "clarity.py")


def test_blanks_comments_and_docstrings_are_no_code(clarity):
    documented = '"""A module."""\n\nimport os  # why\n\n\ndef f() -> str:\n    """Do it.\n\n    Twice.\n    """\n'
    source = documented + '    # reason\n    return """a\nb"""\n'
    assert clarity.measure_source(source, "a.py").lines == 4


@pytest.mark.parametrize(
    ("source", "count", "value"),
    [
        pytest.param("x = 1 if y else 2", "ternaries", 1, id="a ternary"),
        pytest.param(
            "x = 1 if y else 2", "expressions", 1, id="a ternary is a decision in an expression"
        ),
        pytest.param(
            "x = a and b or c", "expressions", 2, id="each operator of a condition is one"
        ),
        pytest.param(
            "x = [y for y in z if y]", "expressions", 2, id="a comprehension and its condition"
        ),
        pytest.param(
            "for y in z:\n    if y:\n        x = y", "statements", 2, id="a loop and a condition"
        ),
        pytest.param("x = [y for y in z]", "nested", 0, id="a plain comprehension"),
        pytest.param("x = [y for z in w for y in z]", "nested", 1, id="two loops"),
        pytest.param(
            "x = [sum(y for y in z) for z in w]", "nested", 1, id="a comprehension in another one"
        ),
        pytest.param("a, b = x, y", "parallel", 1, id="unrelated values"),
        pytest.param("a, b = b, a", "parallel", 0, id="a swap"),
        pytest.param("a, b = pair", "parallel", 0, id="a pair taken apart"),
        pytest.param("one = x", "vague", 1, id="a vague name"),
        pytest.param("unseen_loss = x", "vague", 0, id="a name that says something"),
    ],
)
def test_what_folds_thoughts_together_is_counted(clarity, source, count, value):
    assert getattr(clarity.measure_source(source, "a.py"), count) == value


def test_unfolding_a_decision_never_counts_against_a_folder(clarity):
    folded = clarity.measure_source("def f(x):\n    return 1 if x else 2", "a.py").limited()
    unfolded = clarity.measure_source(
        "def f(x):\n    if x:\n        return 1\n    return 2", "a.py"
    ).limited()
    assert all(unfolded[name] <= folded[name] for name in folded)
    assert unfolded != folded


def test_decisions_of_a_function_count_in_statements_and_expressions(clarity):
    conditions = " and ".join(f"x{index}" for index in range(10))
    source = f"def f(a, b, c, d, e, g, *, h):\n    if {conditions}:\n        return 1\n"
    (function,) = clarity.measure_source(source, "a.py").functions
    assert (function.decisions, function.arguments) == (11, 7)
    limited = clarity.measure_source(source, "a.py").limited()
    assert limited["functions over 10 decisions"] == limited["functions over 6 arguments"] == 1


def test_values_of_a_table_count_at_any_depth(clarity):
    assert clarity.count_values({"a": 1, "b": {"c": "x", "d": [1, {"e": 2}]}}) == 4


LIMITS = {"new folders": {"ternaries": 20.0}, "audit": {"ternaries": 9.0}}


@pytest.mark.parametrize(
    ("folder", "ternaries", "excesses"),
    [
        pytest.param("audit", 9.0, [], id="at the limit"),
        pytest.param("audit", 9.1, ["audit: ternaries 9.10, limit 9"], id="above the limit"),
        pytest.param("audit/new", 19.0, [], id="a new folder within the targets"),
        pytest.param(
            "audit/new",
            21.0,
            ["audit/new: ternaries 21.00, limit 20"],
            id="a new folder above them",
        ),
    ],
)
def test_a_number_above_its_limit_is_named(clarity, folder, ternaries, excesses):
    assert list(clarity.list_excesses(LIMITS, {folder: {"ternaries": ternaries}})) == excesses


@pytest.mark.parametrize(
    ("ternaries", "limit"),
    [
        pytest.param(7.11, 8.0, id="lowered and rounded up"),
        pytest.param(11.0, 9.0, id="never raised"),
    ],
)
def test_lowering_never_raises_a_limit(clarity, ternaries, limit):
    lowered = clarity.lower(LIMITS, {"audit": {"ternaries": ternaries}})
    assert lowered == {"new folders": {"ternaries": 20.0}, "audit": {"ternaries": limit}}


def test_the_gate_fails_above_a_limit_and_passes_within(clarity, tmp_path, monkeypatch):
    density = clarity.measure_source("x = 1 if y else 2", "a.py")
    monkeypatch.setattr(clarity, "measure_folders", lambda root: {"audit": density})
    monkeypatch.setattr(clarity, "measure_sizes", lambda root: {"docs words": 5})
    monkeypatch.setattr(clarity, "LIMITS", tmp_path / "clarity.toml")
    monkeypatch.setattr(sys, "argv", ["clarity.py"])
    limits = {
        "new folders": density.limited(),
        "audit": density.limited(),
        "sizes": {"docs words": 5.0},
    }
    clarity.LIMITS.write_text(clarity.render(limits), encoding="utf-8")
    clarity.main()
    clarity.LIMITS.write_text(
        clarity.render({**limits, "sizes": {"docs words": 4.0}}), encoding="utf-8"
    )
    with pytest.raises(SystemExit, match=r"sizes: docs words 5.00, limit 4"):
        clarity.main()
