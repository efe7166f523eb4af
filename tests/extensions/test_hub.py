"""Models and data sets of the Hub: downloaded on request alone, at one commit that the record names."""

import json
import re
import shutil
import time
from pathlib import Path

import hostile_hub
import hub
import parsed_pages
import pytest
import watching
from commands import docaudit
from huggingface_hub import constants
from PIL import Image

from audit import record as records
from audit.corpus import manifest
from audit.corpus.summary import card
from audit.errors import DocauditError, UsageError
from audit.extensions import hub_client
from audit.extensions.hub import fetch
from audit.files import hub_revision
from audit.targets.checkpoint.content import hash_files

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.fixture
def own_hub(checkpoints, tmp_path, monkeypatch):
    model = shutil.copytree(checkpoints("layoutlm", "mlm", 1), tmp_path / "model")
    (model / "pytorch_model.bin").write_bytes(b"a pickle")
    (model / "modeling.py").write_text("raise SystemExit\n")
    (model / "onnx").mkdir()
    (model / "onnx" / "config.json").write_text("{}")
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "tools.jinja").write_text("{{ messages }}")
    (model / "vocabulary[1]").write_text("of a kind that nobody knows")
    data = tmp_path / "bills"
    (data / "train").mkdir(parents=True)
    rows = []
    for number in range(9):
        Image.new("RGB", (20, 20), (number, 0, 0)).save(data / "train" / f"{number}.png")
        truth = json.dumps({"gt_parse": {"total": f"{number}.00"}})
        rows.append(json.dumps({"file_name": f"{number}.png", "ground_truth": truth}))
    (data / "train" / "metadata.jsonl").write_text("\n".join(rows))
    (data / "bills.py").write_text("raise SystemExit\n")
    folders = {"models/org/model": model, "datasets/org/bills": data}
    with hub.serve(folders, tmp_path / "cache", monkeypatch) as served:
        yield served


def test_a_model_of_the_hub_is_scanned_at_the_commit_that_the_record_names(
    own_hub, tiny_corpus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    common = (tiny_corpus, "--only", "membership", "--documents", 4, "--allow-network")
    for name, place in {"address": "hf://org/model", "plain": "org/model"}.items():
        result = docaudit("scan", place, *common, "--out", tmp_path / name)
        assert result.exit_code == 11, result.output
        target = records.read(tmp_path / name).target
        assert (target.name, target.revision) == ("model", f"org/model@{hub.COMMIT}")
        assert str(target.revision) in (tmp_path / name / "report.html").read_text()
    snapshot = fetch("hf://org/model", allow_network=True)
    kept = {path.name for path in snapshot.iterdir()}
    assert kept >= {"config.json", "model.safetensors"}
    assert kept.isdisjoint({"pytorch_model.bin", "modeling.py", "onnx"})
    assert hash_files(snapshot) == hash_files(tmp_path / "model"), (
        "a copy of the whole repository is the same model"
    )
    assert "additional_chat_templates/tools.jinja" in hash_files(snapshot)
    assert constants.HF_HUB_OFFLINE


def test_a_data_set_of_the_hub_is_imported_with_its_commit(own_hub, tmp_path):
    result = docaudit(
        "import", "hf", "hf://datasets/org/bills", tmp_path / "data", "--allow-network"
    )
    assert result.exit_code == 0, result.output
    assert card(manifest.load(tmp_path / "data")).revision == f"datasets/org/bills@{hub.COMMIT}"
    assert not any(path.endswith("bills.py") for path in own_hub.asked)


def test_init_takes_both_from_the_hub(own_hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_hub.repositories["models/org/parser"] = parsed_pages.donut(tmp_path / "parser")
    places = (
        "org/parser",
        "hf://datasets/org/bills",
        "--task",
        "parsing",
        "--yes",
        "--allow-network",
    )
    result = docaudit("init", *places)
    assert result.exit_code == 0, result.output
    assert "hf://datasets/org/bills is downloaded: " in result.output
    assert (
        manifest.load(tmp_path / "bills-audit").manifest.revision
        == f"datasets/org/bills@{hub.COMMIT}"
    )


@pytest.mark.parametrize(
    ("place", "allowed", "message"),
    [
        ("hf://org/model", False, "add --allow-network"),
        ("org/model", False, "add --allow-network, or run hf download org/model"),
        ("hf://org/none", True, "org/none: the Hub shows no such model"),
        ("hf://org/model/a/b", True, "is no address of the Hub"),
    ],
)
def test_what_cannot_be_downloaded_says_why(
    place, allowed, message, own_hub, tiny_corpus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = docaudit("scan", place, tiny_corpus, *(["--allow-network"] if allowed else []))
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert allowed or not own_hub.asked


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("models--org--model", "org/model"),
        ("models--gpt2", "gpt2"),
        ("datasets--org--bills", "datasets/org/bills"),
        ("models--a b", ""),
        ("other", ""),
    ],
)
def test_a_snapshot_is_known_by_its_folder(name, repository, tmp_path):
    folder = tmp_path / name / "snapshots" / hub.COMMIT
    assert (
        hub_revision(folder)
        == hub_revision(folder / "inner")
        == (f"{repository}@{hub.COMMIT}" if repository else None)
    )


@pytest.mark.parametrize(
    "said",
    ["../../../../outside", "main", hub.COMMIT.upper(), hub.COMMIT + "0", "", None, 7, ["a"]],
)
@pytest.mark.parametrize("place", ["hf://org/model", "hf://datasets/org/bills"])
def test_a_commit_that_is_none_names_no_folder(place, said, own_hub, tmp_path):
    own_hub.said = said
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="no commit of 40 hexadecimal digits"):
        fetch(place, allow_network=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "endpoint",
    ["http://192.0.2.7", "http://hub.example.com", "ftp://127.0.0.1.example.com", "http://[bad"],
)
def test_a_hub_on_another_machine_is_asked_over_https_alone(endpoint, own_hub, monkeypatch):
    hub.use(endpoint, monkeypatch)
    with watching.watched() as seen, pytest.raises(UsageError, match="not asked over https"):
        fetch("hf://org/model", allow_network=True)
    assert not seen.connections


