"""The audit sheet as its owner writes it: [audit] of the manifest, or a file of its own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit.cards import AuditSheet
from audit.corpus.problems import Problems
from audit.corpus.validation import form_problems, text_problem
from audit.printable import holds_unseen

KEY = "audit"
LONGEST = 160
"""Characters of an entry: what page one of a report holds."""
MOST_CATEGORIES = 30
"""Categories of data that are listed."""
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
_SHEET = re.compile(r"\s*^[ \t]*#?[ \t]*\[[ \t]*audit[ \t]*\].*?(?=(?:^[ \t]*(?:#.*)?\n)*^[ \t]*\[|\Z)", re.M | re.S)
"""The table with the blank lines above it, up to the next table."""


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
        problems.add(place, form_problems(error))
        return AuditSheet()
    problems.add(place, _text_problems(sheet))
    return sheet


def without_sheet(content: bytes, table: Mapping[str, Any]) -> bytes:
    """Return a manifest's bytes without its table [audit], or the same in comments: the sheet is no part of the data.

    The rest is compared with the parsed manifest, so that nothing else can be hidden this way.

    Args:
        content: valid TOML in UTF-8.
        table: what it says.
    """
    rest = _SHEET.sub("\n", content.decode("utf-8"), count=1)
    try:
        same = tomllib.loads(rest) == {key: value for key, value in table.items() if key != KEY}
    except tomllib.TOMLDecodeError:
        same = False
    return rest.encode() if same else content


def _text_problems(sheet: AuditSheet) -> Iterator[str]:
    if len(sheet.data_categories) > MOST_CATEGORIES:
        yield f"data_categories: more than {MOST_CATEGORIES}"
    for key, value in vars(sheet).items():
        for text in value if isinstance(value, tuple) else () if value is None else (value,):
            if problem := text_problem(text, LONGEST):
                yield f"{key}: {problem}"
            elif holds_unseen(text):
                yield f"{key}: holds a character that cannot be seen, or that turns the direction of text"
