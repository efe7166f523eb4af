"""The command line.

The module of a command parses its arguments, calls the library, prints, and gives the exit code.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["app", "main"]

_COMPLETING = "_DOCAUDIT_COMPLETE"


def main() -> None:
    """Run the `docaudit` command."""
    # Before anything else is imported: a signal of the first second ends the command in a sentence
    # too.
    try:
        from audit.cli import stopping
    except KeyboardInterrupt:
        sys.exit(130)
    with stopping.ended_by_signals() as ending:
        try:
            _run()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Libraries turn a signal into errors of their own.
            if ending.number is not None or os.environ.get("DOCAUDIT_DEBUG"):
                raise
            sys.exit(_tell_failure(error))


def _run() -> None:
    """Prepare the process and run the command of `sys.argv`; errors of Typer are printed."""
    called = None
    if _COMPLETING not in os.environ:
        called = "".join(sys.argv[1:2])
    # Imports leave no garbage to speak of, and searches for it take a tenth of them: the first
    # counted stage begins.
    gc.disable()
    gc.set_threshold(50_000)
    if called in ("gate", "report"):
        atexit.register(gc.freeze)
    # Nothing docaudit does needs the network: libraries must not try.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Records are checked by pydantic alone; to look for plugins reads the metadata of every
    # installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from audit.cli import console
    from audit.cli.commands import make_app
    from audit.cli.console.terminal import guard_streams
    from audit.errors import DocauditError

    guard_streams()
    try:
        make_app(called)()
    except DocauditError as error:  # of what Typer prints itself, as the help
        console.show_error(error)
        sys.exit(error.exit_code)


def _tell_failure(error: BaseException) -> int:
    """Tell class and place of an error that nobody foresaw, and return the exit code.

    Its story goes into a private file. Its message is never printed: it can hold a page.
    """
    from audit.errors import DocauditError, printable

    if isinstance(error, DocauditError):
        # Raised as a package was imported: what prints errors in colours may be out of reach too.
        lines = [f"error: {problem}" for problem in error.problems]
        sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
        sys.stderr.write(f"hint: {printable(error.hint)}\n")
        return error.exit_code
    from audit.cli import console
    from audit.failures import failure_of, keep_story

    failure = failure_of(error, "docaudit", keep_story(error))
    console.show_error(failure)
    return failure.exit_code


def __getattr__(name: str) -> Any:
    """Make the whole command line where somebody asks for it, as tests and generated docs do."""
    if name == "app":
        from audit.cli.commands import make_app

        app = make_app()
        globals()["app"] = app
        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
