"""Readers of any image-text-to-text model through its own processor: in turns, or with a whole prompt.

Such a model is asked in turns where its processor has a chat template: the user's turn is the page's image and the
question, the model's turn the answer, and a recipe may put a system turn before them. Without a template, or where it
was fine-tuned with a text that the template does not write, it is asked with a prompt of its own.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.answering.processed import ProcessorReader, ends_of, mark_of, positions_of, processor_of
from audit.targets.answering.reader import QUESTION, Inputs, Sample, continued, n_shared, tokens_of
from audit.targets.checkpoint.folder import CheckpointFolder

Turn = dict[str, Any]


class ChatReader(ProcessorReader):
    """See `audit.targets.answering.reader.Reader`.

    Args:
        processor: of the checkpoint; it has a chat template.
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
        super().__init__(processor, ends, positions)
        self._prompt = prompt or QUESTION
        self._system: list[Turn] = [] if system is None else [_turn("system", system)]
        if system is not None and system.strip() not in self._render([*self._system, _turn("user", "a")]):
            raise TargetError(
                "the model's chat template has no system turn", "write its text into [recipe] prompt instead"
            )

    def _texts(self, sample: Sample) -> list[str]:
        asked = self._render(self._turns(sample))
        return [asked] if sample.answer is None else [asked, self._render(self._turns(sample, answered=True))]

    def _asked(self, sample: Sample) -> Inputs:
        return self._read_turns(sample, self._turns(sample))

    def _with_answer(self, sample: Sample) -> Inputs:
        asked = self._asked(sample)["input_ids"][0].tolist()
        inputs = self._read_turns(sample, self._turns(sample, answered=True))
        ids = inputs["input_ids"][0].tolist()
        begin = n_shared(asked, ids)
        ended = [index for index in range(begin, len(ids)) if ids[index] in self.ends]
        # What a template writes after the end of the turn is no answer; one that writes no end leaves it to us.
        own = ids[: ended[-1] + 1] if ended else [*ids, self._tokenizer.eos_token_id]
        return self._followed(inputs, own[: begin + self.max_new_tokens], begin)

    def _turns(self, sample: Sample, *, answered: bool = False) -> list[Turn]:
        asked = self._prompt.replace(QUESTION, self._question(sample))
        turns = [*self._system, _turn("user", asked, {"type": "image"})]
        return [*turns, _turn("assistant", self._answer(sample))] if answered else turns

    def _render(self, turns: list[Turn]) -> str:
        goes_on = turns[-1]["role"] == "user"
        return str(self._processor.apply_chat_template(turns, add_generation_prompt=goes_on, tokenize=False))

    def _read_turns(self, sample: Sample, turns: list[Turn]) -> Inputs:
        text = self._render(turns)
        bos = self._tokenizer.bos_token
        return self._read(sample, text, add_special_tokens=bos is None or not text.startswith(bos))


def _turn(role: str, text: str, *before: Turn) -> Turn:
    return {"role": role, "content": [*before, {"type": "text", "text": text}]}


def example_of(kind: str, mark: str | None) -> str:
    """A prompt for a model of this `model_type`, for whose processor `mark` stands for the image."""
    named: str | None = TABLE["answering"]["prompts"].get(kind)
    return named or f"{mark or ''}Question: {QUESTION} Answer:"


