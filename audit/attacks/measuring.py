"""Measure what attacks share.

That is streams of random numbers, jobs in order, tables of values, and histograms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks.interface import AUDITED
from audit.attacks.text import CATEGORY_LABELS, SHARED
from audit.corpus.documents import Document
from audit.corpus.folding import fold
from audit.engine.interface import Progress, Trial
from audit.measurements import PASS_ALPHA, Coverage, Estimate, Histogram, Measurement
from audit.stats import rates
from audit.stats.distances import NEAR_LETTERS, NEAR_SIMILARITY, similarity
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval
from audit.stats.paired import UnitScores

Item = TypeVar("Item")
Mean = Literal["geometric", "arithmetic"]
TEMPERATURE = 0.3
TARGET_WEIGHT = 0.4
MEAN: Mean = "geometric"
"""The settings that docaudit ships; the paper gives ranges."""
NEEDED_DOCUMENTS = math.ceil(math.log(PASS_ALPHA) / math.log1p(-0.05))
"""From so many documents on, no hit at all shows a rate under 0.05 for a pass
(methods/index.md#power-and-coverage): 59."""
INPUT_ONLY = "input_only"
"""The group of values that training never named."""
NEAR = "near"
"""The method that counts what is nearly right as well, see `is_near`."""
MEMORY = 2.0
"""By which a positive control makes the true candidate likelier, see `memory_of`."""


def log_softmax(scores: Floats) -> Floats:
    """Compute the logarithm of the softmax of `scores`, shape (n_candidates,)."""
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()), np.float64)


def log_likelihood_of_losses(losses: Floats, temperature: float) -> tuple[Floats, bool]:
    """Compute log softmax((2 - l / median(l)) / T), and whether the losses could be used.

    A median of 0 or a loss that is not finite says nothing about the candidates: the likelihood is
    uniform then, and the second value False.
    """
    median = float(np.median(losses)) if np.isfinite(losses).all() else 0.0
    if median == 0.0:
        return np.full(len(losses), -np.log(len(losses))), False
    return log_softmax((2 - losses / median) / temperature), True


def combine(log_public: Floats, log_target: Floats, target_weight: float, mean: Mean) -> Floats:
    """Compute the log of the weighted mean of both likelihoods, renormalised: (n_candidates,).

    (n_candidates,).
    """
    if mean == "geometric":
        return log_softmax(target_weight * log_target + (1 - target_weight) * log_public)
    with np.errstate(divide="ignore"):  # a weight of 0 or 1 leaves one likelihood out
        weights = np.log([target_weight, 1 - target_weight])
    return log_softmax(np.logaddexp(weights[0] + log_target, weights[1] + log_public))


def memory_of(values: Floats) -> float:
    """Compute how strong a planted memory is.

    That is `MEMORY` standard deviations of the difference between two candidates.

    Args:
        values: (n_candidates,) losses or logits; those that are not finite do not count.
    """
    finite = values[np.isfinite(values)]
    return MEMORY * math.sqrt(2) * float(finite.std()) if finite.size else 0.0


def is_near(text: str, right: str) -> bool:
    """Test whether a text gives a value away, with a few wrong letters at most.

    Digits must be right.
    """
    guess = fold(text)
    value = fold(right)
    if guess == value:
        return True
    if sum(map(str.isalpha, value)) < NEAR_LETTERS:
        return False
    digits = [character for character in guess if character.isdigit()]
    expected_digits = [character for character in value if character.isdigit()]
    return digits == expected_digits and similarity(guess, value) >= NEAR_SIMILARITY


class Columns:
    """A dataclass of columns, of tables, and of dictionaries of either."""

    def where(self, mask: Bools) -> Self:
        """Return the rows that `mask`, shape (n_rows,), marks."""
        columns = {name: _take_rows(column, mask) for name, column in vars(self).items()}
        return type(self)(**columns)


def _take_rows(value: Any, mask: Bools) -> Any:
    """Return the marked rows of an array, of a table, or of each value of a dictionary."""
    if isinstance(value, dict):
        return {name: _take_rows(column, mask) for name, column in value.items()}
    if isinstance(value, Columns):
        return value.where(mask)
    return value[mask]


