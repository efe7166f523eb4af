"""The model that a fine-tuning starts from: a pretrained encoder under the head of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from audit.errors import TargetError
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.labels import unknown_hint
from audit.targets.checkpoint.weights import load_model
from audit.targets.encoders.families import Family, family_of
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
    into: str | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    fresh: Sequence[str] = (),
    seed: int = 0,
) -> Any:
    """The encoder in `folder` with this head; a head that the folder lacks is fresh.

    To audit such a model would mean nothing: `load` refuses a checkpoint that lacks weights.

    Args:
        folder: a checkpoint of a known family, with any head or none.
        head: the head it is to have.
        labels: the names of its outputs, for taggers, classifiers of pages and SPADE extraction.
        into: the `model_type` of a family whose models hold all that the folder's do, and fresh parts of their own;
            None: the folder's.
        settings: of those parts.
        fresh: the names of those parts in the encoder.
        seed: what is fresh follows from it.

    Raises:
        TargetError: no such checkpoint, the family has no such head, or the encoder lacks weights.
    """
    folder = open_checkpoint(folder)
    kind = str(folder.config.get("model_type"))
    family = family_of(into or kind)
    if family is None:
        raise TargetError(f"{folder}: not a checkpoint of a known family", unknown_hint(kind))
    if head not in family.heads:
        raise TargetError(f"{folder}: {family.name} has no head for {head}", _other_hint(kind, family, head))
    model_class = family.heads[head]
    # The folder's own configuration names the family that it was.
    changed: dict[str, Any] = {"model_type": model_class.config_class.model_type, **settings}
    if labels:
        names = dict(enumerate(labels))
        changed.update(id2label=names, label2id={name: index for index, name in names.items()})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, missing = load_model(folder, model_class, changed)
    _refuse_holes(folder, family, missing, fresh)
    return model


def _other_hint(kind: str, family: Family, head: HeadName) -> str:
    """What serves where transformers has no such head of a family."""
    if head == "mlm" and kind in _READ_BY:
        return f"give a masked language model that reads the same tokens, {_READ_BY[kind]}, as reference auxiliary"
    return f"it has {', '.join(family.heads)}"


def _refuse_holes(folder: CheckpointFolder, family: Family, missing: Sequence[str], fresh: Sequence[str]) -> None:
    """Refuse an encoder that lacks weights, but for fresh parts, and a pooler that nothing reads."""
    parts = tuple(f"{family.encoder}.{name}." for name in ("pooler", *fresh))
    lost = [name for name in missing if name.startswith(f"{family.encoder}.") and not name.startswith(parts)]
    if lost:
        raise TargetError(f"{folder}: the encoder lacks {len(lost)} parameters, the first is {lost[0]}")
