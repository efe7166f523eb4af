"""Text-only models over a page's OCR words: decoders (Llama, Qwen, GPT-2) and encoder-decoders (T5, BART, LED).

A decoder is asked through its tokenizer's chat template, or in the very words of the manifest's
recipe; an encoder-decoder in T5's form for SQuAD (Raffel et al. 2020, appendix D.15) unless the
recipe says otherwise. A page that is too long loses its last words, never the question, as training
with truncation of the context has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from audit.corpus.bars import lines_of
from audit.corpus.documents import Word
from audit.errors import TargetError
from audit.targets import wording
from audit.targets.answering import reader as reading
from audit.targets.answering.layout import ROWS_KEPT, RowReader, SampleRow
from audit.targets.answering.processed import ends_of
from audit.targets.answering.templates import write_turns
from audit.targets.batching import STEP, bucket_of
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.loading import open_tokenizer, unpadded
from audit.targets.encoded_page import NOT_READ

TEXT = "{text}"
"""Stands for the page's text in a prompt."""
CHAT_PROMPT = f"{TEXT}\n\n{reading.QUESTION}"
"""The user's turn, when the manifest's recipe names none."""
SQUAD_PROMPT = f"question: {reading.QUESTION} context: {TEXT}"
"""What T5 is trained with on SQuAD (Raffel et al. 2020, appendix D.15)."""
MAX_TOKENS = 4096
"""The longest row that is read of models that would take longer ones (a densely written page has
2,000)."""
_SQUAD_TOKENS = 512
"""Of encoder-decoders that name no longest row: T5's in training."""
_POSITIONS = (
    "max_position_embeddings",
    "max_encoder_position_embeddings",
    "n_positions",
    "max_sequence_length",
)


def decoder_reader(
    folder: CheckpointFolder, config: Any, prompt: str | None, system: str | None = None
) -> reading.Reader:
    """Return the reader of a decoder.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: with "{text}" and "{question}": the user's turn where the tokenizer has a chat
            template, else, or where it holds marks of turns itself, all that the model is given;
            None: `CHAT_PROMPT`.
        system: the text of the system turn; None: what the template itself writes.

    Raises:
        TargetError: its tokenizer cannot be used, or nothing says how it is asked.
    """
    tokenizer = open_tokenizer(folder, ("eos",), config.get_text_config(decoder=True).vocab_size)
    if prompt is None and not tokenizer.chat_template:
        raise TargetError(*wording("no_text_template", folder=folder))
    longest = _longest_row(config, tokenizer, MAX_TOKENS)
    return DecoderReader(tokenizer, ends_of(folder, config, tokenizer), longest, prompt, system)


def encoder_decoder_reader(
    folder: CheckpointFolder, config: Any, prompt: str | None
) -> EncoderDecoderReader:
    """Return the reader of an encoder-decoder.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: with "{text}" and "{question}"; None: `SQUAD_PROMPT`.

    Raises:
        TargetError: its tokenizer cannot be used.
    """
    tokenizer = open_tokenizer(
        folder, ("eos", "pad"), config.get_text_config(decoder=True).vocab_size
    )
    return EncoderDecoderReader(
        tokenizer, _longest_row(config, tokenizer, _SQUAD_TOKENS), prompt or SQUAD_PROMPT
    )


def _longest_row(config: Any, tokenizer: Any, unnamed: int) -> int:
    """Return the longest row that the model and its tokenizer take, never more than `MAX_TOKENS`."""
    positions = reading.positions_of(config.get_text_config(), _POSITIONS)
    own = tokenizer.model_max_length
    limits = [
        MAX_TOKENS,
        *([positions] if positions else []),
        *([int(own)] if own < VERY_LARGE_INTEGER else []),
    ]
    return min(limits if len(limits) > 1 else [unnamed])


class TextPrompt:
    """What a model of text is given: the page's text and the question, in the places of a prompt.

    Attributes:
        text: the prompt.

    Args:
        text: holds "{text}" once; "{question}" where the question stands.
    """

    def __init__(self, text: str) -> None:
        if text.count(TEXT) != 1:
            raise TargetError(*wording("no_place_for_text"))
        self.text = text

    def parts(self, question: str) -> tuple[str, str]:
        """Return what stands before the page's text and behind it.

        The page's text may hold "{question}" itself.
        """
        before, after = self.text.split(TEXT)
        return before.replace(reading.QUESTION, question), after.replace(reading.QUESTION, question)

    def fill(self, text: str, question: str) -> str:
        """Put the page's text and the question into their places."""
        return text.join(self.parts(question))


