"""Problems of a data set or a source, listed together in one error; paths that may not leave its folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from audit.errors import ManifestError, printable
from audit.files import table_beside

TEXTS: dict[str, str] = table_beside(__file__, "warnings.toml")
"""Problems and warnings of a data set; names in braces are filled in."""
MAX_LISTED = 50


class Problems:
    """Collects problems: the first `MAX_LISTED` as sentences, the others as a number."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.count = 0

    def add(self, prefix: str, problems: Iterable[str]) -> None:
        """Collect problems, each behind the prefix (a line, a document; may be empty)."""
        for problem in problems:
            self.count += 1
            if len(self.listed) < MAX_LISTED:
                self.listed.append(printable(f"{prefix} {problem}" if prefix else problem))

    @contextmanager
    def catch(self, prefix: str = "") -> Iterator[None]:
        """Collect the problems of a `ManifestError` that the block raises, and go on after the block."""
        try:
            yield
        except ManifestError as error:
            self.add(prefix, error.problems)

    def raise_if_any(self, hint: str = "") -> None:
        """Raise one `ManifestError` with all that was collected.

        Raises:
            ManifestError: there is a problem.
        """
        more = self.count - len(self.listed)
        if self.listed:
            raise ManifestError([*self.listed, *([f"... and {more} more problems"] if more else [])], hint)


LONGEST_NAME = 255
"""Bytes of a name, in most file systems."""


def reason_refused(root: Path, relative: str) -> str | None:
    """Explain why `relative` is no path inside `root`; None when it is one.

    Windows' forms count as well, so that a data set means the same on every system.

    Args:
        root: an existing folder, resolved.
        relative: as the data set writes it; the file need not exist.
    """
    if not relative.strip():
        return "the path is empty"
    if not relative.isprintable():
        return "the path holds a character that cannot be printed"
    posix, windows = PurePosixPath(relative), PureWindowsPath(relative)
    if posix.is_absolute() or windows.drive or windows.root:
        return "the path is absolute; it must be relative to DATA_DIR"
    if ".." in posix.parts or ".." in windows.parts:
        return "the path leaves DATA_DIR through '..'"
    if max(len(os.fsencode(part)) for part in posix.parts or ("",)) > LONGEST_NAME:
        return f"the path holds a name of more than {LONGEST_NAME} bytes"
    try:
        target = (root / relative).resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError before Python 3.13
        return "the path cannot be followed"
    if not target.is_relative_to(root):
        return "the path leaves DATA_DIR through a symbolic link"
    return None


def inside(root: Path, relative: str) -> Path:
    """Return the path `relative` of `root`, refused where it leaves that folder.

    Raises:
        ManifestError: the path leaves `root`.
    """
    reason = reason_refused(root, relative)
    if reason is not None:
        raise ManifestError(f"{printable(relative)}: {reason}")
    return root / relative
