"""Problems of a data set or a source, listed together in one error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from audit.corpus.paths import printable
from audit.errors import ManifestError

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
