"""The rows of a column as JSON, and both columns as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from audit.policy.decision import word_of

MOST_LETTERS = 150
"""Of a reason, in a cell."""
UNDECIDED = "no limit was decided"


def number(value: float) -> str:
    """Write a number with at most three digits behind the point."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def interval(limit: Mapping[str, Any]) -> str:
    """Write a limit's number with its interval, or its name alone where there is none."""
    if limit["number"] is None:
        return str(limit["metric"])
    value, low, high = map(number, limit["number"])
    return f"{limit['metric']} {value} [{low}, {high}]"


def shorten(text: str) -> str:
    """Cut a text at a word, and keep it from ending a cell of a table."""
    clean = " ".join(text.replace("|", "/").split())
    if len(clean) <= MOST_LETTERS:
        return clean
    return clean[:MOST_LETTERS].rsplit(" ", 1)[0] + " ..."


def reasons(outcome: Mapping[str, Any]) -> list[str]:
    """List what decided an outcome: what is exceeded, else why a limit that counts is open, each reason once."""
    if "error" in outcome:
        return [shorten(outcome["error"])]
    limits = outcome["limits"]
    exceeded: list[str] = []
    met: list[str] = []
    unsettled: dict[str, None] = {}
    for limit in limits:
        word = word_of(limit["outcome"])
        if word == "exceeded":
            exceeded.append(interval(limit))
        elif word == "met":
            met.append(interval(limit))
        elif limit["counts"]:
            unsettled[f"{limit['cause']}: {shorten(limit['reason'])}"] = None
    return exceeded or list(unsettled) or met or [UNDECIDED]


def cell(outcome: Mapping[str, Any] | None) -> str:
    """Write what docaudit says of a construction."""
    if outcome is None:
        return "not run"
    return f"exit {outcome['exit']}: {'; '.join(reasons(outcome))}"


def direct_cell(numbers: Mapping[str, float]) -> str:
    """Write the numbers of a direct attack."""
    return ", ".join(f"{name} {number(value)}" for name, value in numbers.items())


def table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Write a Markdown table: a construction a row, what each column says of it.

    Args:
        rows: "name", "finding", "describe" and "direct" of each construction.
        columns: by title, what docaudit says of the constructions, by their names.
    """
    lines = [
        f"| construction | finding | direct attack | {' | '.join(columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for row in rows:
        cells = [cell(outcomes.get(row["name"])) for outcomes in columns.values()]
        first = [row["describe"], row["finding"], direct_cell(row["direct"]), *cells]
        lines.append(f"| {' | '.join(first)} |")
    return lines


def clean_table(
    rows: Iterable[Mapping[str, Any]], columns: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Count the exit codes of clean models with a fair reference, for each size and column."""
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(f"{row['size']} a side", []).append(row["name"])
    lines = [
        "| clean models, fair references | column | audits | exit 0 | exit 11 | exit 10 |",
        "|---|---|---|---|---|---|",
    ]
    for size, chosen in names.items():
        for title, outcomes in columns.items():
            codes = [outcomes[name]["exit"] for name in chosen if name in outcomes]
            counts = [str(codes.count(code)) for code in (0, 11, 10)]
            lines.append(f"| {size} | {title} | {len(codes)} | {' | '.join(counts)} |")
    return lines
