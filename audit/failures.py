"""Failures that nobody foresaw: told by class and place, with the story where its owner alone reads it.

The message of such an exception can hold a page: a template repeats what it was given, a library
quotes what it cannot read. So no message is ever printed or recorded.
"""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import audit
from audit.errors import DocauditError, EngineError, ManifestError, ModelError, TargetError

DEBUG = "DOCAUDIT_DEBUG"
"""The environment variable that asks for the traceback of every error."""
ENDINGS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a program on purpose."""
_NO_MEMORY = re.compile(
    "failed to map segment|allocate memory|out of memory|not enough memory|bad_alloc|create a primitive",
    re.I,
)
"""Parts of messages of errors of other kinds, raised while libraries are loaded or compute."""
_PACKAGE = Path(audit.__file__).parent
_UNNAMED = "failure-run"


def lacks_memory(error: BaseException) -> bool:
    """Test whether an error says that there is not enough memory.

    That has a sentence of its own.
    """
    if isinstance(error, MemoryError):
        return True
    return (
        isinstance(error, ImportError | RuntimeError) and _NO_MEMORY.search(str(error)) is not None
    )


def place_of(error: BaseException) -> str:
    """Return the innermost line of docaudit's own code that an error went through, as FILE:LINE."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if _PACKAGE in path.parents:
            return f"{path.relative_to(_PACKAGE.parent)}:{frame.lineno}"
    return "unknown"


def class_and_place(error: BaseException) -> str:
    """Return class and place of an error, which may be told everywhere, without its message.

    Its class, and the place in docaudit's code.
    """
    return f"{type(error).__name__} at {place_of(error)}"


def keep_story(
    error: BaseException, folder: Path | None = None, name: str = _UNNAMED
) -> Path | None:
    """Write all that is known of an error to a file that its owner alone can read.

    Args:
        error: error with its traceback, its message, and what a server said.
        folder: folder of evidence; None, or one that cannot be written: a new folder among the
            system's temporary files.
        name: name of the file, without its ending.

    Returns:
        The file, whose mode is 0600; None where no file can be written.
    """
    story = "".join(traceback.format_exception(error))
    if isinstance(error, DocauditError) and error.story:
        story = f"{error.story}\n\n{story}"
    if folder is not None:
        with suppress(OSError):
            return _write_privately(folder / f"{name}.txt", story)
    with suppress(OSError):
        return _write_privately(
            Path(tempfile.mkdtemp(prefix="docaudit-failure-"), f"{name}.txt"), story
        )
    return None


def _write_privately(path: Path, story: str) -> Path:
    """Write a story to a new file that its owner alone can read, and return its path."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(story.encode("utf-8", "backslashreplace"))
    return path


def failure_of(error: BaseException, what: str, place: Path | None) -> DocauditError:
    """Return the error to show for one that nobody foresaw: its class, place and story's file.

    Args:
        error: error that was raised.
        what: failed, as the beginning of a sentence.
        place: place of its story; None: it could not be kept.
    """
    if isinstance(error, ModelError):
        return TargetError(
            f"{what} failed: {error.about} ({class_and_place(error)})", _story_hint(place)
        )
    return EngineError(f"{what} failed: {class_and_place(error)}", _story_hint(place))


def _story_hint(place: Path | None) -> str:
    """Say where the story of a failure was written, or how to get it written."""
    if place is None:
        return "free some space for temporary files: the story of this failure could not be written"
    return f"read the story in {place}; it can hold text of documents, so keep it private"


def with_story(error: DocauditError, folder: Path | None = None) -> DocauditError:
    """Move what an error knows and may not tell into a file, and name the file in the hint.

    Else change nothing.
    """
    if error.story:
        place = keep_story(error, folder)
        error.story = ""
        error.hint = "; ".join(filter(None, (error.hint, _story_hint(place))))
    return error


class Part:
    """One part of a run, which ends alone where it fails; a context manager that goes on behind it.

    One document that cannot be used any more, however late that shows, ends one part, as does what
    libraries of Rust raise, which is no `Exception`. Every other `DocauditError` is raised, as it
    ends the whole run.

    Args:
        name: name of the part, for the file of its story.
        evidence: the folder for the story.

    Attributes:
        failure: class and place of the failure; empty: there was none.
    """

    def __init__(self, name: str, evidence: Path) -> None:
        """Name a part of a run, and the folder that takes the story of its failure."""
        self.failure = ""
        self._name = name
        self._evidence = evidence

    def __enter__(self) -> Self:
        """Return this part of the run; `__exit__` records its failure."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        """Write the story of a failure to a file; return True where the run goes on after it."""
        if error is None or isinstance(error, ENDINGS):
            return False
        if isinstance(error, DocauditError) and not isinstance(error, ManifestError):
            return False
        keep_story(error, self._evidence, f"failure-{self._name}")
        self.failure = class_and_place(error)
        return True


@contextmanager
def guarded(what: str, evidence: Path | None = None) -> Iterator[None]:
    """Turn exceptions that nobody foresaw into a `DocauditError` without their message.

    Their story is kept.

    Args:
        what: runs within, as the beginning of a sentence.
        evidence: the folder for the story; None: a new private folder.

    Raises:
        DocauditError: something within failed.
    """
    try:
        yield
    except DocauditError as error:
        with_story(error, evidence)
        raise
    except (*ENDINGS, ImportError):
        raise
    except BaseException as error:
        if lacks_memory(error) or os.environ.get(DEBUG):
            raise
        place = keep_story(error, evidence)
        raise failure_of(error, what, place) from None


class Lenient:
    """A context manager that can go on behind a failure without a word.

    The run meets the failure again, where it is told.

    Args:
        lenient: whether it does; else every failure is raised.
    """

    def __init__(self, lenient: bool) -> None:
        """Say whether the run goes on behind a failure; otherwise the failure is raised."""
        self._lenient = lenient

    def __enter__(self) -> Self:
        """Begin a block whose failure is forgiven where this is lenient."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        """Return True where the run goes on after a failure.

        What ends a program on purpose still ends it.
        """
        if not self._lenient:
            return False
        if error is None:
            return False
        return not isinstance(error, ENDINGS)
