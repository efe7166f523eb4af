"""The kinds of countermeasure that `docaudit defend` measures.

Beside them are those that wrap a model (`QueryDefense`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from audit.defenses.interface import Defense

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.engine.interface import Progress
    from audit.workflows.options import ScanOptions


@dataclass(frozen=True)
class RetrainedModel:
    """A model that was trained with a countermeasure.

    Attributes:
        model: its checkpoint.
        data: the data set whose public documents train its baselines.
        start: what its baselines are trained from, so that they have the countermeasure too; None:
            the audited model's.
    """

    model: Path
    data: Path
    start: Path | None = None


class TrainingDefense(Defense):
    """Train the model again.

    Attributes:
        description: the model that it trains, after "a model that is", for the help.
        teaches_refusal: whether it teaches an answer that may tell members from others: then that
            is measured.
        baselines_like: whether its baselines are trained with it too; False: those of the model as
            it was stay, because a model that saw no member has nothing to hide.
        keeps_adapter: whether an audited adapter is trained anew as an adapter; False: its base is
            trained.
        takes_settings: whether `with_settings` takes settings of its owner.
    """

    description: ClassVar[str]
    teaches_refusal: ClassVar[bool] = False
    baselines_like: ClassVar[bool] = True
    keeps_adapter: ClassVar[bool] = True
    takes_settings: ClassVar[bool] = False

    @abstractmethod
    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        """Train the model from `start` into `out`, once.

        It is trained as the audited one was, but for the countermeasure.

        Raises:
            DocauditError: it cannot be trained.
        """

    def check(self, corpus: Corpus, start: Path) -> None:  # most can train on whatever has a recipe
        """Refuse what `train` would refuse, before hours are spent on the scan without it.

        Raises:
            DocauditError: see `train`.
        """

    def refuses(self, answer: str) -> bool:
        """Test whether an answer is the taught refusal; asked only where `teaches_refusal`."""
        return False

    def with_settings(self, settings: dict[str, Any], options: ScanOptions) -> TrainingDefense:
        """Return this countermeasure with the owner's settings, by name.

        Raises:
            UsageError: it has no such setting.
        """
        return self
