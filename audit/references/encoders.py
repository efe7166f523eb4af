"""Pages as training examples: masking, padding and the batch a family of checkpoint reads."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedModel

from audit.errors import TargetError
from audit.references.recipes import Recipe
from audit.references.trainer import EpochScore, EpochWatch, MixedTrainer, store, train
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.families import PROCESSOR_FILES, Family, family_of
from audit.targets.encoders.heads import padded_labels
from audit.targets.encoders.loading import KNOWN


class Collator:
    """Makes batches: masks pages that have no labels yet, pads to the longest page of the batch.

    Args:
        family: decides the form of the boxes.
        tokenizer: tokenizer with the special tokens.
        mask_probability: the share of tokens that is predicted: 80 % of them become [MASK], 10 % a
            random token, 10 % stay (Devlin et al. 2019, section 3.1).
        seed: seed of the masks.
        sees_images: whether the model takes the pages' pictures.
    """

    def __init__(
        self,
        family: Family,
        tokenizer: Any,
        mask_probability: float,
        seed: int,
        sees_images: bool = False,
    ) -> None:
        """Prepare the random masks of tokens, drawn from `seed`."""
        self._family = family
        self._sees_images = sees_images
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._masker = DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=mask_probability, seed=seed
        )
        self._masker.create_rng()

    def masked(self, page: Encoding) -> Encoding:
        """Return the page with tokens masked at random, and these as its labels.

        Its labels are the tokens that are to be predicted.
        """
        special = torch.from_numpy(page.words < 0)[None]
        ids, labels = self._masker.torch_mask_tokens(
            torch.from_numpy(page.ids.copy())[None], special
        )
        return replace(page, ids=ids[0].numpy(), labels=labels[0].numpy())

    def __call__(self, pages: Sequence[Encoding]) -> dict[str, torch.Tensor]:
        """Return pages as one batch: the model's inputs, and what its loss reads."""
        drawn = [page if _is_taught(page) else self.masked(page) for page in pages]
        length = max(len(page.ids) for page in drawn)
        shape = (len(drawn), length)
        ids = np.full(shape, self._pad_id, np.int64)
        attention = np.zeros(shape, np.int64)
        boxes = np.zeros((*shape, 4))
        for row, page in enumerate(drawn):
            n_tokens = len(page.ids)
            ids[row, :n_tokens] = page.ids
            boxes[row, :n_tokens] = page.boxes
            attention[row, :n_tokens] = 1
        batch = {**self._family.inputs(ids, attention, boxes, "cpu"), **_targets(drawn, length)}
        if self._sees_images:
            values = [page.page_image.values() for page in drawn if page.page_image is not None]
            batch["pixel_values"] = torch.from_numpy(np.stack(values))
        return batch


def _is_taught(page: Encoding) -> bool:
    """Test whether a page has labels, links or a class to learn; others are masked."""
    return any(taught is not None for taught in (page.labels, page.links, page.page_class))


def _targets(pages: Sequence[Encoding], length: int) -> dict[str, torch.Tensor]:
    """Return the tensors that the loss reads, by the names that transformers gives them.

    Taggers and masked language models take `labels`; classifiers of pages as well, (n_pages,).
    SPADE models take links, where `length` stands for "none", and which tokens are the first of
    their word.
    """
    if pages[0].page_class is not None:
        return {"labels": torch.tensor([page.page_class for page in pages])}
    labels = padded_labels(
        [page.links if page.labels is None else page.labels for page in pages], length
    )
    if pages[0].links is None:
        return {"labels": torch.from_numpy(labels)}
    links = padded_labels([page.links for page in pages], length)
    first = torch.from_numpy(labels != NOT_READ)
    links[links == NO_LINK] = length
    if pages[0].labels is None:
        return {"labels": torch.from_numpy(links), "bbox_first_token_mask": first}
    return {
        "initial_token_labels": torch.from_numpy(labels),
        "subsequent_token_labels": torch.from_numpy(links),
        "bbox_first_token_mask": first,
    }


VALIDATION_MASK_SEED = 20_240_607
"""Validation pages are masked once, with this seed, so that epochs are compared on the same
tokens."""

StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Fitted:
    """A fitted model: `model` as it was after the last epoch, on the CPU, in evaluation mode.

    Attributes:
        history: one score an epoch.
        loss: weights of the epoch of lowest validation loss; None without validation.
    """

    model: Any
    history: tuple[EpochScore, ...]
    loss: StateDict | None


@dataclass
class BestLoss(EpochWatch):
    """Keeps each epoch's losses and the weights of the epoch of lowest validation loss."""

    loss: StateDict | None = None
    _lowest: float = float("inf")

    def on_evaluate(
        self, *_: Any, metrics: dict[str, float], model: PreTrainedModel, **more: Any
    ) -> None:
        """Keep a copy of the weights if the validation loss is the lowest so far."""
        self.history[-1] = replace(self.history[-1], validation_loss=metrics["eval_loss"])
        if metrics["eval_loss"] < self._lowest:
            self._lowest = metrics["eval_loss"]
            self.loss = copied_weights(model)


