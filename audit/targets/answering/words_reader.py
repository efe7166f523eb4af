"""Text-only models over a page's OCR words.

They are decoders (Llama, Qwen, GPT-2) and encoder-decoders (T5, BART, LED).

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
from audit.corpus.images import PageView
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
    """Return the reader of a page's words for a decoder, by chat template or by prompt.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: prompt with "{text}" and "{question}": the user's turn where the tokenizer has a
            chat template, else, or where it holds marks of turns itself, all that the model is
            given; None: `CHAT_PROMPT`.
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
    """Return the reader of a page's words for an encoder-decoder.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: prompt with "{text}" and "{question}"; None: `SQUAD_PROMPT`.

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
    """Return the most tokens of a row that the model and its tokenizer take.

    It is never more than `MAX_TOKENS`.
    """
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
        """Keep the prompt, and refuse one without exactly one place for the page's text."""
        if text.count(TEXT) != 1:
            raise TargetError(*wording("no_place_for_text"))
        self.text = text

    def parts(self, question: str) -> tuple[str, str]:
        """Return the prompt before and after the page's text, with the question filled in.

        The page's text may hold "{question}" itself.
        """
        before, after = self.text.split(TEXT)
        return before.replace(reading.QUESTION, question), after.replace(reading.QUESTION, question)

    def fill(self, text: str, question: str) -> str:
        """Return the prompt with the page's text and the question filled in."""
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
        self.max_tokens = positions
        self.max_new_tokens = min(reading.LONGEST_ANSWER, positions // 4)
        self.scores = positions * len(tokenizer)
        self.ends = ends
        self.forbidden = self.forbidden | ends
        pad = tokenizer.pad_token_id
        self._pad = int(tokenizer.eos_token_id if pad is None else pad)
        text = self._prompt.text
        marks = [*self._marks.finditer(text)]
        self._turns = bool(tokenizer.chat_template) and not marks
        self._start = self._tokens_before(text)
        ends_alone = text[-1:].isspace() or (marks and marks[-1].end() == len(text))
        self._gap = "" if self._turns or ends_alone else " "
        self._system: list[dict[str, str]] = []
        if system is not None:
            self._system = [{"role": "system", "content": system}]
            self._check_system(system)
        self._spelled = lru_cache(ROWS_KEPT)(self._spell)
        self._spelled_at_page_end = lru_cache(ROWS_KEPT)(self._spell_at_page_end)

    def _tokens_before(self, text: str) -> list[int]:
        """Return the special tokens that the row needs before a prompt.

        None where the prompt or a template writes them.
        """
        if self._turns:
            return []
        start = around(self.tokenizer)[0]
        begins = reading.tokens_of(self.tokenizer, text)
        return [] if begins[: len(start)] == start else start

    def _check_system(self, system: str) -> None:
        """Refuse a system text where no chat template writes it into the prompt.

        Raises:
            TargetError: it is not written.
        """
        if not self._turns or system.strip() not in self._render("", "a", None):
            raise TargetError(*wording("no_system_turn"))

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return `input_ids` and `attention_mask` of prompts, padded on the left."""
        rows = [self._tokens(sample)[0][::-1] for sample in samples]
        mirrored = reading.with_mask(rows, self._pad, max(bucket_of(len(row)) for row in rows))
        return {name: value.flip(-1) for name, value in mirrored.items()}

    def taught(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the inputs of `forward`: rows of prompt and answer, with the answer as labels."""
        pairs = [self._tokens(sample) for sample in samples]
        length = max(bucket_of(len(prompt) + len(answer)) for prompt, answer in pairs)
        unread = [
            0 if sample.whole else len(prompt)
            for sample, (prompt, _) in zip(samples, pairs, strict=True)
        ]
        rows = [[*prompt, *answer] for prompt, answer in pairs]
        labels = [[NOT_READ] * n + row[n:] for n, row in zip(unread, rows, strict=True)]
        return {
            **reading.with_mask(rows, self._pad, length),
            "labels": reading.filled(labels, NOT_READ, length),
        }

    def alike(self, sample: reading.Sample) -> object:
        """Return padded lengths of prompt and of prompt with answer as a batching key."""
        prompt, answer = self._tokens(sample)
        if sample.answer is None:
            return bucket_of(len(prompt)), None
        taught = (bucket_of(len(prompt) + len(answer)), len(answer), sample.whole)
        return bucket_of(len(prompt)), taught

    def n_of_page(self, sample: reading.Sample, ids: Sequence[int], most: int) -> int:
        """Return how many first tokens of a row, `most` at most, other questions share.

        Lengths are few, so that long pages that lose their end share most of it.
        """
        n = most
        for question in ("0", "a"):
            row = self._tokens(replace(sample, question=question, answer=None))[0]
            n = min(n, reading.n_shared(ids, row))
        step = max(STEP, 1 << n.bit_length() >> 5)
        return n // step * step

    def _tokens(self, sample: reading.Sample) -> tuple[list[int], list[int]]:
        """Return the tokens of a sample's prompt, and of its answer with its end, if it has one."""
        spell = self._spelled_at_page_end if sample.at_page_end else self._spelled
        return spell(sample.view.words, sample.question, sample.answer, self.max_new_tokens)

    def _spell(
        self, words: tuple[Word, ...], question: str, answer: str | None, most: int
    ) -> tuple[list[int], list[int]]:
        """Return the tokens of prompt and answer; of the answer `most` tokens at most."""
        plain_question = self._plain(question, self.max_tokens // 4)
        text = self._fitting(self._plain(text_of_words(words)), plain_question)
        prompt = self._render(text, plain_question, None)
        row = self._render(text, plain_question, self._plain(answer or ""))
        if row.startswith(prompt):
            before, after = reading.continued(self.tokenizer, prompt, row[len(prompt) :])
        else:
            before = reading.tokens_of(self.tokenizer, prompt)
            after = reading.tokens_of(self.tokenizer, row)
            after = after[reading.n_shared(before, after) :]
        tokens = [*self._start, *before]
        if answer is None:
            return tokens, []
        return tokens, self._ended(after)[:most]

    def _spell_at_page_end(
        self, words: tuple[Word, ...], question: str, answer: str | None, most: int
    ) -> tuple[list[int], list[int]]:
        """Return the tokens up to the page's last word, and of the answer behind it."""
        plain_question = self._plain(question, self.max_tokens // 4)
        text = self._fitting(self._plain(text_of_words(words)), plain_question)
        head = self._render(TEXT, plain_question, None).partition(TEXT)[0]
        before, after = reading.continued(
            self.tokenizer, head + text, f" {self._plain(answer or '')}"
        )
        tokens = [*self._start, *before]
        if answer is None:
            return tokens, []
        return tokens, after[:most]

    def _ended(self, answer: list[int]) -> list[int]:
        """Return the answer's tokens up to its end token, which is added where it lacks.

        What a template writes after the end of the turn is no answer.
        """
        ends = [index for index, token in enumerate(answer) if token in self.ends]
        if not ends:
            return [*answer, int(self.tokenizer.eos_token_id)]
        return answer[: ends[-1] + 1]

    def _render(self, text: str, question: str, answer: str | None) -> str:
        """Return the prompt's text, followed by the answer where there is one."""
        prompt = self._prompt.fill(text, question)
        if not self._turns:
            return prompt if answer is None else prompt + self._gap + answer
        turns = [*self._system, {"role": "user", "content": prompt}]
        if answer is not None:
            turns.append({"role": "assistant", "content": answer})
        # Some templates let a model think aloud first, unless they are told not to.
        settings = {"add_generation_prompt": answer is None, "enable_thinking": False}
        return write_turns(self.tokenizer, turns, **settings)

    def count_words(self, view: PageView, question: str) -> int:
        """Count the words of a page that stand in the row that asks a question."""
        text = self._plain(text_of_words(view.words))
        plain_question = self._plain(question, self.max_tokens // 4)
        share = len(self._fitting(text, plain_question).split()) / max(1, len(text.split()))
        return round(share * len(view.words))

    def _fitting(self, text: str, question: str) -> str:
        """Return the beginning of the page's text that fits a row with question and answer."""
        around_text = reading.tokens_of(self.tokenizer, self._render("", question, None))
        n_more = self.max_new_tokens + len(around_text) + len(self._start) + 1
        return whole_words(self.tokenizer, text, self.max_tokens - n_more)


class EncoderDecoderReader(RowReader):
    """An encoder that reads a page as running text.

    Implements `audit.targets.answering.reader.TokenReader`.

    Words stand in one line, as the vocabularies of most encoder-decoders have no line ends.
    """

    needs_words = True

    def __init__(self, tokenizer: Any, positions: int, prompt: str = SQUAD_PROMPT) -> None:
        """Find the special tokens around a text, and the longest answer."""
        longest = min(reading.LONGEST_ANSWER, positions // 4)
        super().__init__(
            tokenizer, positions, longest, int(tokenizer.eos_token_id), int(tokenizer.pad_token_id)
        )
        self._prompt = TextPrompt(prompt)
        self.scores = positions * len(tokenizer)
        self._begin, self._after = around(tokenizer)
        self._close = self._after or self._close

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return `input_ids` and `attention_mask` of prompts, padded on the right."""
        rows = [self._row(sample).ids for sample in samples]
        return reading.with_mask(rows, self._pad, max(bucket_of(len(row)) for row in rows))

    def _laid_out(
        self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str
    ) -> SampleRow:
        """Return the row of a question and a page, with the word of each token."""
        plain_question = self._plain(question, self.max_tokens // 4)
        texts = [self._plain(word.text) for word in words]
        prompt = reading.tokens_of(self.tokenizer, self._prompt.fill("", plain_question))
        overhead = len(prompt) + len(self._begin) + len(self._after)
        text = whole_words(self.tokenizer, " ".join(texts), self.max_tokens - overhead - 1)
        row = unpadded(self.tokenizer).encode(
            self._prompt.fill(text, plain_question), add_special_tokens=False
        )
        begin = len(self._prompt.parts(plain_question)[0])
        word_at = words_at(texts, begin, begin + len(text))
        of_tokens = [word_of(offsets, word_at) for offsets in row.offsets]
        ids = [*self._begin, *row.ids, *self._after]
        n_before = len(self._begin)
        n_after = len(self._after)
        return SampleRow(ids, [], [*[None] * n_before, *of_tokens, *[None] * n_after])


def text_of_words(words: Sequence[Word]) -> str:
    """Return the page's words as one text in reading order.

    By line where boxes tell lines, else with the white space of a text.
    """
    if any(word.box is None for word in words):
        return "".join(f"{word.text}{word.after}" for word in words).rstrip()
    texts = [word.text for word in words]
    lines = [" ".join(map(texts.__getitem__, indices)) for indices in lines_of(words)]
    return "\n".join(lines)


def words_at(texts: Sequence[str], begin: int, end: int) -> dict[int, int]:
    """Return, by position in the prompt, the index of the word whose character stands there.

    Words stand in one line from `begin` to `end`.
    """
    word_at: dict[int, int] = {}
    for index, text in enumerate(texts):
        word_at |= dict.fromkeys(range(begin, min(begin + len(text), end)), index)
        begin += len(text) + 1
    return word_at


def word_of(offsets: tuple[int, int], word_at: dict[int, int]) -> int | None:
    """Return the index of the word that a token belongs to, by the token's characters.

    None: none is.
    """
    return next((word_at[place] for place in range(*offsets) if place in word_at), None)


def around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer puts before a text and behind it."""
    whole, bare = tokenizer("a")["input_ids"], reading.tokens_of(tokenizer, "a")
    place = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), 0)
    return list(whole[:place]), list(whole[place + len(bare) :])


def whole_words(tokenizer: Any, text: str, n_tokens: int) -> str:
    """Return the beginning of the text that has at most `n_tokens` tokens.

    It ends with a whole word.
    """
    short = reading.first_tokens(tokenizer, text, n_tokens)
    if len(short) == len(text) or text[len(short)].isspace():
        return short.rstrip()
    cut = max(short.rfind(" "), short.rfind("\n"), 0)
    return short[:cut].rstrip()
