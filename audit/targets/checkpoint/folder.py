"""A checkpoint's folder, opened once: checked before anything in it is loaded, and each file hashed at most once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.errors import TargetError
from audit.record import TargetCard
from audit.targets.checkpoint.safety import refuse_unsafe
from audit.targets.checkpoint.trainer_state import TRAINER_STATE, TrainingProgress, training_progress

_CONTENT = ("*.json", "*.txt", "*.safetensors", "*.model", "*.jinja", "*.ttf", "*.TTF")
"""Files that decide what a checkpoint does; their content makes up its sha256."""


@dataclass(frozen=True, eq=False)
class CheckpointFolder:
    """A folder that passed the safety checks; made by `open_checkpoint`.

    Hashes are taken when they are first asked for and belong to this object, never to a path. Whoever keeps something
    under a hash opens the folder where the training begins, so that an older opening never vouches for newer files.

    Attributes:
        path: the folder; an error message names the checkpoint by it.
        config: its config.json.
        progress: of its training.
    """

    path: Path
    config: dict[str, Any]
    progress: TrainingProgress

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def _digests(self) -> dict[str, bytes]:
        return {name: _file_digest(path) for name, path in files_of(self.path).items()}

    @property
    def sha256(self) -> str:
        """The sha256 over names and content of the configuration, tokenizer and weights."""
        digest = hashlib.sha256()
        for name, own in self._digests.items():
            digest.update(name.encode() + b"\0" + own)
        return digest.hexdigest()

    @property
    def weights(self) -> frozenset[bytes]:
        """The digests of the weight files, whatever they are called."""
        return frozenset(own for name, own in self._digests.items() if name.endswith(".safetensors"))

    @property
    def weight_names(self) -> frozenset[str]:
        """The names of the tensors in its weight files."""
        from safetensors import safe_open

        names: set[str] = set()
        for name, path in files_of(self.path).items():
            if name.endswith(".safetensors"):
                with safe_open(path, "pt") as tensors:
                    names.update(tensors.keys())
        return frozenset(names)

    def card(
        self, model: Any, *, family: str, task: str, architecture: str, vocabulary: int, max_tokens: int, device: str
    ) -> TargetCard:
        """The card of the model that was loaded from this folder in float32."""
        return TargetCard(
            name=self.path.resolve().name,
            family=family,
            task=task,
            architecture=architecture,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            vocabulary=vocabulary,
            max_tokens=max_tokens,
            sha256=self.sha256,
            device=device,
            dtype="float32",
            epoch=self.progress.epoch,
            step=self.progress.step,
        )


AnyFolder = Path | CheckpointFolder
"""A path that is still to be opened, or an opened folder."""


def open_checkpoint(folder: AnyFolder) -> CheckpointFolder:
    """Open a checkpoint's folder; an opened one is returned as it is.

    Raises:
        TargetError: it is no checkpoint, or loading it could run code or read a pickle.
    """
    if isinstance(folder, CheckpointFolder):
        return folder
    return CheckpointFolder(folder, refuse_unsafe(folder), training_progress(folder))


def files_of(folder: Path) -> dict[str, Path]:
    """By name, the files that decide what a checkpoint does: a copy of them is the same checkpoint."""
    paths = {path for pattern in _CONTENT for path in folder.glob(pattern) if path.is_file()}
    return {path.name: path for path in sorted(paths) if path.name != TRAINER_STATE}


def _file_digest(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror or 'cannot be read'}") from None
