"""How models are fitted, in numbers; imports nothing that trains, so that a scan that trains nothing starts sooner."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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


@dataclass(frozen=True)
class Recipe(Schedule):
    """How an encoder is fitted; a sample is a page.

    Attributes:
        mask_probability: the share of tokens predicted on a page (masked language models only).
    """

    mask_probability: float = 0.15


@dataclass(frozen=True)
class AnsweringRecipe(Schedule):
    """How a question-answering model is fitted; a sample is a page and one question, for parsing a page.

    Dropout is as the model's configuration says.

    Attributes:
        prompt, system: see `audit.corpus.documents.TrainingRecipe`; the target that is fitted must have been loaded
            with them.
    """

    learning_rate: float = 5e-5
    batch_size: int = 8
    prompt: str | None = None
    system: str | None = None
