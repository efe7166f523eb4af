"""Families of encoders: what their models take, and the class of each head.

transformers' own tables name most; `audit/targets/families.toml` says what they cannot.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image, Resampling
from torch.nn.functional import pad
from transformers.models.auto import modeling_auto

from audit import plugins
from audit.arrays import Floats, Ints
from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.encoded_page import Encoding, PageImage, Pixels, PixelScale
from audit.targets.encoders.heads import HeadName

OpenImage = Callable[[Document], Image]
"""Opens a document's page, bounded: `audit.corpus.canaries.pages.open_page` of a corpus."""
CACHED_BYTES = 128 * 2**20
"""What the resized pages of one target may take in memory: all 626 receipts of SROIE at 256 x 256
pixels."""
REACH: dict[Resampling, float] = {Resampling[name]: reach for name, reach in TABLE["reach"].items()}
"""How far each of Pillow's filters reaches beyond a pixel's edges, in pixels of the larger
picture."""
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
"""Where a checkpoint says how it takes pages; transformers 5 writes the second, with an
`image_processor` in it."""


@dataclass(frozen=True)
class ImageInput:
    """How a model sees a page.

    Attributes:
        size: height and width of the picture in pixels.
        argument: argument of the encoder's forward pass. `pixel_values` takes pictures, (n_pages,
            3, height, width); `visual_embeds` what `visual_embeddings` of the encoder made of each,
            (n_pages, n_tokens, n_hidden).
        n_appended: tokens of the picture that the model puts after the page's own.
        scale: how it takes pixels.
        resample: how pages are brought to `size`.
    """

    size: tuple[int, int]
    argument: str
    n_appended: int = 0
    scale: PixelScale = field(default_factory=PixelScale)
    resample: Resampling = Resampling.BILINEAR

    def as_processed(self, folder: Path) -> ImageInput:
        """Return this input with the scale and resampling of the checkpoint's processor.

        Nothing changes where the folder has none.

        As in transformers 5, settings in `processor_config.json` come before those of an older
        `preprocessor_config`.

        Raises:
            TargetError: the processor's settings cannot be used.
        """
        settings: Any = {}
        for path in (folder / name for name in PROCESSOR_FILES):
            try:
                own = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
                settings = (
                    own.get("image_processor", settings)
                    if path.name == "processor_config.json"
                    else own
                )
                resample = Resampling(settings.get("resample", self.resample))
                scale = _pixel_scale(settings, self.scale)
            except (OSError, ValueError, TypeError, AttributeError, RecursionError):
                raise TargetError(
                    f"{path}: not the settings of an image processor for RGB pages"
                ) from None
        return replace(self, scale=scale, resample=resample)


def _pixel_scale(settings: dict[str, Any], default: PixelScale) -> PixelScale:
    """Return the pixel scale that an image processor's settings ask for, else the default's."""
    factor = (
        float(settings.get("rescale_factor", default.factor))
        if settings.get("do_rescale", True)
        else 1.0
    )
    mean: tuple[float, ...] = (0.0,) * 3
    std: tuple[float, ...] = (1.0,) * 3
    if settings.get("do_normalize", True):
        mean, std = (
            tuple(float(value) for value in settings.get(name, own))
            for name, own in (("image_mean", default.mean), ("image_std", default.std))
        )
    numbers = (factor, *mean, *std)
    if len(mean) != 3 or len(std) != 3 or 0.0 in (factor, *std) or not np.isfinite(numbers).all():
        raise ValueError("three numbers each, none of them infinite, no std of 0")
    return PixelScale(factor, mean, std)


