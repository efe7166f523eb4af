"""Every error that docaudit raises on purpose, and text of strangers in messages.

    DocauditError
    |-- ManifestError   the data set is not what the manifest format asks for          exit 2
    |-- TargetError     the checkpoint cannot be audited, or is not safe to load       exit 2
    |-- PolicyError     the policy file is wrong, or does not fit the record           exit 2
    |-- RecordError     a record cannot be read                                        exit 2
    |-- UsageError      options that cannot be honoured together                       exit 2
    |-- RenderError     a report could not be drawn (the verdict stands all the same)  exit 1
    |-- EngineError     the audit itself could not go on (disk, lock, journal)         exit 1
    `-- TrainingError   a model could not be trained, or not with the guarantee asked  exit 1

The command line prints each problem on one line and no traceback. Of any other exception it prints
class and place (`audit.failures`), as its message can hold a page. Messages name documents and
positions, which only the owner's terminal sees; they are never written into a record.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from typing import ClassVar


class DocauditError(Exception):
    """Something the user can act on: what is wrong, and what to do about it.

    Args:
        problems: one message, or all of them where there are several; each is one line.
        hint: what to do, one line.

    Attributes:
        story: what is known beside it and may hold text of a document; it is kept in a private
            file, never printed.
    """

    exit_code: ClassVar[int] = 2
    story: str = ""

    def __init__(self, problems: str | Iterable[str], hint: str = "") -> None:
        """Take one problem or several, each a line, and a hint on what to do about them."""
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        self.hint = hint
        super().__init__("; ".join(self.problems))

    @property
    def lines(self) -> list[str]:
        """Return the problems, then the hint if there is one."""
        return [*self.problems, *([self.hint] if self.hint else [])]


class ManifestError(DocauditError):
    """The data set cannot be read as a manifest describes it."""


class TargetError(DocauditError):
    """The checkpoint cannot be loaded, is of an unknown kind, or does not fit the corpus."""


class PolicyError(DocauditError):
    """The policy cannot be read, or names what the record does not know."""


class RecordError(DocauditError):
    """The record cannot be read."""


class UsageError(DocauditError):
    """Options that contradict each other or name nothing."""


class RenderError(DocauditError):
    """A report could not be drawn."""

    exit_code = 1


class EngineError(DocauditError):
    """The audit could not go on: the disk is full, the output folder is locked, a journal is damaged."""

    exit_code = 1


class TrainingError(DocauditError):
    """A training broke down, or what was measured contradicts the guarantee that it claims."""

    exit_code = 1


class ModelError(Exception):
    """A file of the checkpoint, as its chat template, failed on one page.

    The message may hold that page.

    It is no `DocauditError`, so that an attack which meets it fails, and the others go on.

    Args:
        about: what failed, without any text of a document.
        story: all that is known of it.
    """

    def __init__(self, about: str, story: str) -> None:
        """Take what may be told of a model's error, and the story that may not.

        Args:
            about: what anybody may read.
            story: what only the owner may read, as it can hold text of documents.
        """
        self.about = about
        self.story = story
        super().__init__(about, story)


def command_line(*words: object) -> str:
    """Join the words of a command behind `docaudit` as a shell reads them.

    >>> command_line("plan", "my data")
    "docaudit plan 'my data'"
    """
    return shlex.join(["docaudit", *map(typed, words)])


_ADDRESS = re.compile(r"^(https?):/+")
"""How the address of a server begins; as a `Path` it lacks one of the slashes."""
_ANY_ADDRESS = re.compile(r"^(https?|hf):/+")
"""How any address begins: that of a server, or of a repository on the Hub."""


def is_address(place: object) -> bool:
    """Test whether a path or a text is the address of a server."""
    return _ADDRESS.match(str(place)) is not None


def typed(place: object) -> str:
    """Return a path or a text as it is typed: a `Path` swallows a slash of an address."""
    return _ANY_ADDRESS.sub(r"\1://", str(place))


def listed(labels: Sequence[str], last: str) -> str:
    """Join labels by commas, with `last` before the last of them ("and", "or")."""
    return f" {last} ".join(filter(None, (", ".join(labels[:-1]), *labels[-1:])))


_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what is not drawn: controls, formats (zero width, direction), line and
paragraph separators."""
_FILLERS = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
_BLANK = {*_FILLERS, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
"""Letters, marks and symbols that are drawn as nothing: fillers, the empty braille cell, selectors
of variants."""


def has_unseen_characters(text: str) -> bool:
    """Test whether a text holds a character that is unseen, or changes how others are read."""
    return any(
        unicodedata.category(character) in _UNSEEN or ord(character) in _BLANK for character in text
    )


def count_visible_letters(text: str) -> int:
    """Count the letters of a text that can be seen."""
    return sum(character.isalpha() and ord(character) not in _BLANK for character in text)


def printable(text: str) -> str:
    """Return a text on one line for a message: what cannot be seen is written as its escape."""
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if has_unseen_characters(character)
        else character
        for character in text
    )
