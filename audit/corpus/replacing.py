"""Put a data set aside while another takes its place.

So a run that fails or is killed loses neither of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from audit.errors import EngineError
from audit.files import mark_underway, try_lock

_ENDING = ".replaced.tmp"


def aside_of(place: Path) -> Path:
    """Return where a file or folder lies while another is made that takes its place."""
    return place.with_name(f".{place.name}{_ENDING}")


@contextmanager
def set_aside(places: Sequence[Path], proof: Path) -> Iterator[None]:
    """Put files or folders aside while the block writes others in their places.

    They are put back where the block fails. A process that is killed within leaves them aside;
    `settle` then puts them back or removes them.

    Args:
        places: absolute paths; those that are not there are left out.
        proof: the file that the block writes last; if it is one of the places, it comes first in
            them.
    """
    with ExitStack() as marks:
        for place in places:
            if place.exists():
                marks.enter_context(mark_underway(place))
                place.replace(aside_of(place))
        try:
            yield
        except BaseException:
            if not proof.is_file():
                _put_back(places)
            raise
        for place in places:
            _remove(aside_of(place))


def settle(places: Sequence[Path], proof: Path) -> None:
    """Put back what a killed process had put aside.

    Or remove it where what the process wrote instead is complete.

    Args:
        places: places, as `set_aside` had them.
        proof: the same; it is there only once all are written.

    Raises:
        EngineError: another process is replacing them, or what was put aside cannot be moved.
    """
    asides = [aside for place in places if (aside := aside_of(place)).exists()]
    with ExitStack() as handles:
        for aside in asides:
            handle = try_lock(aside)
            if handle is None:
                reason = f"{aside}: another command is replacing this data set"
                raise EngineError(
                    reason, f"wait for it; if there is none, rename it to {places[0].name}"
                )
            handles.callback(os.close, handle)
        try:
            if not proof.is_file():
                _put_back(places)
            for aside in asides:
                _remove(aside)
        except OSError as error:
            reason = (
                f"{asides[0]}: a killed command left it, "
                f"and it cannot be moved back: {error.strerror}"
            )
            raise EngineError(reason, f"rename it to {places[0].name}, or remove it") from None


def _put_back(places: Sequence[Path]) -> None:
    """Move what was put aside to its places, the first, which proves that all are there, last."""
    for place in reversed(places):
        aside = aside_of(place)
        if aside.exists():
            aside.replace(place)


def _remove(path: Path) -> None:
    """Delete a file, or a folder with all it holds; a missing one is no error."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