class PageImageReader:
    """Makes the picture of a document's page; nothing is opened before the pixels are asked for.

    Args:
        open_image: opens a page; None: there are no pictures, for whoever only lists what could be
            asked.
        sight: how the model sees it.
    """

    def __init__(self, open_image: OpenImage | None, sight: ImageInput) -> None:
        """Cache resized pages up to `CACHED_BYTES`."""
        self.open_image = open_image
        self.size = sight.size
        self.scale = sight.scale
        self._resample = sight.resample
        height, width = sight.size
        # Fields of one document are tried one after the other, each with a patch of its own over
        # the same page.
        self._page = lru_cache(maxsize=max(1, CACHED_BYTES // (3 * height * width)))(self._resize)

    def __call__(self, document: Document) -> PageImage | None:
        """Return the page's image, still to be opened; None for a document without one."""
        if document.image is None or self.open_image is None:
            return None
        return PageImage(
            partial(self._page, document), self.size, self.scale, self._reach(document)
        )

    def _reach(self, document: Document) -> float:
        """Return how many pixels of the resized image one page pixel shows beyond its edges.

        It is in pixels of the picture.
        """
        height, width = self.size
        page_width, page_height = document.size or (width, height)
        return REACH[self._resample] * max(1.0, width / page_width, height / page_height)

    def _resize(self, document: Document) -> Pixels:
        """Return the page's pixels in the model's size: (3, height, width), read-only."""
        height, width = self.size
        assert self.open_image is not None
        page = self.open_image(document).resize((width, height), self._resample)
        pixels = np.ascontiguousarray(np.asarray(page, np.uint8).transpose(2, 0, 1))
        pixels.flags.writeable = False
        return pixels


class VisualInputs:
    """What the model takes from each page's picture, made once a picture and page.

    An answer must not depend on the pages beside it. Visual embeddings are made of one picture
    alone: the convolutions of an image branch may depend on the batch by rounding. Plain
    `pixel_values` go through the encoder as a batch; its one convolution, over patches that do not
    overlap, gives each picture the same whatever stands beside it (tested at LayoutLMv3's own size
    on a CPU).

    Args:
        encoder: the model's encoder.
        sight: how it sees.
        boxes: turns shares of the page, (1, n_tokens, 4), into the encoder's own boxes.
        device: device that the encoder is on.
    """

    def __init__(
        self, encoder: Any, sight: ImageInput, boxes: Callable[[Floats], NDArray[Any]], device: str
    ) -> None:
        self._encoder = encoder
        self._sight = sight
        self._boxes = boxes
        self._device = device
        self._made: WeakKeyDictionary[PageImage, tuple[Floats, torch.Tensor]] = WeakKeyDictionary()

    def batch(self, pages: Sequence[Encoding], bucket: int) -> dict[str, torch.Tensor]:
        """Return the image argument of the forward pass for these pages, by its name.

        It is padded to `bucket` tokens where it is made of tokens.
        """
        rows = [self._of(page) for page in pages]
        # Most rows are candidates for one page: each page's own is put on the device's side of the
        # copy once.
        different = {id(row): row for row in rows}
        if self._sight.argument == "visual_embeds":
            different = {
                name: pad(row, (0, 0, 0, bucket - len(row))) for name, row in different.items()
            }
        numbers = {name: number for number, name in enumerate(different)}
        chosen = torch.tensor([numbers[id(row)] for row in rows], device=self._device)
        return {self._sight.argument: torch.stack([*different.values()])[chosen]}

    def _of(self, page: Encoding) -> torch.Tensor:
        """Return what the model takes of one page's image, made once for all its candidates."""
        if page.page_image is None:
            raise TargetError("this model sees page images, and a page came without one")
        boxes, made = self._made.get(page.page_image, (None, None))
        # Pages that differ in tokens only share their boxes; another window of the document does
        # not.
        if made is None or boxes is not page.boxes:
            made = torch.from_numpy(page.page_image.values()).to(self._device)
            if self._sight.argument != "pixel_values":
                own_boxes = torch.from_numpy(self._boxes(page.boxes[None])).to(self._device)
                made = self._encoder.visual_embeddings(made[None], own_boxes)[0]
            self._made[page.page_image] = page.boxes, made
        return made


LAYOUTLM_SCALE = 1000
"""LayoutLM's boxes are whole numbers from 0 to 1000 (Xu et al. 2020, section 2.2)."""
UNBOUNDED = 512
"""Tokens of a page for models whose configuration sets no limit (what BERT reads)."""


@dataclass(frozen=True)
class Family:
    """One family of checkpoint.

    Attributes:
        name: name as people write it.
        encoder: the attribute of the model that holds its encoder.
        heads: the class for each head.
        boxes: turns shares of the page, (n_pages, n_tokens, 4) in [0, 1], into the model's own
            input; None: no layout.
        sight_of: how a model of this configuration sees the page's image; None: it sees none.
        vocabulary_head: the attribute of a masked language model that holds its head, which takes
            hidden states and nothing else; None: training runs the whole model.
        alone: whether pages go through the model one by one, because those beside one would change
            its last bits.
        counts_from_padding: whether positions are numbered from the one after the padding token's
            id, as in RoBERTa.
    """

    name: str
    encoder: str
    heads: dict[HeadName, type[Any]]
    boxes: Callable[[Floats], NDArray[Any]] | None
    sight_of: Callable[[Any], ImageInput | None] = lambda _: None
    vocabulary_head: str | None = None
    counts_from_padding: bool = False
    alone: bool = False

    def n_positions(self, config: Any) -> int:
        """Return how many positions a model of the family has for a page's tokens.

        `UNBOUNDED` where the configuration names none.
        """
        given = getattr(config, "max_position_embeddings", None)
        if not isinstance(given, int) or given < 1:
            return UNBOUNDED
        return given - ((config.pad_token_id or 0) + 1 if self.counts_from_padding else 0)

    def inputs(
        self, ids: Ints, attention_mask: Ints, boxes: Floats, device: str
    ) -> dict[str, torch.Tensor]:
        """Return the keyword arguments of the forward pass of tokens and boxes, on `device`.

        It is that of the model, or of its encoder.
        """
        inputs: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": attention_mask}
        if self.boxes is not None:
            inputs["bbox"] = self.boxes(boxes)
        return {name: on_device(device, torch.from_numpy(value)) for name, value in inputs.items()}


def on_device(device: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor on the device; to a GPU it is copied while others compute.

    From pinned memory to a GPU, so that the copy runs beside the computation.
    """
    return (
        tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor.to(device)
    )


def thousandths(boxes: Floats) -> Ints:
    """Return boxes given in shares of the page in whole thousandths, LayoutLM's unit."""
    # The small term keeps 0.7 / 100 * 1000 from becoming 6.
    return np.floor(boxes * LAYOUTLM_SCALE + 1e-6).astype(np.int64)


def shares(boxes: Floats) -> NDArray[np.float32]:
    """Return boxes given in shares of the page as float32, BROS's unit."""
    return boxes.astype(np.float32)


def _image_patches(config: Any) -> ImageInput | None:
    """Return how LayoutLMv3 reads page images: as patches after the text's tokens.

    A [CLS] of theirs comes with them.
    """
    if not config.visual_embed:
        return None
    side = config.input_size // config.patch_size
    return ImageInput(
        (config.input_size, config.input_size), "pixel_values", n_appended=side * side + 1
    )


_BOXES: dict[str | None, Callable[[Floats], NDArray[Any]]] = {
    "thousandths": thousandths,
    "shares": shares,
}
_CLASSES: dict[HeadName, dict[str, Any]] = {
    "mlm": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "token-classification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "document-classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
}


@lru_cache(maxsize=256)
def family_of(kind: str) -> Family | None:
    """Return the family of encoders with this `model_type`; None where there is none.

    None where it is none that reads the words of a page.

    Those are the families of the table and of installed extensions, and all that transformers has a
    masked language model of but for those that the table leaves out.
    """
    added = plugins.find("docaudit.targets", kind)
    if isinstance(added, Family):
        return added
    own: dict[str, Any] = TABLE["encoders"].get(kind, {})
    named = {
        head: f"transformers:{names[kind]}" for head, names in _CLASSES.items() if kind in names
    }
    if kind in TABLE["left_out"] or ("mlm" not in named and not own):
        return None
    heads: dict[HeadName, type[Any]] = {
        head: resolve_name(name) for head, name in {**named, **own.get("heads", {})}.items()
    }
    model_class = next(iter(heads.values()))
    name = model_class.__name__.removesuffix("ForMaskedLM").removesuffix("WithLMHeadModel")
    return Family(
        own.get("name", name),
        model_class.base_model_prefix,
        heads,
        _BOXES.get(own.get("boxes")),
        _image_patches if own.get("sight") == "patches" else lambda _: None,
        own.get("head"),
        counts_from_padding=counts_from_padding(model_class),
        alone=own.get("alone", False),
    )


def family_named(kind: str) -> Family:
    """Return the family of encoders with this `model_type`.

    Raises:
        KeyError: there is none.
    """
    family = family_of(kind)
    if family is None:
        raise KeyError(kind)
    return family


def counts_from_padding(model_class: type[Any]) -> bool:
    """Test whether a model numbers positions from the padding id on, as RoBERTa does.

    Transformers has a function for that.
    """
    module = sys.modules[model_class.__module__]
    return any(
        hasattr(one, "create_position_ids_from_input_ids")
        for one in (module, *vars(module).values())
    )
