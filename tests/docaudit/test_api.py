"""The Python API: it does what the command line does, and says the same."""

import dataclasses
import inspect
import json
import re
from pathlib import Path

import pytest
import typer.main
from commands import docaudit as command
from commands import run_python
from huggingface_hub import constants
from strange_models import checkpoint

import docaudit
from audit.cli import app
from audit.workflows.options import ScanOptions
from docaudit import Corpus, DocauditError, Policy, evaluate, load_record, scan

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "first_audit.ipynb"
REQUIRED = ("model_dir", "data_dir", "out", "references")
"""Options of a scan that have no default, or a new dictionary."""
pytestmark = pytest.mark.usefixtures("few_candidates")


def test_an_import_loads_nothing_that_computes():
    names = "Corpus, Policy, evaluate, load_record, scan"
    program = f"import docaudit, sys; from docaudit import {names}; print(*sys.modules)"
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr
    assert {*done.stdout.split()} & {
        "torch",
        "transformers",
        "scipy",
        "sklearn",
        "huggingface_hub",
        "typer",
    } == set()


def test_every_option_of_the_command_is_an_argument_with_the_same_default():
    names = {"reference": "references"}
    shown_only = {
        "checkpoints",
        "formats",
        "verbose",
        "no_model",
        "folders",
        "help",
        "bounds",
    }
    options = {one.name: one.default for one in typer.main.get_command(app).commands["scan"].params}
    own = inspect.signature(scan).parameters
    for name, default in options.items():
        if name not in shown_only:
            assert str(own[names.get(name, name)].default or ()) == str(default or ()), name
    assert {names.get(name, name) for name in options} - shown_only == {*own} - {
        *("model_dir", "data_dir", "progress", "documents", "seconds")
    }


@pytest.mark.parametrize("place", ["scan", "forget-check", "plan", "defend", "docaudit.scan"])
def test_an_option_of_a_scan_has_one_default_wherever_it_is_taken(place):
    if place == "docaudit.scan":
        parameters = inspect.signature(scan).parameters.values()
    else:
        parameters = typer.main.get_command(app).commands[place].params
    defaults = {parameter.name: parameter.default for parameter in parameters}
    options = {option.name: option.default for option in dataclasses.fields(ScanOptions)}
    compared = [name for name in options if name in defaults and name not in REQUIRED]
    assert "device" in compared
    for name in compared:
        assert (defaults[name] or None) == (options[name] or None), name


