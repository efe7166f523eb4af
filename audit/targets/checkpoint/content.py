"""What a checkpoint's folder says without loading it.

Files, their hashes, training progress, and the task.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from audit import plugins
from audit.corpus.documents import WRITING, Task, TaskKind
from audit.corpus.validation import label_problems
from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.checkpoint.tree import (
    CODE,
    files_of,
    refuse_links,
    refuse_unknown_folders,
    unscanned_files,
)

TRAINER_STATE = "trainer_state.json"
"""Says nothing about what a checkpoint does, so it is no part of its sha256."""
_MAX_BYTES = 64 * 2**20
"""The file holds a log of the whole training: some megabytes after a long one. A larger one is not
read."""
_MAX_STEPS = 2**53
"""Whole numbers beyond this are no counts of steps, and lose digits in JSON."""


class TrainingProgress(BaseModel, strict=True, frozen=True):
    """Epochs (not always whole) and optimiser steps so far; None where nobody wrote it down."""

    epoch: Annotated[float, Field(ge=0, le=_MAX_STEPS)] | None = None
    step: Annotated[int, Field(ge=0, le=_MAX_STEPS)] | None = Field(None, alias="global_step")


def training_progress(folder: Path) -> TrainingProgress:
    """Return epochs and steps from the `trainer_state.json` of a checkpoint.

    None when it is missing, damaged or too large.
    """
    path = folder / TRAINER_STATE
    try:
        # Only a plain file: reading a pipe or a device would never end.
        if path.is_file() and path.stat().st_size <= _MAX_BYTES:
            return TrainingProgress.model_validate_json(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        pass
    return TrainingProgress()


SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of an adapter."""
BASE = "base/"
"""What the card puts before the names of the files of an adapter's base."""


def other_weights(folder: Path) -> list[str]:
    """Return names of weight files in a checkpoint's folder that its sha256 does not cover.

    A loader may take them instead.
    """
    return [
        name
        for name in unscanned_files(folder)
        if "/" not in name and Path(name).suffix.lower() not in CODE
    ]


_NAMING_CODE = (
    "config.json",
    "tokenizer_config.json",
    "preprocessor_config.json",
    "processor_config.json",
)
"""Files of settings that may name classes of code in the folder."""


def names_code(folder: Path) -> bool:
    """Test whether settings in a checkpoint's folder name code that some loaders would run."""
    settings = (read_settings(folder / name, damaged_is_empty=True) for name in _NAMING_CODE)
    return any(values.get("auto_map") for values in settings)


def code_that_runs(folder: Path) -> list[str]:
    """Return the names of code files in a checkpoint's folder that some loaders would run.

    Its settings name their classes. docaudit runs none.
    """
    if not names_code(folder):
        return []
    return [name for name in unscanned_files(folder) if Path(name).suffix in CODE]


def unrun_code(folder: Path) -> dict[str, str]:
    """Return the hex sha256 of each file of code that some loaders would run, by its name."""
    return {name: file_digest(folder / name).hex() for name in code_that_runs(folder)}


def is_adapter(folder: Path) -> bool:
    """Return True for a folder that holds an adapter."""
    return (folder / SETTINGS).is_file()


def file_digest(path: Path) -> bytes:
    """Return the sha256 of a file.

    Raises:
        TargetError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror or 'cannot be read'}") from None


def hash_files(folder: Path) -> dict[str, str]:
    """Return the hex sha256 of each file of a checkpoint by name, as a scan's card lists them.

    Of an adapter: those of its own folder, and under "base/" those of the local folder that it
    names as its base.

    Raises:
        TargetError: it is no folder, a file cannot be read, or see `refuse_links` and
            `refuse_unknown_folders`.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder")
    refuse_links(folder)
    base = named_base(folder)
    refuse_unknown_folders(folder, base)
    hashes = {name: file_digest(path).hex() for name, path in files_of(folder).items()}
    if base is not None:
        refuse_links(base)
        refuse_unknown_folders(base)
        hashes.update(
            {f"{BASE}{name}": file_digest(path).hex() for name, path in files_of(base).items()}
        )
    return hashes


def named_base(folder: Path) -> Path | None:
    """Return the folder of the base that an adapter names.

    None where it names none of this machine, or is none.
    """
    named = read_settings(folder / SETTINGS, damaged_is_empty=True).get("base_model_name_or_path")
    return next(iter(bases_named(folder, named)), None)


