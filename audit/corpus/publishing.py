"""A data set written as a draft beside its folder, which gets its name only once it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.errors import EngineError, UsageError


def check_destination(dst: Path) -> None:
    """Refuse a destination that holds anything: what is written never mixes with what was there.

    Raises:
        UsageError: `dst` is a file, or a folder that is not empty.
    """
    if dst.is_symlink() or (dst.exists() and not dst.is_dir()):
        raise UsageError(f"{dst} is not a folder", "name a new folder")
    if dst.is_dir() and any(dst.iterdir()):
        raise UsageError(f"{dst} is not empty", "name a new folder")


@contextmanager
def draft_of(dst: Path, purpose: str, *, fresh: bool = False) -> Iterator[Path]:
    """Give a new folder beside `dst`, renamed to `dst` when the block ends without an error, else removed.

    Args:
        dst: does not exist, or is an empty folder.
        purpose: one word in the draft's name, so that what a killed run left can be recognised.
        fresh: remove what a killed run left, instead of refusing to go on.

    Raises:
        EngineError: the draft exists already, or something cannot be written.
    """
    dst = dst.resolve()  # "." has no name to put a neighbour beside
    draft = dst.with_name(f".{dst.name}.{purpose}.tmp")
    if fresh:
        shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise EngineError(f"{draft} cannot be made: {error.strerror}", "remove what an earlier run left") from error
    try:
        yield draft
        draft.replace(dst)
    except OSError as error:
        raise EngineError(f"{dst}: the data set cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def copy_image(image: Path, draft: Path, relative: str) -> None:
    """Copy a page image to its path within a draft, unless it is there."""
    copy = draft / relative
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, copy)
