"""The model that a fine-tuning starts from: a pretrained encoder under the head of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from audit.errors import TargetError
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.known import unknown_hint
from audit.targets.checkpoint.loading import load_model
from audit.targets.encoders.families import FAMILIES, Family, family_of
from audit.targets.encoders.heads import HeadName

_READ_BY = {
    "layoutlmv3": "a RoBERTa such as roberta-base",
    "lilt": "the RoBERTa or XLM-RoBERTa that the LiLT was made from",
}
"""Families without a masked language model, and those with the same tokens."""


def starting_model(
    folder: AnyFolder,
    head: HeadName,
    *,
    labels: Sequence[str] = (),
    images: bool = False,
    image_size: int | None = None,
    image_channels: Sequence[int] | None = None,
    seed: int = 0,
) -> Any:
    """The encoder in `folder` with this head; a head that the folder lacks is fresh.

    To audit such a model would mean nothing: `load` refuses a checkpoint that lacks weights.

    Args:
        folder: a checkpoint of a known family, with any head or none.
        head: the head it is to have.
        labels: the names of its outputs, for taggers, classifiers of pages and SPADE extraction.
        images: give a text-and-layout encoder (LayoutLM, BROS) an image branch, fresh; nothing changes for a checkpoint
            that has one.
        image_size: of a fresh image branch, see `audit.targets.encoders.image_branch_config`; None: the default.
        image_channels: likewise.
        seed: what is fresh follows from it.

    Raises:
        TargetError: no such checkpoint, the family has no such head or no image branch, or the encoder lacks weights.
    """
    folder = open_checkpoint(folder)
    kind = str(folder.config.get("model_type"))
    gains_images = images and f"docaudit-{kind}-image" in FAMILIES
    family = family_of(f"docaudit-{kind}-image" if gains_images else kind)
    if family is None:
        raise TargetError(f"{folder}: not a checkpoint of a known family", unknown_hint(kind))
    if head not in family.heads:
        raise TargetError(f"{folder}: {family.name} has no head for {head}", _other_hint(kind, family, head))
    model_class = family.heads[head]
    # The folder's own configuration may name the text-and-layout model.
    settings: dict[str, Any] = {"model_type": model_class.config_class.model_type}
    if labels:
        names = dict(enumerate(labels))
        settings.update(id2label=names, label2id={name: index for index, name in names.items()})
    if gains_images and image_size is not None:
        settings["image_size"] = image_size
    if gains_images and image_channels is not None:
        settings["image_channels"] = list(image_channels)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, missing = load_model(folder, model_class, settings)
    _refuse_holes(folder, family, missing, fresh_branch=gains_images)
    if images and family.sight_of(model.config) is None:
        raise TargetError(f"{folder}: {family.name} has no image branch", "give a LayoutLM or a BROS")
    return model


def _other_hint(kind: str, family: Family, head: HeadName) -> str:
    """What serves where transformers has no such head of a family."""
    if head == "mlm" and kind in _READ_BY:
        return f"give a masked language model that reads the same tokens, {_READ_BY[kind]}, as reference auxiliary"
    return f"it has {', '.join(family.heads)}"


def _refuse_holes(folder: CheckpointFolder, family: Family, missing: Sequence[str], *, fresh_branch: bool) -> None:
    """Refuse an encoder that lacks weights, but for the image branch it is given, and a pooler that nothing reads."""
    fresh = (f"{family.encoder}.pooler.", *([f"{family.encoder}.visual."] if fresh_branch else []))
    lost = [name for name in missing if name.startswith(f"{family.encoder}.") and not name.startswith(fresh)]
    if lost:
        raise TargetError(f"{folder}: the encoder lacks {len(lost)} parameters, the first is {lost[0]}")