class DecoderReader(reading.Reader):
    """A decoder: the answer goes on where the prompt ends.

    Prompts are filled on the left to a length that follows from their own, as `generate` needs it;
    samples with answers on the right.

    """

    needs_image = False
    needs_words = True
    whole_rows = True

    def __init__(
        self,
        tokenizer: Any,
        ends: frozenset[int],
        positions: int,
        prompt: str | None = None,
        system: str | None = None,
    ) -> None:
        super().__init__(tokenizer)
        self._prompt = TextPrompt(prompt or CHAT_PROMPT)
        self.max_tokens, self.max_new_tokens = (
            positions,
            min(reading.LONGEST_ANSWER, positions // 4),
        )
        self.scores = positions * len(tokenizer)
        self.ends, self.forbidden = ends, self.forbidden | ends
        pad, text = tokenizer.pad_token_id, self._prompt.text
        self._pad = int(tokenizer.eos_token_id if pad is None else pad)
        marks = [*self._marks.finditer(text)]
        self._turns = bool(tokenizer.chat_template) and not marks
        start, begins = around(tokenizer)[0], reading.tokens_of(tokenizer, text)
        self._start = [] if self._turns or begins[: len(start)] == start else start
        ended = text[-1:].isspace() or (marks and marks[-1].end() == len(text))
        self._gap = "" if self._turns or ended else " "
        self._system = [] if system is None else [{"role": "system", "content": system}]
        if system is not None and not (
            self._turns and system.strip() in self._render("", "a", None)
        ):
            raise TargetError(*wording("no_system_turn"))
        self._spelled = lru_cache(ROWS_KEPT)(self._spell)

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """See `Reader.prompts`: `input_ids` and `attention_mask`."""
        rows = [self._tokens(sample)[0][::-1] for sample in samples]
        mirrored = reading.with_mask(rows, self._pad, max(bucket_of(len(row)) for row in rows))
        return {name: value.flip(-1) for name, value in mirrored.items()}

    def taught(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """See `Reader.taught`."""
        pairs = [self._tokens(sample) for sample in samples]
        length = max(bucket_of(len(prompt) + len(answer)) for prompt, answer in pairs)
        unread = [
            0 if sample.whole else len(prompt)
            for sample, (prompt, _) in zip(samples, pairs, strict=True)
        ]
        own = [[*prompt, *answer] for prompt, answer in pairs]
        labels = [[NOT_READ] * n + row[n:] for n, row in zip(unread, own, strict=True)]
        return {
            **reading.with_mask(own, self._pad, length),
            "labels": reading.filled(labels, NOT_READ, length),
        }

    def alike(self, sample: reading.Sample) -> object:
        """See `Reader.alike`."""
        prompt, answer = self._tokens(sample)
        taught = (
            None
            if sample.answer is None
            else (bucket_of(len(prompt) + len(answer)), len(answer), sample.whole)
        )
        return bucket_of(len(prompt)), taught

    def n_of_page(self, sample: reading.Sample, ids: Sequence[int], most: int) -> int:
        """See `Reader.n_of_page`.

        Lengths are few, so that long pages that lose their end share most of it.
        """
        others = [
            self._tokens(replace(sample, question=text, answer=None))[0] for text in ("0", "a")
        ]
        n = min(most, *(reading.n_shared(ids, other) for other in others))
        step = max(STEP, 1 << n.bit_length() >> 5)
        return n // step * step

    def _tokens(self, sample: reading.Sample) -> tuple[list[int], list[int]]:
        """Return the prompt's tokens, and the answer's with its end; no answer: none."""
        return self._spelled(sample.view.words, sample.question, sample.answer, self.max_new_tokens)

    def _spell(
        self, words: tuple[Word, ...], question: str, answer: str | None, most: int
    ) -> tuple[list[int], list[int]]:
        asked = self._plain(question, self.max_tokens // 4)
        text = self._fitting(self._plain(text_of_words(words)), asked)
        prompt, whole = (
            self._render(text, asked, None),
            self._render(text, asked, self._plain(answer or "")),
        )
        if not whole.startswith(prompt):
            before, after = (
                reading.tokens_of(self.tokenizer, prompt),
                reading.tokens_of(self.tokenizer, whole),
            )
            after = after[reading.n_shared(before, after) :]
        else:
            before, after = reading.continued(self.tokenizer, prompt, whole[len(prompt) :])
        return [*self._start, *before], [] if answer is None else self._ended(after)[:most]

    def _ended(self, answer: list[int]) -> list[int]:
        """Return the answer with its end: what a template writes after the end of the turn is no answer."""
        last = max(
            (index for index, token in enumerate(answer) if token in self.ends), default=None
        )
        return [*answer, int(self.tokenizer.eos_token_id)] if last is None else answer[: last + 1]

    def _render(self, text: str, question: str, answer: str | None) -> str:
        """Return all that the model is given; with an answer, that and the answer."""
        asked = self._prompt.fill(text, question)
        if not self._turns:
            return asked if answer is None else asked + self._gap + answer
        turns = [*self._system, {"role": "user", "content": asked}]
        turns += [] if answer is None else [{"role": "assistant", "content": answer}]
        # Some templates let a model think aloud first, unless they are told not to.
        settings = {"add_generation_prompt": answer is None, "enable_thinking": False}
        return write_turns(self.tokenizer, turns, **settings)

    def _fitting(self, text: str, question: str) -> str:
        """Return the beginning of the page's text that leaves room for all else."""
        taken = self.max_new_tokens + len(
            reading.tokens_of(self.tokenizer, self._render("", question, None))
        )
        return whole_words(self.tokenizer, text, self.max_tokens - taken - len(self._start) - 1)


class EncoderDecoderReader(RowReader):
    """Implements `audit.targets.answering.reader.TokenReader`: an encoder that reads a page as running text.

    Words stand in one line, as the vocabularies of most encoder-decoders have no line ends.
    """

    needs_words = True

    def __init__(self, tokenizer: Any, positions: int, prompt: str = SQUAD_PROMPT) -> None:
        longest = min(reading.LONGEST_ANSWER, positions // 4)
        super().__init__(
            tokenizer, positions, longest, int(tokenizer.eos_token_id), int(tokenizer.pad_token_id)
        )
        self._prompt = TextPrompt(prompt)
        self.scores = positions * len(tokenizer)
        self._begin, self._after = around(tokenizer)
        self._close = self._after or self._close

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """See `Reader.prompts`: `input_ids` and `attention_mask`."""
        rows = [self._row(sample).ids for sample in samples]
        return reading.with_mask(rows, self._pad, max(bucket_of(len(row)) for row in rows))

    def _laid_out(
        self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str
    ) -> SampleRow:
        asked = self._plain(question, self.max_tokens // 4)
        texts = [self._plain(word.text) for word in words]
        overhead = (
            len(reading.tokens_of(self.tokenizer, self._prompt.fill("", asked)))
            + len(self._begin)
            + len(self._after)
        )
        text = whole_words(self.tokenizer, " ".join(texts), self.max_tokens - overhead - 1)
        row = unpadded(self.tokenizer).encode(
            self._prompt.fill(text, asked), add_special_tokens=False
        )
        begin = len(self._prompt.parts(asked)[0])
        word_at = words_at(texts, begin, begin + len(text))
        own = [word_of(offsets, word_at) for offsets in row.offsets]
        ids = [*self._begin, *row.ids, *self._after]
        return SampleRow(ids, [], [*[None] * len(self._begin), *own, *[None] * len(self._after)])


def text_of_words(words: Sequence[Word]) -> str:
    """Return the page's words in reading order: by line where boxes tell lines, else with the white space of a text."""
    if any(word.box is None for word in words):
        return "".join(f"{word.text}{word.after}" for word in words).rstrip()
    return "\n".join(" ".join(words[index].text for index in line) for line in lines_of(words))


def words_at(texts: Sequence[str], begin: int, end: int) -> dict[int, int]:
    """Return the index of the word at each character of a prompt, for words in one line from `begin` to `end`."""
    found: dict[int, int] = {}
    for index, text in enumerate(texts):
        found |= dict.fromkeys(range(begin, min(begin + len(text), end)), index)
        begin += len(text) + 1
    return found


def word_of(offsets: tuple[int, int], word_at: dict[int, int]) -> int | None:
    """Return the word that a token belongs to: that of its first character that is in one.

    None: none is.
    """
    return next((word_at[place] for place in range(*offsets) if place in word_at), None)


def around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer puts before a text and behind it."""
    whole, bare = tokenizer("a")["input_ids"], reading.tokens_of(tokenizer, "a")
    place = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), 0)
    return list(whole[:place]), list(whole[place + len(bare) :])


def whole_words(tokenizer: Any, text: str, n_tokens: int) -> str:
    """Return the beginning of the text that has at most `n_tokens` tokens and ends with a whole word."""
    short = reading.first_tokens(tokenizer, text, n_tokens)
    if len(short) == len(text) or text[len(short)].isspace():
        return short.rstrip()
    cut = max(short.rfind(" "), short.rfind("\n"), 0)
    return short[:cut].rstrip()
