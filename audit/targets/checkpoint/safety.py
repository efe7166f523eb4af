"""Safety checks of a checkpoint's folder before anything in it is loaded.

Also hints that lead on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from audit.errors import TargetError
from audit.targets import TABLE, wording
from audit.targets.checkpoint.content import SETTINGS, named_base, read_settings
from audit.targets.checkpoint.tree import files_of, refuse_links, refuse_unknown_folders
from audit.targets.native import is_native
from audit.targets.places import refuse_broken

_BUILT_IN = (
    OSError,
    ValueError,
    TypeError,
    RuntimeError,
    AttributeError,
    LookupError,
    ArithmeticError,
)
DAMAGE = (*_BUILT_IN, AssertionError, ImportError, StrictDataclassError, SafetensorError)
"""What transformers and its libraries raise on damaged files; none of them documents a closed
list."""
_STDERR = 2


def one_line(error: BaseException) -> str:
    """Return an error's message on one line of at most 200 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


@contextmanager
def quiet(*, warn: bool = False) -> Iterator[None]:
    """Silence the log lines of transformers and accelerate, and Python's warnings, within.

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


@contextmanager
def refuse_panics(folder: object, what: str, hint: str = "") -> Iterator[None]:
    """Turn a panic within, of a library compiled from Rust, into a `TargetError`.

    A panic is no `Exception`, and its library writes a backtrace, and perhaps the text that it
    failed at, to standard error past Python. So nothing that compiled code writes there is heard
    within.

    Args:
        folder: the checkpoint.
        what: what failed, as "the tokenizer cannot be loaded".
        hint: what mends it.

    Raises:
        TargetError: there was a panic.
    """
    with _compiled_code_silenced():
        try:
            yield
        except BaseException as error:
            # Each library has a class of its own for it, which none exports.
            if type(error).__name__ != "PanicException":
                raise
            raise TargetError(f"{folder}: {what}: {one_line(error)}", hint) from None


@contextmanager
def _compiled_code_silenced() -> Iterator[None]:
    """Discard within what compiled code writes to standard error.

    Where that is closed, change nothing.
    """
    try:
        terminal = os.dup(_STDERR)
    except OSError:
        yield
        return
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, _STDERR)
        yield
    finally:
        os.dup2(terminal, _STDERR)
        os.close(terminal)
        os.close(nowhere)


def method_of(config: Mapping[str, Any]) -> str | None:
    """Return the name of a configuration's quantisation method.

    None for weights in full or half precision.
    """
    settings = config.get("quantization_config")
    if settings is None:
        return None
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    loads = isinstance(settings, dict) and (
        settings.get("load_in_8bit") or settings.get("load_in_4bit")
    )
    return str(method) if method is not None else "bitsandbytes" if loads else "unknown"


def refuse_training(folder: object, config: Mapping[str, Any]) -> None:
    """Refuse quantised weights for training or for merging an adapter.

    Raises:
        TargetError: they are quantised.
    """
    method = method_of(config)
    if method is not None:
        raise TargetError(*wording("quantised", folder=folder, method=method))


_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z0-9][\w.-]*")


def download_of(name: object, place: str = "DIR") -> str:
    """Return the shell command that downloads a model of the Hub into a folder.

    A name that could be none is left open.
    """
    known = isinstance(name, str) and _HUB.fullmatch(name)
    return f"hf download {name if known else 'NAME'} --local-dir {place}"


def hub_hint(path: Path) -> str:
    """Return what to do about a missing path that may be the name of a model of the Hub.

    Empty where it can be none.
    """
    told = f"if it is a model of the Hub, add --allow-network, or run {download_of(path.as_posix())} and give DIR"
    return "" if path.exists() or not _HUB.fullmatch(path.as_posix()) else told


_INDEX = "model.safetensors.index.json"
_MOST_BYTES = 8 * 2**20
"""Of a file of settings: a model that names 20,000 classes has two."""
MOST_OTHER_BYTES = 128 * 2**20
"""The size cap of a file beside the weights that a checkpoint's hash covers: the largest tokenizers
have 35 MiB."""
_FILE_SETTINGS: list[str] = TABLE["files"]["file_settings"]
_MODEL_SETTINGS: list[str] = TABLE["files"]["model_settings"]
_MOST = {re.compile(pattern, re.IGNORECASE): most for pattern, most in TABLE["most"].items()}


def refuse_unsafe(folder: Path) -> dict[str, Any]:
    """Return the raw configuration of a folder that loads without running code or pickles.

    Raises:
        TargetError: with what is unsafe or missing.
    """
    refuse_broken(folder)
    refuse_links(folder)
    refuse_unknown_folders(folder)
    _refuse_large(folder)
    config = _settings(folder / "config.json")
    tokenizer = _settings(folder / "tokenizer_config.json")
    for name, settings in (("config.json", config), ("tokenizer_config.json", tokenizer)):
        if "auto_map" in settings and not is_native(config.get("model_type")):
            raise TargetError(*wording("own_code", path=folder / name))
    _refuse_processors(folder)
    if not config:
        raise TargetError(*wording("no_settings", path=folder / "config.json"))
    _refuse_weights(folder)
    return config


def refuse_unsafe_adapter(folder: Path) -> dict[str, Any]:
    """Return the settings of an adapter that loads without running code or pickles.

    Loading it runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing, or when a whole model lies beside the adapter.
    """
    refuse_links(folder)
    _refuse_large(folder)
    settings = _settings(folder / SETTINGS)
    if "auto_map" in settings:
        raise TargetError(*wording("own_code", path=folder / SETTINGS))
    for name in ("tokenizer_config.json", "config.json"):
        # Code that they name is never run. Whether transformers has a class is asked of the base.
        _settings(folder / name)
    _refuse_processors(folder)
    refuse_unknown_folders(folder, named_base(folder))
    refuse_broken(folder)
    return settings


_PROCESSORS = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "audio_tokenizer_config.json",
)
"""Files of settings of processors; transformers has code of its own for some that name theirs."""


def _refuse_processors(folder: Path) -> None:
    """Refuse processors' settings that name files outside the checkpoint's folder."""
    for name in _PROCESSORS:
        path = folder / name
        _refuse_long(path)
        _refuse_elsewhere(path, read_settings(path, damaged_is_empty=True))


def _refuse_elsewhere(path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse settings of a file that name other files or models to read.

    Plain names in their folder are allowed.
    """
    for setting, value in _settings_within(settings):
        if setting in _MODEL_SETTINGS and value is not None:
            raise TargetError(*wording("second_model", path=path, setting=setting))
        if setting in _FILE_SETTINGS and not _are_plain_names(value):
            raise TargetError(*wording("file_elsewhere", path=path, setting=setting))


