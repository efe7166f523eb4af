"""One budget for all that is read of a source, against the size of its files.

It counts rows, letters, items, bytes and pixels. A few kilobytes can name gigabytes: compressed
columns, texts that are named again and again, one page drawn 5,000 times. So what an import makes
of a source may be so much at least, and more in proportion to the bytes that were given. Lists of a
page (`Counted`) charge the budget by themselves, whatever reader fills them.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeVar

from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.faults import UnplacedError, name_of, refusing, shown_path

T = TypeVar("T")
Resource = Literal["rows", "letters", "items", "bytes", "pixels", "comparisons"]
MOST_LETTERS = 5_000_000
"""Letters of one page: as a long book has."""
MOST_ITEMS = 1_000_000
"""Words of one page, with fields, questions, and the words that fields name."""
LONGEST_NAME = 2_000
"""Letters of the name of a field, with those of the fields that hold it."""
A4 = 2_200_000
"""Pixels of an A4 page at 150 dots an inch."""


class Allowance(NamedTuple):
    """What a source may come to: so much whatever its size, and so much a byte of its files."""

    least: int
    for_each_byte: int


ALLOWANCES: dict[Resource, Allowance] = {
    "rows": Allowance(100_000, 1),
    "letters": Allowance(20_000_000, 100),
    "items": Allowance(2_000_000, 10),
    "bytes": Allowance(1 << 30, 20),
    "comparisons": Allowance(20_000_000, 100),
    "pixels": Allowance(500 * A4, A4 // 1_000),
}


class Reading:
    """The reading of a source: what was opened of it, and what came of that.

    Attributes:
        file: the name of the file that was opened last, for messages.
    """

    def __init__(self) -> None:
        """Start with nothing read, and the whole budget left."""
        self.file = ""
        self._sizes: dict[Path, int] = {}
        self._n_bytes = 0
        self._spent: Counter[Resource] = Counter()

    def open(self, path: Path) -> None:
        """Count the bytes of a file of the source, the first time that it is opened."""
        self.file = name_of(path)
        if path not in self._sizes:
            self._sizes[path] = path.stat().st_size
            self._n_bytes += self._sizes[path]

    def spend(self, resource: Resource, amount: int) -> None:
        """Add an amount to what the source used of a resource; refuse more than the budget.

        Raises:
            UsageError: it is more than the size of the source allows.
        """
        self._spent[resource] += amount
        allowance = ALLOWANCES[resource]
        most = allowance.least + allowance.for_each_byte * self._n_bytes
        if self._spent[resource] > most:
            reason = (
                f"{self.file or 'the source'}: more than {most:,} {resource} "
                f"in files of {self._n_bytes:,} bytes"
            )
            raise UsageError(
                reason, "divide the source, or write it without compression and repetition"
            )


_current: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading() -> Iterator[None]:
    """Charge all that the block reads to one budget of its own."""
    token = _current.set(Reading())
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _placed(prefix: str) -> Iterator[None]:
    """Add the file opened last to faults of the block that name no other place."""
    try:
        yield
    except UnplacedError as error:
        current = _current.get()
        if prefix or current is None or not current.file:
            raise
        raise ManifestError([f"{current.file}: {problem}" for problem in error.problems]) from None


class SourceProblems(Problems):
    """Problems of a source.

    `catch` collects every fault of a row or file, and the import goes on behind it.
    """

    @contextmanager
    def catch(self, prefix: str = "") -> Iterator[None]:
        """Collect the problems of a `ManifestError`, and any other fault, under a place.

        Where the prefix is empty, a fault is that of the file that was opened last.
        """
        with super().catch(shown_path(prefix)), _placed(prefix), refusing("cannot be read"):
            yield


def note_opened(path: Path) -> None:
    """Charge the bytes of a file to the source being read, if any."""
    current = _current.get()
    if current is not None:
        current.open(path)


def spend(resource: Resource, amount: int) -> None:
    """Charge an amount to the source being read; outside of an import do nothing.

    Raises:
        UsageError: it is used up.
    """
    current = _current.get()
    if current is not None:
        current.spend(resource, amount)


def joined(parts: Iterable[str]) -> str:
    """Join parts of a text; refuse more letters than a page holds.

    Raises:
        ManifestError: they are more than a page holds.
    """
    texts = list[str]()
    left = MOST_LETTERS
    for text in parts:
        left -= len(text)
        if left < 0:
            raise ManifestError(f"a text of more than {MOST_LETTERS:,} letters")
        texts.append(text)
    return "".join(texts)


def check_name(name: str) -> str:
    """Return the name of a key; refuse one too long, as nested keys repeat it.

    Raises:
        ManifestError: it is longer than any name.
    """
    if len(name) > LONGEST_NAME:
        raise ManifestError(f"a key of more than {LONGEST_NAME:,} letters, with those around it")
    return name


class Counted(ABC, list[T]):
    """A list of a page whose items are counted as they come in, before more of them are made."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        """Make a list of these items, each counted against the budget."""
        super().__init__()
        self._letters = 0
        self._items = 0
        self.extend(items)

    @staticmethod
    @abstractmethod
    def weigh(item: T) -> tuple[int, int]:
        """Return the number of letters of an item, and for how many items it counts."""

    def append(self, item: T) -> None:
        """Append an item, and count it against what a page and a source may hold.

        Raises:
            ManifestError: it is too much for one page.
            UsageError: it is too much for the source.
        """
        letters, items = self.weigh(item)
        self._letters += letters
        self._items += items
        if self._letters > MOST_LETTERS:
            raise ManifestError(f"a page of more than {MOST_LETTERS:,} letters")
        if self._items > MOST_ITEMS:
            raise ManifestError(f"a page of more than {MOST_ITEMS:,} words, fields and questions")
        spend("letters", letters)
        spend("items", items)
        super().append(item)

    def extend(self, items: Iterable[T]) -> None:
        """Append items, each counted against what a page and a source may hold."""
        for item in items:
            self.append(item)

    def __iadd__(self, items: Iterable[T]) -> Self:  # type: ignore[override,misc]
        """Append items as `extend` does, counted against the budget."""
        self.extend(items)
        return self
