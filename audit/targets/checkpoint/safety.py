"""Safety checks of a checkpoint's folder, made before anything in it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from audit.errors import TargetError

_CHECKPOINT = "give a local Hugging Face checkpoint"


def refuse_unsafe(folder: Path) -> dict[str, Any]:
    """The raw configuration, once it is clear that loading runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder", _CHECKPOINT)
    config = _settings(folder / "config.json")
    _settings(folder / "tokenizer_config.json")
    if not config:
        raise TargetError(f"{folder}: no config.json", _CHECKPOINT)
    if (folder / "adapter_config.json").exists():
        raise TargetError(f"{folder}: an adapter without its model", "merge the adapter into the model and save that")
    if "quantization_config" in config:
        raise TargetError(f"{folder}: quantised weights", "give the checkpoint in full precision")
    _refuse_weights(folder)
    return config


def _settings(path: Path) -> dict[str, Any]:
    """A file of settings that asks for no code; empty when there is none."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        raise TargetError(f"{path}: not readable as JSON") from None
    if not isinstance(settings, dict):
        raise TargetError(f"{path}: not a JSON object")
    if "auto_map" in settings:
        raise TargetError(
            f"{path}: the checkpoint wants to run its own code (auto_map)",
            "docaudit never runs code from a checkpoint; convert it to a transformers architecture",
        )
    return settings


def _refuse_weights(folder: Path) -> None:
    outside = [path.name for path in folder.iterdir() if _leaves(folder, path)]
    if outside:
        raise TargetError(f"{folder}: {outside[0]} links out of the checkpoint's folder", "copy the files themselves")
    weights = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    if not weights:
        pickles = [path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern)]
        raise TargetError(
            f"{folder}: no model.safetensors" + (f", only {pickles[0]}" if pickles else ""),
            "pickled weights can run code when loaded: save the model with save_pretrained(safe_serialization=True)",
        )
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            shards = {str(shard) for shard in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise TargetError(f"{index}: not an index of shards") from None
        missing = sorted(shards - weights)
        if missing:
            raise TargetError(f"{folder}: the shard {missing[0]} is missing or lies elsewhere")


def _leaves(folder: Path, path: Path) -> bool:
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError before Python 3.13
        return True