class DocumentColumns(Columns):
    """A table whose rows are parts of documents.

    Attributes:
        member: whether the document is a member, shape (n_rows,).
        cluster: a number for the document, shape (n_rows,).
    """

    member: Bools
    cluster: Ints

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.cluster)

    def split(self, name: str) -> Self:
        """Return the rows of "member" or "heldout" documents."""
        return self.where(self.member if name == "member" else ~self.member)

    @property
    def n_documents(self) -> int:
        """Count the documents that the rows come from."""
        return len(np.unique(self.cluster))


@dataclass(frozen=True, eq=False)
class ValueColumns(DocumentColumns):
    """One row a value that an attack tried; every column has shape (n_values,).

    Attributes:
        member, unique: whether the value is a member's, and stands in no other document of any
            split.
        input_only: whether training never named the value (`audit.attacks.fields`); nowhere where
            it named none.
        category: names.
        cluster: a number for the value's document.
        value: a number for what the value says.
        weight: number of values that it stands for (`counting.Population.weights`); 1 where all
            were tried.
    """

    member: Bools
    unique: Bools
    input_only: Bools
    category: NDArray[np.str_]
    cluster: Ints
    value: Ints
    weight: Floats

    def group(self, name: str) -> Self:
        """Return the rows of a group: "unique", "repeated", of the input alone, or all."""
        return self.where(self.rows(name))

    def rows(self, group: str) -> Bools:
        """Mark the rows of a group of values, shape (n_rows,).

        The groups "unique", "repeated" and any other (all) hold values that training named,
        `INPUT_ONLY` those that it did not.
        """
        if group == "unique":
            counted = self.unique
        elif group == "repeated":
            counted = ~self.unique
        else:
            counted = np.ones(len(self), bool)
        return np.asarray(counted & (self.input_only == (group == INPUT_ONLY)), bool)

    def kinds(self, names: Iterable[str]) -> dict[str, tuple[str, Self]]:
        """Return the rows of each kind of values that is tested by itself, with words for it.

        These are each category, and the values of the input alone.
        """
        kinds = {
            name: (
                f"values of the kind “{CATEGORY_LABELS.get(name, name)}”",
                self.where(self.category == name),
            )
            for name in sorted(names)
        }
        kinds[f"{INPUT_ONLY}.kind"] = (SHARED["kinds"][INPUT_ONLY], self.group(INPUT_ONLY))
        return kinds

    def holds_input_only(self, least: int) -> bool:
        """Return whether so many documents of either split hold values of the input alone."""
        return min(self.group(INPUT_ONLY).split(split).n_documents for split in AUDITED) >= least


class ValueRow(NamedTuple):
    """One value that an attack tried, as `columns_of` takes it.

    Attributes:
        document: the document that holds it.
        value: what it says.
        unique: whether it stands in no other document of any split.
        input_only: whether training never named it.
        category: its category.
    """

    document: Document
    value: str
    unique: bool
    input_only: bool
    category: str


def columns_of(values: Iterable[ValueRow]) -> dict[str, Any]:
    """Make the columns of `ValueColumns` from the values that an attack tried."""
    rows = list(values)
    input_only = [row.input_only for row in rows]
    return {
        "member": np.array([row.document.split == "member" for row in rows], bool),
        "unique": np.array([row.unique for row in rows], bool),
        "input_only": np.array(input_only, bool) & (not all(input_only)),
        "category": np.array([row.category for row in rows], np.str_),
        "cluster": np.unique([row.document.id for row in rows], return_inverse=True)[1],
        "value": np.unique(np.array([row.value for row in rows], np.str_), return_inverse=True)[1],
        "weight": np.ones(len(rows)),
    }


def scores_of(trials: Iterable[Trial], taken: Bools, member: Bools, values: Floats) -> UnitScores:
    """Return the values of the trials that `taken` marks; all arrays have shape (n_trials,)."""
    scored = [trial for trial, is_taken in zip(trials, taken, strict=True) if is_taken]
    ids = [trial.id for trial in scored]
    clusters = [trial.cluster for trial in scored]
    return UnitScores(ids, clusters, member[taken], values[taken])


