"""VT5's input of a page and a question (see `vt5`).

It is as in the authors' code, `prepare_inputs_for_vqa`.
"""

from typing import Any

from audit.corpus.documents import Box, Word
from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.extensions.papers.vt5 import VT5Config, VT5ForConditionalGeneration
from audit.targets.answering import layout
from audit.targets.answering.loading import AnsweringFamily
from audit.targets.answering.pictures import image_processor_of
from audit.targets.answering.reader import QUESTION
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.loading import unpadded

WORDS = "{words}"
PROMPT = f"question: {QUESTION}  context: {WORDS}"
"""As in the authors' code. Several spaces read as one, as T5's own tokenizer has it; fast versions
of it differ."""
WHOLE_PAGE: Box = (0, 0, layout.BOX_SCALE, layout.BOX_SCALE)
"""Of the prompt's tokens, as in the authors' code: a question belongs to no place on the page."""


class VT5Reader(layout.LayoutReader):
    """Implements `audit.targets.answering.reader.TokenReader` for VT5.

    The prompt's tokens come first, then those of each word, tokenised word by word, with the word's
    box; the end token is last. What is too long loses its last words. The answer is tokenised as it
    is written.

    Args:
        tokenizer: a fast tokenizer; its own special tokens, such as BERT's [CLS], are not used.
        config: names the end and padding tokens and the longest input.
        prompt: ends with "{words}" and holds "{question}".
        images: makes the page's image; None: a model of text and layout.
    """

    def __init__(
        self,
        tokenizer: Any,
        config: VT5Config,
        prompt: str = PROMPT,
        images: layout.PageImages | None = None,
    ) -> None:
        """Take the tokenizer and the prompt; refuse a prompt that the model was not taught."""
        if QUESTION not in prompt or not prompt.endswith(WORDS):
            raise TargetError(
                f"VT5's prompt holds {QUESTION} and ends with {WORDS}", f"as in {PROMPT!r}"
            )
        super().__init__(tokenizer, config, images, config.max_input_tokens)
        self._prompt = prompt.removesuffix(WORDS)
        self._n_visual = config.n_visual

    def _laid_out(
        self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str
    ) -> layout.SampleRow:
        """Return the row of tokens and boxes for a question, the page's words and the end."""
        prompt = " ".join(self._prompt.replace(QUESTION, self._marks.sub(" ", question)).split())
        asked: list[int] = unpadded(self.tokenizer).encode(prompt, add_special_tokens=False).ids
        page = layout.tokens_of_words(self.tokenizer, self._marks, words)
        boxes = layout.boxes_of(PageView(words, size))
        ids = [*asked, *page.ids][: self.max_tokens - 1]
        token_boxes = [*[WHOLE_PAGE] * len(asked), *(boxes[word] for word in page.words)][
            : self.max_tokens - 1
        ]
        own = [*[None] * len(asked), *page.words][: self.max_tokens - 1]
        return layout.SampleRow([*ids, self._end], [*token_boxes, layout.NOWHERE], [*own, None])


def reader_of(folder: CheckpointFolder, config: VT5Config, prompt: str | None = None) -> VT5Reader:
    """Return the reader that turns pages into a checkpoint's inputs.

    Args:
        folder: holds tokenizer.json and, for a model with a visual branch,
            preprocessor_config.json.
        config: the checkpoint's.
        prompt: prompt in place of `PROMPT`.

    Raises:
        TargetError: they cannot be used, or are not the model's; or see `VT5Reader`.
    """
    visual: Any = config.visual
    images = (
        None
        if visual is None
        else layout.PageImages(image_processor_of(folder), layout.side_lengths(visual.image_size))
    )
    return VT5Reader(
        layout.load_fast_tokenizer(folder, config),
        config,
        PROMPT if prompt is None else prompt,
        images,
    )


FAMILY = AnsweringFamily("VT5", VT5ForConditionalGeneration, reader_of, denoises=True, parses=False)
