"""The loss of a page under a masked language model: which tokens are hidden, and what is asked about them.

Such a model has no one loss of a page: it depends on the mask. Mireshghallah et al. 2022 ("Quantifying privacy risks of
masked language models using membership inference attacks", EMNLP) average over fixed masks, and compare the target with
a reference model under the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from typing import Any, cast

import numpy as np

from audit.arrays import Floats
from audit.attacks.interface import ask_all
from audit.corpus.documents import Document
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import MaskedLoss, Target, TokenTarget

MASKED_SHARE = 0.15
"""Of a page's tokens that one mask hides: what masked language models are trained with (Devlin et al. 2019)."""
N_MASKS = 14
"""Masks of a page (ours): about every token is hidden twice."""


def maskable(model: Target, document: Document) -> Encoding | None:
    """The document as the model reads it; None where that leaves no token to hide."""
    page = cast("TokenTarget", model).encode(document)
    return page if page is not None and bool((page.words >= 0).any()) else None


def masks_of(document: str, page: Encoding, n_masks: int) -> list[tuple[int, ...]]:
    """The positions that each mask hides, sorted; special tokens are never hidden.

    The tokens of the page's words stand in one shuffled order, and each mask takes the next `MASKED_SHARE` of them,
    going round: seven masks hide every token once (ours; the paper draws every mask anew). The order follows from the
    document's id and the number of tokens alone, so that every model with one vocabulary sees the same masks.
    """
    own = np.flatnonzero(page.words >= 0)
    width = max(1, round(MASKED_SHARE * len(own)))
    order = np.random.default_rng([*hashlib.sha256(document.encode()).digest()]).permutation(own)
    starts = range(0, n_masks * width, width)
    return [tuple(sorted(int(order[at % len(own)]) for at in range(start, start + width))) for start in starts]


def masked_losses(
    model: Target, document: Document, page: Encoding, n_masks: int
) -> Generator[Request, Any, Floats | None]:
    """The loss of every hidden token, mask after mask: shape (n_masks * width,), nats. Used with `yield from`.

    Args:
        model: a masked language model.
        document: what is asked about.
        page: the document as the target reads it; the masks are drawn on it.
        n_masks: see `masks_of`.

    Returns:
        None where the model reads other tokens than stand on `page`: their losses would not compare.
    """
    own = maskable(model, document)
    if own is None or not np.array_equal(own.ids, page.ids):
        return None
    queries = [MaskedLoss(own, positions) for positions in masks_of(document.id, own, n_masks)]
    found: list[Floats] = yield from ask_all(model, queries)
    return np.concatenate(found)
