"""Targets that are asked another question: what countermeasures put around a model while it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.cards import TargetCard
from audit.errors import TargetError
from audit.targets.interface import A, Adaptation, PageViewQuery, Query, Target


@dataclass(frozen=True, eq=False)
class Reworded(Target):
    """A target that is asked another question than the one it gets; the page is laid before it as it comes.

    It answers what a target answers about a question on a page, but for `Adaptation`: who can train the model's weights
    has the model without what is around it.

    Attributes:
        inner: the target it wraps.
        reword: gives the question that the inner target is asked. It must depend on its argument alone, so that an
            answer depends on its query alone.
    """

    inner: Target
    reword: Callable[[str], str]

    @property
    def card(self) -> TargetCard:  # type: ignore[override]
        """The inner target's: its weights, page and answers are the same."""
        return self.inner.card

    @property
    def answers(self) -> frozenset[type[Query[Any]]]:  # type: ignore[override]
        """The query types that are left."""
        return _about_questions(self.inner) - {Adaptation}

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """See `Target.ask`.

        Raises:
            TypeError: queries of a type that is not in `answers`.
        """
        changed: list[Query[A]] = []
        for query in queries:
            if type(query) not in self.answers or not isinstance(query, PageViewQuery):
                raise TypeError(f"a target with reworded questions does not answer {type(query).__name__}")
            changed.append(replace(query, question=self.reword(query.question)))
        return self.inner.ask(changed)


def reworded(name: str, target: Target, reword: Callable[[str], str]) -> Reworded:
    """The target behind `reword`.

    Raises:
        TargetError: it is asked no questions.
    """
    if not _about_questions(target):
        raise TargetError(
            f"{target.card.architecture} answers no questions: {name} changes none",
            "it is for models that answer questions about a page",
        )
    if target.card.task == "parsing":
        raise TargetError(
            f"{target.card.architecture} writes a page whole and is asked no question: {name} changes none",
            "it is for models that answer questions about a page",
        )
    return Reworded(target, reword)


def _about_questions(target: Target) -> frozenset[type[Query[Any]]]:
    return frozenset(kind for kind in target.answers if issubclass(kind, PageViewQuery))
