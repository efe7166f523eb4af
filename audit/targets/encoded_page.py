"""A page as a target reads it: tokens, boxes, labels and picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Floats, Ints

NOT_READ = -100
"""Label of a token that the training loss does not read (PyTorch's `ignore_index`)."""
NO_LINK = -1
"""Link of a token that has no predecessor, or no parent."""
WHITE = 255


Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class PixelScale:
    """How a model takes pixels: value = (pixel * factor - mean) / std.

    There are a mean and a std for each of R, G and B.
    """

    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)


@dataclass(frozen=True, eq=False)
class PageImage:
    """A page's image as a target reads it: the whole page, resized, RGB.

    Two pictures are the same only when they are one object: what is computed from a picture is kept
    for as long as the picture lives. The image is opened when its pixels are first asked for:
    listing fields opens none.

    Attributes:
        open_page: gives the page without patches: (3, height, width), uint8; never written to.
        size: height and width in pixels.
        scale: how the target takes the pixels.
        reach: how far beyond its edges a pixel of the page shows, in pixels of the picture; 0.5 for
            linear weights and a page made smaller.
        patches: (n, 4) boxes painted white, as shares of the page.
    """

    open_page: Callable[[], Pixels]
    size: tuple[int, int]
    scale: PixelScale = PixelScale()
    reach: float = 0.5
    patches: Floats = field(default_factory=lambda: np.empty((0, 4)))

    @cached_property
    def pixels(self) -> Pixels:
        """Return the page's pixels with its patches painted: (3, height, width), uint8.

        Every pixel that shows a trace of a patch is white.
        """
        pixels = self.open_page().copy()
        height, width = self.size
        corners = self.patches.reshape(-1, 2, 2) * [width, height] + [
            [[-self.reach] * 2, [self.reach] * 2]
        ]
        for (x0, y0), (x1, y1) in np.maximum(corners, 0):
            pixels[
                :, int(np.floor(y0)) : int(np.ceil(y1)), int(np.floor(x0)) : int(np.ceil(x1))
            ] = WHITE
        return pixels

    def values(self) -> NDArray[np.float32]:
        """Return the pixels scaled as the target takes them: (3, height, width)."""
        mean, std = (
            np.array(value, np.float32)[:, None, None]
            for value in (self.scale.mean, self.scale.std)
        )
        return (self.pixels * np.float32(self.scale.factor) - mean) / std

    def painted(self, boxes: Floats) -> PageImage:
        """Return this image with more white patches, at `boxes` (n, 4) in shares of the page."""
        return replace(self, patches=np.concatenate([self.patches, boxes]))


@dataclass(frozen=True, eq=False)
class Encoding:
    """A page, or the window of it that holds a field, as a target reads it.

    Attributes:
        ids: (n_tokens,) token ids, special tokens included.
        boxes: (n_tokens, 4) x0, y0, x1, y1 as shares of the page in [0, 1]; zeros where the corpus
            has no layout.
        words: (n_tokens,) index of each token's word in the document; -1 for special tokens.
        labels: (n_tokens,) class of each token, `NOT_READ` where the loss does not read it; None
            for untagged tasks.
        mask_id, unknown_id: the ids of [MASK] and [UNK].
        links: (n_tokens,) position in this page of each token's predecessor (SPADE extraction) or
            parent (SPADE linking), `NO_LINK` where it has none, `NOT_READ` where the loss does not
            read it; None for other tasks.
        page_image: the page's image, for targets that see it.
        intent: class of the whole utterance, for models that name intents.
        page_class: class of the whole page, for models that classify pages; None where the model
            has no such class.
    """

    ids: Ints
    boxes: Floats
    words: Ints
    labels: Ints | None
    mask_id: int
    unknown_id: int
    links: Ints | None = None
    page_image: PageImage | None = None
    intent: int | None = None
    page_class: int | None = None

    @property
    def has_loss(self) -> bool:
        """Test whether the page has labels or links that the training loss reads."""
        return self.page_class is not None or any(
            values is not None and bool((values != NOT_READ).any())
            for values in (self.labels, self.links)
        )

    def positions_of(self, words: Iterable[int]) -> tuple[int, ...]:
        """Return the positions of the tokens of these words, left to right."""
        wanted = {*words}
        return tuple(
            position for position, word in enumerate(self.words.tolist()) if word in wanted
        )

    def masked(self, positions: Sequence[int]) -> Self:
        """Return this page with [MASK] at `positions`."""
        return self.with_tokens(positions, [self.mask_id] * len(positions))

    def scrubbed(self, positions: Sequence[int]) -> Self:
        """Return this page with tokens hidden, as the adversary of a redacted page gets it.

        [MASK] is at `positions`, and white patches are over them in the image.

        The patches stay when tokens are put in place (Dentan et al. 2024, section 4.1).
        """
        masked = self.masked(positions)
        if self.page_image is None:
            return masked
        return replace(masked, page_image=self.page_image.painted(self.boxes[list(positions)]))

    def with_tokens(self, positions: Sequence[int], ids: Sequence[int]) -> Self:
        """Return this page with `ids` at `positions`; boxes, labels and picture stay."""
        changed = self.ids.copy()
        changed[list(positions)] = ids
        return replace(self, ids=changed)
