"""Exporters: what each tool gets of an audit, and that nothing else leaves the folder of a scan."""

import datetime as dt
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import example_records as examples
import pytest
import yaml
from commands import docaudit, run_python
from huggingface_hub import parse_eval_result_entries
from policy_texts import write_policy

from audit import plugins, record
from audit.policy import today
from audit.report.files import NAMES

VALUE = "Mustermann"
"""Stands in files that must not be shared."""
SHARED = {"record.json", *NAMES}
WAIVER = """
[[waivers]]
attack = "reconstruction"
metric = "excess_pr.unique"
owner = "Ada Officer"
role = "head of data"
reason = "Retrained next quarter."
measure = "One locked machine."
expires = {expires}
"""


def write_scan(folder: Path, name: str) -> Path:
    """Write a record with every file that a scan leaves beside it."""
    (folder / "evidence").mkdir(parents=True)
    (folder / "evidence" / "values.jsonl").write_text(VALUE)
    (folder / "notes.txt").write_text(VALUE)
    record.write(examples.CASES[name]()[0], folder / "record.json")
    for report in NAMES:
        (folder / report).write_text("report")
    return folder


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a leaking scan into a folder of its own, and work beside it."""
    monkeypatch.chdir(tmp_path)
    return write_scan(tmp_path / "scan", "violated")


def export(scan: Path, to: str, *options: str) -> Any:
    return docaudit("export", scan, "--to", to, *options)


# The contract of every exporter.


@pytest.mark.parametrize("name", plugins.entries("docaudit.exporters"))
def test_an_exporter_refuses_an_option_that_it_does_not_have(name: str, scan: Path) -> None:
    done = export(scan, f"{name}:colour=red")
    assert done.exit_code == 2
    assert f"--to {name}: it takes no option 'colour'" in done.output


def test_an_exporter_that_nobody_installed_is_refused_with_the_names_of_others(scan: Path) -> None:
    done = export(scan, "neptune")
    assert done.exit_code == 2
    assert "no exporter is called 'neptune'" in done.output
    assert "one of hub, mlflow, trackio, wandb" in done.output


@pytest.mark.parametrize(
    ("to", "package"),
    [("mlflow", "mlflow-skinny"), ("trackio", "trackio"), ("wandb", "wandb")],
)
def test_a_tool_that_is_not_installed_is_named_with_its_package(
    to: str, package: str, scan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, to, None)
    done = export(scan, to)
    assert done.exit_code == 2
    assert f"{to} is not installed" in done.output
    assert f"pip install {package}" in done.output


def test_a_folder_that_is_called_like_the_tool_is_not_taken_for_it(
    scan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    assert "wandb is not installed" in export(scan, "wandb").output


@pytest.mark.parametrize("to", ["mlflow:uri=http://tracking.example", "trackio:space=acme/audits"])
def test_nothing_is_sent_to_another_machine_without_leave(
    to: str, scan: Path, fakes: "Fakes"
) -> None:
    done = export(scan, to)
    assert done.exit_code == 2
    assert "is on another machine" in done.output
    assert "--allow-network" in done.output
    assert fakes.runs == []


def test_an_export_loads_no_torch(scan: Path) -> None:
    program = (
        "import sys; from audit.workflows.export import export; from pathlib import Path; "
        f"export(Path({str(scan)!r}), 'default', 'hub:dataset=acme/pages', network=False); "
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = run_python("-c", program)
    assert done.stdout.split()[-2:] == ["False", "False"], done.stderr


# Weights & Biases and Trackio, by modules that stand for them.


@dataclass
class FakeRun:
    """A run that remembers what it was given."""

    settings: dict[str, Any]
    config: dict[str, Any]
    logged: dict[str, float] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    finished: bool = False
    id: str = "run-1"
    name: str = "run-1"
    dir: str = "wandb/run-1"

    def log(self, numbers: dict[str, float]) -> None:
        self.logged |= numbers

    def log_artifact(self, artifact: "FakeArtifact") -> None:
        self.files += artifact.files

    def finish(self) -> None:
        self.finished = True


@dataclass
class FakeArtifact:
    name: str
    type: str
    files: list[str] = field(default_factory=list)

    def add_file(self, path: str) -> None:
        self.files.append(Path(path).name)


class Fakes:
    """Modules that stand for trackers, and the runs that were begun in them."""

    def __init__(self) -> None:
        self.runs: list[FakeRun] = []

    def init(self, *, config: dict[str, Any], **settings: Any) -> FakeRun:
        self.runs.append(FakeRun(settings, dict(config)))
        return self.runs[-1]

    def finish(self) -> None:
        self.runs[-1].finish()

    def module(self) -> ModuleType:
        """Make a module with what wandb and Trackio share."""
        made = ModuleType("tracker")
        made.__file__ = "tracker.py"
        offers = {
            "init": self.init,
            "finish": self.finish,
            "Artifact": FakeArtifact,
            "Settings": lambda **settings: SimpleNamespace(**settings),
        }
        for name, item in offers.items():
            setattr(made, name, item)
        return made


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fakes]:
    """Put modules that stand for wandb and Trackio in their places."""
    made = Fakes()
    monkeypatch.setitem(sys.modules, "wandb", made.module())
    monkeypatch.setitem(sys.modules, "trackio", made.module())
    yield made
    assert all(run.finished for run in made.runs)


@pytest.mark.parametrize("to", ["wandb", "trackio"])
def test_a_run_gets_limited_numbers_with_interval_outcome_and_digests(
    to: str, scan: Path, fakes: Fakes
) -> None:
    done = export(scan, to)
    assert done.exit_code == 0, done.output
    (run,) = fakes.runs
    verdict = json.loads(docaudit("gate", scan, "--format", "json").stdout)
    name = "reconstruction/excess_pr.unique"
    (limit,) = [item for item in verdict["limits"] if f"{item['attack']}/{item['metric']}" == name]
    assert run.logged[name] == limit["measured"]["value"]
    assert run.logged[f"{name}.low"] == limit["measured"]["low"]
    assert run.logged[f"{name}.high"] == limit["measured"]["high"]
    assert run.logged[f"{name}.limit"] == limit["max"]
    assert run.logged["limits/exceeded"] == verdict["counts"]["exceeded"]
    assert run.logged["exit_code"] == verdict["exit_code"]
    assert run.config[f"outcome/{name}"] == limit["outcome"]
    assert run.config["outcome/verdict"] == verdict["verdict"]
    assert run.config["data_sha256"] == verdict["subject"]["data_sha256"]
    assert run.config["policy_sha256"] == verdict["policy"]["sha256"]


def test_wandb_gets_what_may_be_shared_and_stays_offline(scan: Path, fakes: Fakes) -> None:
    assert export(scan, "wandb:project=audits").exit_code == 0
    (run,) = fakes.runs
    assert {*run.files} <= SHARED
    assert "record.json" in run.files
    assert (run.settings["mode"], run.settings["project"]) == ("offline", "audits")
    assert export(scan, "wandb", "--allow-network").exit_code == 0
    assert fakes.runs[1].settings["mode"] == "online"


def test_no_run_names_the_person_of_a_waiver(tmp_path: Path, fakes: Fakes) -> None:
    scan = write_scan(tmp_path / "waived", "waived")
    next_month = today() + dt.timedelta(days=30)
    limit = "reconstruction excess_pr.unique max = 0.05"
    policy = write_policy(tmp_path / "mine.toml", limit, more=WAIVER.format(expires=next_month))
    assert export(scan, "wandb", "--policy", str(policy)).exit_code == 0
    (run,) = fakes.runs
    assert run.config["outcome/verdict"] == "waived"
    assert "Ada Officer" not in repr(run)


# MLflow, in files of this machine.


def test_mlflow_holds_the_audit_and_nothing_of_the_evidence(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/runs"
    done = export(scan, f"mlflow:experiment=audits,uri={uri}")
    assert done.exit_code == 0, done.output
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("audits")
    (run,) = client.search_runs([experiment.experiment_id])
    assert f"MLflow run {run.info.run_id} of {uri}" in " ".join(done.output.split())
    assert run.info.status == "FINISHED"
    name = "docaudit/reconstruction/excess_pr.unique"
    assert run.data.metrics[f"{name}.low"] < run.data.metrics[name]
    assert run.data.metrics[f"{name}.limit"] == 0.05
    assert run.data.tags[name] == "exceeded"
    assert "EXCEEDED" in run.data.tags["mlflow.note.content"]
    assert len(run.data.params["docaudit.model_sha256"]) == 64
    artefacts = {item.path for item in client.list_artifacts(run.info.run_id, "docaudit")}
    assert artefacts <= {f"docaudit/{shared}" for shared in SHARED}
    texts = [path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert not any(VALUE.encode() in text for text in texts)


def test_an_audit_joins_the_run_of_the_training(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/runs"
    client = mlflow.MlflowClient(tracking_uri=uri)
    run_id = client.create_run(client.create_experiment("training")).info.run_id
    assert export(scan, f"mlflow:uri={uri},run={run_id}").exit_code == 0
    run = client.get_run(run_id)
    assert run.data.metrics["docaudit/exit_code"] == 10
    assert run.info.status == "RUNNING"


# The Hugging Face Hub.


def test_the_hub_reads_the_results_of_every_limit_with_a_number(scan: Path, tmp_path: Path) -> None:
    done = export(scan, "hub:dataset=acme/pages,out=upload")
    assert done.exit_code == 0, done.output
    results = tmp_path / "upload" / ".eval_results" / "docaudit.yaml"
    entries = parse_eval_result_entries(yaml.safe_load(results.read_text()))
    verdict = json.loads(docaudit("gate", scan, "--format", "json").stdout)
    measured = [limit for limit in verdict["limits"] if limit["measured"] is not None]
    assert [(entry.task_id, entry.value) for entry in entries] == [
        (f"{limit['attack']}.{limit['metric']}", limit["measured"]["value"]) for limit in measured
    ]
    first = entries[0]
    assert first.dataset_id == "acme/pages"
    assert first.date == verdict["subject"]["scanned"][:10]
    assert first.notes.endswith("limit at most 0.05 (policy default): exceeded")
    card = (tmp_path / "upload" / "model-card.md").read_text()
    assert card.startswith("## Privacy audit")


def test_a_result_of_the_hub_needs_its_data_set(scan: Path) -> None:
    done = export(scan, "hub")
    assert done.exit_code == 2
    assert "--to hub:dataset=ORG/NAME" in done.output
