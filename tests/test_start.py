"""What a command imports before it does its work: structure, where seconds would depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import example_records
import pytest

from audit import record as records
from audit.attacks import BATTERY
from audit.attacks.description import Battery, Description, describe
from audit.attacks.interface import Attack

LIBRARIES = {
    *("torch", "transformers", "accelerate", "safetensors", "opacus", "ray", "datasets"),
    *("numpy", "scipy", "sklearn", "rapidfuzz", "PIL"),
    *("matplotlib", "weasyprint", "jinja2", "rich.live"),
}
COMPUTES = ("audit.targets", "audit.references", "audit.case", "audit.workflows.plan", "audit.workflows.scan")
"""Parts of docaudit that ask models or read data sets."""


def imported(*arguments: object) -> set[str]:
    """Every module that is imported by a call of docaudit, at whatever depth."""
    program = (
        "import atexit, sys; from audit.cli import main; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 10, 11), done.stderr[-2000:]
    return set(done.stderr.split())


@pytest.mark.parametrize("case", ["violated", "passed", "wide"])
def test_a_gate_imports_neither_attacks_nor_numbers(case, tmp_path):
    records.write(example_records.CASES[case]()[0], tmp_path / "record.json")
    modules = imported("gate", tmp_path / "record.json")
    assert modules & LIBRARIES == set()
    assert [name for name in modules if name.startswith(COMPUTES)] == []
    attacks = {kind.__module__ for kind in BATTERY}
    assert modules & attacks == set()
    assert {description.__module__ for description in describe(BATTERY)} <= modules
    assert modules & {"audit.corpus.documents", "audit.corpus.manifest", "audit.defenses.measured"} == set()


def test_a_scan_that_trains_nothing_imports_nothing_that_trains():
    program = "import sys, audit.workflows.scan; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "audit.targets.opening" in modules
    assert modules & {"audit.references.trainer", "transformers.trainer", "datasets", "peft"} == set()


def test_a_command_imports_no_other_command(tmp_path):
    records.write(example_records.CASES["violated"]()[0], tmp_path / "record.json")
    modules = imported("gate", tmp_path / "record.json")
    assert "audit.cli.gate" in modules
    assert modules & {f"audit.cli.{name}" for name in ("scan", "plan", "report", "defend", "canary", "doctor")} == set()


def test_the_help_names_every_command():
    assert {"audit.cli.gate", "audit.cli.scan", "audit.cli.canary"} <= imported("--help")


@pytest.mark.parametrize("kind", BATTERY, ids=lambda kind: kind.name)
def test_an_attack_repeats_nothing_of_its_description(kind):
    (description,) = (one for one in describe(BATTERY) if one.name == kind.name)
    assert issubclass(kind, description)
    assert description.load() is kind
    told = {name for name in Description.__annotations__ if name in vars(kind)}
    assert told == set()


def test_a_battery_takes_an_attack_that_describes_itself():
    class Plain(Attack):
        name = "plain"
        metrics = ("auc",)

    battery = Battery((*BATTERY.descriptions, Plain))
    assert len(battery) == len(BATTERY) + 1
    assert battery[-1] is Plain
    assert [kind.name for kind in battery] == [*(kind.name for kind in BATTERY), "plain"]
    assert describe((*BATTERY, Plain))[-1] is Plain
    assert battery[-2:] == (BATTERY[-1], Plain)


def test_an_attack_has_its_short_name_and_no_other():
    from audit.attacks import canaries

    assert canaries.Canaries in BATTERY
    with pytest.raises(AttributeError, match=r"module 'audit.attacks.canaries' has no attribute 'Canary'"):
        canaries.Canary  # noqa: B018