def test_a_redirection_leads_to_no_other_machine_without_encryption(own_hub):
    own_hub.elsewhere = "http://192.0.2.7/model"
    with watching.watched() as seen, pytest.raises(UsageError, match="not asked over https"):
        fetch("hf://org/model", allow_network=True)
    assert not [one for one in seen.connections if "192.0.2.7" in one]


def test_what_a_hub_says_is_in_a_private_file_alone(own_hub, tmp_path):
    own_hub.refusal = "Applicant Nadia Orton"
    result = docaudit("inspect", tmp_path, "--model", "hf://org/model", "--allow-network")
    assert (result.exit_code, "Nadia" in result.output) == (1, False), result.output
    story = re.search(r"read the story in (\S+);", result.output)
    assert "Nadia" in Path(story[1]).read_text()
    shutil.rmtree(Path(story[1]).parent)


def test_a_hub_that_is_down_is_no_traceback(own_hub, tmp_path, monkeypatch):
    hub.use("http://127.0.0.1:9", monkeypatch)
    result = docaudit("inspect", tmp_path, "--model", "hf://org/model", "--allow-network")
    assert result.exit_code == 1, result.output
    assert "the download failed" in result.output


@pytest.fixture
def hostile(checkpoints, tmp_path, monkeypatch):
    """A Hub whose replies a plan chooses, and a client that waits for seconds alone."""

    def write(folder):
        shutil.copytree(checkpoints("layoutlm", "mlm", 1), folder / "model")
        (folder / "src").mkdir()
        (folder / "src" / "a.jsonl").write_text("{}")

    with hostile_hub.HostileHub(tmp_path / "hub") as running:
        (tmp_path / "root" / "case").mkdir(parents=True)
        running.stand_in(write, tmp_path / "root" / "case")
        hub.use(running.address, monkeypatch)
        monkeypatch.setattr(constants, "HF_HOME", str(running.home))
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(running.home / "hub"))
        monkeypatch.setattr(hub_client, "SILENCE", 0.3)
        monkeypatch.setattr(hub_client, "LONGEST", 0.8)
        monkeypatch.setattr(hub_client, "MOST_PAGES", 20)
        sleep = time.sleep
        monkeypatch.setattr(
            time, "sleep", lambda seconds: sleep(min(seconds, 0.01) if seconds < 302 else seconds)
        )
        yield running


def test_a_hub_learns_nothing_of_the_environment(own_hub, monkeypatch):
    """The client asks the Hub which variables to look for, and says in its next request which of them it found."""
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", None)
    fetch("hf://org/model", allow_network=True)
    assert own_hub.asked
    assert not [path for path in own_hub.asked if "agent" in path]
    assert not constants.HF_HUB_DISABLE_TELEMETRY


@pytest.mark.parametrize(
    ("kind", "answer", "message"),
    [
        ("info", "silent", "the download failed"),
        ("info", "drips", "a reply takes too long"),
        ("info", "100 for ever", "a reply takes too long"),
        ("info", "endless", "more than it announced|takes too long"),
        ("tree", "slow chunks", "a reply takes too long"),
        ("tree", "busy for long", "the download failed"),
        ("tree", "busy for longer", "the download failed"),
        ("tree", "no more of it", "the download failed"),
        ("tree", "pages for ever", "its list of files does not end"),
        ("tree", "gzip", "it packs what was asked for unpacked"),
        ("tree", "next elsewhere", "not asked over https"),
        ("tree", "moved to no TLS", "the download failed"),
        ("tree", "moved to another port", "not asked over https"),
        ("tree", "all of size -1", "without its size"),
        ("head", "moved to another port", "not asked over https"),
        ("file", "moved to a neighbour", "not asked over https"),
        ("file", "drips", "a reply takes too long"),
        ("file", "endless", "more than it announced|takes too long"),
    ],
)
def test_a_hub_that_misbehaves_is_refused_in_time(kind, answer, message, hostile, tmp_path):
    plan = dict.fromkeys(hostile_hub.KINDS, hostile_hub.HONEST) | {kind: answer}
    (tmp_path / "root" / "case" / "plan.json").write_text(json.dumps(plan))
    with watching.watched() as seen, pytest.raises(DocauditError, match=message):
        fetch("hf://org/model", allow_network=True)
    assert all(f"'127.0.0.1', {hostile.port}" in one for one in seen.connections)
    assert not hostile.strays()
