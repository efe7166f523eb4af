"""Progress of a checkpoint's training, as the Trainer of transformers writes it next to the weights."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from audit.errors import TargetError

TRAINER_STATE = "trainer_state.json"
"""Says nothing about what a checkpoint does, so it is no part of its sha256."""
_MAX_BYTES = 64 * 2**20
"""The file holds a log of the whole training: some megabytes after a long one. A larger one is not read."""
_MAX_STEPS = 2**53
"""Whole numbers beyond this are no counts of steps, and lose digits in JSON."""


class _State(BaseModel, strict=True):
    """What is read of `trainer_state.json`."""

    epoch: Annotated[float, Field(ge=0, le=_MAX_STEPS)] | None = None
    global_step: Annotated[int, Field(ge=0, le=_MAX_STEPS)] | None = None


@dataclass(frozen=True)
class TrainingProgress:
    """Epochs (not always whole) and optimiser steps so far; None where nobody wrote it down."""

    epoch: float | None = None
    step: int | None = None


def training_progress(folder: Path) -> TrainingProgress:
    """The progress in `trainer_state.json` of a checkpoint; none when it is missing, damaged or too large."""
    path = folder / TRAINER_STATE
    try:
        # Only a plain file: reading a pipe or a device would never end.
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return TrainingProgress()
        state = _State.model_validate_json(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return TrainingProgress()
    return TrainingProgress(state.epoch, state.global_step)


SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of an adapter."""
_CONTENT = ("*.json", "*.txt", "*.safetensors", "*.model", "*.jinja", "*.ttf", "*.TTF")
"""Files that decide what a checkpoint does; their content makes up its sha256."""

_OTHER_WEIGHTS = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".ggml", ".onnx", ".onnx_data", ".tflite", ".mlmodel"}
    | {".pkl", ".pickle", ".joblib", ".npz", ".npy", ".engine"}
)
_CODE = frozenset({".py", ".so", ".pyc"})
LEFT_OVER = ("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt", "rng_state")
"""Beginnings of the names of files of a training that no model is loaded from."""


def files_of(folder: Path) -> dict[str, Path]:
    """By name, the files that decide what a checkpoint does: a copy of them is the same checkpoint."""
    paths = {path for pattern in _CONTENT for path in folder.glob(pattern) if path.is_file()}
    return {path.name: path for path in sorted(paths) if path.name != TRAINER_STATE}


def unscanned_files(folder: Path) -> list[str]:
    """Weights and code in a checkpoint's folder that its sha256 says nothing of, by their paths within the folder.

    docaudit reads safetensors of the folder itself; another loader may take these instead.
    """
    known = {*files_of(folder).values()}
    loaded = _OTHER_WEIGHTS | _CODE | {".safetensors"}
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in loaded and path.is_file())
    names = (path.relative_to(folder) for path in paths if path not in known)
    return sorted(
        name.as_posix()
        for name in names
        if not any(part.startswith(".") for part in name.parts) and not name.name.startswith(LEFT_OVER)
    )


def other_weights(folder: Path) -> list[str]:
    """Weights in a checkpoint's folder itself that its sha256 says nothing of: a loader may take them instead."""
    return [name for name in unscanned_files(folder) if "/" not in name and Path(name).suffix.lower() not in _CODE]


def code_that_runs(folder: Path) -> list[str]:
    """The files of code in a folder whose configuration names classes of them: loaders that trust it run them."""
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    named = isinstance(config, dict) and config.get("auto_map")
    return [name for name in unscanned_files(folder) if Path(name).suffix in _CODE] if named else []


def is_adapter(folder: Path) -> bool:
    """True for a folder that holds an adapter."""
    return (folder / SETTINGS).is_file()


def file_digest(path: Path) -> bytes:
    """The sha256 of a file.

    Raises:
        TargetError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror or 'cannot be read'}") from None


def hash_files(folder: Path) -> dict[str, str]:
    """The sha256 of each file of a checkpoint, by name, as the card of a scan lists them.

    Of an adapter: its own two files, and under "base/" those of the local folder that it names as its base.

    Raises:
        TargetError: it is no folder, or a file cannot be read.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder")
    if not is_adapter(folder):
        return {name: file_digest(path).hex() for name, path in files_of(folder).items()}
    own = {name: file_digest(folder / name).hex() for name in (SETTINGS, WEIGHTS) if (folder / name).is_file()}
    base = _named_base(folder)
    based = {} if base is None else {name: file_digest(path).hex() for name, path in files_of(base).items()}
    return {**own, **{f"base/{name}": digest for name, digest in based.items()}}


def bases_named(folder: Path, named: object) -> list[Path]:
    """The folders of models that an adapter's settings may mean by their `base_model_name_or_path`.

    An adapter from elsewhere may name any folder of this machine: one that holds no model is not looked into.
    """
    places = [Path(named), folder / named] if isinstance(named, str) and named else []
    # os.path: a path may be too long or not allowed, which pathlib raises.
    models = (place for place in places if any(os.path.isfile(place / name) for name in ("config.json", SETTINGS)))
    return [place for place in models if place.resolve() != folder.resolve()]


def _named_base(folder: Path) -> Path | None:
    """The local folder that an adapter names as its base; None where there is none with a model."""
    try:
        settings: Any = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    named = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
    return next(iter(bases_named(folder, named)), None)
