"""Fine-tuning with transformers' Trainer: its settings, bfloat16 on any device, losses by epoch, and storing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from audit.errors import TargetError
from audit.files import PrivateFolder
from audit.references.recipes import Schedule, reproducible
from audit.targets.checkpoint.loading import not_finite
from audit.targets.checkpoint.safety import quiet


@dataclass(frozen=True)
class EpochScore:
    """How an epoch ended: losses in nats per predicted token; None without validation pages."""

    epoch: int
    training_loss: float
    validation_loss: float | None = None


@dataclass
class EpochWatch(TrainerCallback):  # type: ignore[misc]
    """Keeps the training loss of each epoch, and calls `on_epoch` after it."""

    on_epoch: Callable[[], None]
    history: list[EpochScore] = field(default_factory=list)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: Any
    ) -> None:
        """Note the loss of an epoch that has ended."""
        if "loss" in logs:
            self.history.append(EpochScore(round(state.epoch or 0), logs["loss"]))
            self.on_epoch()


class MixedTrainer(Trainer):  # type: ignore[misc]
    """Computes in bfloat16 when the recipe says so; the Trainer's own switch does nothing on a CPU."""

    bf16 = False

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], *rest: Any, **more: Any) -> Any:
        """Compute the model's own loss."""
        with torch.autocast(next(iter(inputs.values())).device.type, torch.bfloat16, enabled=self.bf16):
            return super().compute_loss(model, inputs, *rest, **more)


def train(
    trainer: type[MixedTrainer],
    model: Any,
    samples: Sequence[Any],
    recipe: Schedule,
    device: str,
    *,
    collator: Callable[[Any], Any],
    watch: EpochWatch,
    validation: Sequence[Any] = (),
) -> None:
    """Train a model in place with a Trainer that keeps nothing on disk and prints nothing.

    Args:
        trainer: its class.
        model: any transformers model.
        samples: the training samples.
        recipe: how the weights are fitted.
        device: "cpu", "cuda" or "mps".
        collator: makes a batch of some samples.
        watch: follows the epochs.
        validation: samples whose loss is computed after every epoch, when there are some.
    """
    with PrivateFolder() as scratch, reproducible(device), quiet(warn=True):
        fitting = trainer(
            model=model,
            args=_arguments(recipe, str(scratch), device, evaluates=bool(validation)),
            data_collator=collator,
            train_dataset=list(samples),
            eval_dataset=list(validation) or None,
            callbacks=[watch],
        )
        fitting.bf16 = recipe.bf16
        fitting.remove_callback(PrinterCallback)
        fitting.train()


def _arguments(recipe: Schedule, scratch: str, device: str, *, evaluates: bool) -> TrainingArguments:
    return TrainingArguments(
        output_dir=scratch,
        num_train_epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=recipe.batch_size,
        weight_decay=recipe.weight_decay,
        warmup_steps=recipe.warmup_share,
        seed=recipe.seed,
        use_cpu=device == "cpu",
        logging_strategy="epoch",
        eval_strategy="epoch" if evaluates else "no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
    )


def store(model: Any, folder: Path, *, half: bool) -> None:
    """Write configuration and weights.

    Args:
        model: any transformers model; left as it is.
        folder: made when it is missing.
        half: weights in float16, half the size (docaudit computes in float32 all the same).

    Raises:
        TargetError: the training ran away: a parameter is not finite.
    """
    broken = not_finite(model)
    if broken:
        raise TargetError(
            f"the training diverged: {len(broken)} parameters hold numbers that are not finite",
            "a lower learning rate ([recipe] learning_rate in manifest.toml) keeps it from that",
        )
    transformers.utils.logging.disable_progress_bar()
    stored = copy.deepcopy(model).half() if half else model
    stored.save_pretrained(folder)
