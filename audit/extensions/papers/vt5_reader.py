"""VT5's input of a page and a question, as in the authors' code, `prepare_inputs_for_vqa` (see `vt5`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.corpus.documents import Box, Word
from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.extensions.papers.vt5 import VT5Config, VT5ForConditionalGeneration
from audit.targets.answering.layout import (
    BOX_SCALE,
    NOWHERE,
    LayoutReader,
    PageImages,
    SampleRow,
    boxes_of,
    load_fast_tokenizer,
    padded,
    side_lengths,
    tokens_of_words,
)
from audit.targets.answering.loading import AnsweringFamily
from audit.targets.answering.pictures import image_processor_of
from audit.targets.answering.reader import QUESTION, Inputs, Sample
from audit.targets.batching import bucket_of
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.loading import unpadded

WORDS = "{words}"
PROMPT = f"question: {QUESTION}  context: {WORDS}"
"""As in the authors' code. Several spaces read as one, as T5's own tokenizer has it; fast versions of it differ."""
WHOLE_PAGE: Box = (0, 0, BOX_SCALE, BOX_SCALE)
"""Of the prompt's tokens, as in the authors' code: a question belongs to no place on the page."""


class VT5Reader(LayoutReader):
    """Implements `audit.targets.answering.reader.TokenReader` for VT5.

    The prompt's tokens come first, then those of each word, tokenised word by word, with the word's box; the end token
    is last. What is too long loses its last words. The answer is tokenised as it is written.

    Args:
        tokenizer: a fast tokenizer; its own special tokens, such as BERT's [CLS], are not used.
        config: names the end and padding tokens and the longest input.
        prompt: ends with "{words}" and holds "{question}".
        images: makes the page's image; None: a model of text and layout.
    """

    def __init__(
        self, tokenizer: Any, config: VT5Config, prompt: str = PROMPT, images: PageImages | None = None
    ) -> None:
        if QUESTION not in prompt or not prompt.endswith(WORDS):
            raise TargetError(f"VT5's prompt holds {QUESTION} and ends with {WORDS}", f"as in {PROMPT!r}")
        super().__init__(tokenizer, config, images, config.max_input_tokens)
        self._prompt = prompt.removesuffix(WORDS)
        self._n_visual = config.n_visual

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`: `input_ids`, `bbox`, `attention_mask`, and `pixel_values` where the model sees."""
        rows = [self._row(sample) for sample in samples]
        inputs = padded(rows, max(map(self._bucket, rows)), self._pad)
        if self._images is not None:
            inputs["pixel_values"] = self._images(samples)
        return inputs

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`: the bucket of the row's own length, and the number of tokens of the answer."""
        return self._bucket(self._row(sample)), None if sample.answer is None else len(self._answer(sample))

    def _bucket(self, row: SampleRow) -> int:
        """Always longer than the row, and with the visual tokens full blocks (see `audit.targets.batching`)."""
        return bucket_of(len(row.ids), self._n_visual)

    def _laid_out(self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str) -> SampleRow:
        prompt = " ".join(self._prompt.replace(QUESTION, self._marks.sub(" ", question)).split())
        asked: list[int] = unpadded(self.tokenizer).encode(prompt, add_special_tokens=False).ids
        page, boxes = tokens_of_words(self.tokenizer, self._marks, words), boxes_of(PageView(words, size))
        ids = [*asked, *page.ids][: self.max_tokens - 1]
        token_boxes = [*[WHOLE_PAGE] * len(asked), *(boxes[word] for word in page.words)][: self.max_tokens - 1]
        own = [*[None] * len(asked), *page.words][: self.max_tokens - 1]
        return SampleRow([*ids, self._end], [*token_boxes, NOWHERE], [*own, None])


def reader_of(folder: CheckpointFolder, config: VT5Config, prompt: str | None = None) -> VT5Reader:
    """Return the reader of a checkpoint.

    Args:
        folder: holds tokenizer.json and, for a model with a visual branch, preprocessor_config.json.
        config: the checkpoint's.
        prompt: in place of `PROMPT`.

    Raises:
        TargetError: they cannot be used, or are not the model's; or see `VT5Reader`.
    """
    visual: Any = config.visual
    images = None if visual is None else PageImages(image_processor_of(folder), side_lengths(visual.image_size))
    return VT5Reader(load_fast_tokenizer(folder, config), config, PROMPT if prompt is None else prompt, images)


FAMILY = AnsweringFamily("VT5", VT5ForConditionalGeneration, reader_of, denoises=True, parses=False)
