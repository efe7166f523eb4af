"""Fine-tuning of models that answer questions about a page, of any family, through the family's own reader.

The loop is transformers' Trainer; what is ours is the batch: pages are opened when a batch is made and let go with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.corpus.documents import Corpus, Document
from audit.corpus.page_view import page_view
from audit.engine.interface import SILENT, Progress
from audit.errors import TargetError
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import EpochWatch, MixedTrainer, store, train
from audit.targets.answering.reader import Inputs, Reader, Sample
from audit.targets.answering.rows import unopened
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.content import files_of

_SHARDS = "model.safetensors.index.json"
_NAMED_IN_MANIFEST = ("epochs", "learning_rate", "batch_size", "seed", "prompt", "system")


def recipe_of(corpus: Corpus) -> AnsweringRecipe:
    """The recipe of the manifest's `[recipe]`; what it leaves open is ours."""
    given = {name: getattr(corpus.manifest.recipe, name) for name in _NAMED_IN_MANIFEST}
    return replace(AnsweringRecipe(), **{name: value for name, value in given.items() if value is not None})


def samples_of(corpus: Corpus, documents: Sequence[Document]) -> tuple[Sample, ...]:
    """The questions of these documents, each with the first of its accepted answers (ours); opens no image.

    For parsing their whole outputs, one a document.
    """
    if corpus.manifest.task.kind == "parsing":
        return tuple(
            Sample(page_view(corpus, document), "", document.output)
            for document in documents
            if document.output is not None
        )
    return tuple(
        Sample(view, question.question, question.answers[0])
        for document, view in ((document, page_view(corpus, document)) for document in documents)
        for question in document.questions
        if question.answers
    )


def fit_answering(
    target: AnsweringTarget, samples: Sequence[Sample], recipe: AnsweringRecipe, progress: Progress = SILENT
) -> tuple[float, ...]:
    """Fine-tune the target's model on samples, in place, on the target's device; it ends in evaluation mode.

    On the CPU the same start, samples and recipe give the same weights.

    Args:
        target: gives the model and the reader that makes its inputs.
        samples: at least one; each has an answer. Images are opened batch by batch and not kept.
        recipe: how.
        progress: advanced after every epoch; the stage is the caller's.

    Returns:
        The mean training loss of each epoch, nats per token of the answers: shape (n_epochs,).

    Raises:
        TargetError: there is no sample, or a sample without an answer.
    """
    if not samples:
        raise TargetError("there is no question to train on", "give documents with questions in the split that trains")
    if any(sample.answer is None for sample in samples):
        raise TargetError("a question to train on has no answer")
    device = target.card.device
    watch = EpochWatch(progress.advance)
    train(MixedTrainer, target.model, samples, recipe, device, collator=_Collator(target.reader), watch=watch)
    target.model.to(device).eval()
    return tuple(score.training_loss for score in watch.history)


def save_answering(model: Any, start: Path, folder: Path, *, half: bool = False) -> None:
    """Write a checkpoint that `audit.targets.answering.loading.load_answering` reads.

    Args:
        model: a transformers model; left as it is.
        start: the checkpoint that it was fitted from: its tokenizer and processor go along as they are.
        folder: made when it is missing.
        half: weights in float16, half the size (docaudit computes in float32 all the same).

    Raises:
        TargetError: see `trainer.store`.
    """
    store(model, folder, half=half)
    # After the model: the start's own generation settings are the checkpoint's, not those that a target is asked with.
    for name, path in files_of(start).items():
        if path.suffix != ".safetensors" and name not in ("config.json", _SHARDS):
            shutil.copyfile(path, folder / name)


@dataclass(frozen=True)
class _Collator:
    """Makes a batch. Pages are opened here."""

    reader: Reader

    def __call__(self, samples: Sequence[Sample]) -> Inputs:
        # A page view keeps the image it has opened as long as it lives: these copies live as long as the batch.
        return self.reader.taught(unopened(samples))
