"""What the models showed of every provider: the input of the inference (Tito et al. 2024, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from audit.arrays import Bools, Floats, Ints

FEATURES = ("accuracy", "similarity", "loss", "confidence", "loss_change", "confidence_change")
"""What the paper's unsupervised attack (the first two) and its supervised one (all) look at
(methods.md#provider-membership)."""
MEMORY = ("memory_similarity", "memory_change")
"""The paper's two memorisation tests: NLS_mem (M1) and dNLS_mem (M2)."""
METHODS = ("azk", "apk", "azk_ensemble", "apk_ensemble")
"""The paper's four attacks: with zero and with partial knowledge, each alone and in a majority of three with M1, M2."""


@dataclass(frozen=True, eq=False)
class ProviderTable:
    """One row a provider; everything the attacks use.

    Attributes:
        names: folded names, in row order; for `evidence/` and for provider numbers only.
        member: whether training saw documents of the provider, shape (n,).
        n_questions: answered questions (pages, for token classifiers) of the provider, shape (n,).
        n_documents: kept-aside documents of the provider, shape (n,).
        features: of `FEATURES` and `MEMORY`, those that any provider has: the mean over its questions, shape (n,), NaN
            where it has none.
        user: user inference, the mean over the provider's documents of log p_target - log p_reference in nats, shape
            (n,), NaN possible; None without a reference.
    """

    names: tuple[str, ...]
    member: Bools
    n_questions: Ints
    n_documents: Ints
    features: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))
    user: Floats | None = None

    def __post_init__(self) -> None:
        """Check that every column has one value a provider.

        Raises:
            ValueError: a column has another shape, or a feature is none of `FEATURES` and `MEMORY`.
        """
        shape = (len(self.names),)
        columns = [self.member, self.n_questions, self.n_documents, *self.features.values()]
        if any(column.shape != shape for column in (*columns, *([] if self.user is None else [self.user]))):
            raise ValueError("every column needs one value a provider")
        if not set(self.features) <= {*FEATURES, *MEMORY}:
            raise ValueError(f"features are some of {', '.join((*FEATURES, *MEMORY))}")

    def __len__(self) -> int:
        """The number of providers."""
        return len(self.names)

    def at_least(self, questions: int) -> ProviderTable:
        """The providers with at least so many questions, in the same order."""
        return self.take(np.flatnonzero(self.n_questions >= questions))

    def take(self, rows: Ints) -> ProviderTable:
        """These rows, in this order."""
        return ProviderTable(
            names=tuple(self.names[row] for row in rows),
            member=self.member[rows],
            n_questions=self.n_questions[rows],
            n_documents=self.n_documents[rows],
            features={name: column[rows] for name, column in self.features.items()},
            user=None if self.user is None else self.user[rows],
        )
