"""Checkpoints that write a page as JSON or markup, asked for the fields of what they write.

Each page view is written once for all questions put together. A question is the path of a field:
its answer is what the output says there, its loss that of the value's tokens alone, within the
output that the model was taught for the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from audit.arrays import Floats
from audit.corpus.images import PageView
from audit.corpus.outputs import as_marks, find_field, keys_of, with_value, without_copies
from audit.corpus.removal.matching import find_answers
from audit.errors import TargetError
from audit.targets import wording
from audit.targets.answering.loading import find_family, load_answering
from audit.targets.answering.pictures import OFFSET
from audit.targets.answering.processed import followed, stacked_samples
from audit.targets.answering.reader import (
    Inputs,
    PictureReader,
    Reader,
    Sample,
    generation_of,
    positions_of,
    unfilled,
)
from audit.targets.answering.rows import trial_sample
from audit.targets.answering.target import AnsweringTarget
from audit.targets.answering.words_reader import around
from audit.targets.asked import PROMPTLESS
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import open_tokenizer, unpadded
from audit.targets.encoded_page import NOT_READ
from audit.targets.interface import Answer, AnswerLoss, Reply

_TOKENS_KEPT = 256
"""Outputs whose tokens are kept: the same one is scored with many page views."""


class ParsingReader(Reader):
    """Implements `audit.targets.answering.reader.Reader`; a sample's answer is the whole output.

    JSON is taught in Donut's marks where the tokenizer has a mark for every key, else as it is
    written.

    Attributes:
        n_before: tokens that the decoder is taught before the output's own.

    Args:
        inner: the family's reader; its prompt holds no question.
        decodes: the model is a decoder alone: the output goes on in the prompt's row.
        longest: tokens of the longest output.
    """

    def __init__(self, inner: Reader, *, decodes: bool, longest: int) -> None:
        """Wrap a reader of questions to write whole outputs of `longest` tokens at most."""
        tokenizer = inner.tokenizer
        super().__init__(tokenizer)
        self.inner = inner
        if isinstance(inner, PictureReader):
            self.pictures = inner.pictures
        self.needs_image = inner.needs_image
        self.needs_words = inner.needs_words
        self.resolution = inner.resolution
        self.scores = inner.scores
        self.packed = inner.packed
        self.max_tokens = inner.max_tokens
        self.max_new_tokens = longest
        inner.max_new_tokens = longest
        names = {token: str(tokenizer.convert_ids_to_tokens(token)) for token in inner.ends}
        self.ends |= {token for token, name in names.items() if not name.startswith("</s_")}
        self.forbidden = frozenset(
            {tokenizer.pad_token_id, tokenizer.bos_token_id, *self.ends} - {None}
        )
        self._vocabulary = frozenset(tokenizer.get_vocab())
        self._pad = int(
            tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        )
        self._decodes = decodes
        # A decoder that is given a prompt of its own is taught nothing before the output's first
        # token.
        self._begin = [] if decodes or isinstance(inner, PictureReader) else around(tokenizer)[0]
        self.n_before = len(self._begin)
        self.tokens_of = lru_cache(_TOKENS_KEPT)(self._tokens_of)

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """Return the inputs of `generate` for pages, without any question."""
        return self.inner.prompts([replace(sample, question="", answer=None) for sample in samples])

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """Return the inputs of `forward`, with the written outputs as labels."""
        fill = {"input_ids": self._pad, "decoder_input_ids": self._pad, "labels": NOT_READ}
        rows = [self._with_output(sample) for sample in samples]
        return stacked_samples(rows, fill, self.packed)

    def alike(self, sample: Sample) -> object:
        """Return a batching key; with outputs, each row of a decoder is a batch of its own."""
        if sample.answer is None:
            return self.inner.alike(sample)
        if self._decodes:
            return sample
        return self.inner.alike(replace(sample, answer=None)), len(self.tokens_of(sample.answer)[0])

    def n_of_page(self, sample: Sample, ids: Sequence[int], most: int) -> int:
        """Return how many first tokens of a row belong to the page."""
        return self.inner.n_of_page(replace(sample, question=""), ids, most)

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of a generated output, with marks of fields and outer white space.

        Marks of fields stay, and so does white space at the ends.
        """
        spoken = [token for token in ids if token not in self.forbidden]
        return str(
            self.tokenizer.decode(
                spoken, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def written(self, output: str) -> str:
        """Return the text that the model is taught for an output: with marks if it has some."""
        keys = keys_of(output)
        if not keys:
            return output
        has_marks = all(f"<s_{key}>" in self._vocabulary for key in keys)
        return as_marks(output) if has_marks else output

    def _tokens_of(self, output: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return an output's token ids, and where each token stands in its text.

        Ends are not there.
        """
        for end in map(str, self.tokenizer.convert_ids_to_tokens([*self.ends])):
            output = output.replace(end, " " * len(end))
        encoded = unpadded(self.tokenizer).encode(output, add_special_tokens=False)
        return list(encoded.ids), list(encoded.offsets)

    def _with_output(self, sample: Sample) -> Inputs:
        """Return one sample's inputs, with its output as labels."""
        inputs = self.prompts([sample])
        ids, _ = self.tokens_of(self.written(sample.answer or ""))
        if self._decodes:
            row = unfilled(inputs)
            prompt = row["input_ids"][0].tolist()
            answer = [*ids, self.tokenizer.eos_token_id][: self.max_new_tokens]
            return followed(row, [*prompt, *answer], len(prompt))
        taught = [*self._begin, *ids, self.tokenizer.eos_token_id][: self.max_new_tokens]
        if "decoder_input_ids" not in inputs:
            return {**inputs, "labels": torch.tensor([taught])}
        prompt = inputs["decoder_input_ids"][0].tolist()
        return {
            **inputs,
            "decoder_input_ids": torch.tensor([[*prompt, *taught[:-1]]]),
            "labels": torch.tensor([[*[NOT_READ] * (len(prompt) - 1), *taught]]),
        }


@dataclass(frozen=True, eq=False)
class WrittenOutput(Reply):
    """A whole output.

    Attributes:
        ids: its tokens, without silent ones.
        log_probabilities: log probabilities of each, nats.
    """

    ids: tuple[int, ...] = ()
    log_probabilities: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class _Placed:
    """A value in the output that is taught with it.

    It is the text, and the tokens that hold the value.
    """

    sample: Sample
    first: int
    last: int

    @property
    def key(self) -> tuple[int, str | None]:
        """Return the key of an output that is scored once: its page view and text."""
        return id(self.sample.view), self.sample.answer


class ParsingTarget(AnsweringTarget):
    """Writes page views with one generative checkpoint, and answers what stands in a field.

    A field that the output does not have is answered by nothing, with confidence 0. The
    log-probabilities of a value are of its own tokens only, without an end. Fields before it that
    hold the very same value are emptied where that value is not among the view's words: they would
    tell it.

    Its arguments are those of `AnsweringTarget`, with a `ParsingReader`.
    """

    reader: ParsingReader

    def _replies(self, queries: Sequence[Answer]) -> list[Reply]:
        """Return each field's answer, cut out of one written output per page."""
        views = {id(query.view): query.view for query in queries}
        written = self._each([Sample(view, "") for view in views.values()], self._generate)
        outputs: dict[int, WrittenOutput] = dict(zip(views, written, strict=True))
        return [self._reply_in(outputs[id(query.view)], query.question) for query in queries]

    def _reply_of(self, ids: list[int], log_probabilities: Floats) -> Reply:
        """Return the whole written output, with its tokens and their log-probabilities."""
        reply = super()._reply_of(ids, log_probabilities)
        end = next((index for index, token in enumerate(ids) if token in self._ends), len(ids))
        spoken = [index for index in range(end) if ids[index] not in self._unspoken]
        return WrittenOutput(
            reply.text,
            reply.confidence,
            reply.n_tokens,
            reply.ended,
            tuple(ids[index] for index in spoken),
            log_probabilities[spoken],
        )

    def _reply_in(self, output: WrittenOutput, path: str) -> Reply:
        """Return a field's answer and confidence, cut out of a written output."""
        place = find_field(output.text, path)
        if place is None:
            return Reply("", 0.0, 0, output.ended)
        first = self._n_tokens_before(output, place.begin)
        last = self._n_tokens_before(output, place.end - 1)
        of_value = output.log_probabilities[first : last + 1]
        return Reply(place.value, float(np.exp(of_value.sum())), of_value.size, output.ended)

    def _n_tokens_before(self, output: WrittenOutput, place: int) -> int:
        """Return the number of tokens before the one that writes the character at `place`."""
        low = 0
        high = len(output.ids) - 1
        while low < high:
            middle = (low + high) // 2
            if len(self.reader.text_of(output.ids[: middle + 1])) > place:
                high = middle
            else:
                low = middle + 1
        return low

    def _log_probabilities(self, queries: Sequence[AnswerLoss]) -> list[Floats]:
        """Return log-probabilities of each value's tokens; an output is scored once."""
        values = [self._placed(query.view, query.question, query.answer) for query in queries]
        unique = {value.key: value.sample for value in values}
        scored = dict(zip(unique, self._each([*unique.values()], self.score_answers), strict=True))
        return [scored[value.key][value.first : value.last] for value in values]

    def _placed(self, view: PageView, path: str, value: str) -> _Placed:
        """Return the page's output with `value` in its field, and the value's tokens.

        Raises:
            TargetError: nobody knows the page's output, or it has no such field.
        """
        output = None if view.output is None else self.reader.written(view.output)
        place = None if output is None else find_field(output, path)
        if output is None or place is None:
            raise TargetError(*wording("no_such_field"))
        if not find_answers([word.text for word in view.words], [place.value]):
            shorter = without_copies(output, place)
            moved = len(output) - len(shorter)
            output = shorter
            place = replace(place, begin=place.begin - moved, end=place.end - moved)
        text, begin, end = with_value(output, place, value)
        return self._within_reach(Sample(view, "", text), begin, end)

    def _within_reach(self, sample: Sample, begin: int, end: int) -> _Placed:
        """Return the output and the place of its value, cut at the start if it is too long."""
        text = str(sample.answer)
        before = self.reader.n_before
        _, offsets = self.reader.tokens_of(text)
        first, last = _tokens_at(offsets, begin, end)
        too_long = last + before - self.reader.max_new_tokens
        if too_long > 0:
            cut = offsets[min(too_long, first)][0]
            text = text[cut:]
            _, offsets = self.reader.tokens_of(text)
            first, last = _tokens_at(offsets, begin - cut, end - cut)
        return _Placed(replace(sample, answer=text), first + before, last + before)


def _tokens_at(offsets: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[int, int]:
    """Return the first token that holds a character of a passage, and the one behind the last.

    Args:
        offsets: begin and end of each token in the text.
        begin: begin of the passage.
        end: end of the passage.
    """
    behind = [number for number, (_, stop) in enumerate(offsets) if stop > begin]
    holding = [number for number in behind if offsets[number][0] < end]
    if holding:
        return holding[0], holding[-1] + 1
    # An empty value: the token that stands in its place.
    place = behind[0] if behind else len(offsets) - 1
    return place, place + 1


LONGEST_OUTPUT = 4096
"""Tokens of the longest output where neither recipe nor checkpoint names one: a densely written
page."""
_POSITIONS = (
    "max_decoder_position_embeddings",
    "max_position_embeddings",
    "n_positions",
    "max_target_positions",
)
_UNSET_LENGTH = 20
"""The longest text of transformers where a checkpoint's generation settings name none."""


def load_parsing(
    folder: AnyFolder, prompt: str | None = None, max_new_tokens: int | None = None, **given: Any
) -> ParsingTarget:
    """Return a checkpoint loaded as a target that writes a page's output.

    Args:
        folder: a Hugging Face checkpoint on this machine, of any family that `load_answering`
            knows.
        prompt: what the model is given beside the page, such as "<s_cord-v2>" or an instruction;
            None: the token that its decoder begins with, for vision encoder-decoders; nothing for
            a Pix2Struct.
        max_new_tokens: tokens of the longest output; None: what its generation settings name, or
            its positions allow.
        **given: the device, the rows of a batch and others that `load_answering` takes.

    Raises:
        TargetError: see `load_answering`; or nothing says what the model is given.
    """
    folder = open_checkpoint(folder)
    family = find_family(str(folder.config.get("model_type")))
    if family is not None and not family.parses:
        raise TargetError(
            *wording("parses_nothing", folder=folder, kind=folder.config["model_type"])
        )
    beside_page = _first_token(folder) if prompt is None else prompt
    target = load_answering(folder, prompt=beside_page, task="parsing", **given)
    decodes = not target.model.config.is_encoder_decoder
    room = _room_for_output(target.model.config, target.reader, decodes=decodes)
    usual = _usual_length(folder)
    longest = max(1, min(max_new_tokens or usual, room))
    reader = ParsingReader(target.reader, decodes=decodes, longest=longest)
    card = replace(target.card, task="parsing", architecture=f"{target.card.family}, parsing")
    return ParsingTarget(target.model, reader, card, given.get("batch_rows"), target.images)


def _usual_length(folder: CheckpointFolder) -> int:
    """Return the most tokens of an output, by the checkpoint's settings or our default."""
    settings = generation_of(folder)
    length = settings.max_new_tokens
    if not length and settings.max_length != _UNSET_LENGTH:
        length = settings.max_length
    return length if isinstance(length, int) and length > 0 else LONGEST_OUTPUT


def _first_token(folder: CheckpointFolder) -> str:
    """Return the start token of a vision encoder-decoder as its prompt; none of a Pix2Struct.

    It is used where nothing else says what the model is given.

    Raises:
        TargetError: the model is of another kind.
    """
    config = folder.config
    if config.get("model_type") == PROMPTLESS:
        return ""
    if config.get("model_type") != "vision-encoder-decoder":
        raise TargetError(*wording("no_parsing_prompt"))
    start = config.get("decoder_start_token_id")
    if start is None:
        start = (config.get("decoder") or {}).get("decoder_start_token_id")
    tokenizer = open_tokenizer(folder, ("eos",))
    return str(
        tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id if start is None else int(start))
    )


def _room_for_output(config: Any, reader: Reader, *, decodes: bool) -> int:
    """Return how many tokens of an output the model's positions allow beside the prompt."""
    text = config.get_text_config(decoder=True)
    positions = positions_of(text, _POSITIONS)
    if decodes:
        # The page, as tokens or patches, stands in the same row.
        return (positions or 2 * LONGEST_OUTPUT) // 2
    if positions is None:
        return LONGEST_OUTPUT
    prompt = reader.prompts([trial_sample()]).get("decoder_input_ids")
    return positions - OFFSET - (0 if prompt is None else int(prompt.shape[1]))
