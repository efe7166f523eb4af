"""A checkpoint's folder is checked when it is opened, and hashed once for as long as it is open."""

import hashlib
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from audit.errors import TargetError
from audit.targets.checkpoint import folder as module
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.checkpoint.loading import load_model
from audit.targets.encoders.loading import load, load_tokenizer
from audit.targets.opening import target_of
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session

SAMPLES = Path(__file__).parents[2] / "sample_models"
WEIGHTS = "model.safetensors"


@pytest.fixture
def hashed(monkeypatch):
    """Counts how often each file is read for hashing."""
    counts: Counter[str] = Counter()
    digest = hashlib.file_digest

    def counted(stream: Any, name: str) -> Any:
        counts[stream.name] += 1
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return counts


@pytest.mark.parametrize("sample", ["questions", "receipts", "utterances"])
def test_opening_a_scan_hashes_each_weights_file_once(sample, hashed, monkeypatch):
    checked: Counter[str] = Counter()
    refuse = module.refuse_unsafe
    monkeypatch.setattr(
        module, "refuse_unsafe", lambda folder: (checked.update([str(folder)]), refuse(folder))[1]
    )
    folder = SAMPLES / sample
    opened = open_session(ScanOptions(folder / "model", folder / "data", Path(), budget="quick"))
    weights = {name: count for name, count in hashed.items() if name.endswith(WEIGHTS)}
    assert str(folder / "model" / WEIGHTS) in weights
    assert len(weights) > 1 or not opened.prepared.same_kind
    assert (set(weights.values()), set(checked)) == (
        {1},
        {str(Path(name).parent) for name in weights},
    )
    assert set(checked.values()) == {1}


def test_an_opened_folder_is_hashed_once_and_opening_it_anew_sees_other_files(
    checkpoints, tmp_path, hashed
):
    path = Path(shutil.copytree(checkpoints("bert", "mlm"), tmp_path / "model"))
    opened = open_checkpoint(path)
    assert open_checkpoint(opened) is opened
    before = opened.sha256
    weights = opened.weights
    assert (load(opened).card.sha256, hashed[str(path / WEIGHTS)]) == (before, 1)
    shutil.copyfile(checkpoints("bert", "mlm", 1) / WEIGHTS, path / WEIGHTS)
    assert load(path).card.sha256 != before
    assert not open_checkpoint(path).weights & weights


def test_the_card_lists_each_file_with_the_hash_that_sha256sum_prints(checkpoints, tmp_path):
    path = Path(shutil.copytree(checkpoints("bert", "mlm"), tmp_path / "model"))
    files = load(path).card.files
    assert WEIGHTS in files
    assert files == {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in files}


@pytest.mark.parametrize(
    "opens",
    [
        open_checkpoint,
        load,
        load_tokenizer,
        lambda folder: load_model(folder, type(tiny.model("bert", "mlm"))),
        lambda folder: target_of(folder, None),  # type: ignore[arg-type]  # the data set is not looked at
    ],
    ids=["open_checkpoint", "load", "load_tokenizer", "load_model", "target_of"],
)
def test_a_pickle_is_refused_wherever_a_path_comes_in(opens, checkpoints, tmp_path):
    path = Path(shutil.copytree(checkpoints("bert", "mlm"), tmp_path / "model"))
    (path / WEIGHTS).unlink()
    torch.save({}, path / "pytorch_model.bin")
    with pytest.raises(TargetError, match=r"in a pickle, .* \(pytorch_model\.bin\)"):
        opens(path)
