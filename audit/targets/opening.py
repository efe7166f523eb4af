"""Opening a checkpoint as a data set's manifest says it was trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from audit.corpus.documents import Corpus
from audit.corpus.images import open_image
from audit.errors import TargetError
from audit.targets.answering.loading import is_answering, load_answering
from audit.targets.answering.target import AnsweringTarget
from audit.targets.encoder_target import EncoderTarget
from audit.targets.loading import load

Checkpoint = EncoderTarget | AnsweringTarget
"""A target that was loaded from a folder."""


def target_of(
    folder: Path, corpus: Corpus, device: str = "cpu", batch_tokens: int | None = None, batch_rows: int | None = None
) -> Checkpoint:
    """A checkpoint that was trained on the corpus's task.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        corpus: names the model's outputs, says how it was trained, and holds the page images.
        device: see `load`.
        batch_tokens: see `EncoderTarget`.
        batch_rows: see `AnsweringTarget`.

    Raises:
        TargetError: see `load` and `load_answering`.
    """
    if is_answering(folder):
        return load_answering(folder, device=device, prompt=corpus.manifest.recipe.prompt, batch_rows=batch_rows)
    return load(
        folder,
        device=device,
        labels=corpus.manifest.task.labels,
        label_all_tokens=corpus.manifest.recipe.label_all_tokens,
        batch_tokens=batch_tokens,
        images=partial(open_image, corpus),
    )


def encoder_of(folder: Path, corpus: Corpus, device: str = "cpu", batch_tokens: int | None = None) -> EncoderTarget:
    """The same, where only an encoder will do.

    Raises:
        TargetError: it is a model that answers questions, or see `target_of`.
    """
    target = target_of(folder, corpus, device, batch_tokens)
    if isinstance(target, AnsweringTarget):
        raise TargetError(f"{folder}: a model that answers questions cannot be attacked this way")
    return target


def check(target: Checkpoint, corpus: Corpus) -> None:
    """Refuse a corpus that the target cannot read.

    Raises:
        ManifestError: the tokenizer does not know the corpus's words, or pages lack the images that the model reads.
    """
    if isinstance(target, EncoderTarget):
        target.encoder.check_vocabulary(corpus.documents)
    else:
        target.check(corpus)
