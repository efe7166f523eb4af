"""Where a scan may write: never into what it audits, and not silently over the record of another model."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attested
import pytest
import typer
from commands import docaudit as run_command
from strange_models import safetensors

import docaudit
from audit.cli import app
from audit.engine.interface import SILENT
from audit.errors import EngineError, ManifestError, UsageError
from audit.workflows import scan
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions, check_apart, warn_of_other_record
from audit.workflows.references import TrainingRequest, train_references
from audit.workflows.sweep import find_checkpoints, sweep_checkpoints

AS_USUAL = (load_policy("default"), SILENT)
Command = Callable[[Path, Path, Path], Sequence[object]]
COMMANDS: dict[str, Command] = {
    "scan": lambda model, data, out: ("scan", model, data, "--out", out),
    "scan --no-model": lambda model, data, out: ("scan", "--no-model", data, "--out", out),
    "scan --checkpoints": lambda model, data, out: (
        "scan",
        "--checkpoints",
        f"{model}*",
        data,
        "--out",
        out,
    ),
    "forget-check": lambda model, data, out: (
        "forget-check",
        model,
        data,
        "--ids",
        model / "ids.txt",
        "--out",
        out,
    ),
    "defend": lambda model, data, out: ("defend", "round-scores", model, data, "--out", out),
}
OTHERS: dict[str, Command] = {
    "fix": lambda model, data, out: ("fix", data, "--out", out),
    "references --train": lambda model, data, out: (
        "references",
        data,
        model,
        "--train",
        "--out",
        out,
    ),
    "plan": lambda model, data, out: ("plan", data, "--model", model, "--out", out),
    "canary insert": lambda model, data, out: ("canary", "insert", data, out),
    "init": lambda model, data, out: ("init", model, data.parent / "source", "--out", out),
    "import": lambda model, data, out: ("import", "chat", data.parent / "source", out),
    "demo": lambda model, data, out: ("demo", "--out", out),
    "report": lambda model, data, out: ("report", data, "--out", out),
    "attest": lambda model, data, out: ("attest", data, "--out", out),
    "view": lambda model, data, out: ("view", data, "--out", out),
}
"""Commands that write something else, or are not given the model."""
PLACES: dict[str, Callable[[Path, Path], Path]] = {
    "MODEL_DIR": lambda model, data: model / "report",
    "MODEL_DIR itself": lambda model, data: model,
    "DATA_DIR": lambda model, data: data / "new" / "report",
    "a link to MODEL_DIR": lambda model, data: linked(model) / "report",
    "a link to DATA_DIR": lambda model, data: linked(data) / "report",
    "a way back": lambda model, data: data / ".." / model.name / "report",
}


def linked(folder: Path) -> Path:
    link = folder.with_name("link")
    link.symlink_to(folder)
    return link


def folders(root: Path) -> tuple[Path, Path]:
    """Folders that look like a model and a data set; neither can be opened."""
    for name in ("model", "data"):
        (root / name).mkdir()
    (root / "model" / "config.json").write_text("{}")
    (root / "data" / "manifest.toml").write_text("")
    (root / "model" / "ids.txt").write_text("a\n")
    return root / "model", root / "data"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", PLACES)
def test_no_command_writes_a_scan_into_what_it_audits(
    command: str, place: str, tmp_path: Path
) -> None:
    model, data = folders(tmp_path)
    out = PLACES[place](model, data)
    if command == "scan --no-model" and out.resolve().is_relative_to(model):
        pytest.skip("no model is audited")
    result = run_command(*COMMANDS[command](model, data, out))
    said = " ".join(result.output.split())
    assert result.exit_code == 2, said
    assert "which is audited as it is" in said
    assert "name a folder outside of it with --out" in said
    assert sorted(
        path.name for path in tmp_path.rglob("*") if path.name not in ("model", "data", "link")
    ) == [
        "config.json",
        "ids.txt",
        "manifest.toml",
    ]


def opened_folders(root: Path) -> tuple[Path, Path]:
    """A model and a data set by their marks, and a source beside them."""
    model, data = folders(root)
    (model / "config.json").write_text(
        '{"architectures": ["BertForMaskedLM"], "model_type": "bert"}'
    )
    safetensors(model / "model.safetensors")
    (data / "documents.jsonl").write_text("")
    (root / "source").mkdir()
    (root / "source" / "talks.jsonl").write_text('{"messages": []}')
    return model, data


def names_in(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


@pytest.mark.parametrize("command", OTHERS)
@pytest.mark.parametrize("place", ["MODEL_DIR", "DATA_DIR", "a link to DATA_DIR"])
def test_no_command_writes_into_a_model_or_a_data_set(
    command: str, place: str, tmp_path: Path
) -> None:
    model, data = opened_folders(tmp_path)
    out = PLACES[place](model, data)
    before = names_in(tmp_path)
    result = run_command(*OTHERS[command](model, data, out))
    message = " ".join(result.output.split())
    assert result.exit_code == 2, message
    assert "which is audited as it is" in message
    assert names_in(tmp_path) == before


DEFAULTS: dict[str, Command] = {
    "scan": lambda model, data, _: ("scan", model, data),
    "forget-check": lambda model, data, _: ("forget-check", model, data, "--ids", "ids.txt"),
    "defend": lambda model, data, _: ("defend", "round-scores", model, data),
    "references --train": lambda model, data, _: ("references", data, model, "--train"),
    "fix": lambda model, data, _: ("fix", "report"),
    "demo": lambda model, data, _: ("demo",),
}
"""Commands that write into a folder of the current one, unless they are told where."""


@pytest.mark.parametrize("command", DEFAULTS)
@pytest.mark.parametrize("current", ["model", "data"])
def test_a_default_in_a_model_or_a_data_set_is_refused(
    command: str, current: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = opened_folders(tmp_path)
    before = names_in(tmp_path)
    monkeypatch.chdir(tmp_path / current)
    result = run_command(*DEFAULTS[command](model, data, Path()))
    message = " ".join(result.output.split())
    assert result.exit_code == 2, message
    assert "which is audited as it is" in message
    assert names_in(tmp_path) == before


def test_every_command_that_writes_a_folder_is_tested() -> None:
    writing = {command for command in commands_with("out") if command != "canary insert"}
    tested = {name.partition(" ")[0] for name in (*COMMANDS, *OTHERS)}
    assert writing <= tested


def commands_with(option: str) -> Iterator[str]:
    """Yield the names of the commands of docaudit with an option."""
    group = typer.main.get_command(app)
    for name, command in vars(group)["commands"].items():
        if any(parameter.name == option for parameter in command.params):
            yield name


def test_init_puts_a_data_set_beside_a_source_that_is_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "talks"
    source.mkdir()
    talk = {"prompt": "Total of invoice 7?", "completion": "9.00"}
    lines = [json.dumps({**talk, "prompt": f"Total of invoice {n}?"}) for n in range(4)]
    (source / "train.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(source)
    before = names_in(source)
    result = run_command("init", ".", "--yes")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "talks-audit" / "manifest.toml").is_file()
    assert names_in(source) == before


@pytest.mark.parametrize("command", ["init", "import"])
def test_no_data_set_is_written_into_its_source(command: str, tmp_path: Path) -> None:
    source = tmp_path / "talks"
    source.mkdir()
    (source / "train.jsonl").write_text(json.dumps({"prompt": "a", "completion": "b"}))
    out = source / "new"
    commands = {
        "init": ("init", source, "--yes", "--out", out),
        "import": ("import", "chat", source, out),
    }
    result = run_command(*commands[command])
    assert result.exit_code == 2
    assert "which is imported" in " ".join(result.output.split())
    assert not out.exists()


def test_evidence_and_the_functions_of_python_keep_out_of_it_too(tmp_path: Path) -> None:
    model, data = folders(tmp_path)
    with pytest.raises(UsageError, match=r"--evidence .*evidence: lies inside MODEL_DIR") as raised:
        check_apart(ScanOptions(model, data, tmp_path / "out", evidence_dir=model / "evidence"))
    assert "--evidence" in raised.value.hint
    with pytest.raises(UsageError, match=r"--out .*report: lies inside DATA_DIR"):
        docaudit.scan(model, data, out=data / "report")
    with pytest.raises(ManifestError, match=r"manifest\.toml is missing"):
        docaudit.scan(model, tmp_path, out=tmp_path / "report")
    with pytest.raises(UsageError, match=r"--out .*report: lies inside MODEL_DIR"):
        scan.run(ScanOptions(model, data, model / "report"), *AS_USUAL)
    with pytest.raises(UsageError, match=r"--out .*report: lies inside MODEL_DIR"):
        next(
            sweep_checkpoints(
                find_checkpoints(str(model)), ScanOptions(Path(), data, model / "report"), *AS_USUAL
            )
        )
    with pytest.raises(UsageError, match=r"--out .*references: lies inside MODEL_DIR"):
        train_references(TrainingRequest(data, model, {}, ("baselines",), model / "references"))
    check_apart(ScanOptions(model, data, tmp_path / "model-report"))
    check_apart(ScanOptions(Path(), data, Path("docaudit-report"), no_model=True))


def test_a_scan_says_that_it_replaces_the_record_of_another_model(
    tmp_path: Path, tiny_corpus: Path, checkpoints: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = attested.folder(tmp_path, tiny_corpus)
    before = (out / "record.json").read_bytes()

    def stop(*_: object) -> None:
        raise EngineError("stopped before anything is written", "start again")

    monkeypatch.setattr(scan, "audit_checkpoint", stop)
    warned: list[str] = []
    options = ScanOptions(
        checkpoints("bert", "mlm"), tiny_corpus, out, budget="quick", device="cpu"
    )
    with pytest.raises(EngineError, match="stopped before"):
        scan.run(options, *AS_USUAL, lambda *lines: warned.extend(lines))
    name = json.loads(before)["target"]["name"]
    assert warned[0].startswith(f"{out} holds the record of another model ({name}, scanned on 20")
    assert "It becomes record.previous.json, and its reports go" in warned[0]
    assert (out / "record.json").read_bytes() == before


def test_only_a_record_of_something_else_is_worth_a_warning(
    tmp_path: Path, tiny_corpus: Path
) -> None:
    out = attested.folder(tmp_path, tiny_corpus)
    record = json.loads((out / "record.json").read_text())
    model = record["target"]["sha256"]
    data = record["corpus"]["sha256"]
    assert warn_of_other_record(out, model, data) == ()
    assert warn_of_other_record(tmp_path / "new", "0" * 64, data) == ()
    (text,) = warn_of_other_record(out, model, "0" * 64)
    assert "another data set, or of another state of it" in text
    shutil.copyfile(out / "record.json", out / "record.previous.json")
    (text,) = warn_of_other_record(out, "0" * 64, data)
    assert "in place of an older one" in text
    (out / "record.json").write_text("{")
    assert warn_of_other_record(out, "0" * 64, data) == (), "it is no record"


@pytest.mark.parametrize(("name", "place"), [("MODEL_DIR", 0), ("DATA_DIR", 1)])
def test_a_report_over_the_model_or_the_data_set_is_told_what_it_would_be_written_over(
    name: str, place: int, tmp_path: Path
) -> None:
    audited = folders(tmp_path)
    with pytest.raises(UsageError, match=f"is {name}, which is audited as it is"):
        check_apart(ScanOptions(*audited, audited[place]))
