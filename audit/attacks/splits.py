"""The two sides of a data set that attacks compare: documents that training saw, and documents that were held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from audit.corpus.documents import Document, Split

AUDITED: tuple[Split, Split] = ("member", "heldout")
LABELS: Mapping[Split, str] = {"member": "member", "heldout": "held-out"}
"""The splits as sentences name them."""


def missing_split(documents: Iterable[Document]) -> Split | None:
    """Return the first of `AUDITED` that none of the documents is of; None when both are there."""
    present = {document.split for document in documents}
    return next((split for split in AUDITED if split not in present), None)


def count_splits(splits: Iterable[str]) -> tuple[int, int]:
    """Count those of members and those of held-out documents."""
    listed = list(splits)
    return listed.count("member"), listed.count("heldout")
