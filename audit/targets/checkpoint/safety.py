"""Safety checks of a checkpoint's folder before anything in it is loaded, and hints that lead on."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from audit.errors import TargetError
from audit.targets import TABLE, wording
from audit.targets.checkpoint.content import files_of, other_weights

_BUILT_IN = (OSError, ValueError, TypeError, RuntimeError, AttributeError, LookupError, ArithmeticError)
DAMAGE = (*_BUILT_IN, AssertionError, ImportError, StrictDataclassError, SafetensorError)
"""What transformers and its libraries raise on damaged files; none of them documents a closed list."""


def one_line(error: BaseException) -> str:
    """Return the message of an error, on one line of at most 200 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


@contextmanager
def quiet(*, warn: bool = False) -> Iterator[None]:
    """Keep the libraries' log lines out of the user's terminal; what matters is raised as an error.

    Args:
        warn: let Python's warnings through.
    """
    loggers = [logging.getLogger(name) for name in ("transformers", "accelerate")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    with ExitStack() as stack:
        if not warn:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def method_of(config: Mapping[str, Any]) -> str | None:
    """Return the name of a configuration's quantisation; None for weights in full or half precision."""
    settings = config.get("quantization_config")
    if settings is None:
        return None
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    loads = isinstance(settings, dict) and (settings.get("load_in_8bit") or settings.get("load_in_4bit"))
    return str(method) if method is not None else "bitsandbytes" if loads else "unknown"


def refuse_training(folder: object, config: Mapping[str, Any]) -> None:
    """Refuse to change quantised weights: to train on from them, or to merge an adapter into them.

    Raises:
        TargetError: they are quantised.
    """
    method = method_of(config)
    if method is not None:
        raise TargetError(*wording("quantised", folder=folder, method=method))


CHECKPOINT = "give a local Hugging Face checkpoint"
SAFETENSORS = (
    "docaudit reads only safetensors. Load the model where you trust its files, and save it with transformers"
    " (save_pretrained), its processor or tokenizer beside it"
)
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z0-9][\w.-]*")


def download_of(name: object, place: str = "DIR") -> str:
    """Give the command that downloads a model of the hub into a folder; a name that could be none is left open."""
    known = isinstance(name, str) and _HUB.fullmatch(name)
    return f"hf download {name if known else 'NAME'} --local-dir {place}"


def hub_hint(path: Path) -> str:
    """Say what to do about a path that is no folder and may be a name of the hub; empty where it can be none."""
    told = f"if it is a model of the Hub, add --allow-network, or run {download_of(path.as_posix())} and give DIR"
    return "" if path.exists() or not _HUB.fullmatch(path.as_posix()) else told


def _no_checkpoint(folder: Path, missing: str) -> TargetError:
    """Make the error for a folder without config.json or without safetensors."""
    problem = f"{folder}: no {missing}"
    others = other_weights(folder)
    if others:
        return TargetError(f"{problem}, only {others[0]}", SAFETENSORS)
    inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
    if inside:
        return TargetError(f"{problem}: the checkpoints are in folders inside it", f"give one: {', '.join(inside[:4])}")
    if (folder / "manifest.toml").is_file():
        return TargetError(f"{problem}: this is a data set", "MODEL_DIR comes before DATA_DIR in docaudit scan")
    return TargetError(problem, CHECKPOINT)


_MOST_BYTES = 8 * 2**20
"""Of a file of settings: a model that names 20,000 classes has two."""
MOST_OTHER_BYTES = 128 * 2**20
"""The size cap of a file beside the weights that a checkpoint's hash covers: the largest tokenizers have 35 MiB."""
_MOST = {re.compile(pattern, re.IGNORECASE): most for pattern, most in TABLE["most"].items()}


def refuse_unsafe(folder: Path) -> dict[str, Any]:
    """Return the raw configuration, once it is clear that loading runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder", hub_hint(folder) or CHECKPOINT)
    _refuse_large(folder)
    config = _settings(folder / "config.json")
    _settings(folder / "tokenizer_config.json")
    if not config:
        raise _no_checkpoint(folder, "config.json")
    _refuse_weights(folder)
    return config


def refuse_unsafe_adapter(folder: Path) -> dict[str, Any]:
    """Return the settings of an adapter, once it is clear that loading it runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing, or when a whole model lies beside the adapter.
    """
    _refuse_large(folder)
    settings = _settings(folder / "adapter_config.json")
    for name in ("tokenizer_config.json", "config.json"):
        _settings(folder / name)
    _refuse_links(folder)
    weights = {path.name for path in folder.glob("*.safetensors")}
    if {"model.safetensors", "model.safetensors.index.json"} & {path.name for path in folder.iterdir()}:
        raise TargetError(*wording("adapter_and_model", folder=folder))
    if "adapter_model.safetensors" not in weights:
        raise _no_checkpoint(folder, "adapter_model.safetensors")
    return settings


def _refuse_large(folder: Path) -> None:
    """Refuse files of gigabytes that are no weights."""
    for path in files_of(folder).values():
        if path.suffix != ".safetensors" and path.stat().st_size > MOST_OTHER_BYTES:
            raise TargetError(*wording("too_large_beside", path=path, most=MOST_OTHER_BYTES >> 20))


def _settings(path: Path) -> dict[str, Any]:
    """Return a file of settings that asks for no code, nor for a model beyond measure; empty when there is none."""
    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise TargetError(f"{path}: larger than {_MOST_BYTES >> 20} MiB, which no file of settings is")
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        problem = next(beyond_measure(settings), None)
    except (OSError, ValueError, RecursionError):
        raise TargetError(f"{path}: not readable as JSON", "copy it again (git lfs pull fetches pointers)") from None
    if not isinstance(settings, dict):
        raise TargetError(f"{path}: not a JSON object")
    if "auto_map" in settings:
        raise TargetError(*wording("own_code", path=path))
    if problem is not None:
        raise TargetError(f"{path}: {problem}", "correct it to what the model was saved with")
    return settings


def beyond_measure(settings: Any, name: str = "") -> Iterator[str]:
    """Yield settings, at any depth, that ask for more of something than any model has."""
    if isinstance(settings, dict | list):
        for key, value in settings.items() if isinstance(settings, dict) else ((name, value) for value in settings):
            yield from beyond_measure(value, str(key))
    elif isinstance(settings, int):
        for named, most in _MOST.items():
            if settings > most and named.search(name):
                yield f"{name} is {settings:,}, and no model has more than {most:,}"


def _refuse_weights(folder: Path) -> None:
    _refuse_links(folder)
    weights = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    if not weights:
        raise _no_checkpoint(folder, "model.safetensors")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = {str(shard) for shard in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise TargetError(f"{index}: not an index of shards") from None
        missing = sorted(shards - weights)
        if missing:
            raise TargetError(f"{folder}: the shard {missing[0]} is missing or lies elsewhere")


def _refuse_links(folder: Path) -> None:
    outside = [path.name for path in folder.iterdir() if _leaves(folder, path)]
    if outside:
        raise TargetError(*wording("links_out", folder=folder, first=outside[0], command=download_of(None)))


def _leaves(folder: Path, path: Path) -> bool:
    """Return True for a link out of the folder; a snapshot in the cache of the hub may link to the blobs beside it."""
    try:
        own, place = folder.resolve(), path.resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError before Python 3.13
        return True
    cache = own.parent.parent
    if own.parent.name == "snapshots" and cache.name.startswith("models--"):
        return not (place.is_relative_to(own) or place.is_relative_to(cache / "blobs"))
    return not place.is_relative_to(own)
