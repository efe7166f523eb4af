"""Count what an attack gives away, out of all that the documents of training hold.

Values, documents, kinds. An attack tries as many values as its budget allows. A count is scaled to
all distinct values that could be tried, so that neither the budget nor a scan that stops early
changes what it is a count of (methods/index.md#counts).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Floats, Ints
from audit.attacks.budget import MEMBERS, side_of
from audit.attacks.interface import AUDITED, WORDS
from audit.attacks.measuring import NEEDED_DOCUMENTS, RETRAIN, DocumentColumns
from audit.measurements import Check, Estimate, Measurement, Unresolved
from audit.stats import rates
from audit.stats.estimates import estimate
from audit.stats.intervals import FINE_ALPHAS, Interval, cluster_sums
from audit.stats.leaking import chance_of_value, chances_to_be_tried, count_leaking, leaking_p
from audit.stats.ranking import excess_p
from audit.stats.roc import FEW

FEWEST_OF_KIND = 6
"""Documents of a split under which no values of a kind are tested: they could hardly show
anything."""
FEWEST_OTHERS = 2
"""Documents of a split without which none are counted: one does not show what luck gives."""
Excess = Callable[..., Interval]
"""`stats.rates.excess_rate` or `excess_mean`."""


class Row(NamedTuple):
    """A row that an attack can try: a field or a question.

    Attributes:
        document: its id.
        stratum: stratum that it is drawn in, see `engine.interface.Trial`.
        value: a name for what the row says, the same for all that count as one value.
        counted: whether a count is of such values, which stand in no other document.
    """

    document: str
    stratum: str
    value: str
    counted: bool

    @property
    def member(self) -> bool:
        """Tell whether the row is about a member document."""
        return _is_of_training(self.stratum)


@cache
def _is_of_training(stratum: str) -> bool:
    """Tell whether trials of a stratum are of documents of training.

    There are few strata, and many rows.
    """
    return side_of(stratum) in MEMBERS


@dataclass(frozen=True, eq=False)
class Population:
    """The distinct values that a count is of, and how likely each was to be tried.

    A distinct value is what one document says, however often it says it. It was tried if one of its
    rows was.

    Attributes:
        values: distinct values of documents of training that could be measured, tried or not.
        documents: documents of training that hold one.
        complete: whether all rows of each tried document of training were measured.
        by_lot: whether a lot chose which documents are members, so that luck alone differs between
            the sides.
        n_rows: rows that could be tried, by document and stratum.
        n_same: rows of these that hold a value, by document and value.
        chances: chances by stratum, see `leaking.chances_to_be_tried`.
    """

    values: int
    documents: int
    complete: bool
    by_lot: bool
    n_rows: Mapping[tuple[str, str], int]
    n_same: Mapping[tuple[str, str], Mapping[str, int]]
    chances: Mapping[str, Floats]

    @classmethod
    def of(
        cls,
        offered: Sequence[Row],
        tried: Sequence[Row],
        *,
        by_lot: bool,
        measured: Sequence[Row] | None = None,
    ) -> Population:
        """Describe the rows that could be tried, and the chance of each to be tried.

        Args:
            offered: all rows that could be tried, of both sides, drawn as `attacks.budget.sample`
                draws them.
            tried: rows that were tried.
            by_lot: whether a lot chose the members, see above.
            measured: rows of these that the attack measured anything of; None: all. Of the values
                that were not tried, as large a share is taken to be measurable.
        """
        n_rows = Counter((row.document, row.stratum) for row in offered)
        n_tried = Counter((row.document, row.stratum) for row in tried)
        n_same: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for row in offered:
            if row.counted:
                by_stratum = n_same[row.document, row.value]
                by_stratum[row.stratum] = by_stratum.get(row.stratum, 0) + 1
        values = _values_of(offered)
        population = cls(
            values=len(values),
            documents=len({value.document for value in values}),
            complete=measured is None and _is_complete(tried, n_rows, n_tried),
            by_lot=by_lot,
            n_rows=n_rows,
            n_same=n_same,
            chances=_chances_of_strata(n_rows, n_tried),
        )
        return population if measured is None else population._measurable(tried, measured)

    def _measurable(self, tried: Sequence[Row], measured: Sequence[Row]) -> Population:
        """Reduce the totals by the share of values and documents whose trials measured nothing."""
        before = _values_of(tried)
        after = _values_of(measured)
        if not before:
            return self
        share = float(self.weights(after).sum() / self.weights(before).sum())
        documents = len({value.document for value in after}) / len(
            {value.document for value in before}
        )
        return replace(
            self, values=round(self.values * share), documents=round(self.documents * documents)
        )

    def weights(self, rows: Sequence[Row]) -> Floats:
        """Return the weight of each row: how many values its own value stands for.

        The inverse of its chance to be tried, shape (n_rows,).
        """
        return np.array([self._weight(row) for row in rows], np.float64)

    def _weight(self, row: Row) -> float:
        """Return 1 / the chance that any row of its value was tried; 1.0 where nothing is known."""
        missed = 1.0
        for stratum, n_same in self.n_same.get((row.document, row.value), {}).items():
            missed *= 1 - chance_of_value(
                self.n_rows[row.document, stratum], n_same, self.chances[stratum]
            )
        # A value that no count is of has no chance, and weighs nothing that anybody sums up.
        return 1.0 if missed == 1.0 else 1 / (1 - missed)


Places = Mapping[tuple[str, str], int]
"""Numbers of rows by document and stratum."""


def _is_complete(tried: Sequence[Row], n_rows: Places, n_tried: Places) -> bool:
    """Tell whether every row of each document of training that was tried at all was tried."""
    started = {row.document for row in tried if row.member}
    left = [
        place for place, n in n_rows.items() if place[0] in started and n_tried.get(place, 0) < n
    ]
    return not left


def _chances_of_strata(n_rows: Places, n_tried: Places) -> dict[str, Floats]:
    """Compute for each stratum the chance that a document has its r-th row tried, r = 1, 2, ..."""
    by_stratum: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for place in sorted(n_rows):
        by_stratum[place[1]].append(place)
    chances = {}
    for stratum, places in by_stratum.items():
        tried = [n_tried.get(place, 0) for place in places]
        chances[stratum] = chances_to_be_tried([n_rows[place] for place in places], tried)
    return chances


def _values_of(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each distinct value of documents of training that counts include."""
    by_name = {(row.document, row.value): row for row in rows if row.member and row.counted}
    return [*by_name.values()]


