"""Tables of outcomes: dataclasses whose fields are columns of one length, or such columns by name."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from audit.arrays import Bools, Ints


class Columns:
    """A dataclass of columns, of tables, and of dictionaries of either."""

    def where(self, mask: Bools) -> Self:
        """The rows that `mask`, shape (n_rows,), takes."""

        def take(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: take(own) for name, own in value.items()}
            return value.where(mask) if isinstance(value, Columns) else value[mask]

        return type(self)(**{name: take(column) for name, column in vars(self).items()})


class DocumentColumns(Columns):
    """A table whose rows are parts of documents.

    Attributes:
        member: whether the document is a member, shape (n_rows,).
        cluster: a number for the document, shape (n_rows,).
    """

    member: Bools
    cluster: Ints

    def __len__(self) -> int:
        return len(self.cluster)

    def split(self, name: str) -> Self:
        """The rows of "member" or "heldout" documents."""
        return self.where(self.member if name == "member" else ~self.member)

    @property
    def n_documents(self) -> int:
        """The number of documents that the rows come from."""
        return len(np.unique(self.cluster))
