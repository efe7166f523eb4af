"""Training documents that a list leaves out of the next training set."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from audit.corpus.documents import Document, Split
from audit.errors import ManifestError, UsageError
from audit.importers.divide import Rule
from audit.importers.files import TEXTS
from audit.importers.named import find_named

OPTION = "--without"
NAMES_FILE = "training-documents.txt"
"""The file of a new data set that names its training documents, where a list left out others."""


@dataclass(frozen=True)
class LeftOut:
    """The training documents that go into no split.

    Attributes:
        listed: those of the list.
        copies: training documents whose image or text equals that of a listed one.
    """

    listed: Set[str] = frozenset()
    copies: Set[str] = frozenset()

    @property
    def ids(self) -> Set[str]:
        """Return all of them."""
        return self.listed | self.copies


def check_rule(rule: Rule | None, names: Sequence[str]) -> None:
    """Refuse a list beside a draw of providers.

    Raises:
        UsageError: members and unseen documents of one provider would differ by the list.
    """
    if names and rule == "by-provider":
        raise UsageError(TEXTS["without_providers"], "name the training documents: --members FILE")


def choose_left_out(
    names: Sequence[str], splits: Mapping[str, Split], alike: Iterable[Collection[str]]
) -> LeftOut:
    """Find the listed training documents, and their copies.

    Args:
        names: names of the list; none leaves nothing out.
        splits: the split of each document that has one.
        alike: groups of documents with equal images or texts.

    Raises:
        ManifestError: a name is that of no document, or of one that was not trained on, or no
            training document is left.
    """
    if not names:
        return LeftOut()
    groups = [*alike]
    ids = {*chain.from_iterable(groups), *splits}
    listed = find_named(names, ids, OPTION)
    members = {document for document, split in splits.items() if split == "member"}
    untrained = listed - members
    if untrained:
        first = next(
            number
            for number, name in enumerate(names, start=1)
            if find_named([name], ids, OPTION) <= untrained
        )
        raise ManifestError(
            TEXTS["without_untrained"].format(n=len(untrained), all=len(listed), first=first),
            TEXTS["without_again"],
        )
    equal = chain.from_iterable(group for group in groups if not listed.isdisjoint(group))
    left_out = LeftOut(listed, members.intersection(equal) - listed)
    if members == left_out.ids:
        raise ManifestError(f"{OPTION} leaves no training document", "give a shorter list")
    return left_out


def write_training_names(folder: Path, documents: Iterable[Document]) -> None:
    """Name the training documents of a data set, one a line, for the next training."""
    members = (document.id for document in documents if document.split == "member")
    text = "".join(f"{name}\n" for name in members)
    (folder / NAMES_FILE).write_text(text, encoding="utf-8")