def bases_named(folder: Path, named: object) -> list[Path]:
    """Return those local folders with a model that an adapter's settings may mean as its base.

    They name it as their `base_model_name_or_path`.

    An adapter from elsewhere may name any folder of this machine: one that holds no model is not
    looked into.
    """
    places = [Path(named), folder / named] if isinstance(named, str) and named else []
    # os.path: a path may be too long or not allowed, which pathlib raises.
    models = (
        place
        for place in places
        if any(os.path.isfile(place / name) for name in ("config.json", SETTINGS))
    )
    return [place for place in models if place.resolve() != folder.resolve()]


def read_settings(path: Path, *, damaged_is_empty: bool = False) -> dict[str, Any]:
    """Return a file's JSON object; empty where the file is missing or holds no object.

    Raises:
        TargetError: the file is damaged, unless damaged files are taken as empty.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        if damaged_is_empty:
            return {}
        raise TargetError(f"{path}: not readable as JSON") from None
    return content if isinstance(content, dict) else {}


HEADS: Mapping[str, TaskKind] = TABLE["tasks"]["heads"]
"""By how the name of an architecture ends; the first that fits."""
ADAPTERS: Mapping[str, TaskKind] = TABLE["tasks"]["adapters"]
"""By the task type of a PEFT adapter."""
LABELLED: tuple[TaskKind, ...] = (
    "token-classification",
    "spade-extraction",
    "document-classification",
    "intent-slots",
)
_PLACEHOLDER = re.compile(r"LABEL_\d+")


@dataclass(frozen=True)
class RecognisedTask:
    """The task of a checkpoint.

    Attributes:
        task: its kind, and its labels where the checkpoint names them and a manifest can.
        architecture: what it was told by.
        possible: the tasks that it can have; of one that writes, the configuration does not tell
            whether it answers questions.
    """

    task: Task
    architecture: str
    possible: tuple[TaskKind, ...]


def recognise_task(folder: Path) -> RecognisedTask:
    """Return a checkpoint's task by its config.json, or by an adapter's adapter_config.json.

    Raises:
        TargetError: there is neither, what it says is no task that docaudit knows, or see
            `refuse_links`.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder", "give a local Hugging Face checkpoint")
    refuse_links(folder)
    config = read_settings(folder / "config.json")
    settings = read_settings(folder / SETTINGS)
    architectures = _architectures_of(config, settings)
    for architecture in map(str, architectures):
        kind = next((kind for ending, kind in HEADS.items() if architecture.endswith(ending)), None)
        if kind is not None:
            task = Task(kind, _labels(config, kind))
            return RecognisedTask(task, architecture, _possible(kind, config))
    model_type = str(config.get("model_type"))
    own_kind: TaskKind | None = getattr(plugins.find("docaudit.targets", model_type), "task", None)
    if own_kind is not None:
        return RecognisedTask(Task(own_kind, _labels(config, own_kind)), model_type, (own_kind,))
    adapter = str(settings.get("task_type"))
    if adapter in ADAPTERS:
        kind = ADAPTERS[adapter]
        return RecognisedTask(Task(kind), f"an adapter for {adapter}", _possible(kind, config))
    stated = ", ".join(map(str, architectures)) if any(architectures) else "no architecture"
    raise TargetError(
        f"{folder}: its configuration does not state its task ({stated})", "give --task KIND"
    )


def _possible(kind: TaskKind, config: Mapping[str, Any]) -> tuple[TaskKind, ...]:
    """Return the tasks that a model of this kind of head can have."""
    if kind in WRITING and config.get("model_type") not in TABLE["tasks"]["asked_only"]:
        return WRITING
    return (kind,)


def _architectures_of(config: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Any]:
    """Return the class names in a configuration; without any, that of the adapter's base."""
    architectures = config.get("architectures")
    if not architectures:
        # PEFT writes the class of the base where it is given no task type.
        mapped = settings.get("auto_mapping")
        return [mapped.get("base_model_class") if isinstance(mapped, dict) else None]
    return architectures if isinstance(architectures, list) else []


def _labels(config: Mapping[str, Any], kind: TaskKind) -> tuple[str, ...]:
    """Return the labels in output order; none where they are placeholders or break a manifest."""
    named = config.get("id2label")
    if kind not in LABELLED or not isinstance(named, dict):
        return ()
    labels = tuple(str(named.get(str(number), "")) for number in range(len(named)))
    if any(not label.strip() or _PLACEHOLDER.fullmatch(label) for label in labels):
        return ()
    return () if any(label_problems(Task(kind, labels))) else labels