def _settings_within(settings: Any) -> Iterator[tuple[str, Any]]:
    """Yield each setting's name and value, at any depth."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            yield str(name), value
            yield from _settings_within(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from _settings_within(value)


def _are_plain_names(value: Any) -> bool:
    """Test whether a setting's value is empty, or file names without a folder."""
    if isinstance(value, list):
        return all(_are_plain_names(name) for name in value)
    return value is None or (
        isinstance(value, str) and not {"/", "\\"} & {*value} and value not in (".", "..")
    )


def _refuse_large(folder: Path) -> None:
    """Refuse a folder with a file of over `MOST_OTHER_BYTES` that holds no weights."""
    for path in files_of(folder).values():
        if path.suffix != ".safetensors" and path.stat().st_size > MOST_OTHER_BYTES:
            raise TargetError(*wording("too_large_beside", path=path, most=MOST_OTHER_BYTES >> 20))


def _settings(path: Path) -> dict[str, Any]:
    """Return the settings of a file, after refusing sizes that no model has.

    Empty when there is none.
    """
    _refuse_long(path)
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        problem = next(beyond_measure(settings), None)
    except (OSError, ValueError, RecursionError):
        raise TargetError(
            f"{path}: not readable as JSON", "copy it again (git lfs pull fetches pointers)"
        ) from None
    if not isinstance(settings, dict):
        raise TargetError(f"{path}: not a JSON object")
    if problem is not None:
        raise TargetError(f"{path}: {problem}", "correct it to what the model was saved with")
    _refuse_elsewhere(path, settings)
    return settings


def _refuse_long(path: Path) -> None:
    """Refuse a settings file of more than `_MOST_BYTES`."""
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise TargetError(
            f"{path}: larger than {_MOST_BYTES >> 20} MiB, which no file of settings is"
        )


def beyond_measure(settings: Any, name: str = "") -> Iterator[str]:
    """Yield a sentence about each setting, at any depth, that exceeds what any model has."""
    if isinstance(settings, dict | list):
        for key, value in (
            settings.items()
            if isinstance(settings, dict)
            else ((name, value) for value in settings)
        ):
            yield from beyond_measure(value, str(key))
    elif isinstance(settings, int):
        for named, most in _MOST.items():
            if settings > most and named.search(name):
                yield f"{name} is {settings:,}, and no model has more than {most:,}"


def _refuse_weights(folder: Path) -> None:
    """Refuse a folder without safetensors, or whose index names files that are not there."""
    weights = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    for index in sorted(folder.glob("*.safetensors.index.json")):
        missing = sorted(_shards_of(index) - weights)
        if index.name != _INDEX:
            # The configuration may choose it; or it is for another loader, whose shards need not be
            # there.
            missing = [shard for shard in missing if not _are_plain_names(shard)]
        if missing:
            raise TargetError(f"{folder}: the shard {missing[0]} is missing or lies elsewhere")


def _shards_of(index: Path) -> set[str]:
    """Return the names of the weight files that an index lists."""
    try:
        return {
            str(shard)
            for shard in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise TargetError(f"{index}: not an index of shards") from None
