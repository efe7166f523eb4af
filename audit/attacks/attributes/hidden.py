"""Hidden values of any target, and the page on which a model chooses between the true one and plausible others."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from numpy.random import Generator as Rng

from audit.arrays import Floats
from audit.corpus.documents import Document
from audit.corpus.folding import fold
from audit.corpus.removal.matching import find_answers
from audit.engine.interface import Request, Trial
from audit.targets.interface import Target

MIN_CANDIDATES = 4
"""Values, the true one among them, without which a choice says nothing (ours)."""
FEW = "few plausible values"
C = TypeVar("C")


@dataclass(frozen=True, eq=False)
class Hidden:
    """A value that is taken off its page.

    Attributes:
        document: where it stands.
        name: of the field or the question, within the document.
        category: what kind of value it is, by which plausible others are found.
        text: the value as it is written.
        values: what counts as the value, folded.
        unique: whether it stands in no other document: of any split, or, for answers, of those trained on.
        trial: the value as a trial.
        left_out: why it is not tried; None: it is.
    """

    document: Document
    name: str
    category: str
    text: str
    values: frozenset[str]
    unique: bool
    trial: Trial
    left_out: str | None


@dataclass(frozen=True, eq=False)
class LaidPage(Generic[C]):
    """A page without its value, and the values that may stand there, the true one first.

    `lost` says why the value cannot be asked about after all; then there is nothing to choose from.
    """

    page: Any
    candidates: Sequence[C]
    lost: str | None = None


class HiddenValues(Protocol):
    """The hidden values of one kind of target."""

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why a value may be left out, and what that means."""
        ...

    def all(self) -> Iterator[Hidden]:
        """Every value of member and held-out documents, tried or not, in file order."""
        ...

    def of(self, trial: Trial) -> Hidden:
        """The value of a trial."""
        ...

    def lay_out(self, hidden: Hidden, n_candidates: int, rng: Rng) -> Generator[Request, Any, LaidPage[Any]]:
        """The page without the value, and `n_candidates` values, the true one first, the others drawn."""
        ...

    def comparable(self, models: Sequence[Target]) -> list[Target]:
        """Those of these models that can be asked, those that are asked what the target is asked first."""
        ...

    def alike(self, model: Target) -> bool:
        """Return whether a model is asked what the target is asked, so that their losses compare."""
        ...

    def losses(self, model: Target, hidden: Hidden, lay_out: LaidPage[Any]) -> Generator[Request, Any, Floats | None]:
        """The model's loss with each candidate: shape (n_candidates,), nats; None where it cannot read the page."""
        ...


def select_plausible(pool: Mapping[str, C], values: Collection[str], page: Iterable[str]) -> list[C]:
    """The values of a pool, by their folded spelling, in its order, that may stand in place of the true one.

    The true value is none of them, nor what is left on the page: a reader would take it from there.

    Args:
        pool: by folded value.
        values: what counts as the true value, folded.
        page: the words of the page.
    """
    words = tuple(page)
    together = fold("".join(words))
    return [
        own
        for value, own in sorted(pool.items())
        if value not in values and not (value in together and find_answers(words, [value], fuzzy=False))
    ]


def draw_others(others: Sequence[C], n_candidates: int, rng: Rng) -> list[C]:
    """As many of these as stand beside the true value."""
    chosen = rng.permutation(len(others))[: n_candidates - 1]
    return [others[index] for index in chosen]
