"""Sentences that lead on, for folders that are no checkpoint or hold their weights in another form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CHECKPOINT = "give a local Hugging Face checkpoint"
_SAFETENSORS = "save it with transformers: model.save_pretrained(DIR), and processor or tokenizer.save_pretrained(DIR)"
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SHORT = re.compile(r"[A-Za-z0-9][\w.-]*")
_NAME = re.compile(r"[A-Za-z]\w*")
_POINTER = b"version https://git-lfs.github.com/spec/"
_LOAD = "transformers.{name}.from_pretrained('.').save_pretrained('.')"
FOREIGN = "docaudit reads safetensors alone: give the checkpoint of transformers that this file was made from"
_PATTERNS = ("*.gguf", "*.onnx", "onnx/*.onnx", "*.mlmodel", "model_index.json", "tf_model.h5", "flax_model.msgpack")
"""Files of llama.cpp, ONNX, Core ML, diffusers, TensorFlow and Flax."""


def download_of(name: object, place: str = "DIR") -> str:
    """The command that downloads a model of the hub into a folder; a name that could be none is left open."""
    known = isinstance(name, str) and _HUB.fullmatch(name)
    return f"hf download {name if known else 'NAME'} --local-dir {place}"


def hub_hint(path: Path) -> str:
    """What to do about a path that is no folder and may be a name of the hub; empty where it can be none."""
    name = path.as_posix()
    if path.exists() or not (_HUB.fullmatch(name) or _SHORT.fullmatch(name)):
        return ""
    return f"nothing is downloaded here; if it is a model of the hub: hf download {name} --local-dir DIR, and give DIR"


def no_folder(path: Path) -> tuple[str, str]:
    """A problem and a hint for a path that is no folder."""
    name = path.as_posix()
    if path.is_file():
        return f"{path}: a file, and a checkpoint is a folder", f"give the folder that holds it: {path.parent}"
    if _HUB.fullmatch(name):
        return (
            f"{path}: no such folder",
            f"nothing is downloaded here; if it is a model on the Hugging Face hub: {download_of(name)}, and give DIR",
        )
    return f"{path}: no such folder", CHECKPOINT


def no_configuration(folder: Path) -> tuple[str, str]:
    """A problem and a hint for a folder without config.json."""
    problem = f"{folder}: no config.json"
    if (folder / "manifest.toml").is_file():
        return (
            f"{problem}: this is a data set",
            "in docaudit scan MODEL_DIR comes before DATA_DIR, in references after it",
        )
    foreign = _foreign(folder)
    if foreign is not None:
        return f"{problem}, only {foreign}", FOREIGN
    inside = checkpoints_in(folder)
    if inside:
        more = f" and {len(inside) - 4} more" if len(inside) > 4 else ""
        return f"{problem}: the checkpoints are in folders inside it", f"give one: {', '.join(inside[:4])}{more}"
    if list(folder.glob("*.safetensors")):
        return problem, f"weights without their configuration: copy config.json there, or {_SAFETENSORS}"
    return problem, CHECKPOINT


def no_weights(folder: Path, config: Mapping[str, Any]) -> tuple[str, str]:
    """A problem and a hint for a checkpoint's folder without safetensors."""
    problem = f"{folder}: no model.safetensors"
    pickles = [path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern)]
    weights = [
        name for name in pickles if not name.startswith(("training_args", "optimizer", "scheduler", "rng_state"))
    ]
    if weights:
        return (
            f"{problem}, only {weights[0]}",
            f"pickled weights can run code when loaded; if you trust the file, in that folder: {_converted(config)}",
        )
    foreign = _foreign(folder)
    if foreign is not None:
        return f"{problem}, only {foreign}", FOREIGN
    inside = checkpoints_in(folder)
    if inside:
        return problem, f"checkpoints are in folders inside it; give one: {', '.join(inside[:4])}"
    return problem, _SAFETENSORS


def pickled_adapter(name: str) -> str:
    """A hint for an adapter whose weights are pickled."""
    return (
        "pickled weights can run code when loaded; if you trust the file, in that folder: "
        f'python -c "import torch, safetensors.torch as s; t = torch.load({name!r}, weights_only=True); '
        "s.save_file({k: v.contiguous() for k, v in t.items()}, 'adapter_model.safetensors')\""
    )


def pointers_in(folder: Path, patterns: Iterable[str]) -> list[str]:
    """The files that are pointers of Git LFS in place of their content."""
    paths = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
    return [path.name for path in paths if path.stat().st_size < 1024 and path.read_bytes().startswith(_POINTER)]


def checkpoints_in(folder: Path) -> list[str]:
    """The names of folders inside this one that hold a checkpoint, the newest first."""
    inside = [own for pattern in ("*", "snapshots/*") for own in folder.glob(pattern) if _is_checkpoint(own)]
    return [str(own.relative_to(folder)) for own in sorted(inside, key=_age, reverse=True)]


def _age(folder: Path) -> tuple[int, float, str]:
    """What grows from older folders to newer ones: the step in the name, else the time of the last change."""
    step = re.fullmatch(r"(?:checkpoint|epoch|step)[-_]?(\d{1,15})", folder.name)
    return int(step[1]) if step else -1, folder.stat().st_mtime, folder.name


def _is_checkpoint(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))


def _foreign(folder: Path) -> str | None:
    """Return the name of a file of another format; None without one."""
    return next((path.name for pattern in _PATTERNS for path in sorted(folder.glob(pattern))), None)


def _converted(config: Mapping[str, Any]) -> str:
    """Return the command that saves a checkpoint's weights as safetensors beside those it has."""
    named = config.get("architectures")
    name = str(named[0]) if isinstance(named, list) and named else "AutoModel"
    # The name comes from the checkpoint and goes into a command that people paste.
    return f'python -c "import transformers; {_LOAD.format(name=name if _NAME.fullmatch(name) else "AutoModel")}"'
