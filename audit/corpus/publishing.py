"""A data set written as a draft beside its folder, which gets its name only once it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.errors import EngineError, UsageError
from audit.files import mark_underway, remove_abandoned


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
def draft_of(dst: Path, purpose: str) -> Iterator[Path]:
    """Give a new folder beside `dst`, renamed to `dst` when the block ends without an error, else removed.

    What a killed process left of one goes before.

    Args:
        dst: does not exist, or is an empty folder.
        purpose: one word in the draft's name, so that what a killed run left can be recognised.

    Raises:
        EngineError: another command is writing the draft, or something cannot be written.
    """
    dst = dst.resolve()  # "." has no name to put a neighbour beside
    draft = dst.with_name(f".{dst.name}.{purpose}.tmp")
    remove_abandoned([draft])
    try:
        draft.mkdir(parents=True)
    except FileExistsError:
        raise EngineError(
            f"{draft}: another command is writing it", "wait for it; remove it if there is none"
        ) from None
    except OSError as error:
        raise EngineError(f"{draft} cannot be made: {error.strerror}", "choose another place") from error
    try:
        with mark_underway(draft):
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
