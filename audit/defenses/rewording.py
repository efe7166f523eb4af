"""Ask a target other questions: what a countermeasure does that changes the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.cards import TargetCard
from audit.errors import TargetError
from audit.targets.interface import A, PageViewQuery, Query, Target


@dataclass(frozen=True, eq=False)
class Reworded(Target):
    """Ask a target another question; the page is laid before it as it comes.

    It answers what a target answers about a question on a page.

    Attributes:
        inner: the target it wraps.
        reword: gives the question that the inner target is asked. It must depend on its argument
            alone, so that an answer depends on its query alone.
    """

    inner: Target
    reword: Callable[[str], str]

    @property
    def card(self) -> TargetCard:  # type: ignore[override]
        """Return the inner target's card: its weights, page and answers are the same."""
        return self.inner.card

    @property
    def answers(self) -> frozenset[type[Query[Any]]]:  # type: ignore[override]
        """Return the query types that are left."""
        return _about_questions(self.inner)

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Ask the inner target the queries, with their questions reworded.

        Raises:
            TypeError: queries of a type that is not in `answers`.
        """
        changed: list[Query[A]] = []
        for query in queries:
            if type(query) not in self.answers or not isinstance(query, PageViewQuery):
                raise TypeError(
                    f"a target with reworded questions does not answer {type(query).__name__}"
                )
            changed.append(replace(query, question=self.reword(query.question)))
        return self.inner.ask(changed)


def reworded(name: str, target: Target, reword: Callable[[str], str]) -> Reworded:
    """Wrap a target so that `reword` changes every question.

    Args:
        name: name of the countermeasure.
        target: a target that answers questions about a page.
        reword: the change of a question; see `Reworded`.

    Raises:
        TargetError: it is asked no questions.
    """
    problem = ""
    if not _about_questions(target):
        problem = "answers no questions"
    elif target.card.task == "parsing":
        problem = "writes a page whole and is asked no question"
    if problem:
        raise TargetError(
            f"{target.card.architecture} {problem}: {name} changes none",
            "it is for models that answer questions about a page",
        )
    return Reworded(target, reword)


def _about_questions(target: Target) -> frozenset[type[Query[Any]]]:
    """Return the types of query that ask the target a question about a page."""
    return frozenset(kind for kind in target.answers if issubclass(kind, PageViewQuery))
