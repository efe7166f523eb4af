"""Check that the names of labels stand in the order of the model's outputs.

Another order hides what a model remembers: what it says is then counted as wrong. The names are
matched to the outputs anew on half of the pages, and the matching is tested on the other half, so
that a choice among many orders does not raise the score by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from audit.arrays import Ints
from audit.measurements import LABEL_ORDER, Check
from audit.targets import wording

TIMES = 2
"""An output has another name's words clearly where it has so many times as many of them as of the
words of its own name. A model that confuses two labels as often as not does not reach that."""
FEWEST = 2
"""Outputs that clearly have another name's words, at least: a weak model that gives one label to
most words has one of them."""
MOST_NAMED = 4
"""Outputs that a sentence names."""


@dataclass(frozen=True)
class LabelledPage:
    """The labels of a page: those that it has, and the outputs that a model gives.

    Attributes:
        true: (n_units,) number of each unit's label, by its name.
        predicted: (n_units,) number of the output that the model gives to each.
    """

    true: Ints
    predicted: Ints


P = TypeVar("P", bound=LabelledPage)
Score = Callable[[P, Ints], float]
"""How right a page is if its units have these labels."""


def check_label_order(n_labels: int, pages: Sequence[P], score: Score[P]) -> Check:
    """Check whether another matching of names raises the score clearly.

    It does where two things hold. On one half of the pages at least `FEWEST` outputs clearly have
    the words of another name (see `clearly_other`). On the other half more pages have a higher
    score with the matched names than a lower one; the p-value is that of a sign test.

    Args:
        n_labels: number of labels.
        pages: pages with their labels.
        score: rates a page with other labels.
    """
    chosen_on = pages[::2]
    tested_on = pages[1::2]
    counts = _count_pairs(n_labels, chosen_on)
    names = match_names(counts)
    other = clearly_other(counts, names)
    if len(other) < FEWEST:
        reason, remedy = wording("labels_in_order")
        return Check(LABEL_ORDER, 1.0, "alarm", reason, remedy)
    reason, remedy = wording("label_order", outputs=_name_outputs(other))
    return Check(LABEL_ORDER, _p_of_names(tested_on, names, score), "alarm", reason, remedy)


def _count_pairs(n_labels: int, pages: Sequence[LabelledPage]) -> Ints:
    """Count units by their output and their true label: shape (n_labels, n_labels)."""
    counts = np.zeros((n_labels, n_labels), np.int64)
    for page in pages:
        np.add.at(counts, (page.predicted, page.true), 1)
    return counts


def match_names(counts: Ints) -> Ints:
    """Give each output the name that makes most units right; its own where that is as good.

    Args:
        counts: (n_labels, n_labels) number of units by output and true label.

    Returns:
        Shape (n_labels,): number of the name of each output.
    """
    from scipy.optimize import linear_sum_assignment

    preferring_own = 2 * counts + np.eye(len(counts), dtype=np.int64)
    _, names = linear_sum_assignment(preferring_own, maximize=True)
    return np.asarray(names, np.int64)


def clearly_other(counts: Ints, names: Ints) -> dict[int, int]:
    """Return the outputs that clearly have the words of another name, with that name's number.

    Most words of the output have the name, most words of the name have the output, and the output
    has `TIMES` as many of them as of its own name. Outputs that do not depend on the words, as of a
    model that learnt nothing, do not reach the first two together.

    Args:
        counts: see `match_names`.
        names: number of the matched name of each output.
    """
    other = {}
    for output, name in enumerate(names):
        if name != output and _is_clear(counts, output, name):
            other[output] = int(name)
    return other


def _is_clear(counts: Ints, output: int, name: int) -> bool:
    """Test whether an output clearly has the words of a name, and not of its own."""
    shared = counts[output, name]
    largest = max(counts[output].max(), counts[:, name].max(), TIMES * counts[output, output])
    return bool(shared > 0 and shared >= largest)


def _p_of_names(pages: Sequence[P], names: Ints, score: Score[P]) -> float:
    """Return the p-value of a sign test of the pages that the matched names make better."""
    from scipy.stats import binomtest

    better = 0
    worse = 0
    for page in pages:
        change = score(page, names[page.predicted]) - score(page, page.predicted)
        better += change > 0
        worse += change < 0
    if not better:
        return 1.0
    return float(binomtest(better, better + worse, alternative="greater").pvalue)


def _name_outputs(other: Mapping[int, int]) -> str:
    """Say which outputs look swapped, or which name fits which output."""
    pairs = [*other.items()]
    if len(pairs) == 2 and pairs[0] == pairs[1][::-1]:
        first, second = pairs[0]
        return f"outputs {first} and {second} look swapped"
    clauses = [
        f"output {output} fits the name of output {name}" for output, name in pairs[:MOST_NAMED]
    ]
    if len(pairs) > MOST_NAMED:
        clauses.append(f"and {len(pairs) - MOST_NAMED} more")
    return ", ".join(clauses)
