"""How models are fitted, deterministically, and kept in a folder whole or not at all.

Imports nothing that trains, so that a scan that trains nothing starts sooner.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError

from audit.errors import EngineError
from audit.files import mark_underway, remove_abandoned


@dataclass(frozen=True)
class Schedule:
    """How weights are fitted. The defaults are ours: they suit a pretrained checkpoint of the usual sizes.

    Attributes:
        epochs: passes over the samples.
        learning_rate: the peak of AdamW's; it rises during `warmup_share` of the steps and falls linearly to 0.
        batch_size: samples a step.
        weight_decay: AdamW's.
        warmup_share: in [0, 1).
        seed: of the order of samples, of masks and of dropout.
        bf16: matrix products in bfloat16 (weights stay float32); several times faster where the processor has it.
    """

    epochs: int = 20
    learning_rate: float = 1e-4
    batch_size: int = 16
    weight_decay: float = 0.01
    warmup_share: float = 0.1
    seed: int = 0
    bf16: bool = False

    def as_json(self) -> dict[str, int | float | str | None]:
        """The recipe for a record or a cache key; a record leaves out a prompt."""
        return asdict(self)


@dataclass(frozen=True)
class Recipe(Schedule):
    """How an encoder is fitted; a sample is a page.

    Attributes:
        mask_probability: the share of tokens predicted on a page (masked language models only).
    """

    mask_probability: float = 0.15


@dataclass(frozen=True)
class AnsweringRecipe(Schedule):
    """How a question-answering model is fitted; a sample is a page and one question, for parsing a page.

    Dropout is as the model's configuration says.

    Attributes:
        prompt, system: see `audit.corpus.documents.TrainingRecipe`; the target that is fitted must have been loaded
            with them.
    """

    learning_rate: float = 5e-5
    batch_size: int = 8
    prompt: str | None = None
    system: str | None = None


@contextlib.contextmanager
def reproducible(device: str) -> Iterator[None]:
    """Deterministic kernels while training; the process's setting and random state are given back.

    On a GPU kernels without a deterministic form only warn: the weights of a reference may then differ in the last bits
    between two trainings, and the record names a checkpoint by its hash.

    Args:
        device: "cpu", "cuda" or "mps".
    """
    before, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    with torch.random.fork_rng(enabled=True):
        torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
        # Nothing here reads memory it did not write; filling every new tensor costs a sixth of the time.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        try:
            yield
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
            torch.use_deterministic_algorithms(before, warn_only=warned)


UNFINISHED = "unfinished-"
"""What the names of folders begin with that are being filled, or were when the process was killed."""


def key_of(depends_on: object) -> str:
    """A short name for everything that a trained model depends on; `depends_on` is what `json.dumps` takes."""
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:16]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, filled by `make` unless it is there already.

    Args:
        folder: named after everything its content depends on.
        make: fills the empty folder that it is given; when it breaks down, nothing is left, and what is left when the
            process is killed goes with the next one that is filled.

    Raises:
        EngineError: the disk does not take it.
    """
    if folder.is_dir():
        return folder
    cache = folder.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
        remove_abandoned(cache.glob(f"{UNFINISHED}*"))
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache))
        try:
            with mark_underway(unfinished):
                make(unfinished)
                os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{cache}: {reason}", "free some space or choose another folder") from None
    return folder
