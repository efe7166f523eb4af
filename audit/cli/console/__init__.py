"""Output to a terminal: progress, verdicts, tables, errors. The only package that imports rich."""

from audit.cli.console.tables import format_estimate, show_sweep, show_table
from audit.cli.console.terminal import (
    OPENING_MODEL,
    OPENING_SCAN,
    Reporter,
    duration,
    note,
    say,
    show_commands,
    show_error,
    show_row,
    warn,
    width,
    write,
)
from audit.cli.console.verdict import SHOWN_DIGITS, show_subject, show_verdict
