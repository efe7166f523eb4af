"""What all fine-tuning here shares: settings of transformers' Trainer, bfloat16 on any device, and what is kept."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PrinterCallback, Trainer, TrainingArguments

from audit.errors import TargetError
from audit.targets.checkpoint.loading import not_finite


@dataclass(frozen=True)
class Schedule:
    """How weights are fitted. The defaults are ours: they suit a pretrained checkpoint of the usual sizes.

    Attributes:
        epochs: passes over the samples.
        learning_rate: the peak of AdamW's; it rises during `warmup_share` of the steps and falls linearly to 0.
        batch_size: samples a step.
        weight_decay: AdamW's.
        warmup_share: in [0, 1).
        seed: of the order of samples, of masks and of dropout.
        bf16: matrix products in bfloat16 (weights stay float32); several times faster where the processor has it.
    """

    epochs: int = 20
    learning_rate: float = 1e-4
    batch_size: int = 16
    weight_decay: float = 0.01
    warmup_share: float = 0.1
    seed: int = 0
    bf16: bool = False

    def as_json(self) -> dict[str, int | float | str | None]:
        """The recipe for a record or a cache key; a record leaves out a prompt."""
        return asdict(self)


class MixedTrainer(Trainer):  # type: ignore[misc]
    """Computes in bfloat16 when the recipe says so; the Trainer's own switch does nothing on a CPU."""

    bf16 = False

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], *rest: Any, **more: Any) -> Any:
        """The model's own loss."""
        with torch.autocast(next(iter(inputs.values())).device.type, torch.bfloat16, enabled=self.bf16):
            return super().compute_loss(model, inputs, *rest, **more)

    def fit(self, recipe: Schedule) -> None:
        """Train, without the Trainer's own lines."""
        self.bf16 = recipe.bf16
        self.remove_callback(PrinterCallback)
        self.train()


def arguments(recipe: Schedule, scratch: str, device: str, *, evaluates: bool = False) -> TrainingArguments:
    """Settings of a Trainer that keeps nothing on disk and says nothing.

    Args:
        recipe: how the weights are fitted.
        scratch: a folder that it may write into.
        device: "cpu", "cuda" or "mps".
        evaluates: whether every epoch is scored.
    """
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
