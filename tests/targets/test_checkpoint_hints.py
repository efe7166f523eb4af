"""Each folder that is no checkpoint, or not one in safetensors: the sentence says so, and leads on; the others load."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from test_targets_loading import changed

from audit.errors import TargetError
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoders.loading import load

WEIGHTS = "model.safetensors"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture
def folder(checkpoints: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoints("bert", "token-classification"), tmp_path / "model"))


def instead(name: str, content: bytes = b"x") -> Callable[[Path], object]:
    """Another file in place of the weights."""

    def break_it(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return break_it


def only(name: str) -> Callable[[Path], object]:
    """Another file alone."""

    def break_it(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / name).write_bytes(b"x")

    return break_it


HINTS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "GGUF with a configuration": (
        instead("model-Q4_K_M.gguf"),
        "only model-Q4_K_M.gguf",
        "safetensors alone",
    ),
    "GGUF alone": (only("model.gguf"), "no config.json, only model.gguf", "safetensors alone"),
    "ONNX": (instead("model.onnx"), "only model.onnx", "safetensors alone"),
    "TensorFlow": (instead("tf_model.h5"), "only tf_model.h5", "safetensors alone"),
    "Flax": (instead("flax_model.msgpack"), "only flax_model.msgpack", "safetensors alone"),
    "a pickle": (instead("pytorch_model.bin"), "only pytorch_model.bin", "save_pretrained"),
    "a Trainer's leftovers": (instead("training_args.bin"), "no model.safetensors$", "Hugging Face checkpoint"),
    "a pointer in place of a tokenizer": (
        lambda folder: (folder / "tokenizer_config.json").write_text(POINTER),
        "tokenizer_config.json: not readable as JSON",
        "git lfs pull",
    ),
    "a data set": (
        lambda folder: (tiny.corpus(folder), (folder / "config.json").unlink()),
        "a data set",
        "before DATA_DIR",
    ),
    "weights alone": (lambda folder: (folder / "config.json").unlink(), "no config.json", "Hugging Face checkpoint"),
    "no tokenizer": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        "no tokenizer.json",
        r"tokenizer.save_pretrained\(DIR\)",
    ),
    "no heads named": (
        changed("config.json", architectures=None),
        "unknown architecture none",
        '"architectures": .* to config.json',
    ),
    "quantised": (
        changed("config.json", quantization_config={"quant_method": "gptq"}),
        r"quantised weights \(gptq\) cannot be trained",
        "full precision",
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_every_hint_leads_on(name: str, folder: Path) -> None:
    break_it, problem, hint = HINTS[name]
    break_it(folder)
    with pytest.raises(TargetError, match=problem) as raised:
        load(folder)
    with pytest.raises(AssertionError, match=hint):
        raise AssertionError(raised.value.hint)
    assert "\n" not in raised.value.hint


def test_a_folder_of_runs_names_the_newest_checkpoint_first(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for name in ("checkpoint-900", "checkpoint-1000", "logs", "model"):
        (run / name).mkdir(parents=True)
    for name in ("checkpoint-900", "checkpoint-1000", "model"):
        shutil.copyfile(folder / "config.json", run / name / "config.json")
    with pytest.raises(TargetError, match="the checkpoints are in folders inside it") as raised:
        open_checkpoint(run)
    assert raised.value.hint == "give one: checkpoint-1000, checkpoint-900, model"


def test_the_name_of_a_hub_model_is_answered_with_its_download(folder: Path) -> None:
    with pytest.raises(TargetError, match="no such folder") as raised:
        open_checkpoint(Path("microsoft/layoutlmv3-base"))
    assert "hf download microsoft/layoutlmv3-base --local-dir DIR" in raised.value.hint
    with pytest.raises(TargetError, match="no such folder") as raised:
        open_checkpoint(Path("/nowhere/at/all"))
    assert "hf download" not in raised.value.hint


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
def test_tensors_named_by_a_wrapper_are_the_models(prefix: str, folder: Path) -> None:
    before = load(folder)
    tensors = {prefix + name: tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    after = load(folder)
    assert all(torch.equal(*pair) for pair in zip(before.model.parameters(), after.model.parameters(), strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_trainers_folder_of_shards_in_half_precision_loads(dtype: torch.dtype, folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "run" / "checkpoint-12"
    load(folder).model.to(dtype).save_pretrained(place, max_shard_size="50KB")
    tiny.tokenizer().save_pretrained(place)
    (place / "trainer_state.json").write_text('{"epoch": 3.0, "global_step": 12}')
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin", "rng_state.pth"):
        (place / name).write_bytes(b"not to be opened")
    target = load(place)
    assert (target.card.dtype, target.card.step) == ("float32", 12)
    assert len(list(place.glob("model-*.safetensors"))) > 1


def snapshot(folder: Path, cache: Path) -> Path:
    """The checkpoint as the hub's cache keeps it: links into the blobs beside the snapshots."""
    place = cache / "models--org--name" / "snapshots" / "0a1b2c"
    blobs = cache / "models--org--name" / "blobs"
    place.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.copyfile(path, blobs / f"{number:040}")
        (place / path.name).symlink_to(os.path.join("..", "..", "blobs", f"{number:040}"))
    return place


def test_a_snapshot_of_the_hubs_cache_loads_and_no_other_link_does(folder: Path, tmp_path: Path) -> None:
    place = snapshot(folder, tmp_path / "hub")
    assert load(place).card.task == "token-classification"
    (place / "extra.json").symlink_to(folder / "config.json")
    with pytest.raises(TargetError, match=r"extra\.json links out of the checkpoint's folder") as raised:
        load(place)
    assert "hf download NAME --local-dir DIR" in raised.value.hint
    (place / "extra.json").unlink()
    shutil.copytree(place.parent.parent, tmp_path / "elsewhere", symlinks=True)
    with pytest.raises(TargetError, match="links out"):
        load(tmp_path / "elsewhere" / "snapshots" / "0a1b2c")
