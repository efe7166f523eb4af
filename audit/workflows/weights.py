"""The number format that a scan holds weights in, and warnings about models too large or trained otherwise."""

from __future__ import annotations

from typing import cast

from audit.errors import UsageError
from audit.references.provenance import FILE_NAME, adapter_of
from audit.references.resolve import ReferencePlan
from audit.targets.answering.adapting import has_half_weights
from audit.targets.answering.loading import is_answering
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.folder import CheckpointFolder, NumberFormat, in_format
from audit.targets.checkpoint.memory import LARGE, RESIDENTS, is_spread
from audit.targets.checkpoint.safety import method_of
from audit.targets.extractive.loading import is_extractive
from audit.targets.extractive.target import ExtractiveTarget
from audit.targets.opening import Checkpoint


def hold_weights(folder: CheckpointFolder, dtype: str, *, on_workers: bool) -> CheckpointFolder:
    """Return the folder of a model that answers, to be loaded in the number format that was asked for.

    Encoders keep float32 weights: attacks take their gradients, and compare losses that rounding would hide.

    Raises:
        UsageError: the weights are quantised, or workers elsewhere would choose for themselves.
    """
    if dtype == "auto" or not (is_answering(folder) or is_extractive(folder)):
        return folder
    if on_workers:
        raise UsageError(f"--dtype {dtype}: workers elsewhere load models by themselves", "leave it out, or scan here")
    if method_of(folder.config) is not None:
        raise UsageError(f"--dtype {dtype}: the weights of {folder} are quantised", "leave it out")
    return in_format(folder, cast("NumberFormat", dtype))


def warn_of_size(target: Checkpoint) -> tuple[str, ...]:
    """Say that a large model is held in float32, that models are read in turn, or that one is spread over devices."""
    warnings = []
    in_full = not has_half_weights(target.model) and "quantised" not in target.card.architecture
    if in_full and target.card.parameters > LARGE and isinstance(target, AnsweringTarget | ExtractiveTarget):
        warnings.append(
            f"the model is held in float32, which takes {4e-9 * target.card.parameters:.0f} GB and rounds nothing; "
            "--dtype bfloat16 takes half of that, and rounds its weights"
        )
    if RESIDENTS.dropped:
        warnings.append(
            "the models do not fit into memory together: they are read from disk in turn, which takes its time; only "
            "what has been tried to the end is kept when a scan is interrupted"
        )
    if is_spread(target.model):
        warnings.append(
            "the model does not fit into the memory of the GPU: its layers are brought there one after the other, "
            "which is slow, and nothing is asked that would train it"
        )
    return tuple(warnings)


def warn_of_recipes(prepared: ReferencePlan) -> tuple[str, ...]:
    """A line for each reference that was trained here in another way than the audited adapter."""
    if prepared.adapter is None:
        return ()
    others = [
        (reference.role, adapter_of(reference.folder))
        for reference in prepared.same_kind
        if (reference.folder / FILE_NAME).is_file()
    ]
    return tuple(
        f"reference {role} was trained {'in all its weights' if own is None else f'with another adapter ({own})'}, the "
        f"audited model with {prepared.adapter}: it remembers otherwise and is no fair yardstick; train it with "
        "--reference pretrained=ADAPTER_DIR, the folder of the audited adapter"
        for role, own in others
        if own != prepared.adapter
    )
