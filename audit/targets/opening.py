"""Opening a checkpoint as a data set's manifest says it was trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from audit.corpus.documents import Corpus
from audit.corpus.images import open_image
from audit.targets.encoder_target import EncoderTarget
from audit.targets.loading import load


def target_of(folder: Path, corpus: Corpus, device: str = "cpu", batch_tokens: int | None = None) -> EncoderTarget:
    """A checkpoint that was trained on the corpus's task.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        corpus: names the model's outputs, says how it was trained, and holds the page images.
        device: see `load`.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: see `load`.
    """
    return load(
        folder,
        device=device,
        labels=corpus.manifest.task.labels,
        label_all_tokens=corpus.manifest.recipe.label_all_tokens,
        batch_tokens=batch_tokens,
        images=partial(open_image, corpus),
    )
