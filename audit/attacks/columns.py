"""Tables of outcomes: dataclasses whose fields are columns of one length, or such columns by name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from audit.arrays import Bools

T = TypeVar("T")


def rows_where(table: T, mask: Bools) -> T:
    """The rows of a table that a mask takes.

    Args:
        table: a dataclass of columns, of tables, and of dictionaries of either.
        mask: (n_rows,).
    """

    def taken(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: taken(own) for name, own in value.items()}
        return rows_where(value, mask) if is_dataclass(value) else value[mask]

    return type(table)(**{column.name: taken(getattr(table, column.name)) for column in fields(table)})  # type: ignore[arg-type]
