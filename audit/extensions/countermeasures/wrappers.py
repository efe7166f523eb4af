"""Change the question while a model is used.

By paraphrases and random strings (Pinto et al. 2024, section 4).

Both follow Somepalli et al. (2023). Random choices follow from the question, so that an answer
depends on its query alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from audit.cards import TargetCard
from audit.corpus.paraphrases import paraphrase
from audit.errors import TargetError
from audit.report.remedies import QueryDefense
from audit.targets.interface import A, PageViewQuery, Query, Target

N_DIGITS = 6
"""As in the paper: "a short 6-digit random string"."""


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
        target: answers questions about a page.
        reword: function that rewords a question, see `Reworded`.

    Raises:
        TargetError: it is asked no questions.
    """
    answers_none = not _about_questions(target)
    if answers_none or target.card.task == "parsing":
        why = (
            "answers no questions"
            if answers_none
            else "writes a page whole and is asked no question"
        )
        raise TargetError(
            f"{target.card.architecture} {why}: {name} changes none",
            "it is for models that answer questions about a page",
        )
    return Reworded(target, reword)


@dataclass(frozen=True)
class Paraphrase(QueryDefense):
    """Put the question in other words, so that memory of the very words of training finds no hold.

    Attributes:
        seed: together with the question it chooses among the ways to put it. An attacker who knows
            the countermeasure can ask in several ways himself, so this is one draw, not the best of
            many.
    """

    seed: int = 0
    name = "paraphrase"
    title = "Question paraphrased"

    def seeded(self, seed: int) -> Paraphrase:
        """Return the same countermeasure with this seed."""
        return replace(self, seed=seed)

    def wrap(self, target: Target) -> Reworded:
        """Return a target that paraphrases every question."""
        return reworded(self.name, target, self._reword)

    def _reword(self, question: str) -> str:
        return paraphrase(question, _seed_of(self.seed, self.name, question))


@dataclass(frozen=True)
class RandomString(QueryDefense):
    """Put six random digits, set off by a space, before or after the question.

    In use they would be drawn anew each time; here they follow from the question, which is one such
    draw and can be repeated.

    Attributes:
        where: before the question, or after it.
        seed: together with the question it gives the digits.
    """

    where: Literal["before", "after"] = "before"
    seed: int = 0

    @property
    def name(self) -> str:
        """Return the name in commands and records."""
        return f"random-{self.where}"

    @property
    def title(self) -> str:
        """Return the heading in reports."""
        return f"Random string {self.where} the question"

    def seeded(self, seed: int) -> RandomString:
        """Return the same countermeasure with this seed."""
        return replace(self, seed=seed)

    def wrap(self, target: Target) -> Reworded:
        """Return a target that adds a random string to every question."""
        return reworded(self.name, target, self._reword)

    def _reword(self, question: str) -> str:
        rng = np.random.default_rng(_seed_of(self.seed, self.name, question))
        digits = f"{rng.integers(10**N_DIGITS):0{N_DIGITS}}"
        return f"{digits} {question}" if self.where == "before" else f"{question} {digits}"


def _seed_of(seed: int, name: str, question: str) -> int:
    """Derive 63 bits from the seed, the name of the countermeasure and the question."""
    digest = hashlib.sha256(f"{seed}\0{name}\0{question}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def _about_questions(target: Target) -> frozenset[type[Query[Any]]]:
    """Return the types of query that ask the target a question about a page."""
    return frozenset(kind for kind in target.answers if issubclass(kind, PageViewQuery))


BEFORE, AFTER = RandomString("before"), RandomString("after")
