"""Safety checks of a checkpoint's folder, made before anything in it is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

from audit.errors import TargetError
from audit.files import is_endless
from audit.targets.checkpoint.content import files_of
from audit.targets.checkpoint.hints import (
    download_of,
    no_configuration,
    no_folder,
    no_weights,
    pickled_adapter,
    pointers_in,
)
from audit.targets.checkpoint.quantised import refuse_unreadable

_MOST_BYTES = 8 * 2**20
"""Of a file of settings (ours): a model that names 20,000 classes has two."""
MOST_OTHER_BYTES = 128 * 2**20
"""The size cap of a file beside the weights that a checkpoint's hash covers: the largest tokenizers have 35 MiB."""
_MOST_BYTES_OF_ANY = 256 * 2**20
"""The size cap of a file that is read at once beside the weights: vocabularies of large models have 40 MiB."""
_MOST_PARTS, _PARTS = 1000, re.compile("layers|depth|blocks|experts|stages|groups|repeats", re.IGNORECASE)
"""Settings of so many parts that a model is made of, and the most there can be (ours; published models have under
500): each takes time and memory before any weight is read."""
_MOST_OUTPUTS, _OUTPUTS = 100_000, re.compile("num_labels|n_classes|num_classes")
"""The same of outputs (ours): transformers makes up a name for each."""
_MOST_TOKENS, _TOKENS = 10**6, re.compile("seq_length|image_tokens|query_tokens|tokens_per_image|patches|tiles")
"""The same of tokens that stand for a page (ours): a processor writes as many marks into the text."""
_MAYBE_POINTERS = ("*.safetensors", "*.json", "*.model", "*.txt")


def refuse_unsafe(folder: Path) -> dict[str, Any]:
    """The raw configuration, once it is clear that loading runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing.
    """
    if not folder.is_dir():
        raise TargetError(*no_folder(folder))
    _refuse_boundless(folder)
    _refuse_pointers(folder)
    _refuse_large(folder)
    config = _settings(folder / "config.json")
    _settings(folder / "tokenizer_config.json")
    if not config:
        raise TargetError(*no_configuration(folder))
    refuse_unreadable(folder, config)
    _refuse_weights(folder, config)
    return config


def refuse_unsafe_adapter(folder: Path) -> dict[str, Any]:
    """The settings of an adapter, once it is clear that loading it runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing, or when a whole model lies beside the adapter.
    """
    _refuse_boundless(folder)
    _refuse_pointers(folder)
    _refuse_large(folder)
    settings = _settings(folder / "adapter_config.json")
    for name in ("tokenizer_config.json", "config.json"):
        _settings(folder / name)
    _refuse_links(folder)
    weights = {path.name for path in folder.glob("*.safetensors")}
    if {"model.safetensors", "model.safetensors.index.json"} & {path.name for path in folder.iterdir()}:
        raise TargetError(
            f"{folder}: an adapter and a whole model in one folder",
            "leave the adapter's files there and move the others away, or take away adapter_config.json and "
            "adapter_model.safetensors when the model has been merged already",
        )
    if "adapter_model.safetensors" not in weights:
        pickles = [path.name for path in folder.glob("adapter_model.*") if path.suffix in (".bin", ".pt")]
        raise TargetError(
            f"{folder}: no adapter_model.safetensors" + (f", only {pickles[0]}" if pickles else ""),
            pickled_adapter(pickles[0]) if pickles else "save the adapter with model.save_pretrained(DIR)",
        )
    return settings


def _refuse_boundless(folder: Path) -> None:
    """Refuse a folder with a pipe, a socket or a device, which whoever reads it would wait for, or a boundless file."""
    odd = sorted(path.name for path in folder.iterdir() if is_endless(path))
    if odd:
        raise TargetError(f"{folder}: {odd[0]} is not a regular file", "leave only the checkpoint's own files there")
    read = (path for pattern in _MAYBE_POINTERS[1:] for path in folder.glob(pattern) if path.is_file())
    large = sorted(path.name for path in read if path.stat().st_size > _MOST_BYTES_OF_ANY)
    if large:
        raise TargetError(
            f"{folder}: {large[0]} is larger than {_MOST_BYTES_OF_ANY >> 20} MiB", "copy the checkpoint there again"
        )


def _refuse_large(folder: Path) -> None:
    """Refuse files of gigabytes that are no weights: hashing them only takes time."""
    for path in files_of(folder).values():
        if path.suffix != ".safetensors" and path.stat().st_size > MOST_OTHER_BYTES:
            raise TargetError(
                f"{path}: larger than {MOST_OTHER_BYTES >> 20} MiB, which no file beside weights is",
                "move it out of the folder",
            )


def _refuse_pointers(folder: Path) -> None:
    pointers = pointers_in(folder, _MAYBE_POINTERS)
    if pointers:
        raise TargetError(
            f"{folder}: {pointers[0]} is a pointer of Git LFS, not the file itself",
            "fetch the files, in that folder: git lfs install && git lfs pull",
        )


def _settings(path: Path) -> dict[str, Any]:
    """A file of settings that asks for no code, nor for a model beyond measure; empty when there is none."""
    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise TargetError(f"{path}: larger than {_MOST_BYTES >> 20} MiB, which no file of settings is")
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        problem = next(beyond_measure(settings), None)
    except (OSError, ValueError, RecursionError):
        raise TargetError(f"{path}: not readable as JSON") from None
    if not isinstance(settings, dict):
        raise TargetError(f"{path}: not a JSON object")
    if "auto_map" in settings:
        raise TargetError(
            f"{path}: the checkpoint wants to run its own code (auto_map)",
            "docaudit never runs code from a checkpoint; convert it to a transformers architecture",
        )
    if problem is not None:
        raise TargetError(f"{path}: {problem}", "correct it to what the model was saved with")
    return settings


def beyond_measure(settings: Any, name: str = "") -> Iterator[str]:
    """Settings, at any depth, that are no numbers, or ask for more of something than any model has."""
    if isinstance(settings, dict):
        for key, value in settings.items():
            yield from beyond_measure(value, str(key))
        if len(settings) > _MOST_OUTPUTS:
            yield f"{name} has {len(settings):,} entries, and {_MOST_OUTPUTS:,} are the most"
    elif isinstance(settings, list):
        for value in settings:
            yield from beyond_measure(value, name)
    elif isinstance(settings, float) and isnan(settings):
        yield f"{name} is not a number"
    elif isinstance(settings, int):
        for most, named in ((_MOST_PARTS, _PARTS), (_MOST_OUTPUTS, _OUTPUTS), (_MOST_TOKENS, _TOKENS)):
            if settings > most and named.search(name):
                yield f"{name} is {settings:,}, and no model has more than {most:,}"


def _refuse_weights(folder: Path, config: dict[str, Any]) -> None:
    _refuse_links(folder)
    weights = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    if not weights:
        raise TargetError(*no_weights(folder, config))
    index = folder / "model.safetensors.index.json"
    if index.exists():
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
        raise TargetError(
            f"{folder}: {outside[0]} links out of the checkpoint's folder",
            f"copy the files themselves (cp -rL FOLDER COPY), or download them: {download_of(None)}",
        )


def _leaves(folder: Path, path: Path) -> bool:
    """True for a link out of the folder; a snapshot in the cache of the hub may link to the blobs beside it."""
    try:
        own, place = folder.resolve(), path.resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError before Python 3.13
        return True
    cache = own.parent.parent
    if own.parent.name == "snapshots" and cache.name.startswith("models--"):
        return not (place.is_relative_to(own) or place.is_relative_to(cache / "blobs"))
    return not place.is_relative_to(own)