@dataclass(frozen=True, eq=False)
class TriedValues(DocumentColumns):
    """Values that an attack tried; every column has shape (n_values,).

    Attributes:
        member: whether the document is a member.
        cluster: a number for the document.
        value: a number for what the value says.
        attack, baseline: how far it was found with the model and without it, in [0, 1].
        weight: number of values that it stands for, see `Population.weights`.
    """

    member: Bools
    cluster: Ints
    value: Ints
    attack: Floats
    baseline: Floats
    weight: Floats

    @property
    def columns(self) -> list[rates.Columns]:
        """Return the rows of both splits that an `Excess` compares."""
        sides = [self.split(split) for split in AUDITED]
        return [(rows.attack, rows.baseline, rows.cluster) for rows in sides]

    @property
    def weights(self) -> list[Floats] | None:
        """Return the weights of both splits; None where all are alike."""
        sides = [self.split(split).weight for split in AUDITED]
        return None if all(np.ptp(side) == 0 for side in sides) else sides

    def too_few(self, name: str, least: int = 2) -> Unresolved | None:
        """Return why members and held-out documents cannot be compared; None where they can."""
        for split in AUDITED:
            reason = f"fewer than {least} {WORDS[split]} documents with such values"
            n = self.split(split).n_documents
            if n < least:
                return Unresolved(name, reason, n, NEEDED_DOCUMENTS)
        return None

    def distinct(self) -> TriedValues:
        """Return one row for each distinct value of a document.

        As far as it was found anywhere on the page.
        """
        keys = np.stack([self.cluster, self.value])
        _, first, row_of = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        attack = np.zeros(first.size)
        baseline = np.zeros(first.size)
        np.maximum.at(attack, row_of.ravel(), self.attack)
        np.maximum.at(baseline, row_of.ravel(), self.baseline)
        return TriedValues(
            self.member[first],
            self.cluster[first],
            self.value[first],
            attack,
            baseline,
            self.weight[first],
        )

    def needs_baseline(self, population: Population) -> bool:
        """Tell whether counts subtract what is found without the model within each side.

        See `rates.needs_baseline`.
        """
        return rates.needs_baseline(self.columns, by_lot=population.by_lot, weights=self.weights)

    def with_needed_baseline(self, population: Population) -> TriedValues:
        """Return one row a distinct value, its baseline zero where none is to be subtracted.

        None where `needs_baseline` asks for none.
        """
        values = self.distinct()
        if values.needs_baseline(population):
            return values
        return replace(values, baseline=np.zeros_like(values.baseline))

    @property
    def most_of_a_document(self) -> int:
        """Return the most values of a document that were tried."""
        return int(np.unique(self.cluster, return_counts=True)[1].max())


