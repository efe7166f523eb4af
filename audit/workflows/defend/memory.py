"""Memorised answers before and after a countermeasure, question by question (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np

from audit.attacks.memorisation.contexts import WHOLE
from audit.attacks.memorisation.table import QuestionTable, Results
from audit.attacks.removal import PROVEN
from audit.defenses.comparison import Change, Extraction, anls_change, extraction_changes, side_channel
from audit.engine.interface import Json, Trial
from audit.measurements import Estimate

_MIN_DOCUMENTS = 2
"""Without so many no interval covers documents."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The trials of the memorisation attack with their outcomes, and the same as columns."""

    trials: Sequence[Trial]
    outcomes: Sequence[Json]
    table: QuestionTable


def changes_of(
    before: QuestionTable, after: QuestionTable, rng: np.random.Generator
) -> Generator[str, None, tuple[Change, ...]]:
    """Paired differences: of members in every context, and of the usefulness on held-out pages."""
    first, second = (_extractions(table.split("member").proven) for table in (before, after))
    pairs = {name: _shared(first[name], second[name]) for name in first if name in second}
    pairs = {name: pair for name, pair in pairs.items() if len(set(pair[0].documents)) >= _MIN_DOCUMENTS}
    changes = extraction_changes(
        {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}, rng
    )
    if not changes:
        yield "no answers of two member documents are proven to be off their pages: extraction is not compared"
    heldout = before.split("heldout")
    one, other = (table.split("heldout").results.get(WHOLE) for table in (before, after))
    if one is None or other is None:
        return changes
    tried = one.tried & other.tried
    documents = [asked.document.id for asked in heldout.asked[tried]]
    if len(set(documents)) < _MIN_DOCUMENTS:
        yield "fewer than two held-out documents were asked about: usefulness is not compared"
        return changes
    return (*changes, anls_change(one.target_anls[tried], other.target_anls[tried], documents, rng))


def _shared(one: Extraction, other: Extraction) -> tuple[Extraction, Extraction]:
    """Both on the questions that both have: a removal may be proven in one scan and not in the other."""
    names = set(one.questions) & set(other.questions)
    return _only(one, names), _only(other, names)


def _only(extraction: Extraction, names: set[str]) -> Extraction:
    kept = [index for index, name in enumerate(extraction.questions) if name in names]
    return Extraction(
        [extraction.questions[index] for index in kept],
        [extraction.documents[index] for index in kept],
        np.asarray(extraction.target)[kept],
        np.asarray(extraction.baseline)[kept],
    )


def _extractions(table: QuestionTable) -> dict[str, Extraction]:
    """The replies of the model and its baselines, by context."""
    return {
        name: _extraction(table.where(results.tried), results.where(results.tried))
        for name, results in table.results.items()
        if name != WHOLE
    }


def _extraction(table: QuestionTable, results: Results) -> Extraction:
    return Extraction(
        [f"{asked.document.id}/{asked.question.id}" for asked in table.asked],
        [asked.document.id for asked in table.asked],
        results.target,
        results.baseline,
    )


def refusals_as_sign(
    memory: Memory, refuses: Callable[[str], bool], rng: np.random.Generator
) -> Generator[str, None, Estimate | None]:
    """The AUC at which a taught refusal separates members from held-out pages, the answers removed."""
    sides: dict[bool, tuple[list[float], list[str]]] = {True: ([], []), False: ([], [])}
    rows = zip(memory.table.member, memory.table.status, memory.trials, memory.outcomes, strict=True)
    for member, status, trial, outcome in rows:
        replies = outcome.get("replies", {}).get("exact")
        if replies is not None and status == PROVEN:
            sides[bool(member)][0].append(float(refuses(replies[0]["text"])))
            sides[bool(member)][1].append(trial.unit)
    if any(len(set(documents)) < _MIN_DOCUMENTS for _, documents in sides.values()):
        yield "fewer than two member or held-out documents were asked about: the side channel is not measured"
        return None
    return side_channel(*sides[True], *sides[False], rng)
