"""The canaries of a data set in numbers, and what they mean for other attacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from audit.corpus.canaries.schema import CanarySet


@dataclass(frozen=True)
class CanaryCounts:
    """Canaries.

    Attributes:
        patterns: sorted.
        canaries: those that are put in and those that are not.
        included: those that their coins put in.
        documents: that hold them.
        pages: documents whose pages were copied for them.
    """

    patterns: tuple[str, ...]
    canaries: int
    included: int
    documents: int
    pages: int


def canary_counts(canaries: CanarySet | None) -> CanaryCounts | None:
    """The numbers; None without canaries."""
    if canaries is None:
        return None
    included = [canary for canary in canaries.canaries if canary.included]
    return CanaryCounts(
        patterns=tuple(sorted({canary.pattern for canary in canaries.canaries})),
        canaries=len(canaries.canaries),
        included=len(included),
        documents=sum(canary.copies for canary in included),
        pages=len({canary.carrier for canary in included if canary.carrier is not None}),
    )


def canary_warnings(counts: CanaryCounts | None) -> Iterator[str]:
    """Warn of all that limits an audit of a data set with canaries."""
    if counts is not None and counts.documents:
        copied = f", on copies of {counts.pages} pages" if counts.pages else ""
        yield (
            f"{counts.documents} member documents were put in with canaries{copied}: they have no counterpart among "
            "the held-out ones. For attacks other than that on canaries, use the data set as it was."
        )
