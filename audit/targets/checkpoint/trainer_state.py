"""Progress of a checkpoint's training, as the Trainer of transformers writes it next to the weights."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAINER_STATE = "trainer_state.json"
"""Says nothing about what a checkpoint does, so it is no part of its sha256."""
_MAX_BYTES = 64 * 2**20
"""The file holds a log of the whole training: some megabytes after a long one. A larger one is not read (ours)."""
_MAX_STEPS = 2**53
"""Whole numbers beyond this are no counts of steps, and lose digits in JSON."""


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
        state = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return TrainingProgress()
    if not isinstance(state, dict):
        return TrainingProgress()
    epoch, step = _number(state.get("epoch")), _number(state.get("global_step"))
    return TrainingProgress(epoch, int(step) if step is not None else None)


def _number(value: Any) -> float | None:
    """A finite number that can count epochs or steps, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_STEPS:
        return None
    return float(value) if math.isfinite(value) else None
