"""Countermeasures: they change what a model is asked, train another model, or rewrite what is shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus, Document
    from audit.corpus.evasion import EvasionCost
    from audit.defenses.remedies import Remedy
    from audit.engine.interface import Progress
    from audit.extensions.private.options import DpOptions, Proves
    from audit.targets.interface import Target


class Defense(ABC):
    """A countermeasure that `docaudit defend` measures; it is one of the three kinds below.

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
    """A countermeasure while a model is used: a target around a target."""

    def seeded(self, seed: int) -> Self:
        """The same with its random choices from `seed`; itself where it makes none."""
        return self

    @abstractmethod
    def wrap(self, target: Target) -> Target:
        """The target as the world would see it behind this countermeasure.

        Raises:
            TargetError: it makes no sense around such a target.
        """


@dataclass(frozen=True)
class RetrainedModel:
    """A model that was trained with a countermeasure.

    Attributes:
        model: its checkpoint.
        data: the data set whose public documents train its baselines.
        start: what its baselines are trained from, so that they have the countermeasure too; None: the audited model's.
    """

    model: Path
    data: Path
    start: Path | None = None


class TrainingDefense(Defense):
    """A countermeasure for which the model is trained again.

    Attributes:
        description: the model that it trains, after "a model that is", for the help.
        teaches_refusal: whether it teaches an answer that may tell members from others: then that is measured.
        baselines_like: whether its baselines are trained with it too; False: those of the model as it was stay, because
            a model that saw no member has nothing to hide.
        keeps_adapter: whether an audited adapter is trained anew as an adapter; False: its base is trained.
    """

    description: ClassVar[str]
    teaches_refusal: ClassVar[bool] = False
    baselines_like: ClassVar[bool] = True
    keeps_adapter: ClassVar[bool] = True

    @abstractmethod
    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        """Train the model from `start` as the audited one was, but for the countermeasure, into `out`, once.

        Raises:
            DocauditError: it cannot be trained.
        """

    def check(self, corpus: Corpus, start: Path) -> None:  # most can train on whatever has a recipe
        """Refuse what `train` would refuse, before hours are spent on the scan without it.

        Raises:
            DocauditError: see `train`.
        """

    def refuses(self, answer: str) -> bool:
        """True for the answer that was taught; asked only where `teaches_refusal`."""
        return False


@runtime_checkable
class TakesPrivacyOptions(Protocol):
    """A countermeasure with the options of private training."""

    def with_options(
        self, options: DpOptions, audited: Path | None = None, proves: Proves | None = None
    ) -> TrainingDefense:
        """The same with what the owner chose.

        Args:
            options: see there.
            audited: the model as it is, which training must not start from.
            proves: whether a guarantee to a unit proves what `options.to_policy` asks.
        """
        ...


class DataDefense(Defense):
    """A countermeasure that rewrites a data set before it is shared.

    Attributes:
        description: the copy that it writes, after "a copy of a data set", for the help.
        done: what was done to the text, as a participle ("evaded").
        undone: what somebody does to it who knows of that ("look-alikes folded back").
        breaks: what the copy is no good for.
        nothing: why a data set can hold nothing to rewrite, and what the countermeasure is for.
    """

    description: ClassVar[str]
    done: ClassVar[str]
    undone: ClassVar[str]
    breaks: ClassVar[str]
    nothing: ClassVar[tuple[str, str]]

    @abstractmethod
    def rewrite(self, document: Document) -> Document:
        """The document as it is shared: as many words, in the same places."""

    @abstractmethod
    def undo(self, document: Document) -> Document:
        """The document as somebody reads it who knows of the countermeasure; rewritten or not, it is the same."""

    @abstractmethod
    def cost(self, documents: Iterable[Document]) -> EvasionCost:
        """Measure what rewriting these documents changes and breaks."""

    @abstractmethod
    def write(self, corpus: Corpus, dst: Path) -> None:
        """Write the data set with every document rewritten; `dst` appears whole or not at all.

        Raises:
            DocauditError: `dst` is not empty, nothing is rewritten, or the files cannot be written.
        """
