"""The audit sheet as its owner writes it: [audit] of the manifest, or a file of its own."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit.cards import AuditSheet
from audit.corpus.paths import printable
from audit.corpus.problems import Problems
from audit.corpus.validation import form_problems, text_problem
from audit.errors import UsageError
from audit.files import read_file, read_toml
from audit.printable import holds_unseen

KEY = "audit"
LONGEST = 160
"""Characters of an entry (ours): what page one of a report holds."""
MOST_CATEGORIES = 30
"""Categories of data that are listed (ours)."""
EMPTY_SHEET = """
# [audit]
# Who audits what, and for whom: on page one of the report. All of it may be left out, and none of it is verified.
# system = "Invoice intake"
# controller = "Example Ltd"
# purpose = "Reads totals off suppliers' invoices"
# model_name = "invoice-reader"
# model_version = "1.0"
# data_categories = ["names", "addresses", "bank details"]
# release = "internal"  # or "api", "open-weights"
# auditor = "A. Name"
# decides = "B. Name, head of operations"
# dpo = "C. Name"
"""
"""The table as comments, for the end of a new manifest."""
_sheet_type = TypeAdapter(AuditSheet)
_PLAIN = {
    "Input should be a valid string": "must be a text",
    "Input should be a valid tuple": 'must be a list, as ["names"]',
    "Input should be 'open-weights', 'api' or 'internal'": "must be open-weights, api or internal",
}
_BEGINS = re.compile(r"\s*(#?)\s*\[\s*audit\s*\]\s*(#.*)?")
_TABLE = re.compile(r"\s*\[")
_COMMENT = re.compile(r"\s*#")
_IDLE = re.compile(r"\s*(#.*)?")


def sheet_of(table: object, problems: Problems, place: str = "") -> AuditSheet:
    """Read the sheet from a table; an empty one where there are problems, which are collected.

    Args:
        table: the content of [audit], or of a file.
        problems: where to collect.
        place: before the name of each key.
    """
    try:
        sheet = _sheet_type.validate_python(table)
    except ValidationError as error:
        problems.add(place, (_with_meant(problem) for problem in form_problems(error)))
        return AuditSheet()
    problems.add(place, _text_problems(sheet))
    return sheet


def read_about(path: Path) -> dict[str, Any]:
    """Read the entries of a file that states the audit's circumstances, by key.

    Args:
        path: a TOML file with the keys of [audit], or with that table alone.

    Raises:
        UsageError: every problem of the file.
    """
    try:
        table = read_toml(read_file(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--about {path}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from None
    except ValueError as error:
        raise UsageError(printable(f"--about {path}: not TOML: {error}")) from None
    content = table[KEY] if set(table) == {KEY} else table
    problems = Problems()
    sheet = sheet_of(content, problems, f"--about {path}")
    if problems.listed:
        raise UsageError(problems.listed, f"its keys are {', '.join(_keys())}")
    return {key: getattr(sheet, key) for key in content}


def without_sheet(content: bytes, table: Mapping[str, Any]) -> bytes:
    """Return a manifest's bytes without its table [audit], or the same in comments: the sheet is no part of the data.

    What stays is held against the parsed manifest, so that nothing else can be hidden this way.

    Args:
        content: valid TOML in UTF-8.
        table: what it says.
    """
    lines = content.decode("utf-8").splitlines(keepends=True)
    begins = next((number for number, line in enumerate(lines) if _BEGINS.fullmatch(line.rstrip("\r\n"))), None)
    if begins is None:
        return content
    above = [*dropwhile(lambda line: not line.strip(), reversed(lines[:begins]))][::-1]
    rest = "".join((*above, *_after(lines[begins:])))
    try:
        same = tomllib.loads(rest) == {key: value for key, value in table.items() if key != KEY}
    except tomllib.TOMLDecodeError:
        same = False
    return rest.encode() if same else content


def _after(lines: list[str]) -> list[str]:
    """The lines behind a sheet that begins with the first one; those that lead to another table are its own."""
    begun = _BEGINS.fullmatch(lines[0].rstrip("\r\n"))
    commented = begun is not None and begun[1]
    belongs = _COMMENT.match if commented else lambda line: not _TABLE.match(line)
    own = [*takewhile(belongs, lines[1:])]
    if len(own) + 1 == len(lines):
        return []
    led = 0 if commented else len([*takewhile(lambda line: _IDLE.fullmatch(line.rstrip("\r\n")), reversed(own))])
    return lines[1 + len(own) - led :]


def _keys() -> list[str]:
    return [field.name for field in dataclasses.fields(AuditSheet)]


def _with_meant(problem: str) -> str:
    key, separator, reason = problem.partition(": ")
    close = get_close_matches(key, _keys(), 1) if reason == "unknown key" else []
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"{key}{separator}{_PLAIN.get(reason, reason)}{meant}"


def _text_problems(sheet: AuditSheet) -> Iterator[str]:
    if len(sheet.data_categories) > MOST_CATEGORIES:
        yield f"data_categories: more than {MOST_CATEGORIES}"
    for key in _keys():
        value = getattr(sheet, key)
        for text in value if isinstance(value, tuple) else () if value is None else (value,):
            problem = text_problem(text)
            if problem == "empty":
                problem = "empty; leave out what is not stated"
            elif problem is None and holds_unseen(text):
                problem = "holds a character that cannot be seen, or that turns the direction of text"
            elif problem is None and len(text) > LONGEST:
                problem = f"longer than {LONGEST} characters"
            if problem is not None:
                yield f"{key}: {problem}"
