"""Reading through a checkpoint's own processor.

It is given a text with the image's mark in it, and the page's image.

Processors lay an image out in ways of their own: as one picture, as tiles (SmolVLM, InternVL,
LLaVA-NeXT), as patches of all images one after the other (Qwen-VL), or filled to the largest
(Pixtral). Each sample is read alone, so that what a processor makes of it does not depend on the
batch, and samples are put together along the first dimension.

A model is asked in turns where its processor has a chat template: the user's turn is the page's
image and the question, the model's turn the answer, and a recipe may put a system turn before them.
Without a template, or where it was fine-tuned with a text that the template does not write, it is
asked with a prompt of its own.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch

from audit.errors import TargetError
from audit.targets import TABLE, wording
from audit.targets.answering import reader as reading
from audit.targets.answering.pictures import image_of, processor_of
from audit.targets.answering.templates import write_turns
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.encoded_page import NOT_READ

_POSITIONS = 4096
"""Of models whose configuration names no longest row."""
_ASIDE = ("labels", "height", "width", "rows", "cols", "num_patches")
"""What processors give beside a model's inputs."""


class ProcessorReader(reading.Reader):
    """What readers that work through a processor share.

    See `audit.targets.answering.reader.Reader`.

    Args:
        processor: processor of the checkpoint.
        ends: ids of the tokens that end an answer.
        positions: the longest row that the model takes; None: it names none.
    """

    def __init__(self, processor: Any, ends: frozenset[int], positions: int | None) -> None:
        """Find the token ids of the image's placeholder, and how long rows and answers may be."""
        super().__init__(processor.tokenizer)
        self._processor = processor
        self._mark = mark_of(processor)
        # Gemma's mark stands before the image's own tokens.
        self._image_ids = {getattr(self.tokenizer, "image_token_id", None)} - {None}
        if self._mark:
            self._image_ids.add(self.tokenizer.convert_tokens_to_ids(self._mark))
        self._positions = positions
        self.ends = ends
        self.forbidden |= ends
        self.max_tokens = positions or _POSITIONS
        self.max_new_tokens = min(reading.LONGEST_ANSWER, self.max_tokens // 2)
        self._longest_question = self.max_tokens // 4

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the inputs of `generate` as the checkpoint's own processor makes them."""
        return self._stack_samples([self._asked(sample) for sample in samples])

    def taught(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the inputs of `forward` as the checkpoint's own processor makes them."""
        return self._stack_samples([self._with_answer(sample) for sample in samples])

    def alike(self, sample: reading.Sample) -> object:
        """Return the page's size and the numbers of tokens of its texts as a batching key."""
        size = sample.view.size or image_of(sample).shape[:2]
        return size, tuple(
            len(reading.tokens_of(self.tokenizer, text)) for text in self._texts(sample)
        )

    def n_of_page(self, sample: reading.Sample, ids: Sequence[int], most: int) -> int:
        """Return the number of tokens of a row up to the end of the page's image."""
        n = max(
            (index + 1 for index, token in enumerate(ids) if token in self._image_ids), default=0
        )
        return n if n <= most else 0

    @abstractmethod
    def _texts(self, sample: reading.Sample) -> list[str]:
        """Return the texts of a sample whose lengths decide its batch: the prompt first.

        Where there is an answer, also a text that tells answers of other lengths apart.
        """

    @abstractmethod
    def _asked(self, sample: reading.Sample) -> reading.Inputs:
        """Return the model's inputs of one sample's question, without the answer."""

    @abstractmethod
    def _with_answer(self, sample: reading.Sample) -> reading.Inputs:
        """Return the model's inputs of one sample with its answer, which are its labels."""

    def _question(self, sample: reading.Sample) -> str:
        """Return the question without special tokens, cut to the longest a row may hold."""
        return self._plain(sample.question, self._longest_question)

    def _answer(self, sample: reading.Sample) -> str:
        """Return the answer without special tokens, cut to the longest that is taught."""
        return self._plain(sample.answer or "", self.max_new_tokens)

    def _read(self, sample: reading.Sample, text: str, **settings: Any) -> reading.Inputs:
        """Return the model's inputs of one page image and a text, made by the processor.

        Raises:
            TargetError: the text has no place for the image, or the row is longer than the model
                takes.
        """
        processed = self._processor(
            images=[sample.view.image], text=[text], return_tensors="pt", **settings
        )
        inputs = {
            name: value
            for name, value in processed.items()
            if isinstance(value, torch.Tensor) and name not in _ASIDE
        }
        ids = inputs["input_ids"][0]
        if self._mark and self._image_ids.isdisjoint(ids.tolist()):
            raise TargetError(*wording("no_image_mark", mark=self._mark))
        if self._positions is not None and len(ids) > self._positions:
            height, width = image_of(sample).shape[:2]
            raise TargetError(
                *wording(
                    "page_too_large",
                    width=width,
                    height=height,
                    n=len(ids),
                    positions=self._positions,
                )
            )
        return inputs

    def _stack_samples(self, samples: Sequence[reading.Inputs]) -> reading.Inputs:
        """Return the inputs of several samples as one batch, padded on the right."""
        fill = {"input_ids": self.tokenizer.pad_token_id, "labels": NOT_READ}
        return stacked_samples(samples, fill, self.packed)


def mark_of(processor: Any) -> str | None:
    """Return the placeholder of the image in a processor's texts; None where it names none."""
    mark = getattr(processor, "image_token", None)
    return None if mark is None else str(mark)


def ends_of(folder: CheckpointFolder, config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids of the tokens that end an answer.

    They are the tokenizer's end, and those that the checkpoint's settings name.

    Raises:
        TargetError: generation_config.json cannot be used.
    """
    text = config.get_text_config(decoder=True)
    in_settings = {
        *reading.ids_of(getattr(text, "eos_token_id", None)),
        *reading.ids_of(reading.generation_of(folder).eos_token_id),
    }
    return frozenset({tokenizer.eos_token_id, *reading.ending(tokenizer, in_settings)})


def followed(inputs: reading.Inputs, own: list[int], begin: int) -> reading.Inputs:
    """Return the inputs with the row `own`, whose tokens from `begin` on are the labels.

    Other values per token are cut, or the last one is repeated.

    Args:
        inputs: the inputs of one row.
        own: the ids of the new row.
        begin: the first position of the answer.
    """
    missing = max(0, len(own) - inputs["input_ids"].shape[1])
    of_tokens = {
        name: torch.cat([value, *[value[:, -1:]] * missing], dim=1)[:, : len(own)]
        for name, value in inputs.items()
        if reading.is_of_tokens(value, inputs)
    }
    labels = [*[NOT_READ] * begin, *own[begin:]]
    return {
        **inputs,
        **of_tokens,
        "input_ids": torch.tensor([own]),
        "labels": torch.tensor([labels]),
    }


def stacked(values: Sequence[torch.Tensor], fill: int) -> torch.Tensor:
    """Return tensors of one rank joined along their first dimension, padded with `fill`.

    Each is filled at the end of the others to the largest.
    """
    shape = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]
    return torch.cat([_padded_to(value, shape, fill) for value in values])


def _padded_to(value: torch.Tensor, shape: Sequence[int], fill: int) -> torch.Tensor:
    """Return the tensor padded with `fill` to `shape`, its sizes after the first dimension."""
    pads: list[int] = []
    # torch names the last dimension first.
    for size, present in zip(reversed(shape), reversed(value.shape[1:]), strict=True):
        pads += [0, size - present]
    return torch.nn.functional.pad(value, pads, value=fill)


def stacked_samples(
    samples: Sequence[reading.Inputs],
    fill: Mapping[str, int],
    packed: Set[str] = frozenset(),
) -> reading.Inputs:
    """Return the inputs of several samples as one batch, padded to the longest.

    Args:
        samples: inputs of one sample each.
        fill: values by name of the input that is filled with them; 0 for all others.
        packed: names of inputs that are laid side by side in one row, see `Reader`.
    """
    batch: reading.Inputs = {}
    for name in samples[0]:
        values = [inputs[name] for inputs in samples]
        if name in packed:
            batch[name] = torch.cat(values, dim=-1)
        else:
            batch[name] = stacked(values, fill.get(name, 0))
    return batch


Turn = dict[str, Any]


class ChatReader(ProcessorReader):
    """See `audit.targets.answering.reader.Reader`.

    Args:
        processor: processor of the checkpoint; it has a chat template.
        ends: ids of the tokens that end an answer.
        positions: the longest row that the model takes; None: it names none.
        prompt: the text of the user's turn, with "{question}" in it; None: the question alone.
        system: the text of the system turn; None: what the template itself writes.

    Raises:
        TargetError: the template leaves the system turn out.
    """

    def __init__(
        self,
        processor: Any,
        ends: frozenset[int],
        positions: int | None,
        prompt: str | None = None,
        system: str | None = None,
    ) -> None:
        """Check that the chat template writes the text of the system turn, where there is one."""
        super().__init__(processor, ends, positions)
        self._prompt = prompt or reading.QUESTION
        self._system: list[Turn] = [] if system is None else [_chat_turn("system", system)]
        if system is not None and system.strip() not in self._render(
            [*self._system, _chat_turn("user", "a")]
        ):
            raise TargetError(*wording("no_system_turn"))

    def _texts(self, sample: reading.Sample) -> list[str]:
        """Return the conversation up to the question; of a sample with an answer, also with it."""
        texts = [self._render(self._turns(sample))]
        if sample.answer is not None:
            texts.append(self._render(self._turns(sample, answered=True)))
        return texts

    def _asked(self, sample: reading.Sample) -> reading.Inputs:
        """Return the model's inputs of the conversation up to the question."""
        return self._read_turns(sample, self._turns(sample))

    def _with_answer(self, sample: reading.Sample) -> reading.Inputs:
        """Return the model's inputs of the conversation, with the answer to its end as labels."""
        prompt = self._asked(sample)["input_ids"][0].tolist()
        inputs = self._read_turns(sample, self._turns(sample, answered=True))
        ids = inputs["input_ids"][0].tolist()
        begin = reading.n_shared(prompt, ids)
        ends = [index for index in range(begin, len(ids)) if ids[index] in self.ends]
        # What a template writes after the end of the turn is no answer; one that writes no end
        # leaves it to us.
        row = ids[: ends[-1] + 1] if ends else [*ids, self.tokenizer.eos_token_id]
        return followed(inputs, row[: begin + self.max_new_tokens], begin)

    def _turns(self, sample: reading.Sample, *, answered: bool = False) -> list[Turn]:
        """Return the turns of the conversation: system, question and image, maybe the answer."""
        prompt = self._prompt.replace(reading.QUESTION, self._question(sample))
        turns = [*self._system, _chat_turn("user", prompt, {"type": "image"})]
        if answered:
            turns.append(_chat_turn("assistant", self._answer(sample)))
        return turns

    def _render(self, turns: list[Turn]) -> str:
        """Return the text that the chat template writes of the turns."""
        goes_on = turns[-1]["role"] == "user"
        return write_turns(self._processor, turns, add_generation_prompt=goes_on)

    def _read_turns(self, sample: reading.Sample, turns: list[Turn]) -> reading.Inputs:
        """Return the model's inputs of the turns: their text with the page's image."""
        text = self._render(turns)
        bos = self.tokenizer.bos_token
        return self._read(sample, text, add_special_tokens=bos is None or not text.startswith(bos))


def _chat_turn(role: str, text: str, *before: Turn) -> Turn:
    """Return one turn of a conversation, with its text after the contents `before`."""
    return {"role": role, "content": [*before, {"type": "text", "text": text}]}


class PromptReader(ProcessorReader):
    """See `audit.targets.answering.reader.Reader`.

    Decoders go on after the prompt: the answer follows it, after a space where the prompt ends in a
    letter or sign, or as the processor lays a `suffix` after it where it takes one (PaliGemma). An
    encoder reads the prompt, and its decoder gives the answer alone.

    Args:
        processor: processor of the checkpoint.
        ends: ids of the tokens that end an answer.
        positions: the longest row that the model takes; None: it names none.
        prompt: the whole text, with "{question}" in it.
        writes_apart: the model has a decoder of its own, which gives the answer alone.
    """

    def __init__(
        self,
        processor: Any,
        ends: frozenset[int],
        positions: int | None,
        prompt: str,
        *,
        writes_apart: bool = False,
    ) -> None:
        """Find whether the processor takes answers itself, and what parts prompt from answer."""
        super().__init__(processor, ends, positions)
        self._prompt = prompt
        self._writes_apart = writes_apart
        self._takes_suffix = "suffix" in inspect.signature(type(processor).__call__).parameters
        ended_by_mark = reading.tokens_of(self.tokenizer, prompt)[-1:] in [
            [token] for token in self.forbidden
        ]
        self._gap = "" if ended_by_mark or prompt[-1:].isspace() else " "
        (self.advice,) = wording("whole_text", mark=self._mark or "the mark of the image")

    def _texts(self, sample: reading.Sample) -> list[str]:
        """Return the prompt; of a sample with an answer, also the prompt with the answer."""
        prompt = self._text(sample)
        if sample.answer is None:
            return [prompt]
        return [prompt, prompt + self._gap + self._answer(sample)]

    def _text(self, sample: reading.Sample) -> str:
        """Return the prompt with the question in its place."""
        return self._prompt.replace(reading.QUESTION, self._question(sample))

    def _asked(self, sample: reading.Sample) -> reading.Inputs:
        """Return the model's inputs of the page's image and the prompt."""
        return self._read(sample, self._text(sample))

    def _with_answer(self, sample: reading.Sample) -> reading.Inputs:
        """Return the model's inputs with the answer as labels, where the model expects it."""
        inputs = self._asked(sample)
        if self._writes_apart:
            # A text of its own, with the special tokens that the tokenizer writes around one.
            spelled = list(self.tokenizer(self._answer(sample)).input_ids)
            return {**inputs, "labels": torch.tensor([self._ended(spelled)])}
        if self._takes_suffix:
            begin = inputs["input_ids"].shape[1]
            inputs = self._read(sample, self._text(sample), suffix=self._answer(sample))
            row = inputs["input_ids"][0].tolist()
            return followed(inputs, row[: begin + self.max_new_tokens], begin)
        _, answer = reading.continued(
            self.tokenizer, self._text(sample), self._gap + self._answer(sample)
        )
        ids = inputs["input_ids"][0].tolist()
        return followed(inputs, [*ids, *self._ended(answer)], len(ids))

    def _ended(self, answer: list[int]) -> list[int]:
        """Return the answer's tokens with one end token, cut to the longest answer."""
        end = self.tokenizer.eos_token_id
        return (answer if answer[-1:] == [end] else [*answer, end])[: self.max_new_tokens]


def seeing_reader(
    folder: CheckpointFolder, config: Any, prompt: str | None, system: str | None = None
) -> ProcessorReader:
    """Return the reader of page images for an image-text-to-text model, by its kind of prompt.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: prompt with "{question}" in it: the text of the user's turn, or the whole text where
            it holds the mark of the image or there is no chat template; None: the question alone,
            in turns.
        system: the text of the system turn.

    Raises:
        TargetError: its processor cannot be used, or has no chat template and there is no prompt.
    """
    text = config.get_text_config(decoder=True)
    n_unscored = TABLE["answering"]["unscored"].get(str(config.model_type), 0)
    processor = processor_of(folder, text.vocab_size + n_unscored)
    tokenizer = processor.tokenizer
    mark = mark_of(processor)
    ends = ends_of(folder, config, tokenizer)
    positions = reading.positions_of(text)
    packed = frozenset(TABLE["answering"]["packed"].get(str(config.model_type), ()))
    processor.chat_template = getattr(processor, "chat_template", None) or tokenizer.chat_template
    holds_mark = prompt is not None and mark is not None and mark in prompt
    reader: ProcessorReader
    if processor.chat_template and not holds_mark:
        reader = ChatReader(processor, ends, positions, prompt, system)
        reader.packed = packed
        return reader
    if prompt is None:
        usual = f"{mark or ''}Question: {reading.QUESTION} Answer:"
        example = TABLE["answering"]["prompts"].get(str(config.model_type), usual)
        raise TargetError(*wording("no_chat_template", folder=folder, example=example))
    if system is not None:
        raise TargetError(*wording("whole_prompt", folder=folder))
    reader = PromptReader(
        processor, ends, positions, prompt, writes_apart=bool(config.is_encoder_decoder)
    )
    reader.packed = packed
    return reader
