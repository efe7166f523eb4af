"""Any image-text-to-text model that is asked in turns, through its processor's chat template.

The user's turn is the page's image and the question; the model's turn is the answer. A recipe may put a system turn
before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.errors import TargetError
from audit.targets.answering.processed import ProcessorReader
from audit.targets.answering.reader import Inputs, Sample
from audit.targets.answering.wording import QUESTION

PROMPT = QUESTION
"""The text of the user's turn, when the manifest's recipe names none: the bare question."""
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
        self._prompt = prompt or PROMPT
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
        begin = _n_shared(asked, ids)
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


def _n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two rows begin with alike."""
    shortest = min(len(one), len(other))
    return next((index for index in range(shortest) if one[index] != other[index]), shortest)
