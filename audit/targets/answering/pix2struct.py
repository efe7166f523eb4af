"""Pix2Struct (Lee et al. 2023): the question is drawn above the page, and the model sees one image.

The header is drawn here each time, above whatever the page looks like now: it stays when parts of the page are blanked.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ImageFont

from audit.corpus.images import MAX_PIXELS
from audit.errors import TargetError
from audit.targets.answering.parts import image_of, image_processor_of, padded, tokenizer_of
from audit.targets.answering.reader import Inputs, Sample
from audit.targets.answering.wording import LONGEST_ANSWER, QUESTION, plain, special_tokens, tokens_of
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.encoded_page import NOT_READ

PROMPT = QUESTION
"""What Pix2Struct is fine-tuned with on DocVQA: the bare question."""
LONGEST_HEADER = 1000
"""Characters of a question that are drawn (ours): twelve lines of the eighty characters a line holds."""
_FONT = "DejaVuSans.ttf"
_LINE, _LETTER, _MARGINS = 80, 36, 10
"""Characters of a line, and pixels of the widest letter and of both margins, as transformers draws a header."""


def reader_of(folder: CheckpointFolder, config: Any, prompt: str | None) -> Pix2StructReader:
    """The reader of a Pix2Struct.

    The header is drawn with the font file in the checkpoint's folder (Google's have used Arial), else with DejaVu Sans.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: what is drawn, with "{question}" in it; None: the question alone.

    Raises:
        TargetError: its tokenizer, image processor or font cannot be used.
    """
    tokenizer = tokenizer_of(folder, config.text_config.vocab_size)
    return Pix2StructReader(image_processor_of(folder), tokenizer, font_of(folder.path), prompt)


def font_of(folder: Path) -> bytes:
    """The font that a checkpoint's headers are drawn with: its own, or the one that comes with matplotlib.

    Raises:
        TargetError: its own is not readable as a font.
    """
    own = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".ttf" and path.is_file())
    if not own:
        import matplotlib

        return (Path(matplotlib.get_data_path()) / "fonts" / "ttf" / _FONT).read_bytes()
    font = own[0].read_bytes()
    try:
        ImageFont.truetype(io.BytesIO(font))
    except OSError:
        raise TargetError(f"{own[0]}: not readable as a font", "give a TrueType font, or take the file away") from None
    return font


class Pix2StructReader:
    """See `audit.targets.answering.reader.Reader`."""

    needs_image = True
    resolution: tuple[int, int] | None = None
    max_new_tokens: int = LONGEST_ANSWER

    def __init__(self, image_processor: Any, tokenizer: Any, font: bytes, prompt: str | None = None) -> None:
        self._images = image_processor
        self._tokenizer = tokenizer
        self._font = font
        self._prompt = prompt or PROMPT
        self._end: int = tokenizer.eos_token_id
        self.forbidden = frozenset(special_tokens(tokenizer).values())
        self.ends = frozenset([self._end])
        self.max_tokens = int(image_processor.max_patches)

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`."""
        pages = [self._with_header(sample) for sample in samples]
        read = self._images(pages, is_vqa=False, input_data_format="channels_first", return_tensors="pt")
        return {"flattened_patches": read["flattened_patches"], "attention_mask": read["attention_mask"]}

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.taught`."""
        return {**self.prompts(samples), "labels": padded([self._answer(sample) for sample in samples], NOT_READ)}

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`: all images are padded to one number of patches."""
        return None if sample.answer is None else len(self._answer(sample))

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self._tokenizer.decode(spoken, skip_special_tokens=True)).strip()

    def _answer(self, sample: Sample) -> list[int]:
        answer = plain(self._tokenizer, sample.answer or "")
        return [*tokens_of(self._tokenizer, answer), self._end][: self.max_new_tokens]

    def _with_header(self, sample: Sample) -> Any:
        """The page under its question: (3, height, width), uint8."""
        page = np.moveaxis(image_of(sample), -1, 0)
        header = self._prompt.replace(QUESTION, sample.question)[:LONGEST_HEADER]
        _refuse_narrow(page.shape[1], page.shape[2], len(header))
        return self._images.render_header(page, header, font_bytes=self._font)


def _refuse_narrow(height: int, width: int, n_characters: int) -> None:
    """The page is made as wide as the header is: a strip of a few pixels would grow beyond all bounds."""
    growth = max(1.0, (min(_LINE, n_characters) * _LETTER + _MARGINS) / width)
    if height * width * growth**2 > MAX_PIXELS:
        raise TargetError(f"a page of {width} x {height} pixels is too narrow to draw a question above it")
