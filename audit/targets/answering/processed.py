"""Reading through a checkpoint's own processor: a text with the image's mark in it, and the page's image.

Processors lay an image out in ways of their own: as one picture, as tiles (SmolVLM, InternVL, LLaVA-NeXT), as patches
of all images one after the other (Qwen-VL), or filled to the largest (Pixtral). Each sample is read alone, so that what
a processor makes of it does not depend on the batch, and samples are put together along the first dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig

from audit.errors import TargetError
from audit.targets.answering.generation import ids_of
from audit.targets.answering.parts import image_of
from audit.targets.answering.reader import Inputs, Sample
from audit.targets.answering.wording import LONGEST_ANSWER, ending, plain, shortened, special_tokens, tokens_of
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.libraries import DAMAGE, one_line
from audit.targets.encoded_page import NOT_READ

_POSITIONS = 4096
"""Of models whose configuration names no longest row (ours)."""
_ASIDE = ("labels", "height", "width", "rows", "cols", "num_patches")
"""What processors give beside a model's inputs."""


class ProcessorReader:
    """What readers that work through a processor share; see `audit.targets.answering.reader.Reader`.

    Args:
        processor: of the checkpoint.
        ends: ids of the tokens that end an answer.
        positions: the longest row that the model takes; None: it names none.
    """

    needs_image = True
    resolution: tuple[int, int] | None = None
    advice = "save the processor that the model was trained with beside it"
    """What helps where its processor cannot read a page."""

    def __init__(self, processor: Any, ends: frozenset[int], positions: int | None) -> None:
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._mark = mark_of(processor)
        self._positions = positions
        self.ends = ends
        self.forbidden = frozenset(special_tokens(self._tokenizer).values()) | ends
        self.max_tokens = positions or _POSITIONS
        self.max_new_tokens = min(LONGEST_ANSWER, self.max_tokens // 2)
        self._longest_question = self.max_tokens // 4

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`."""
        return self._stack_samples([self._asked(sample) for sample in samples])

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.taught`."""
        return self._stack_samples([self._with_answer(sample) for sample in samples])

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`: rows are as long as their text, and as the size of the page makes its image."""
        size = sample.view.size or image_of(sample).shape[:2]
        return size, tuple(len(tokens_of(self._tokenizer, text)) for text in self._texts(sample))

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self._tokenizer.decode(spoken, skip_special_tokens=True)).strip()

    def _texts(self, sample: Sample) -> list[str]:
        """The text that is asked, and where there is an answer one that tells answers of other lengths apart."""
        raise NotImplementedError

    def _asked(self, sample: Sample) -> Inputs:
        """One sample's inputs without its answer."""
        raise NotImplementedError

    def _with_answer(self, sample: Sample) -> Inputs:
        """One sample's inputs with its answer and its end, and the labels of these."""
        raise NotImplementedError

    def _question(self, sample: Sample) -> str:
        return shortened(self._tokenizer, plain(self._tokenizer, sample.question), self._longest_question)

    def _answer(self, sample: Sample) -> str:
        return shortened(self._tokenizer, plain(self._tokenizer, sample.answer or ""), self.max_new_tokens)

    def _read(self, sample: Sample, text: str, **settings: Any) -> Inputs:
        """One sample's inputs, as the processor makes them.

        Raises:
            TargetError: the text has no place for the image, or the row is longer than the model takes.
        """
        read = self._processor(images=[sample.view.image], text=[text], return_tensors="pt", **settings)
        inputs = {name: value for name, value in read.items() if isinstance(value, torch.Tensor) and name not in _ASIDE}
        self._refuse_unfit(sample, inputs["input_ids"][0])
        return inputs

    def _refuse_unfit(self, sample: Sample, ids: torch.Tensor) -> None:
        image_id = self._tokenizer.convert_tokens_to_ids(self._mark) if self._mark else None
        if image_id is not None and not bool((ids == image_id).any()):
            raise TargetError(
                "the prompt has no place for the page's image, so the model would not see the page",
                f"write {self._mark} into [recipe] prompt where the image stands",
            )
        if self._positions is not None and len(ids) > self._positions:
            height, width = image_of(sample).shape[:2]
            raise TargetError(
                f"a page of {width} x {height} pixels and its question become {len(ids)} tokens, the model takes"
                f" {self._positions}",
                "lower the largest size in preprocessor_config.json to that of the model's training, or give smaller"
                " images",
            )

    def _followed(self, inputs: Inputs, own: list[int], begin: int) -> Inputs:
        """The inputs with other ids in their row, of which those from `begin` on are taught."""
        shape, length = inputs["input_ids"].shape, len(own)
        of_tokens = {
            name: _cut(value, length)
            for name, value in inputs.items()
            if value.shape[:2] == shape and not value.is_floating_point()
        }
        labels = [*[NOT_READ] * begin, *own[begin:]]
        return {**inputs, **of_tokens, "input_ids": torch.tensor([own]), "labels": torch.tensor([labels])}

    def _stack_samples(self, samples: Sequence[Inputs]) -> Inputs:
        """Inputs of several samples as one batch, filled on the right."""
        fill = {"input_ids": self._tokenizer.pad_token_id, "labels": NOT_READ}
        return {name: _stack([one[name] for one in samples], fill.get(name, 0)) for name in samples[0]}


def mark_of(processor: Any) -> str | None:
    """What stands for the image in a text that this processor reads; None: it says none."""
    mark = getattr(processor, "image_token", None)
    return None if mark is None else str(mark)


def ends_of(folder: CheckpointFolder, config: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer: the tokenizer's end, and those that the checkpoint's settings name.

    Raises:
        TargetError: generation_config.json cannot be used.
    """
    text = config.get_text_config(decoder=True)
    named = {*ids_of(getattr(text, "eos_token_id", None)), *ids_of(_generation_of(folder).eos_token_id)}
    return frozenset({tokenizer.eos_token_id, *ending(tokenizer, named)})


def positions_of(config: Any) -> int | None:
    """The longest row that a model of this configuration takes; None: it names none."""
    named = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return int(named) if named else None


def _generation_of(folder: CheckpointFolder) -> GenerationConfig:
    """The checkpoint's generation settings, which may name several ends of a turn; the defaults where it has none."""
    if not (folder.path / "generation_config.json").is_file():
        return GenerationConfig()
    try:
        return GenerationConfig.from_pretrained(folder.path, local_files_only=True)
    except DAMAGE as error:
        raise TargetError(f"{folder}: generation_config.json cannot be used: {one_line(error)}") from None


def _cut(value: torch.Tensor, length: int) -> torch.Tensor:
    """What is said of each token of a row, (1, n, ...), for its first `length`; tokens put behind are as the last."""
    missing = max(0, length - value.shape[1])
    return torch.cat([value, *[value[:, -1:]] * missing], dim=1)[:, :length]


def _stack(values: Sequence[torch.Tensor], fill: int) -> torch.Tensor:
    """Tensors of one rank along their first dimension, each filled at the end of the others to the largest."""
    shape = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]

    def grown(value: torch.Tensor) -> torch.Tensor:
        pads = [(0, size - own) for size, own in zip(shape, value.shape[1:], strict=True)]
        return torch.nn.functional.pad(value, [n for pair in reversed(pads) for n in pair], value=fill)

    return torch.cat([grown(value) for value in values])