def gains_of(
    attack: Floats, baseline: Floats, table: DocumentColumns, taken: Bools, *, by_lot: bool
) -> Floats:
    """Compute what each value adds to an excess.

    That is what the attack finds, less the baseline where that is taken off.

    Args:
        attack: how far each value was found with the model, (n_values,).
        baseline: the same without it.
        table: table of the values.
        taken: mask of the values that the excess is of, (n_values,).
        by_lot: whether a lot chose the members, see `rates.needs_baseline`.
    """
    sides = [taken & table.member, taken & ~table.member]
    if not all(side.any() for side in sides):
        return attack - baseline
    columns: list[rates.Columns] = [
        (attack[side], baseline[side], table.cluster[side]) for side in sides
    ]
    if rates.needs_baseline(columns, by_lot=by_lot):
        return attack - baseline
    return attack


DOCUMENTS = "documents_identified"
VALUES = "values_identified"
"""Counts of what an attack gives away for certain: documents, and distinct values, beyond the
control."""
RETRAIN = "train again with a countermeasure (docaudit fix), then scan again"
"""The remedy of a check that shows a leak."""
Job = Callable[[], Measurement]
"""One measurement as a call, so that progress can be shown between measurements."""


class Streams:
    """Random generators by name, each independent of which others are asked for and when.

    Every metric, check and control resamples with its own stream, so that removing one changes no
    other.
    """

    def __init__(self, rng: Generator) -> None:
        """Draw the common seed from `rng`."""
        self._seed = int(rng.integers(2**63))

    def __getitem__(self, name: str) -> Generator:
        """Return a new generator, seeded by the common seed and the name."""
        return default_rng([self._seed, *name.encode()])


def scatter(items: Iterable[Item], names: Iterable[str]) -> list[Item]:
    """Order items by hashes of their names: a fixed order that depends on no other."""
    hashed = zip(map(hash_of, names), items, strict=True)
    return [item for _, item in sorted(hashed, key=lambda pair: pair[0])]


def hash_of(name: str) -> bytes:
    """Return a number for a name that says nothing of it, as bytes."""
    return sha256(name.encode()).digest()


def estimate_without_null(name: str, interval: Interval, unit: str) -> Estimate:
    """Return an estimate that no null value belongs to."""
    return replace(estimate(name, interval, unit, 0.0, "chance"), null=None, null_kind=None)


def run_jobs(stage: str, jobs: Iterable[Job], progress: Progress) -> list[Measurement]:
    """Run the jobs in order, each an advance of the stage."""
    listed = list(jobs)
    progress.stage(stage, len(listed))
    measurements = []
    for job in listed:
        measurements.append(job())
        progress.advance()
    return measurements


def cover(
    unit: str,
    names: Iterable[str],
    tried: Counter[str],
    total: Counter[str],
    unique: Counter[str] | None = None,
) -> tuple[Coverage, ...]:
    """Count what was tried of all there is, and the unique of it.

    Counted is in all, and in each of `names` that there is.
    """
    n_unique = None if unique is None else unique.total()
    rows = [Coverage("all", tried.total(), total.total(), unit, n_unique)]
    for name in names:
        if total[name]:
            n_unique = None if unique is None else unique[name]
            rows.append(Coverage(name, tried[name], total[name], unit, n_unique))
    return tuple(rows)


def count_returned(found: Mapping[str, tuple[Bools, Ints]]) -> Histogram:
    """Count documents by how many of their values came back.

    Args:
        found: hits and documents by side, both (n_values,).
    """
    returned = {}
    for side, (hits, documents) in found.items():
        rows = np.unique(documents, return_inverse=True)[1]
        returned[side] = np.bincount(rows, hits)
    most = max([0, *(int(sums.max(initial=0)) for sums in returned.values())])
    edges = np.arange(most + 2) - 0.5
    counts = {side: tuple(np.histogram(sums, edges)[0].tolist()) for side, sums in returned.items()}
    return Histogram("returned", "values that came back", tuple(map(float, edges)), counts)
