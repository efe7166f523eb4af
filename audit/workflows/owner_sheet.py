"""Fill in what only the owner of a model knows, in a record that a scan has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from audit.cards import AuditSheet
from audit.errors import ManifestError, UsageError, listed
from audit.files import write_atomically
from audit.record import AuditRecord, dumps

OPTION = "--set"
EXAMPLE = '--set controller="Example Ltd"'
KEYS = tuple(field.name for field in fields(AuditSheet))
"""What an owner can state, in the order of the table [audit] of a manifest."""
LISTS = ("data_categories",)
"""Keys whose value is a list, its entries separated by commas."""


def with_statements(record: AuditRecord, settings: Sequence[str]) -> AuditRecord:
    """Return a record with more of what its owner states; nothing else of it changes.

    Args:
        record: the record of a scan.
        settings: each KEY=VALUE; an empty value takes a statement back.

    Raises:
        UsageError: one is not of this form, names no key, or has a value that page one cannot show.

    Example:
        >>> with_statements(record, ["controller=Example Ltd"]).audit.controller
        'Example Ltd'
    """
    table = {key: value for key, value in asdict(record.audit).items() if value}
    for setting in settings:
        key, value = _parse(setting)
        if value:
            table[key] = _entries(value) if key in LISTS else value
        else:
            table.pop(key, None)
    return replace(record, audit=_checked(table))


def write_statements(record: AuditRecord, folder: Path) -> bytes:
    """Write a record with its owner's statements into the folder of its report, and return it."""
    content = dumps(record).encode()
    write_atomically(folder / "record.json", content)
    return content


def _parse(setting: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE."""
    key, equals, value = setting.partition("=")
    key = key.strip()
    if not equals or key not in KEYS:
        problem = f"{OPTION} takes KEY=VALUE with one of the keys {listed(KEYS, 'or')}"
        raise UsageError(problem, f"for example {EXAMPLE}")
    return key, value.strip()


def _entries(value: str) -> list[str]:
    """Return the entries of a list that are separated by commas."""
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def _checked(table: dict[str, Any]) -> AuditSheet:
    """Return the sheet of a table, as a manifest's table [audit] is checked."""
    # What reads a data set opens images, which a report does without.
    from audit.corpus.problems import Problems
    from audit.corpus.validation import sheet_of

    problems = Problems()
    sheet = sheet_of({key: _as_read(value) for key, value in table.items()}, problems)
    try:
        problems.raise_if_any()
    except ManifestError as error:
        raise UsageError(
            f"{OPTION}: {'; '.join(error.problems)}", f"for example {EXAMPLE}"
        ) from None
    return sheet


def _as_read(value: Any) -> Any:
    """Return a value as TOML gives it: lists, and no tuples."""
    return [*value] if isinstance(value, tuple) else value
