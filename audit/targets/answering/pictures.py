"""Open processors of page images, and read pages by their image alone.

The readers are of Donut (Kim et al. 2022) and its kin, and of Pix2Struct (Lee et al. 2023).

Donut's question opens the text that its decoder goes on with; Pix2Struct's is drawn above the page
each time, so that it stays when parts of the page are blanked.

<s_docvqa><s_question>What is the total?</s_question><s_answer>   9.00</s_answer></s>
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import ImageFont

from audit.corpus.images import MAX_PIXELS
from audit.errors import TargetError
from audit.files import shipped_folder
from audit.targets import wording
from audit.targets.answering import reader as reading
from audit.targets.asked import DONUT_MARKS
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import open_tokenizer
from audit.targets.checkpoint.safety import DAMAGE, beyond_measure, one_line, quiet, refuse_panics
from audit.targets.encoded_page import NOT_READ

_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_MOST_PIXELS = 2**25
"""Of the picture that a processor makes of a page: twice as many as any published model sees."""
_VISION = ("torchvision", "num2words")
"""Libraries that some processors need, in the order in which they ask for them; docaudit's extra
"vision" has both."""


def image_processor_of(folder: AnyFolder) -> Any:
    """Open the checkpoint's image processor, which turns a page's image into pixel values.

    It works on PIL images, without torchvision.

    Raises:
        TargetError: the folder has none, or its settings cannot be used.
    """
    return _open_part(
        folder,
        "image processor",
        partial(transformers.AutoImageProcessor.from_pretrained, backend="pil"),
    )


def processor_of(folder: AnyFolder, n_vocabulary: int) -> Any:
    """Return the checkpoint's whole processor as transformers loads it.

    Tokenizer and chat template are included.

    Raises:
        TargetError: the folder has none, its settings cannot be used, a library is missing, or see
            `open_tokenizer`.
    """
    open_tokenizer(folder, ("pad", "eos"), n_vocabulary)
    return _open_part(folder, "processor", transformers.AutoProcessor.from_pretrained)


def _open_part(folder: AnyFolder, part: str, open_it: Callable[..., Any]) -> Any:
    """Return a part of the checkpoint's processor, opened without running its code.

    Args:
        folder: the checkpoint.
        part: the part in words, for errors.
        open_it: opens the part from a folder, as transformers does.
    """
    folder = open_checkpoint(folder)
    hint = "save the model's processor beside it (processor.save_pretrained)"
    _refuse_beyond_measure(folder)
    if not any((folder.path / name).is_file() for name in _PROCESSORS):
        raise TargetError(f"{folder}: no {' or '.join(_PROCESSORS)}", hint)
    with quiet(), refuse_panics(folder, f"the {part} cannot be loaded", hint):
        try:
            return open_it(folder.path, local_files_only=True, trust_remote_code=False)
        except DAMAGE as error:
            library = _lacking(error)
            if library is not None:
                raise TargetError(
                    *wording("needs_library", folder=folder, part=part, library=library)
                ) from None
            raise TargetError(
                f"{folder}: the {part} cannot be loaded: {one_line(error)}", hint
            ) from None


def _refuse_beyond_measure(folder: CheckpointFolder) -> None:
    """Refuse a processor whose settings ask for pictures of too many pixels.

    They have more pixels than a page may have, or more tokens than any model.
    """
    for path in (folder.path / name for name in _PROCESSORS):
        try:
            settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            most, problem = max(_pixels(settings), default=0), next(beyond_measure(settings), None)
        except (OSError, ValueError, RecursionError):
            raise TargetError(f"{path}: not readable as JSON") from None
        if problem is not None:
            raise TargetError(f"{path}: {problem}", "correct it to what the model was saved with")
        if most > _MOST_PIXELS:
            raise TargetError(
                f"{path}: asks for pictures of {most:,} pixels, and {_MOST_PIXELS:,} are the most"
            )


def _pixels(settings: Any) -> Iterator[int]:
    """Yield the number of pixels of each picture that a processor's settings ask for."""
    if isinstance(settings, dict):
        sides = [settings.get("height"), settings.get("width")]
        for given in (sides, *(settings.get(name) for name in ("size", "crop_size"))):
            height, width = given if isinstance(given, list) and len(given) == 2 else (given, given)
            if isinstance(height, int) and isinstance(width, int):
                yield height * width
        for value in settings.values():
            yield from _pixels(value)


def _lacking(error: BaseException) -> str | None:
    """Return the missing library that an error of transformers asks for; None for other errors."""
    return next(
        (name for name in _VISION if name in str(error).lower() and find_spec(name) is None), None
    )


def resolution_of(image_processor: Any) -> tuple[int, int] | None:
    """Return height and width in pixels of the images that an image processor makes.

    None when they are of several sizes.
    """
    size = getattr(image_processor, "size", None) or {}
    height, width = (size.get(name) for name in ("height", "width"))
    return None if height is None or width is None else (int(height), int(width))


