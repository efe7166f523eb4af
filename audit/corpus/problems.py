"""Problems of a data set or a source, listed together in one error.

Paths that may not leave its folder.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath

from audit.errors import ManifestError, listed, printable
from audit.files import table_beside

TEXTS: dict[str, str] = table_beside(__file__, "warnings.toml")
"""Problems and warnings of a data set; names in braces are filled in."""
MOST_KINDS = 30
"""Kinds of problems that one error lists."""
EXAMPLES = 3
"""Places of a kind that are named."""
_VARYING = re.compile(r"\[\d+\]|\([^()]*\)")
_NUMBER_OR_PATH = re.compile(r"[\d/\\]")


class Problems:
    """Collects problems by kind.

    Those of a kind differ in place, index, number, path, and what is in parentheses.
    """

    def __init__(self) -> None:
        """Start without problems."""
        self._kinds: dict[str, tuple[str, Counter[str]]] = {}

    def add(self, prefix: str, problems: Iterable[str]) -> None:
        """Collect problems, each behind the prefix (a line, a document; may be empty)."""
        for problem in problems:
            kind, place = _kind_and_place(prefix, problem)
            if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
                kind = ""
                problem = "and other problems"
            _, places = self._kinds.setdefault(kind, (f"{prefix} {problem}".strip(), Counter()))
            if place not in places and len(places) >= EXAMPLES:
                place = ""
            places[place] += 1

    def merge(self, collection: Problems) -> None:
        """Add the problems of another collection."""
        for kind, (first, new_places) in collection._kinds.items():
            _, places = self._kinds.setdefault(kind, (first, Counter()))
            places.update(new_places)

    @contextmanager
    def catch(self, prefix: str = "") -> Iterator[None]:
        """Collect the problems of a `ManifestError` that the block raises, and go on after it."""
        try:
            yield
        except ManifestError as error:
            self.add(prefix, error.problems)

    def raise_if_any(self, hint: str = "") -> None:
        """Raise one `ManifestError` with a line for each kind of problem.

        A line has the first problem, the count, and more places.

        Raises:
            ManifestError: there is a problem.
        """
        if self._kinds:
            raise ManifestError(
                [_line(first, places) for first, places in self._kinds.values()], hint
            )


def _kind_and_place(prefix: str, problem: str) -> tuple[str, str]:
    """Return what problems of one kind share, and the place of this one.

    The place is the prefix, else the numbers and paths in the problem, else its beginning.
    """
    head, colon, tail = problem.partition(": ")
    text = tail if colon and not prefix else problem
    fixed_words: list[str] = []
    varying_words: list[str] = []
    for word in _VARYING.sub("", text).split():
        if _NUMBER_OR_PATH.search(word):
            varying_words.append(word)
        else:
            fixed_words.append(word)
    place = prefix.rstrip(":") or " ".join(varying_words) or head
    return " ".join(fixed_words), place


def _line(first: str, places: Counter[str]) -> str:
    """Write the first problem of a kind, the count and more places, then what to do."""
    if places.total() == 1:
        return printable(first)
    problem, semicolon, remedy = printable(first).partition("; ")
    more_places = [*map(printable, islice(filter(None, places), 1, EXAMPLES))]
    also = f", also {listed(more_places, 'and')}" if more_places else ""
    return f"{problem} ({places.total():,} times{also}){semicolon}{remedy}"


def repeated(names: Iterable[str]) -> list[tuple[str, int]]:
    """List the names that occur several times, and how often."""
    return [(name, count) for name, count in Counter(names).items() if count > 1]


LONGEST_NAME = 255
"""Bytes of a name, in most file systems."""
_COPY = "copy it into DATA_DIR, and give its path from there"


def reason_refused(root: Path, relative: str) -> str | None:
    """Explain why `relative` is no path inside `root`; None when it is one.

    Windows' forms count as well, so that a data set means the same on every system.

    Args:
        root: an existing folder, resolved.
        relative: path as the data set writes it; the file need not exist.
    """
    reason = _form_refused(relative)
    if reason is not None:
        return reason
    try:
        target = (root / relative).resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError before Python 3.13
        return "the path cannot be followed"
    if not target.is_relative_to(root):
        return f"the path leaves DATA_DIR through a symbolic link; {_COPY}"
    return None


def _form_refused(relative: str) -> str | None:
    """Explain why a text is no path of a data set, whatever there is; None when it is one."""
    if not relative.strip():
        return "the path is empty"
    if not relative.isprintable():
        return "the path holds a character that cannot be printed"
    posix = PurePosixPath(relative)
    windows = PureWindowsPath(relative)
    if posix.is_absolute() or windows.drive or windows.root:
        return f"the path is absolute; {_COPY}"
    if ".." in posix.parts or ".." in windows.parts:
        return f"the path leaves DATA_DIR through '..'; {_COPY}"
    if max((len(os.fsencode(name)) for name in posix.parts), default=0) > LONGEST_NAME:
        return f"the path holds a name of more than {LONGEST_NAME} bytes"
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
