"""Values that an attack gives away: how many, in how many documents, and whether one kind of value is known.

Method: methods.md#statistics, "Counts".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Floats, Ints
from audit.attacks.interface import AUDITED, LABELS
from audit.attacks.measuring import RETRAIN, DocumentColumns
from audit.measurements import Check, Estimate, Measurement, Unresolved
from audit.stats.intervals import FINE_ALPHAS, Interval, cluster_sums
from audit.stats.ranking import ALLOWED, FEWEST_OTHERS, count_outranking, excess_p, outranking_p
from audit.stats.rates import Columns, scaled
from audit.stats.roc import FEW
from audit.targets.utility import estimate

NEEDED_DOCUMENTS = 72
"""From so many documents on, no hit at all shows a rate under 0.05 (methods.md#statistics)."""
FEWEST_OF_KIND = 6
"""Documents of a split under which no values of a kind are tested: they could hardly show anything."""
Excess = Callable[..., Interval]
"""`stats.rates.excess_rate` or `excess_mean`."""


@dataclass(frozen=True, eq=False)
class TriedValues(DocumentColumns):
    """Values that an attack tried; every column has shape (n_values,).

    Attributes:
        member: whether the document is a member.
        cluster: a number for the document.
        value: a number for what the value says.
        attack, baseline: how far it was found with the model and without it, in [0, 1].
    """

    member: Bools
    cluster: Ints
    value: Ints
    attack: Floats
    baseline: Floats

    @property
    def columns(self) -> list[Columns]:
        """The rows of both splits that an `Excess` compares."""
        sides = [self.split(split) for split in AUDITED]
        return [(rows.attack, rows.baseline, rows.cluster) for rows in sides]

    def too_few(self, name: str, least: int = 2) -> Unresolved | None:
        """Return why members and held-out documents cannot be compared; None where they can."""
        for split in AUDITED:
            n = self.split(split).n_documents
            if n < least:
                return Unresolved(
                    name, f"fewer than {least} {LABELS[split]} documents with such values", n, NEEDED_DOCUMENTS
                )
        return None

    def distinct(self) -> TriedValues:
        """Return one row for each value of a document: as far as it was found anywhere on the page."""
        keys = np.stack([self.cluster, self.value])
        _, first, row_of = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        attack, baseline = np.zeros(first.size), np.zeros(first.size)
        np.maximum.at(attack, row_of.ravel(), self.attack)
        np.maximum.at(baseline, row_of.ravel(), self.baseline)
        return TriedValues(self.member[first], self.cluster[first], self.value[first], attack, baseline)


def count_values(name: str, tried: TriedValues, excess: Excess, rng: Generator) -> Measurement:
    """Count the distinct member values that are given away: their number times their excess over held-out values."""
    values = tried.distinct()
    few = values.too_few(name)
    if few is not None:
        return few
    share = excess(values.columns, rng)
    return estimate(name, scaled(share, len(values.split("member"))), "values", 0.0, "held-out")


def count_documents(name: str, tried: TriedValues) -> Measurement:
    """Count the member documents that give away more distinct values than all but one of the held-out documents."""
    values = tried.distinct()
    few = values.too_few(name, FEWEST_OTHERS)
    if few is not None:
        return few
    return estimate(name, count_outranking(*_by_document(values)), "documents", 0.0, "chance")


def _by_document(values: TriedValues) -> list[Floats]:
    """Count the values that each member, and each held-out document, gives away: shape (n_documents,) each."""
    sides = [values.split(split) for split in AUDITED]
    sums = [cluster_sums([rows.attack - rows.baseline], rows.cluster) for rows in sides]
    return [side[:, 0] for side in sums]


@dataclass
class KindsCheck:
    """The excesses of kinds of values, and documents given away, tested together while they are measured.

    Attributes:
        allowed: the largest excess that is no alarm.
        found: p-value, and what was found, in words; one for each kind, or for documents, and method.
    """

    allowed: float
    found: list[tuple[float, str]] = field(default_factory=list)

    def test(self, words: str, tried: TriedValues, excess: Excess, rng: Generator) -> None:
        """Test the excess of one kind of values, which `words` names, by one method; few documents show nothing."""
        if tried.too_few(words, FEWEST_OF_KIND) is not None:
            return
        if tried.too_few(words, FEW) is not None:
            p_value = self._exact(tried)
        else:
            p_value = excess(tried.columns, rng).p_above(self.allowed, FINE_ALPHAS)
        counts = (f"{rows.attack.sum():.0f} of {len(rows)}" for rows in (tried.split(split) for split in AUDITED))
        member, heldout = counts
        shown = f"{words} are known because of training: {member} in documents of training, {heldout} in held-out ones"
        self.found.append((p_value, shown))

    def _exact(self, tried: TriedValues) -> float:
        """Test the documents of small groups: those that give away more values with the model than without it."""
        member, heldout = _by_document(tried)
        return excess_p(int((member > 0).sum()), len(member), int((heldout > 0).sum()), len(heldout), self.allowed)

    def count_documents(self, name: str, tried: TriedValues) -> Measurement:
        """Count documents by one method as `count_documents` does, and test whether there are any."""
        counted = count_documents(name, tried)
        if isinstance(counted, Estimate):
            shown = (
                f"{counted.high:.0f} of {counted.n} give away more values than all but {ALLOWED} of the held-out ones"
            )
            self.found.append((outranking_p(*_by_document(tried.distinct())), f"some documents are known: {shown}"))
        return counted

    def check(self) -> tuple[Check, ...]:
        """Test whether any kind of values, or any document, is known, whatever is known of all values together."""
        if not self.found:
            return ()
        p_value, reason = min(self.found)
        return (Check("known values", min(1.0, len(self.found) * p_value), "alarm", reason, RETRAIN),)