def image_of(sample: reading.Sample) -> Any:
    """Return the page's image as an array for an image processor: (height, width, 3), uint8.

    Raises:
        TargetError: the page has none.
    """
    image = sample.view.image
    if image is None:
        raise TargetError(
            "a page without an image cannot be asked about", "give every document an image"
        )
    return np.asarray(image.convert("RGB"))


DONUT_PROMPT = "<s_docvqa><s_question>{question}</s_question><s_answer>"
"""What Donut is fine-tuned with on DocVQA."""
_END = "</s_answer>"
OFFSET = 2
"""Positions that some decoders (RoBERTa's and its kin) count before the first token."""


def donut_reader(folder: CheckpointFolder, config: Any, prompt: str | None) -> DonutReader:
    """Return the reader of page images for a vision encoder-decoder such as Donut.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: prompt with "{question}" in it; None: Donut's.

    Raises:
        TargetError: its tokenizer or its image processor cannot be used, the prompt does not fit,
            or there is none and the tokenizer does not know Donut's marks.
    """
    tokenizer = open_tokenizer(folder, ("pad", "eos"), config.decoder.vocab_size)
    if prompt is None and not all(mark in tokenizer.get_vocab() for mark in DONUT_MARKS):
        raise TargetError(*wording("no_question_marks", folder=folder))
    return DonutReader(image_processor_of(folder), tokenizer, config, prompt or DONUT_PROMPT)


