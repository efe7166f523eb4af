"""Starts of the papers' trainings: a fresh image branch, and word embeddings of another model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from audit.errors import TargetError
from audit.references.recipes import starting_model, under_fresh_head
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.encoders.families import family_of
from audit.targets.encoders.heads import HeadName


def start_with_images(
    folder: AnyFolder, head: HeadName, *, seed: int = 0, labels: Sequence[str] = (), **settings: Any
) -> Any:
    """Open a LayoutLM or BROS with a fresh image branch under a head.

    A checkpoint that has one keeps it.

    Args:
        folder: a checkpoint, with any head or none.
        head: see `starting_model`.
        seed: what is fresh follows from it.
        labels: see `starting_model`.
        **settings: of the branch: `image_size`, `image_channels`.

    Raises:
        TargetError: see `starting_model`; or the family has no image branch.
    """
    folder = open_checkpoint(folder)
    kind = str(folder.config.get("model_type"))
    if kind in ("layoutlm", "bros"):
        wider = family_of(f"docaudit-{kind}-image")
        assert wider is not None
        return under_fresh_head(folder, wider.heads[head], labels, seed, **settings)[0]
    model = starting_model(folder, head, labels=labels, seed=seed)
    family = family_of(kind)
    if family is not None and family.sight_of(model.config) is None:
        raise TargetError(
            f"{folder}: {family.name} has no image branch", "give a LayoutLM or a BROS"
        )
    return model


@torch.no_grad()
def start_words_from(model: Any, matrix: torch.Tensor) -> None:
    """Let the word embeddings of a VT5, and with them the tied head, start as another model's.

    They are brought to the size of T5's fresh ones (standard deviation `initializer_factor`): T5
    neither scales nor normalises embeddings before adding to them what its layers give, so that
    small ones, such as BERT's, would drown. Angles, and proportions of lengths, stay.

    Args:
        model: a VT5.
        matrix: (vocab_size, d_model), rows in the order of the tokenizer's ids.

    Raises:
        ValueError: another shape, or no finite spread.
    """
    words = model.shared.weight
    if matrix.shape != words.shape:
        raise ValueError(
            f"the matrix is {tuple(matrix.shape)}, the model's word embeddings are {tuple(words.shape)}"
        )
    size = matrix.float().square().mean().sqrt()
    if not 0 < float(size) < float("inf"):
        raise ValueError("the matrix holds nothing, or numbers that are not finite")
    words.copy_(matrix * (model.config.initializer_factor / size))
