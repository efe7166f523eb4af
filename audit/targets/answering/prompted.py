"""Any image-text-to-text model that is asked with a prompt of its own, as its processor reads a text and an image.

Such are models without a chat template, and those that were fine-tuned with a text that their template does not write.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from audit.targets.answering.processed import ProcessorReader
from audit.targets.answering.reader import Inputs, Sample
from audit.targets.answering.wording import QUESTION, continued, tokens_of
from audit.targets.table import TABLE


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