def count_values(
    name: str, tried: TriedValues, population: Population, excess: Excess, rng: Generator
) -> Measurement:
    """Count the distinct values of training that are given away.

    Their number times their excess over unseen ones.
    """
    values = tried.distinct()
    few = values.too_few(name)
    if few is not None:
        return few
    columns = rates.choose_columns(values.columns, by_lot=population.by_lot, weights=values.weights)
    share = excess(columns, rng, values.weights)
    counted = estimate(name, rates.scaled(share, population.values), "values", 0.0, "held-out")
    return replace(counted, n=len(values.split("member")), total=population.values)


def count_documents(name: str, tried: TriedValues, population: Population) -> Measurement:
    """Count the documents of training that leak a value.

    Those that give one away, beyond unseen documents.
    """
    few = tried.too_few(name, FEWEST_OTHERS)
    if few is not None:
        return few
    values = tried.with_needed_baseline(population)
    inside, outside = _by_document(values)
    total = max(population.documents, inside.size)
    counted = count_leaking(
        inside, outside, values.most_of_a_document, total, complete=population.complete
    )
    measured = estimate(name, counted, "documents", 0.0, "held-out")
    return replace(measured, total=total, open_above=not population.complete)


def _by_document(values: TriedValues) -> list[Floats]:
    """Count the values that each member, and each held-out document, gives away.

    The shape is (n_documents,) each.
    """
    sides = [values.split(split) for split in AUDITED]
    sums = [cluster_sums([rows.attack - rows.baseline], rows.cluster) for rows in sides]
    return [side[:, 0] for side in sums]


@dataclass
class KindsCheck:
    """The excesses of kinds of values, and documents given away, tested together while they are measured.

    Attributes:
        allowed: the largest excess that is no alarm.
        by_lot: whether a lot chose the members.
        found: p-value, and what was found, in words; one for each kind, or for documents, and
            method.
    """

    allowed: float
    by_lot: bool
    found: list[tuple[float, str]] = field(default_factory=list)

    def test(self, words: str, tried: TriedValues, excess: Excess, rng: Generator) -> None:
        """Test whether values of one kind, which `words` names, are known; record the p-value.

        Few documents show nothing.
        """
        if tried.too_few(words, FEWEST_OF_KIND) is not None:
            return
        if tried.too_few(words, FEW) is not None:
            # Of small groups, the documents that give away more values with the model than without
            # it.
            inside, outside = _by_document(tried)
            numbers = int((inside > 0).sum()), len(inside), int((outside > 0).sum()), len(outside)
            p_value = excess_p(*numbers, self.allowed)
        else:
            columns = rates.choose_columns(tried.columns, by_lot=self.by_lot)
            p_value = excess(columns, rng).p_above(self.allowed, FINE_ALPHAS)
        member, heldout = (
            f"{rows.attack.sum():.0f} of {len(rows)}" for rows in map(tried.split, AUDITED)
        )
        reason = f"training leaks {words}: {member} in training documents, {heldout} in unseen ones"
        self.found.append((p_value, reason))

    def count_documents(self, name: str, tried: TriedValues, population: Population) -> Measurement:
        """Count the member documents that leak a value, and record the p-value of that leak."""
        counted = count_documents(name, tried, population)
        if isinstance(counted, Estimate):
            values = tried.with_needed_baseline(population)
            inside, outside = _by_document(values)
            p_value = leaking_p(inside, outside, values.most_of_a_document)
            reason = f"about {counted.value:.0f} of {counted.total} training documents leak values of their own"
            self.found.append((p_value, reason))
        return counted

    def check(self) -> tuple[Check, ...]:
        """Return the check of all recorded p-values: is any kind of values or document known.

        That is so whatever is known of all values together.
        """
        if not self.found:
            return ()
        p_value, reason = min(self.found)
        return (
            Check("known values", min(1.0, len(self.found) * p_value), "alarm", reason, RETRAIN),
        )
