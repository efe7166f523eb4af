"""A record names the weights that were measured: files are hashed before they are loaded, and again at the end."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import nlu_models
import pytest
import tiny

from audit.engine.interface import SILENT
from audit.errors import TargetError
from audit.extensions.papers import utterance_target
from audit.targets.checkpoint import loading as weights
from audit.targets.checkpoint import safety
from audit.targets.checkpoint.folder import open_checkpoint
from audit.workflows import attacking
from audit.workflows.options import ScanOptions
from audit.workflows.run import run_scan
from audit.workflows.session import Session, open_session

WEIGHTS = "model.safetensors"
KIND = "token-classification"


@pytest.fixture
def model(checkpoints, tmp_path):
    return Path(shutil.copytree(checkpoints("layoutlm", KIND, 2), tmp_path / "model"))


def opened(model: Path, tmp_path: Path, **settings: Any) -> Session:
    """A scan of membership, as small as it gets."""
    data = tmp_path / "data"
    out = tmp_path / "out"
    if not data.exists():
        tiny.corpus(data, public=0)
    (out / "evidence").mkdir(parents=True, exist_ok=True)
    return open_session(
        ScanOptions(model, data, out, only=("membership",), budget="quick", **settings)
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def journals(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "out" / "evidence").glob("journal-*.jsonl")]


def test_weights_that_are_swapped_as_they_are_loaded_end_the_scan(
    model, checkpoints, tmp_path, monkeypatch
):
    read = weights._read_whole
    audited = digest(model / WEIGHTS)

    def swapped(*arguments: Any) -> Any:
        shutil.copyfile(checkpoints("layoutlm", KIND, 3) / WEIGHTS, model / WEIGHTS)
        return read(*arguments)

    monkeypatch.setattr(weights, "_read_whole", swapped)
    setup = opened(model, tmp_path)
    assert setup.target.card.files[WEIGHTS] == audited, "hashed before it was loaded"
    with pytest.raises(
        TargetError, match=r"model\.safetensors is not what it was when the scan began"
    ) as raised:
        run_scan(setup, SILENT)
    assert "scan again" in raised.value.hint
    assert not journals(tmp_path), "no later scan takes outcomes of unknown weights"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (WEIGHTS, lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\1")),
        ("tokenizer.json", lambda path: path.write_text(path.read_text() + " ")),
        ("config.json", lambda path: path.write_text(path.read_text() + " ")),
        ("added.txt", lambda path: path.write_text("more")),
    ],
)
def test_files_that_change_during_a_scan_end_it(name, change, model, tmp_path, monkeypatch):
    setup = opened(model, tmp_path)
    measure = attacking.measure

    def changing(*arguments: Any) -> Any:
        result = measure(*arguments)
        change(model / name)
        return result

    monkeypatch.setattr(attacking, "measure", changing)
    with pytest.raises(TargetError, match=f"{name} is not what it was"):
        run_scan(setup, SILENT)


def test_a_model_that_is_gone_at_the_end_leaves_no_record(model, tmp_path):
    setup = opened(model, tmp_path)
    shutil.rmtree(model)
    with pytest.raises(TargetError):
        run_scan(setup, SILENT)
    assert not journals(tmp_path)


def test_an_utterance_model_is_hashed_before_anything_of_it_is_read(tmp_path, monkeypatch):
    folder = nlu_models.checkpoint(tmp_path / "model")
    audited = digest(folder / "vocabulary.json")
    read = utterance_target.load_whole_model

    def swapped(*arguments: Any) -> Any:
        model = read(*arguments)
        words = json.loads((folder / "vocabulary.json").read_text())
        (folder / "vocabulary.json").write_text(json.dumps([*words[:-1], "swapped"]))
        return model

    monkeypatch.setattr(utterance_target, "load_whole_model", swapped)
    assert utterance_target.load_nlu(folder).card.files["vocabulary.json"] == audited


def test_a_model_that_is_left_alone_has_a_record_and_is_read_twice(model, tmp_path, monkeypatch):
    read: list[str] = []
    file_digest = hashlib.file_digest
    monkeypatch.setattr(
        hashlib,
        "file_digest",
        lambda stream, name: (read.append(stream.name), file_digest(stream, name))[1],
    )
    record = run_scan(opened(model, tmp_path), SILENT)
    assert (record.target.files[WEIGHTS], read.count(str(model / WEIGHTS))) == (
        digest(model / WEIGHTS),
        2,
    )
    assert journals(tmp_path)


def test_an_adapter_is_held_to_its_base_too(tmp_path):
    import adapters

    base = tiny.checkpoint(tmp_path / "base", "bert", "mlm")
    adapter = tmp_path / "adapter"
    adapters.tagger(base, adapter)
    setup = opened(adapter, tmp_path)
    tiny.checkpoint(tmp_path / "other", "bert", "mlm", 1)
    shutil.copyfile(tmp_path / "other" / WEIGHTS, base / WEIGHTS)
    with pytest.raises(TargetError, match=r"base/model\.safetensors is not what it was"):
        run_scan(setup, SILENT)


@pytest.mark.parametrize("name", ["0.txt", "notes.json", "chat.jinja", "other.model"])
def test_what_is_no_weights_is_no_larger_than_a_tokenizer(name, model):
    with (model / name).open("wb") as file:
        file.truncate(safety.MOST_OTHER_BYTES + 1)
    with pytest.raises(TargetError, match=f"{name}: larger than 128 MiB") as raised:
        open_checkpoint(model)
    assert "move it" in raised.value.hint
    with (model / name).open("wb") as file:
        file.truncate(1)
