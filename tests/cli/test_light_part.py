"""What `pip install docaudit` gives without an extra: commands on records, without torch or scipy."""

import json
import tomllib
from pathlib import Path

import attested
import numpy as np
import pytest
import two_scans
from commands import docaudit, run_python
from packaging.requirements import Requirement
from pipeline_commands import DATA, ROOT, write_record

from audit import parts
from audit.stats.paired import UnitScores

LIGHT = """
import json, sys
from importlib.machinery import PathFinder

absent = json.loads(sys.argv[1])

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
sys.argv = ["docaudit", *sys.argv[2:]]
from audit.cli import main
main()
"""
"""The command line where some modules are not installed."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ABSENT = [*parts.EXTRA_OF, "datasets", "matplotlib", "peft", "pyarrow", "pypdf", "pypdfium2", "ray"]
SAMPLE = ROOT / "sample_models" / "receipts"
MODEL = SAMPLE / "model"
DOCUMENTS = SAMPLE / "data"


def light(*words, folder=ROOT):
    """Run `docaudit` without any module of an extra."""
    return run_python("-c", LIGHT, json.dumps([*ABSENT, "securesystemslib"]), *words, cwd=folder)


def names_of(extra):
    """Return the packages of an extra, with those of the extras of docaudit that it names."""
    names = set()
    for line in EXTRAS[extra]:
        requirement = Requirement(line)
        if requirement.name == "docaudit":
            names |= set().union(*(names_of(other) for other in requirement.extras))
        else:
            names.add(requirement.name)
    return names


def test_modules_of_the_scanning_part_are_those_of_its_packages():
    renamed = {"scikit-learn": "sklearn", "huggingface-hub": "huggingface_hub"}
    modules = {renamed.get(name, name) for name in names_of("scan")}
    # transformers brings the tokenizers.
    assert set(parts.EXTRA_OF) == modules | {"tokenizers"}
    assert {module for module, extra in parts.EXTRA_OF.items() if extra == "diff"} == {"scipy"}
    assert names_of("diff") == {"scipy"}


def test_a_gate_says_the_same_with_and_without_the_scanning_part(tmp_path):
    write_record(tmp_path, "exceeded")
    command = ("gate", tmp_path / "audits", "--policy", tmp_path / "mine.toml", "--format", "json")
    done = light(*command)
    assert (done.returncode, done.stdout) == (10, docaudit(*command).stdout)


def test_a_record_is_attested_verified_and_gated_with_its_model(tmp_path):
    model = attested.model(tmp_path / "model")
    folder = tmp_path / "report"
    two_scans.saved(folder, attested.record(model, DATA))
    assert light("attest", folder).returncode == 0
    verified = light("verify", folder, "--model", model, "--data", DATA)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    gated = light("gate", folder, "--model", model, "--data", DATA)
    assert gated.returncode == 10, gated.stderr


def test_a_report_comes_without_its_pdf_and_says_what_adds_it(tmp_path):
    write_record(tmp_path, "exceeded")
    out = tmp_path / "drawn"
    done = light("report", tmp_path / "audits", "--policy", tmp_path / "mine.toml", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "pip install 'docaudit[scan]'" in " ".join(done.stderr.split())
    assert {path.name for path in out.iterdir()} >= {"report.html", "measurements.csv"}
    assert not (out / "report.pdf").exists()


def scans(folder, scores):
    """Save two scans of a leak that falls, with the values of their units where there are any."""
    two_scans.saved(folder / "old", two_scans.LEAKS, scores)
    two_scans.saved(folder / "new", two_scans.QUIET, scores)
    return folder / "old", folder / "new"


def test_two_records_are_compared_without_scipy(tmp_path):
    old, new = scans(tmp_path, None)
    done = light("diff", old, new, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(
        docaudit("diff", old, new, "--format", "json").stdout
    )


def test_units_of_two_scans_are_paired_by_another_part(tmp_path):
    units = [str(unit) for unit in range(40)]
    values = UnitScores(units, units, np.arange(40) < 20, np.linspace(0, 1, 40))
    old, new = scans(tmp_path, {"reconstruction": {"excess_pr.unique": values}})
    done = light("diff", old, new)
    assert done.returncode == 2, done.stdout
    assert "scipy" in done.stderr
    assert "hint: pip install 'docaudit[diff]'" in done.stderr


def test_two_scans_are_on_one_page_without_scipy(tmp_path):
    scans(tmp_path / "scans", None)
    done = light("view", tmp_path / "scans", "--out", tmp_path / "page")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page" / "index.html").read_text()
    assert "numbers could be compared" in page


def test_a_data_set_is_inspected_without_a_model():
    assert light("inspect", DOCUMENTS).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("scan", MODEL, DOCUMENTS),
        ("demo",),
        ("inspect", DOCUMENTS, "--model", MODEL),
        ("fix", "docaudit-report"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_opens_a_model_says_the_line_that_adds_its_part(words, tmp_path):
    done = light(*words, folder=tmp_path)
    assert done.returncode == 2, done.stdout
    assert "error: this needs torch and transformers" in done.stderr
    assert "hint: pip install 'docaudit[scan]'" in done.stderr
    assert not [*Path(tmp_path).iterdir()]
