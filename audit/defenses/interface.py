"""What the core knows of a countermeasure: its name, its remedy, and how it wraps a model that is scanned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from audit.defenses.remedies import Remedy
    from audit.targets.interface import Target


class Defense(ABC):
    """Reduce what a model or a data set gives away; the other kinds are those of `docaudit defend`.

    Attributes:
        remedy: what a report says of it to whom it may help; None where `policies/defenses.toml` says it.
    """

    remedy: ClassVar[Remedy | None] = None

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name on the command line and in the record."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in a comparison."""


class QueryDefense(Defense):
    """Wrap a model while it is used: a target around a target."""

    def seeded(self, seed: int) -> Self:
        """Return the same with its random choices from `seed`; itself where it makes none."""
        return self

    @abstractmethod
    def wrap(self, target: Target) -> Target:
        """Return the target as the world sees it behind this countermeasure.

        Raises:
            TargetError: it makes no sense around such a target.
        """
