"""Signals that end a command, wherever in the program they arrive."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_AGAIN = 0.05
"""Seconds after which a signal that found no hearing is raised again."""
_LONGEST = 5.0
"""Seconds that an import may go on after a signal."""
_IMPORTING = "<frozen importlib"


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """End what runs within with the exit code of the signal that broke it.

    Libraries turn it into errors of their own, and Click's code for it is 1.

    Yields:
        What knows the signal.
    """
    ending = listen()
    try:
        yield ending
    except BaseException as error:
        if ending.number is None or (isinstance(error, SystemExit) and error.code != 1):
            raise
        ending.tell()
        raise SystemExit(128 + ending.number) from None
    finally:
        ending.leave()


def listen() -> Ending:
    """End the command with 143 on SIGTERM, and as Ctrl-C does on SIGINT.

    What a signal raises is lost in a finaliser or in a callback of C, which cannot raise, and
    leaves half a module behind in an import: then it is raised again a moment later.
    """
    ending = Ending()
    signal.signal(signal.SIGTERM, ending.hear)
    threading.excepthook = _tell_of_thread
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, ending.hear)
    sys.unraisablehook = ending.raise_again
    return ending


class Ending:
    """Handle the signals that end a command.

    Attributes:
        number: its number; None until there is one.
    """

    def __init__(self) -> None:
        """Begin without a signal: none has arrived and nothing was printed of one."""
        self.number: int | None = None
        self._arrived = 0.0
        self._told = False
        self._leaving = False

    def leave(self) -> None:
        """Stop raising the ending, and ignore its timer.

        Python removes its handlers as it ends, and an alarm would kill it with 142.
        """
        self._leaving = True
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Raise what ends the command, or have it raised later."""
        if number != signal.SIGALRM:
            self.number = number
            self._arrived = time.monotonic()
        if _is_importing(frame) and time.monotonic() - self._arrived < _LONGEST:
            self._try_later()
        elif self.number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            self.tell()
            raise SystemExit(128 + signal.SIGTERM)

    def raise_again(self, lost: sys.UnraisableHookArgs) -> None:
        """Take the place of Python's hook for what a finaliser cannot raise."""
        if self.number is not None and issubclass(lost.exc_type, KeyboardInterrupt | SystemExit):
            self._try_later()
        elif lost.exc_value is not None:
            _tell_ignored(lost.exc_value)

    def _try_later(self) -> None:
        """Set a timer that raises the ending again, unless the command is leaving."""
        if self._leaving:
            return
        signal.signal(signal.SIGALRM, self.hear)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)

    def tell(self) -> None:
        """Print once that the same command continues the work."""
        if not self._told:
            self._told = True
            ending = "interrupted" if self.number == signal.SIGINT else "terminated"
            # Whoever reads standard error may have left.
            with suppress(OSError):
                sys.stderr.write(f"\n{ending}; run the same command again to go on\n")


def _tell_of_thread(lost: threading.ExceptHookArgs) -> None:
    """Tell class and place of an error that ended a thread, except `SystemExit`."""
    if lost.exc_value is not None and not isinstance(lost.exc_value, SystemExit):
        _tell_ignored(lost.exc_value)


def _tell_ignored(error: BaseException) -> None:
    """Tell class and place of an error that nobody can handle.

    Its message can hold a page and is not printed.
    """
    from audit.failures import class_and_place

    with suppress(OSError):
        sys.stderr.write(f"warning: an error that ends nothing: {class_and_place(error)}\n")


def _is_importing(frame: FrameType | None) -> bool:
    """Test whether a frame, or any that called it, is importing a module."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False