class PromptReader(ProcessorReader):
    """See `audit.targets.answering.reader.Reader`.

    Decoders go on after the prompt: the answer follows it, after a space where the prompt ends in a letter or sign, or
    as the processor lays a `suffix` after it where it takes one (PaliGemma). An encoder reads the prompt, and its
    decoder gives the answer alone.

    Args:
        processor: of the checkpoint.
        ends: ids of the tokens that end an answer.
        positions: the longest row that the model takes; None: it names none.
        prompt: the whole text, with "{question}" in it.
        writes_apart: the model has a decoder of its own, which gives the answer alone.
    """

    def __init__(
        self, processor: Any, ends: frozenset[int], positions: int | None, prompt: str, *, writes_apart: bool = False
    ) -> None:
        super().__init__(processor, ends, positions)
        self._prompt = prompt
        self._writes_apart = writes_apart
        self._takes_suffix = "suffix" in inspect.signature(type(processor).__call__).parameters
        ended_by_mark = tokens_of(self._tokenizer, prompt)[-1:] in [[token] for token in self.forbidden]
        self._gap = "" if ended_by_mark or prompt[-1:].isspace() else " "
        self.advice = (
            "is [recipe] prompt the whole text that the model was trained to be asked with,"
            f" {self._mark or 'the mark of the image'} where the image stands?"
        )

    def _texts(self, sample: Sample) -> list[str]:
        asked = self._text(sample)
        return [asked] if sample.answer is None else [asked, asked + self._gap + self._answer(sample)]

    def _text(self, sample: Sample) -> str:
        return self._prompt.replace(QUESTION, self._question(sample))

    def _asked(self, sample: Sample) -> Inputs:
        return self._read(sample, self._text(sample))

    def _with_answer(self, sample: Sample) -> Inputs:
        inputs = self._asked(sample)
        if self._writes_apart:
            return {**inputs, "labels": torch.tensor([self._ended(self._spelled(sample))])}
        if self._takes_suffix:
            return self._with_suffix(sample, inputs)
        _, answer = continued(self._tokenizer, self._text(sample), self._gap + self._answer(sample))
        ids = inputs["input_ids"][0].tolist()
        return self._followed(inputs, [*ids, *self._ended(answer)], len(ids))

    def _with_suffix(self, sample: Sample, asked: Inputs) -> Inputs:
        begin = asked["input_ids"].shape[1]
        inputs = self._read(sample, self._text(sample), suffix=self._answer(sample))
        return self._followed(inputs, inputs["input_ids"][0].tolist()[: begin + self.max_new_tokens], begin)

    def _spelled(self, sample: Sample) -> list[int]:
        """The answer as a text of its own, with the special tokens that the tokenizer writes around one."""
        return list(self._tokenizer(self._answer(sample)).input_ids)

    def _ended(self, answer: list[int]) -> list[int]:
        end = self._tokenizer.eos_token_id
        return (answer if answer[-1:] == [end] else [*answer, end])[: self.max_new_tokens]


def seeing_reader(
    folder: CheckpointFolder, config: Any, prompt: str | None, system: str | None = None
) -> ProcessorReader:
    """The reader of an image-text-to-text model.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: with "{question}" in it: the text of the user's turn, or the whole text where it holds the mark of the
            image or there is no chat template; None: the question alone, in turns.
        system: the text of the system turn.

    Raises:
        TargetError: its processor cannot be used, or has no chat template and there is no prompt.
    """
    n_embedded = config.get_text_config(decoder=True).vocab_size + TABLE["answering"]["unscored"].get(
        str(config.model_type), 0
    )
    processor = processor_of(folder, n_embedded)
    tokenizer, mark = processor.tokenizer, mark_of(processor)
    ends, positions = ends_of(folder, config, tokenizer), positions_of(config)
    processor.chat_template = getattr(processor, "chat_template", None) or tokenizer.chat_template
    whole = prompt is not None and mark is not None and mark in prompt
    if processor.chat_template and not whole:
        return ChatReader(processor, ends, positions, prompt, system)
    if prompt is None:
        example = example_of(str(config.model_type), mark)
        raise TargetError(
            f"{folder}: its processor has no chat template, so docaudit cannot tell how the model is asked",
            "write in manifest.toml, below [recipe], the very text that it was trained to be asked with, such as"
            f' prompt = "{example}", {{question}} standing for the question; or add the chat_template.jinja that it was'
            " fine-tuned with to the checkpoint",
        )
    if system is not None:
        raise TargetError(
            f"{folder}: a model that is asked with a whole prompt has no system turn",
            "write the text of [recipe] system into [recipe] prompt",
        )
    return PromptReader(processor, ends, positions, prompt, writes_apart=bool(config.is_encoder_decoder))