class DonutReader(reading.Reader):
    """See `audit.targets.answering.reader.Reader`."""

    def __init__(self, image_processor: Any, tokenizer: Any, config: Any, prompt: str) -> None:
        """Find the tokens that begin, part and end the decoder's text."""
        super().__init__(tokenizer)
        self._images = image_processor
        self._prompt = prompt
        known = tokenizer.get_vocab()
        self._end = [*([known[_END]] if _END in known else []), tokenizer.eos_token_id]
        self.ends = frozenset(self._end)
        self._pad_id: int = tokenizer.pad_token_id
        self._is_donut = "donut" in str(config.encoder.model_type)
        named = [getattr(part, "decoder_start_token_id", None) for part in (config, config.decoder)]
        candidates = (*named, getattr(config.decoder, "bos_token_id", None))
        self._start = [
            int(
                next(
                    (number for number in candidates if number is not None), tokenizer.eos_token_id
                )
            )
        ]
        # Text, unlike a mark, is parted from the answer by a space.
        self._gap = (
            ""
            if reading.tokens_of(tokenizer, self._prompt)[-1:] in [[n] for n in self.forbidden]
            else " "
        )
        self.resolution = resolution_of(image_processor)
        self.max_tokens = int(
            getattr(config.decoder, "max_position_embeddings", 0) or 2 * reading.LONGEST_ANSWER
        )
        self.max_new_tokens = min(reading.LONGEST_ANSWER, self.max_tokens // 2)
        # The same question is put to many views of its page, and each of them is sorted by length
        # before it is read.
        self._spelled = lru_cache(maxsize=4096)(self._spell)
        self._longest_question = (
            self.max_tokens - OFFSET - self.max_new_tokens - len(self._asked("")[0])
        )
        if self._longest_question < 1:
            raise TargetError(*wording("no_room", max_tokens=self.max_tokens))

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the inputs of `generate`: page images, and prompts with the questions."""
        prompts = [self._tokens(sample)[0] for sample in samples]
        return {
            **self._pages(samples),
            "decoder_input_ids": torch.tensor(prompts, dtype=torch.long),
        }

    def taught(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the inputs of `forward`: page images, and rows whose labels are the answers."""
        pairs = [self._tokens(sample) for sample in samples]
        return {
            **self._pages(samples),
            "decoder_input_ids": reading.filled(
                [[*prompt, *answer[:-1]] for prompt, answer in pairs], self._pad_id
            ),
            "labels": reading.filled(
                [[*[NOT_READ] * (len(prompt) - 1), *answer] for prompt, answer in pairs], NOT_READ
            ),
        }

    def alike(self, sample: reading.Sample) -> object:
        """Return the numbers of tokens of prompt and answer as a batching key."""
        return tuple(map(len, self._tokens(sample)))

    def _pages(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the encoded pages where all samples have them, else the pixels of their images."""
        encoded = [sample.encoded for sample in samples if sample.encoded is not None]
        return (
            {reading.ENCODED: torch.stack(encoded)}
            if len(encoded) == len(samples)
            else self.pictures(samples)
        )

    def pictures(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the encoder's inputs: pixels of the pages, as the processor scales them."""
        pages = [image_of(sample) for sample in samples]
        return {
            "pixel_values": self._images(
                pages, input_data_format="channels_last", return_tensors="pt"
            ).pixel_values
        }

    def _tokens(self, sample: reading.Sample) -> tuple[list[int], list[int]]:
        """Return the tokens of a sample's prompt, and of its answer with its end, if it has one."""
        return self._spelled(sample.question, sample.answer)

    def _spell(self, question: str, answer: str | None) -> tuple[list[int], list[int]]:
        """Return tokens of prompt and answer, with question and answer cut to their longest."""
        prompt, tokens = self._asked(self._plain(question, self._longest_question), answer)
        return prompt, tokens[: self.max_new_tokens]

    def _asked(self, question: str, answer: str | None = None) -> tuple[list[int], list[int]]:
        """Return the tokens of a prompt from its start token on, and of an answer to its end."""
        text = None if answer is None else self._gap + self._plain(answer)
        prompt, tokens = reading.continued(
            self.tokenizer, self._prompt.replace(reading.QUESTION, question), text or ""
        )
        # A mark of Donut's task takes the place of the token that the decoder's text begins with.
        with_task = self._is_donut and bool(prompt) and prompt[0] in self.forbidden
        start = [] if prompt[:1] == self._start or with_task else self._start
        return [*start, *prompt], [] if text is None else [*tokens, *self._end]


LONGEST_HEADER = 1000
"""Characters of a question that are drawn: twelve lines of the eighty characters a line holds."""
_FONT = "DejaVuSans.ttf"
_LINE, _LETTER, _MARGINS = 80, 36, 10
"""Characters of a line, and pixels of the widest letter and of both margins, as transformers draws
a header."""


def pix2struct_reader(
    folder: CheckpointFolder, config: Any, prompt: str | None
) -> Pix2StructReader:
    """Return the reader of page images with drawn questions for a Pix2Struct.

    The header is drawn with the font file in the checkpoint's folder (Google's have used Arial),
    else with DejaVu Sans.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: what is drawn, with "{question}" in it; None: the question alone; empty: nothing.

    Raises:
        TargetError: its tokenizer, image processor or font cannot be used.
    """
    tokenizer = open_tokenizer(folder, ("pad", "eos"), config.text_config.vocab_size)
    return Pix2StructReader(image_processor_of(folder), tokenizer, font_of(folder.path), prompt)


def font_of(folder: Path) -> bytes:
    """Return the bytes of the font that a checkpoint's questions are drawn in.

    It is its own, or the shipped one.

    Raises:
        TargetError: its own is not readable as a font.
    """
    own = sorted(
        path for path in folder.iterdir() if path.suffix.lower() == ".ttf" and path.is_file()
    )
    if not own:
        return (shipped_folder("templates") / "fonts" / _FONT).read_bytes()
    font = own[0].read_bytes()
    try:
        ImageFont.truetype(io.BytesIO(font))
    except OSError:
        raise TargetError(
            f"{own[0]}: not readable as a font", "give a TrueType font, or take the file away"
        ) from None
    return font


class Pix2StructReader(reading.ApartReader):
    """See `audit.targets.answering.reader.Reader`."""

    max_new_tokens: int = reading.LONGEST_ANSWER

    def __init__(
        self, image_processor: Any, tokenizer: Any, font: bytes, prompt: str | None = None
    ) -> None:
        super().__init__(tokenizer)
        self._images = image_processor
        self._font = font
        if prompt is None:
            prompt = reading.QUESTION
        self._prompt = prompt
        self._close = [*self.ends]
        self.max_tokens = int(image_processor.max_patches)

    def prompts(self, samples: Sequence[reading.Sample]) -> reading.Inputs:
        """Return the image patches of pages, with each question drawn above its page."""
        pages = [self._with_header(sample) for sample in samples]
        read = self._images(
            pages, is_vqa=False, input_data_format="channels_first", return_tensors="pt"
        )
        return {
            "flattened_patches": read["flattened_patches"],
            "attention_mask": read["attention_mask"],
        }

    def alike(self, sample: reading.Sample) -> object:
        """Return the answer's length as a batching key: all images have equally many patches."""
        return None if sample.answer is None else len(self._answer(sample))

    def _with_header(self, sample: reading.Sample) -> Any:
        """Return the page's image with its question drawn above: (3, height, width), uint8."""
        page = np.moveaxis(image_of(sample), -1, 0)
        header = self._prompt.replace(reading.QUESTION, sample.question)[:LONGEST_HEADER]
        if not self._prompt:
            return page
        height, width = page.shape[1:]
        # The page is made as wide as the header is: a strip of a few pixels would grow beyond all
        # bounds.
        growth = max(1.0, (min(_LINE, len(header)) * _LETTER + _MARGINS) / width)
        if height * width * growth**2 > MAX_PIXELS:
            raise TargetError(
                f"a page of {width} x {height} pixels is too narrow to draw a question above it"
            )
        return self._images.render_header(page, header, font_bytes=self._font)
