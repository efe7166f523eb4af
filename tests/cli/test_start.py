"""What a command imports before it does its work: structure, where seconds would depend on the machine."""

import os
import subprocess
import sys
import tempfile
from functools import cache
from graphlib import TopologicalSorter

import example_records
import grimp
import pytest

from audit import record as records

LIBRARIES = {
    *("torch", "transformers", "accelerate", "safetensors", "opacus", "ray", "datasets"),
    *("numpy", "scipy", "sklearn", "rapidfuzz", "PIL"),
    *("matplotlib", "weasyprint", "jinja2", "rich.live"),
}
COMPUTES = (
    "audit.targets",
    "audit.references",
    "audit.case",
    "audit.workflows.plan",
    "audit.workflows.scan",
)
"""Parts of docaudit that ask models or read data sets."""


def imported(*arguments: object) -> set[str]:
    """Every module that is imported by a call of docaudit, at whatever depth."""
    program = (
        "import atexit, sys; from audit.cli import main; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert os.listdir(folder) == []
    assert done.returncode in (0, 10, 11), done.stderr[-2000:]
    assert "Exception ignored" not in done.stderr
    return set(done.stderr.split())


TEXTS = {"audit.attacks.text", "audit.attacks.figure_text"}


@pytest.fixture(scope="module")
def imported_by_gate(tmp_path_factory):
    """`imported_by_gate(case)`: what a gate of this record imports, found out once."""

    @cache
    def modules_of(case):
        place = tmp_path_factory.mktemp("gate") / "record.json"
        records.write(example_records.CASES[case]()[0], place)
        return imported("gate", place)

    return modules_of


@pytest.mark.parametrize("case", ["violated", "passed", "wide"])
def test_a_gate_imports_neither_attacks_nor_numbers(case, imported_by_gate):
    modules = imported_by_gate(case)
    assert modules & LIBRARIES == set()
    assert [name for name in modules if name.startswith(COMPUTES)] == []
    assert {name for name in modules if name.startswith("audit.attacks.")} == TEXTS
    assert (
        modules & {"audit.corpus.documents", "audit.corpus.manifest", "audit.compare.defended"}
        == set()
    )


DRAWS = {
    "report RECORD": {"weasyprint", "jinja2", "PIL"},
    "report RECORD --model-card": {"jinja2"},
    "diff RECORD RECORD": {"numpy", "jinja2"},
    "--version": set(),
}


@pytest.mark.parametrize("call", DRAWS)
def test_a_command_on_a_record_imports_what_it_draws_with_alone(call, tmp_path):
    records.write(example_records.CASES["violated"]()[0], tmp_path / "record.json")
    modules = imported(*call.replace("RECORD", str(tmp_path)).split())
    assert modules & LIBRARIES == DRAWS[call]


def imported_with(modules: str) -> set[str]:
    program = [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"]
    return set(subprocess.run(program, capture_output=True, text=True, check=True).stdout.split())


def test_a_scan_that_trains_nothing_imports_nothing_that_trains():
    modules = imported_with("audit.workflows.scan")
    assert "audit.targets.opening" in modules
    assert (
        modules & {"audit.references.trainer", "transformers.trainer", "datasets", "peft"} == set()
    )


def test_a_plan_imports_nothing_that_draws_reports():
    modules = imported_with("audit.cli.plan, audit.workflows.planning")
    assert "audit.workflows.options" in modules
    assert modules & {"jinja2", "matplotlib", "weasyprint", "audit.report.files"} == set()


def test_a_command_imports_no_other_command(imported_by_gate):
    modules = imported_by_gate("violated")
    assert "audit.cli.gate" in modules
    assert (
        modules
        & {f"audit.cli.{name}" for name in ("scan", "plan", "report", "references", "start")}
        == set()
    )


def test_the_help_names_every_command():
    assert {"audit.cli.gate", "audit.cli.scan", "audit.cli.references"} <= imported("--help")


def test_no_module_is_part_of_an_import_circle():
    graph = grimp.build_graph("audit", exclude_type_checking_imports=True, cache_dir=None)
    imports = {
        module: {*graph.find_modules_directly_imported_by(module)} for module in graph.modules
    }
    TopologicalSorter(imports).prepare()  # a CycleError names the circle
