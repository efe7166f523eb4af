"""Any image-text-to-text model that is asked in turns, through its processor's chat template.

The user's turn is the page's image and the question; the model's turn is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig

from audit.errors import TargetError
from audit.targets.answering.generation import ids_of
from audit.targets.answering.parts import image_of, processor_of
from audit.targets.answering.reader import Inputs, Sample
from audit.targets.answering.wording import (
    LONGEST_ANSWER,
    QUESTION,
    ending,
    plain,
    shortened,
    special_tokens,
    tokens_of,
)
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.libraries import DAMAGE, one_line
from audit.targets.encoded_page import NOT_READ

PROMPT = QUESTION
"""The text of the user's turn, when the manifest's recipe names none: the bare question."""
_POSITIONS = 4096
"""Of models whose configuration names no longest row (ours)."""


def reader_of(folder: CheckpointFolder, config: Any, prompt: str | None) -> ChatReader:
    """The reader of a model that is asked in turns.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: the text of the user's turn, with "{question}" in it; None: the question alone.

    Raises:
        TargetError: its processor cannot be used, or has no chat template.
    """
    text = config.get_text_config(decoder=True)
    processor = processor_of(folder, text.vocab_size)
    processor.chat_template = processor.chat_template or processor.tokenizer.chat_template
    if not processor.chat_template:
        raise TargetError(
            f"{folder}: its processor has no chat template, so docaudit cannot tell how the model is asked",
            "add the chat_template.jinja that the model was fine-tuned with to the checkpoint",
        )
    named = {*ids_of(text.eos_token_id), *ids_of(_generation_of(folder).eos_token_id)}
    ends = {processor.tokenizer.eos_token_id, *ending(processor.tokenizer, named)}
    positions = int(getattr(text, "max_position_embeddings", None) or _POSITIONS)
    return ChatReader(processor, frozenset(ends), positions, prompt)


def _generation_of(folder: CheckpointFolder) -> GenerationConfig:
    """The checkpoint's generation settings, which may name several ends of a turn; the defaults where it has none."""
    if not (folder.path / "generation_config.json").is_file():
        return GenerationConfig()
    try:
        return GenerationConfig.from_pretrained(folder.path, local_files_only=True)
    except DAMAGE as error:
        raise TargetError(f"{folder}: generation_config.json cannot be used: {one_line(error)}") from None


class ChatReader:
    """See `audit.targets.answering.reader.Reader`.

    Each sample is read on its own, so that what a processor makes of it does not depend on the batch.
    """

    needs_image = True
    resolution: tuple[int, int] | None = None

    def __init__(self, processor: Any, ends: frozenset[int], positions: int, prompt: str | None = None) -> None:
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._prompt = prompt or PROMPT
        self.ends = ends
        self.forbidden = frozenset(special_tokens(self._tokenizer).values()) | ends
        self.max_tokens = positions
        self.max_new_tokens = min(LONGEST_ANSWER, positions // 2)
        self._longest_question = positions // 4

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`."""
        return self._stack_samples([self._read(sample, self._turns(sample)) for sample in samples])

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.taught`."""
        return self._stack_samples([self._with_answer(sample) for sample in samples])

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`: rows are as long as their text, and as the size of the page makes its image."""
        size = sample.view.size or image_of(sample).shape[:2]
        turns = [self._turns(sample), *([] if sample.answer is None else [self._turns(sample, sample.answer)])]
        return size, tuple(len(tokens_of(self._tokenizer, self._render(own))) for own in turns)

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self._tokenizer.decode(spoken, skip_special_tokens=True)).strip()

    def _turns(self, sample: Sample, answer: str | None = None) -> list[dict[str, Any]]:
        question = shortened(self._tokenizer, plain(self._tokenizer, sample.question), self._longest_question)
        asked = self._prompt.replace(QUESTION, question)
        user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": asked}]}
        if answer is None:
            return [user]
        text = shortened(self._tokenizer, plain(self._tokenizer, answer), self.max_new_tokens)
        return [user, {"role": "assistant", "content": [{"type": "text", "text": text}]}]

    def _render(self, turns: list[dict[str, Any]]) -> str:
        return str(self._processor.apply_chat_template(turns, add_generation_prompt=len(turns) == 1, tokenize=False))

    def _read(self, sample: Sample, turns: list[dict[str, Any]]) -> Inputs:
        """One sample's inputs, as the processor makes them."""
        text = self._render(turns)
        bos = self._tokenizer.bos_token
        read = self._processor(
            images=[[sample.view.image]],
            text=[text],
            add_special_tokens=bos is None or not text.startswith(bos),
            return_tensors="pt",
        )
        return {name: value for name, value in read.items() if isinstance(value, torch.Tensor)}

    def _with_answer(self, sample: Sample) -> Inputs:
        """One sample's inputs with its answer and its end, and the labels of these."""
        asked = self._read(sample, self._turns(sample))["input_ids"][0].tolist()
        inputs = self._read(sample, self._turns(sample, sample.answer or ""))
        ids = inputs["input_ids"][0].tolist()
        begin = _n_shared(asked, ids)
        ended = [index for index in range(begin, len(ids)) if ids[index] in self.ends]
        # What a template writes after the end of the turn is no answer; one that writes no end leaves it to us.
        own = ids[: ended[-1] + 1] if ended else [*ids, self._tokenizer.eos_token_id]
        own = own[: begin + self.max_new_tokens]
        length = len(own)
        changed = {name: _cut(value, length) for name, value in inputs.items() if value.shape == (1, len(ids))}
        return {
            **inputs,
            **changed,
            "input_ids": torch.tensor([own]),
            "labels": torch.tensor([[*[NOT_READ] * begin, *own[begin:]]]),
        }

    def _stack_samples(self, samples: Sequence[Inputs]) -> Inputs:
        """Inputs of several samples as one batch, filled on the right."""
        fill = {"input_ids": self._tokenizer.pad_token_id, "labels": NOT_READ}
        return {name: _stack([one[name] for one in samples], fill.get(name, 0)) for name in samples[0]}


def _n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two rows begin with alike."""
    shortest = min(len(one), len(other))
    return next((index for index in range(shortest) if one[index] != other[index]), shortest)


def _cut(value: torch.Tensor, length: int) -> torch.Tensor:
    """What is said of each token of a row, (1, n), for its first `length`; a token put behind is as the last one."""
    return torch.cat([value, value[:, -1:]], dim=1)[:, :length]


def _stack(values: Sequence[torch.Tensor], fill: int) -> torch.Tensor:
    """Tensors of one rank along their first dimension, each filled at the end of the others to the largest."""
    shape = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]

    def grown(value: torch.Tensor) -> torch.Tensor:
        pads = [(0, size - own) for size, own in zip(shape, value.shape[1:], strict=True)]
        return torch.nn.functional.pad(value, [n for pair in reversed(pads) for n in pair], value=fill)

    return torch.cat([grown(value) for value in values])
