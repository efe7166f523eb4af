"""Fine-tuning of an encoder on pages: masked language model, tags, classes of pages, SPADE extraction or linking.

The loop is transformers' Trainer; what is ours is the batch (`pages.Collator`), the score of each epoch, and keeping
the two checkpoints that the CDMI paper attacks: best validation accuracy ("Precision") and lowest validation loss
("Loss").
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from audit.errors import TargetError
from audit.references.encoder_batches import Collator, Example, labelled
from audit.references.recipes import Recipe
from audit.references.trainer import EpochScore, EpochWatch, MixedTrainer, store, train
from audit.targets.checkpoint.labels import known_models
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.families import Family, family_of
from audit.targets.encoders.page_images import PROCESSOR_FILES

VALIDATION_MASK_SEED = 20_240_607
"""Validation pages are masked once, with this seed, so that epochs are compared on the same tokens."""

StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Fitted:
    """A fitted model: `model` as it was after the last epoch, on the CPU, in evaluation mode.

    Attributes:
        history: one score an epoch.
        precision: weights of the epoch of best validation accuracy (the first one of equals); None without validation.
        loss: weights of the epoch of lowest validation loss; None without validation.
    """

    model: Any
    history: tuple[EpochScore, ...]
    precision: StateDict | None
    loss: StateDict | None


@dataclass
class _Watch(EpochWatch):
    """Keeps each epoch's scores and the weights of the best epochs."""

    precision: StateDict | None = None
    loss: StateDict | None = None
    _best_accuracy: float = -1.0
    _lowest_loss: float = float("inf")

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        model: PreTrainedModel,
        **_: Any,
    ) -> None:
        accuracy, loss = metrics["eval_accuracy"], metrics["eval_loss"]
        self.history[-1] = replace(self.history[-1], validation_loss=loss, validation_accuracy=accuracy)
        if accuracy > self._best_accuracy:
            self._best_accuracy, self.precision = accuracy, _copy(model)
        if loss < self._lowest_loss:
            self._lowest_loss, self.loss = loss, _copy(model)


