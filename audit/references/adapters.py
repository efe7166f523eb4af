"""Training with an adapter as the audited model was: the same kind, rank and layers over the same base, then merged.

A baseline whose weights are all trained is no yardstick for a model of which a hundredth is: it learns otherwise and
remembers otherwise. See `audit.references.baselines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from audit.errors import TargetError
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.merging import adapter_config, import_peft, merge, untie
from audit.targets.checkpoint.safety import DAMAGE, one_line, quiet

_SAID = ("r", "lora_alpha", "lora_dropout", "use_dora", "use_rslora", "bias", "target_modules", "modules_to_save")


def without_weights(start: CheckpointFolder) -> CheckpointFolder:
    """The start of a training like that of `start`: an adapter's base, with the adapter's settings; else itself."""
    return start if start.adapter is None else replace(start, fresh=True)


@contextmanager
def adapting(model: Any, start: CheckpointFolder, seed: int) -> Iterator[None]:
    """Within, only a fresh adapter of the model is trained, with the settings of the start's; then it is merged.

    Args:
        model: the model of `start` without the adapter's weights (`without_weights`); changed in place.
        start: for a start that is no adapter nothing is done.
        seed: of the adapter's fresh weights.

    Raises:
        TargetError: PEFT is not installed, or the settings do not fit the model.
    """
    if start.adapter is None:
        yield
        return
    peft = import_peft()
    config = adapter_config(start.adapter, trains=True)
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        untie(model, start.adapter)
        try:
            adapted = peft.get_peft_model(model, config)
        except DAMAGE as error:
            raise TargetError(f"{start}: such an adapter cannot be trained here: {one_line(error)}") from None
    yield
    with quiet():
        merge(adapted.to("cpu"))
    model.requires_grad_(True)
    if hasattr(model, "peft_config"):
        del model.peft_config


def adapter_words(start: CheckpointFolder) -> str | None:
    """The adapter's settings in words, for a record; None for a start that is no adapter."""
    if start.adapter is None:
        return None
    settings = start.adapter.settings
    said = [f"{name} {_plain(settings[name])}" for name in _SAID if settings.get(name) not in (None, False, [], "none")]
    return ", ".join([str(settings.get("peft_type")), *said])


def _plain(value: Any) -> str:
    return "+".join(sorted(set(map(str, value)))) if isinstance(value, list) else str(value)
