"""The other parts of a generative checkpoint, opened safely: its tokenizer and its processors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import transformers

from audit.errors import TargetError
from audit.targets.answering.reader import Sample
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.libraries import DAMAGE, one_line, quiet
from audit.targets.checkpoint.safety import beyond_measure
from audit.targets.checkpoint.tokenizer import check_vocabulary, open_tokenizer, unpadded

VOCABULARIES = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
"""Files that a generative model's tokenizer may lie in."""
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_MOST_PIXELS = 2**25
"""Of the picture that a processor makes of a page (ours): twice as many as any published model sees."""
_VISION = ("torchvision", "num2words")
"""Libraries that some processors need, in the order in which they ask for them; docaudit's extra "vision" has both."""


def tokenizer_of(folder: AnyFolder, n_vocabulary: int) -> Any:
    """The checkpoint's fast tokenizer.

    Args:
        folder: the checkpoint.
        n_vocabulary: tokens that the model knows.

    Raises:
        TargetError: there is none, it has no token for padding or for the end, or has more tokens than the model.
    """
    tokenizer = open_tokenizer(folder, ("pad", "eos"), VOCABULARIES)
    check_vocabulary(folder, tokenizer, n_vocabulary)
    return tokenizer


def image_processor_of(folder: AnyFolder) -> Any:
    """The processor that makes a page's image into the model's input; it works on PIL images, without torchvision.

    Raises:
        TargetError: the folder has none, or its settings cannot be used.
    """
    return _open_part(
        folder, "image processor", partial(transformers.AutoImageProcessor.from_pretrained, backend="pil")
    )


def processor_of(folder: AnyFolder, n_vocabulary: int) -> Any:
    """The checkpoint's whole processor, tokenizer and chat template included, as transformers loads it.

    Raises:
        TargetError: the folder has none, its settings cannot be used, a library is missing, or see `tokenizer_of`.
    """
    tokenizer_of(folder, n_vocabulary)
    processor = _open_part(folder, "processor", transformers.AutoProcessor.from_pretrained)
    unpadded(processor.tokenizer)
    return processor


def _open_part(folder: AnyFolder, part: str, open_it: Callable[..., Any]) -> Any:
    folder = open_checkpoint(folder)
    hint = "save the model's processor beside it (processor.save_pretrained)"
    _refuse_beyond_measure(folder)
    if not any((folder.path / name).is_file() for name in _PROCESSORS):
        raise TargetError(f"{folder}: no {' or '.join(_PROCESSORS)}", hint)
    with quiet():
        try:
            return open_it(folder.path, local_files_only=True, trust_remote_code=False)
        except DAMAGE as error:
            library = _lacking(error)
            if library is not None:
                raise TargetError(
                    f"{folder}: its {part} needs {library}, which is not installed", "pip install 'docaudit[vision]'"
                ) from None
            raise TargetError(f"{folder}: the {part} cannot be loaded: {one_line(error)}", hint) from None


def _refuse_beyond_measure(folder: CheckpointFolder) -> None:
    """Refuse a processor whose pictures would have more pixels than a page may have, or more tokens than any model."""
    for path in (folder.path / name for name in _PROCESSORS):
        try:
            settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            most, problem = max(_pixels(settings), default=0), next(beyond_measure(settings), None)
        except (OSError, ValueError, RecursionError):
            raise TargetError(f"{path}: not readable as JSON") from None
        if problem is not None:
            raise TargetError(f"{path}: {problem}", "correct it to what the model was saved with")
        if most > _MOST_PIXELS:
            raise TargetError(f"{path}: asks for pictures of {most:,} pixels, and {_MOST_PIXELS:,} are the most")


def _pixels(settings: Any) -> Iterator[int]:
    """The sizes of pictures in a processor's settings, at any depth, in pixels."""
    if isinstance(settings, dict):
        sides = [settings.get("height"), settings.get("width")]
        for given in (sides, *(settings.get(name) for name in ("size", "crop_size"))):
            height, width = given if isinstance(given, list) and len(given) == 2 else (given, given)
            if isinstance(height, int) and isinstance(width, int):
                yield height * width
        for value in settings.values():
            yield from _pixels(value)


def _lacking(error: BaseException) -> str | None:
    """The library that an error of transformers asks for, when it is not installed; None: the error is another."""
    return next((name for name in _VISION if name in str(error).lower() and find_spec(name) is None), None)


def resolution_of(image_processor: Any) -> tuple[int, int] | None:
    """Height and width of the images that it makes, in pixels; None when they are of several sizes."""
    size = getattr(image_processor, "size", None) or {}
    height, width = (size.get(name) for name in ("height", "width"))
    return None if height is None or width is None else (int(height), int(width))


def image_of(sample: Sample) -> Any:
    """The page's image as an image processor takes it: (height, width, 3), uint8.

    Raises:
        TargetError: the page has none.
    """
    image = sample.view.image
    if image is None:
        raise TargetError("a page without an image cannot be asked about", "give every document an image")
    return np.asarray(image.convert("RGB"))


def padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """Rows of ids as a tensor (n_rows, longest), filled with `value` on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows], dtype=torch.long)