class _Trainer(MixedTrainer):
    """Runs a masked language model's head on the predicted tokens only: the same loss for a seventh of the work.

    That head and its loss always run in float32.
    """

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, **rest: Any
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        if _vocabulary_head(model) is not None and not return_outputs and (inputs["labels"] != NOT_READ).any():
            labels = inputs["labels"]
            return torch.nn.functional.cross_entropy(self._read_logits(model, inputs), labels[labels != NOT_READ])
        loss: torch.Tensor | tuple[torch.Tensor, Any] = super().compute_loss(model, inputs, return_outputs, **rest)
        return loss

    def prediction_step(
        self, model: Any, inputs: dict[str, torch.Tensor], prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """Loss, best class of each token, labels; the classes are (n_pages, n_tokens).

        SPADE linking has positions in place of classes, SPADE extraction classes and then positions of predecessors:
        (n_pages, 2 n_tokens).
        """
        if "subsequent_token_labels" in inputs:
            return self._extraction_step(model, self._prepare_inputs(inputs))
        if _vocabulary_head(model) is None or not (inputs["labels"] != NOT_READ).any():
            loss, logits, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
            return loss, None if logits is None else logits.argmax(-1), labels
        inputs = self._prepare_inputs(inputs)
        labels = inputs["labels"]
        with torch.no_grad():
            read_logits = self._read_logits(model, inputs)
            loss = torch.nn.functional.cross_entropy(read_logits, labels[labels != NOT_READ])
            best = torch.full_like(labels, NOT_READ).masked_scatter(labels != NOT_READ, read_logits.argmax(-1))
        return loss, best, labels

    def _extraction_step(
        self, model: Any, inputs: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            loss, output = self.compute_loss(model, inputs, return_outputs=True)
        best = [output.initial_token_logits.argmax(-1), output.subsequent_token_logits.argmax(-1)]
        labels = [inputs["initial_token_labels"], inputs["subsequent_token_labels"]]
        return loss.detach(), torch.cat(best, dim=1), torch.cat(labels, dim=1)

    def _read_logits(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The head's logits where the loss reads: shape (n_read, n_vocabulary)."""
        pages = {name: value for name, value in inputs.items() if name != "labels"}
        with torch.autocast(inputs["labels"].device.type, torch.bfloat16, enabled=self.bf16):
            hidden = getattr(model, _family_of(model).encoder)(**pages).last_hidden_state
        head = _vocabulary_head(model)
        assert head is not None
        logits: torch.Tensor = head(hidden[inputs["labels"] != NOT_READ].float())
        return logits


def fit(
    model: Any,
    tokenizer: Any,
    training: Sequence[Encoding],
    recipe: Recipe,
    *,
    validation: Sequence[Encoding] = (),
    device: str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
) -> Fitted:
    """Fine-tune `model` on pages, in place.

    Pages with a `page_class` train a classifier of pages, pages with `labels` a token classifier, pages with `labels`
    and `links` SPADE extraction, pages with `links` SPADE linking, pages with none of these a masked language model
    (`recipe.mask_probability`, a new mask each time a page is drawn).

    Args:
        model: a transformers model of a known family.
        tokenizer: the model's.
        training: at least one page.
        recipe: how.
        validation: scored after every epoch, when there are some.
        device: "cpu" or "cuda" ("mps" trains on the GPU of a Mac).
        on_epoch: called after every epoch.

    Raises:
        TargetError: no page to train on, a page without the picture that the model sees, or an unknown family.
    """
    if not training:
        raise TargetError("there is no page to train on", "give documents with words in the split that trains it")
    family = _family_of(model)
    sees_images = family.sight_of(model.config) is not None
    if sees_images and any(page.page_image is None for page in (*training, *validation)):
        raise TargetError(f"{family.name} sees page images, and some pages have none", "give documents with images")
    collator = Collator(family, tokenizer, recipe.mask_probability, recipe.seed, sees_images)
    fixed = Collator(family, tokenizer, recipe.mask_probability, VALIDATION_MASK_SEED, sees_images)
    watch = _Watch(on_epoch)
    train(
        _Trainer,
        model,
        [labelled(page) for page in training],
        recipe,
        device,
        collator=collator,
        watch=watch,
        validation=[_fixed(page, fixed) for page in validation],
        score=_accuracy,
    )
    model.to("cpu").eval()
    return Fitted(model, tuple(watch.history), watch.precision, watch.loss)


def save(model: Any, tokenizer: Any, folder: Path, *, half: bool = False, processor_of: Path | None = None) -> None:
    """Write a checkpoint that `audit.targets.encoders.loading.load` reads: configuration, safetensors, tokenizer.

    Args:
        model: any transformers model; left as it is.
        tokenizer: the model's.
        folder: made when it is missing.
        half: weights in float16, half the size (docaudit computes in float32 all the same).
        processor_of: a checkpoint that takes pages as this one does: the settings of its image processor go along.

    Raises:
        TargetError: see `trainer.store`.
    """
    store(model, folder, half=half)
    tokenizer.save_pretrained(folder)
    if processor_of is not None:
        for settings in (processor_of / name for name in PROCESSOR_FILES):
            if settings.is_file():
                shutil.copyfile(settings, folder / settings.name)


def _fixed(page: Encoding, collator: Collator) -> Example:
    example = labelled(page)
    return collator.masked(page) if example.labels is None else example


def _family_of(model: Any) -> Family:
    family = family_of(model.config.model_type)
    if family is None:
        raise TargetError(f"cannot train a {model.config.model_type!r}", f"docaudit knows {known_models()}")
    return family


def _vocabulary_head(model: Any) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """The head of a masked language model, where it can be run on some tokens alone; else None."""
    named = _family_of(model).vocabulary_head
    head: Callable[[torch.Tensor], torch.Tensor] | None = None if named is None else getattr(model, named, None)
    return head


def _accuracy(prediction: EvalPrediction) -> dict[str, float]:
    """The share of read labels that are right.

    Masked tokens of a masked language model, tags of a tagger, classes of pages, parents of first tokens of words
    (SPADE linking), or classes of first tokens of words and predecessors of all tokens together (SPADE extraction).
    """
    labels = np.asarray(prediction.label_ids)
    read = labels != NOT_READ
    return {"accuracy": float((np.asarray(prediction.predictions)[read] == labels[read]).mean()) if read.any() else 0.0}


def _copy(model: Any) -> StateDict:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
