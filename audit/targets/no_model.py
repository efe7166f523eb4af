"""No model: what an audit of the text alone has in a model's place. It answers nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from audit.cards import NO_MODEL, TargetCard
from audit.corpus.documents import Corpus
from audit.targets.interface import Query

NONE_AUDITED = "no model was audited"
"""Why whatever needs a model is inapplicable."""


class NoModel:
    """The place of the model in an audit that has none.

    Args:
        corpus: the data set whose text is audited.
    """

    answers: frozenset[type[Query[Any]]] = frozenset()
    labels: tuple[str, ...] = ()
    batch_rows: ClassVar[int] = 1
    lowered: ClassVar[int] = 0

    def __init__(self, corpus: Corpus) -> None:
        self.card = TargetCard(
            name=NO_MODEL,
            family=NO_MODEL,
            task=corpus.manifest.task.kind,
            architecture=NONE_AUDITED,
            parameters=0,
            vocabulary=0,
            max_tokens=0,
            sha256="0" * 64,
            device="cpu",
            dtype="float32",
        )

    def ask(self, queries: Sequence[Query[Any]]) -> NoReturn:
        """Refuse: there is nothing to ask.

        Raises:
            ValueError: always.
        """
        raise ValueError(NONE_AUDITED)

    def rounded(self, dtype: str) -> NoModel:
        """Return the same: there are no weights to round."""
        return self
