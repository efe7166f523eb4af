"""The command `docaudit`, behind the check that the package `audit` is docaudit's own."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from audit.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