class PageTrainer(MixedTrainer):
    """Runs a masked language model's head on the predicted tokens only.

    That is the same loss for a seventh of the work. That head and its loss always run in float32.
    """

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, **rest: Any
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        """Return the model's own loss of a batch; masked models score masked tokens only."""
        family = _family_of(model)
        # The head of a masked language model, where it can be run on some tokens alone.
        head = None
        if family.vocabulary_head is not None:
            head = getattr(model, family.vocabulary_head, None)
        if head is not None and not return_outputs and (inputs["labels"] != NOT_READ).any():
            labels = inputs["labels"]
            predicted = labels != NOT_READ
            pages = {name: value for name, value in inputs.items() if name != "labels"}
            with torch.autocast(labels.device.type, torch.bfloat16, enabled=self.bf16):
                hidden = getattr(model, family.encoder)(**pages).last_hidden_state
            scores = head(hidden[predicted].float())
            return torch.nn.functional.cross_entropy(scores, labels[predicted])
        loss: torch.Tensor | tuple[torch.Tensor, Any] = super().compute_loss(
            model, inputs, return_outputs, **rest
        )
        return loss

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        prediction_loss_only: bool,
        ignore_keys: Any = None,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """Return the loss of a validation batch, without scores or labels."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            loss = self.compute_loss(model, inputs)
        assert isinstance(loss, torch.Tensor)
        return loss.detach(), None, None


def fit(
    model: Any,
    tokenizer: Any,
    training: Sequence[Encoding],
    recipe: Recipe,
    *,
    validation: Sequence[Encoding] = (),
    device: str = "cpu",
    trainer: type[PageTrainer] = PageTrainer,
    watch: BestLoss | None = None,
) -> Fitted:
    """Fine-tune `model` on pages, in place, and return it with its losses.

    Pages with a `page_class` train a classifier of pages, pages with `labels` a token classifier,
    pages with `labels` and `links` SPADE extraction, pages with `links` SPADE linking, pages with
    none of these a masked language model (`recipe.mask_probability`, a new mask each time a page is
    drawn).

    Args:
        model: a transformers model of a known family.
        tokenizer: the model's.
        training: pages of the training, at least one.
        recipe: how.
        validation: scored after every epoch, when there are some.
        device: "cpu" or "cuda" ("mps" trains on the GPU of a Mac).
        trainer: what runs the training and the validation.
        watch: what keeps the epochs' scores and the best weights.

    Raises:
        TargetError: no page to train on, a page without the picture that the model sees, or an
            unknown family.
    """
    if not training:
        raise TargetError(
            "there is no page to train on", "give documents with words in the split that trains it"
        )
    family = _family_of(model)
    sees_images = family.sight_of(model.config) is not None
    if sees_images and any(page.page_image is None for page in (*training, *validation)):
        raise TargetError(
            f"{family.name} sees page images, and some pages have none",
            "give documents with images",
        )
    collator = Collator(family, tokenizer, recipe.mask_probability, recipe.seed, sees_images)
    fixed = Collator(family, tokenizer, recipe.mask_probability, VALIDATION_MASK_SEED, sees_images)
    watch = watch or BestLoss(lambda: None)
    scored = [page if _is_taught(page) else fixed.masked(page) for page in validation]
    train(
        trainer, model, training, recipe, device, collator=collator, watch=watch, validation=scored
    )
    model.to("cpu").eval()
    return Fitted(model, tuple(watch.history), watch.loss)


def save(
    model: Any,
    tokenizer: Any,
    folder: Path,
    *,
    half: bool = False,
    processor_of: Path | None = None,
) -> None:
    """Write a checkpoint that `audit.targets.encoders.loading.load` reads.

    It is configuration, safetensors and tokenizer.

    Args:
        model: any transformers model; left as it is.
        tokenizer: the model's.
        folder: folder that is made when it is missing.
        half: weights in float16, half the size (docaudit computes in float32 all the same).
        processor_of: a checkpoint that takes pages as this one does: the settings of its image
            processor go along.

    Raises:
        TargetError: see `trainer.store`.
    """
    store(model, folder, half=half)
    tokenizer.save_pretrained(folder)
    if processor_of is not None:
        for settings in (processor_of / name for name in PROCESSOR_FILES):
            if settings.is_file():
                shutil.copyfile(settings, folder / settings.name)


def _family_of(model: Any) -> Family:
    """Return the family of a loaded model.

    Raises:
        TargetError: it is of no known family.
    """
    family = family_of(model.config.model_type)
    if family is None:
        raise TargetError(f"cannot train a {model.config.model_type!r}", KNOWN)
    return family


def copied_weights(model: Any) -> StateDict:
    """Return a copy of the model's weights in the CPU's memory."""
    return {
        name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()
    }