@pytest.fixture(scope="module")
def scanned(checkpoints, tiny_corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("api")
    model = checkpoints("layoutlm", "mlm", 1)
    seen = []
    options = {"only": ["membership", "reconstruction"], "documents": 6, "budget": "quick"}
    result = scan(
        model, tiny_corpus, out=out / "api", progress=lambda *step: seen.append(step), **options
    )
    flags = (
        "--only",
        "membership",
        "--only",
        "reconstruction",
        "--documents",
        6,
        "--budget",
        "quick",
    )
    return result, seen, command("scan", model, tiny_corpus, "--out", out / "cli", *flags), out


def test_the_api_and_the_command_give_the_same_record_verdict_and_warnings(scanned):
    result, _, done, out = scanned
    first, second = (
        dataclasses.replace(load_record(out / name), timing=result.record.timing)
        for name in ("api", "cli")
    )
    assert first == second == result.record
    assert result.exit_code == done.exit_code == result.verdict.exit_code
    assert result.warnings
    said = " ".join(done.output.split())
    assert all(" ".join(warning.split()) in said for warning in result.warnings)
    assert {"record.json", "report.html"} <= {*result.reports}
    assert all(path.parent == out / "api" and path.exists() for path in result.reports.values())


def test_progress_is_silent_unless_a_function_is_given(
    scanned, checkpoints, tiny_corpus, tmp_path, capfd
):
    _, seen, _, _ = scanned
    stages = [stage for stage, _, _ in seen]
    assert stages[0] == "opening the model and the data set"
    assert any(stage.startswith("membership") for stage in stages)
    assert all(0 <= done <= total or not total for _, done, total in seen)
    scan(
        checkpoints("layoutlm", "mlm", 1),
        tiny_corpus,
        out=tmp_path,
        only=["membership"],
        documents=4,
    )
    assert capfd.readouterr() == ("", "")


def test_a_record_is_judged_by_another_policy(scanned):
    record = scanned[0].record
    assert evaluate(record) == scanned[0].verdict
    strict = Policy.load("strict")
    assert evaluate(record, strict) == evaluate(record, "strict")
    own = dataclasses.replace(
        strict, name="mine", limits=strict.limits[:1], demands=(), waivers=(), gaps=()
    )
    assert [decision.limit for decision in evaluate(record, own).decisions] == [*own.limits]
    assert evaluate(record, own).identity.sha256 is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"limits": []}, "has none, so no model could fail", id="no limits"),
        pytest.param(
            {"description": "looser"},
            "one that differs from it needs another name",
            id="a looser copy of a shipped policy",
        ),
        pytest.param(
            {"name": "mine", "limits": "misspelt"}, "did you mean 'auc'", id="a misspelt metric"
        ),
    ],
)
def test_a_policy_that_a_program_made_is_checked_as_a_file_is(scanned, changes, message):
    policy = Policy.load("default")
    if changes.get("limits") == "misspelt":
        first = next(limit for limit in policy.limits if limit.metric == "auc")
        changes = changes | {"limits": (dataclasses.replace(first, metric="auk"),), "demands": ()}
    with pytest.raises(DocauditError, match=re.escape(message)):
        evaluate(scanned[0].record, dataclasses.replace(policy, **changes))


def test_a_scan_is_offline_whatever_the_environment_says(
    scanned, tiny_corpus, tmp_path, monkeypatch
):
    offline = []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def run(*_):
        offline.append(constants.HF_HUB_OFFLINE)
        return scanned[0]

    monkeypatch.setattr("audit.workflows.scan.run", run)
    scan(checkpoint(tmp_path / "model"), tiny_corpus, out=tmp_path / "out")
    assert (offline, constants.HF_HUB_OFFLINE) == ([True], False)


def test_errors_say_what_to_do(tiny_corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for model, said in {
        "nowhere": "no such folder",
        "hf://org/model": "allow_network=True",
    }.items():
        with pytest.raises(DocauditError) as raised:
            scan(model, tiny_corpus, out=tmp_path / "out")
        assert said in " ".join(raised.value.lines)
        assert raised.value.exit_code == 2
    assert not (tmp_path / "out").exists()
    with pytest.raises(DocauditError):
        load_record(tmp_path)
    assert Corpus.load(tiny_corpus).of("member")


def run_cells(cells, folder, monkeypatch, capsys):
    """Run Python as a notebook does, one cell after the other in one namespace.

    Return what each prints.
    """
    monkeypatch.chdir(folder)
    namespace = {}
    printed = []
    for cell in cells:
        exec(compile(cell, "<cell>", "exec"), namespace)
        printed.append(capsys.readouterr().out)
    return namespace, printed


def test_the_example_of_the_manual_runs(monkeypatch, capsys, tmp_path):
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    cells = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    namespace, _ = run_cells(cells, tmp_path, monkeypatch, capsys)
    assert namespace["result"].verdict.overall == "violated"


@pytest.mark.night
def test_the_notebook_runs(monkeypatch, capsys, tmp_path):
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    cells = [
        cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    _, printed = run_cells(
        ["".join(cell["source"]) for cell in cells], tmp_path, monkeypatch, capsys
    )
    # Other processors round other last bits.
    kept = [line for cell in cells for one in cell["outputs"] for line in one["text"]]
    assert len("".join(printed).splitlines()) == len(kept)
    assert printed[0].splitlines()[0] == kept[0].strip() == "Verdict: exceeded - exit code 10"


def test_all_public_names_are_documented():
    for name in {*docaudit.__all__} - {"__version__"}:
        assert inspect.getdoc(getattr(docaudit, name)), name
