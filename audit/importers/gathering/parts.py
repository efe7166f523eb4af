"""The source's own division, as names of folders and files speak of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from audit.errors import UsageError
from audit.importers.contents import ImportRequest
from audit.importers.gathering.drafts import DraftPage
from audit.importers.splits import OfficialPart

TRAINED = frozenset({"train", "training"})
KEPT = frozenset({"test", "testing", "val", "valid", "validation", "dev", "eval", "heldout"})


def part_of(path: str) -> OfficialPart | None:
    """The part that a path within the source speaks of, by a word in a folder's name, else in the file's."""
    for name in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem):
        part = part_named(name)
        if part is not None:
            return part
    return None


def part_named(name: str) -> OfficialPart | None:
    """The part that a name speaks of: "train", "training_data", "test-00000-of-00001"."""
    words = {*re.split(r"[^a-z]+", name.lower())}
    if words & TRAINED:
        return "train"
    return "validation" if words & KEPT else None


def check_parts(src: Path, pages: Sequence[DraftPage], request: ImportRequest) -> None:
    """Refuse the official division of a source whose pages are not of two parts.

    Raises:
        UsageError: it is asked for, and a page is of no part, or all are of one.
    """
    if request.rule == "official" and {page.part for page in pages} != {"train", "validation"}:
        raise UsageError(
            f"{src} does not say of every page whether it is of the training part",
            "the official division reads it from folders, files or a column with train, and val or test",
        )
