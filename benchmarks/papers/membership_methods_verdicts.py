"""Which membership scores may join the gate: verdicts of resampled audits with sets of scores."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.stats.intervals import TAILS, Interval, beta_bounds, make_interval
from audit.stats.roc import auc_interval, lowest_resolved, quantile_index
from benchmarks.papers.membership_methods_models import SEED, SIDE

Floats = NDArray[np.float64]
AREA = 0.65
LOW_LIMIT = 0.15
LEVEL = 0.05
SIZES = (72, 150, 300)
TESTS = 4
"""Tests a score: the area on both sides of chance, the advantage, and the count of certain
documents."""
Sides = tuple[NDArray[np.intp], NDArray[np.intp]]


@functools.cache
def _places(n: int, rate: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Give the order statistics that the threshold lies between, see `calibrated_tpr`."""
    from scipy.stats import binom

    return binom.ppf(1 - TAILS, n, 1 - rate).astype(int) + 1, binom.ppf(TAILS, n, 1 - rate).astype(
        int
    )


_bounds = functools.cache(lambda value, n: beta_bounds(value, np.float64(n), TAILS))


def low_interval(members: Floats, others: Floats) -> Interval:
    """Give what `low_advantage` does; what depends on the numbers of documents alone is kept."""
    n = others.size
    rate = lowest_resolved(others.size)
    assert rate is not None
    above, below = _places(n, rate)
    thresholds = np.sort(others)
    ranked = np.sort(members)
    value = (
        1
        - float(np.searchsorted(ranked, thresholds[quantile_index(rate, n)], "right"))
        / members.size
    )
    padded = np.concatenate([[-np.inf], thresholds, [np.inf]])
    at_least = 1 - np.searchsorted(ranked, padded[np.minimum(above, n + 1)], "right") / members.size
    at_most = 1 - np.searchsorted(ranked, padded[below], "left") / members.size
    lower, upper = _bounds(value, members.size)
    down = np.hypot(value - lower, value - at_least)
    up = np.hypot(upper - value, at_most - value)
    lower = np.maximum(0.0, value - down)
    upper = np.minimum(1.0, value + up)
    return make_interval(value, lower, upper, n=members.size, method="").transform(
        lambda share: share - rate
    )


def held(score: Floats, chosen: Sides) -> tuple[float, bool]:
    """Compare a score of chosen documents with both limits.

    Returns:
        The least p, and whether both intervals lie within. Where documents are too few to resolve a
        low false-positive rate, the area alone counts.
    """
    members = score[chosen[0]]
    others = score[chosen[1]]
    area = auc_interval(members, others)
    below = auc_interval(-members, -others).p_above(AREA) if area.high < 0.5 else 1.0
    p = min(area.p_above(AREA), below)
    within = area.low >= 1 - AREA and area.high <= AREA
    if lowest_resolved(others.size) is not None:
        low = low_interval(members, others)
        p = min(p, low.p_above(LOW_LIMIT))
        within = within and low.high <= LOW_LIMIT
    return float(p), bool(within)


def resampled(
    scores: Mapping[str, Floats], names: Iterable[str], n: int, times: int
) -> dict[str, list[Any]]:
    """Hold every score against the limits, in resampled audits with n documents of each side."""
    rng = np.random.default_rng([SEED, n])
    drawn = [(rng.integers(0, SIDE, n), rng.integers(SIDE, 2 * SIDE, n)) for _ in range(times)]
    return {name: [held(scores[name], one) for one in drawn] for name in names if name in scores}


def verdicts(
    found: Mapping[str, Sequence[tuple[float, bool]]], names: Sequence[str]
) -> tuple[int, int, int]:
    """Count resampled audits that are violated, passed, and made, with a set of scores."""
    there = [found[name] for name in names if name in found]
    violated = passed = 0
    for own in zip(*there, strict=True):
        over = min(p for p, _ in own) * TESTS * len(own) <= LEVEL
        violated += over
        passed += not over and all(inside for _, inside in own)
    return violated, passed, len(there[0])


EVERYWHERE = ("loss", "calibrated")
SPLIT = ("lira",)
BASES: Mapping[str, tuple[str, ...]] = {
    "without split models": EVERYWHERE,
    "with split models": (*EVERYWHERE, *SPLIT),
}
"""The sets that scores join, by what an audit has."""
JOINING = {
    "without split models": (
        "min_k", "wbc", "ez", "ez smoothed", "min_k++", "maxrenyi", "informia tokens", "quantile",
    ),
    "with split models": (
        "rmia", "rmia, a = 1", "informia", "informia, a = 1", "wbc", "ez smoothed", "min_k", "min_k++",
        "informia tokens",
    ),
}  # fmt: skip
REMOVED = {"without split models": ("loss",), "with split models": ("lira", "calibrated", "loss")}


def decisions(
    all_scores: Mapping[str, Mapping[str, Mapping[str, Floats]]], times: int
) -> dict[str, Any]:
    """Give the shares of verdicts, by what an audit has, by size, and by the change of its scores."""
    by_base: dict[str, Any] = {}
    for n in SIZES:
        audits = [*resampled_audits(all_scores, n, times)]
        for base, scores in BASES.items():
            if not all(audit.has(scores) for audit in audits):
                continue
            changes = {
                change: count_change(audits, scores, names)
                for change, names in changes_of(base).items()
            }
            by_base.setdefault(base, {})[str(n)] = changes
    return by_base


class ResampledAudits(NamedTuple):
    """Resampled audits of one corpus.

    Attributes:
        corpus: name of the corpus.
        kind: whether the audited model "leaks", or is "clean".
        held: by score, what `held` says of each audit.
    """

    corpus: str
    kind: str
    held: dict[str, list[Any]]

    def has(self, scores: Iterable[str]) -> bool:
        """Test whether the audits have all of these scores."""
        return all(score in self.held for score in scores)


def resampled_audits(
    all_scores: Mapping[str, Mapping[str, Mapping[str, Floats]]], n: int, times: int
) -> Iterator[ResampledAudits]:
    """Yield resampled audits of leaking models, then those of clean ones."""
    names: set[str] = set()
    for base, scores in BASES.items():
        names.update(scores, JOINING[base])
    for kind, audits in {"leaks": ("leaks",), "clean": ("clean", "clean 2")}.items():
        for corpus, by_audit in all_scores.items():
            for audit in audits:
                held_by_score = resampled(by_audit[audit], sorted(names), n, times)
                yield ResampledAudits(corpus, kind, held_by_score)


def changes_of(base: str) -> dict[str, tuple[str, ...]]:
    """List the sets of scores that a base becomes, by the change; the first is the base itself."""
    scores = BASES[base]
    changes = {"": scores}
    for name in JOINING[base]:
        changes[f"+ {name}"] = (*scores, name)
    for name in REMOVED[base]:
        changes[f"- {name}"] = tuple(score for score in scores if score != name)
    return changes


def count_change(
    audits: Iterable[ResampledAudits], before: Sequence[str], after: Sequence[str]
) -> dict[str, dict[str, list[int]]]:
    """Count right verdicts with scores before a change and after it, by kind and corpus.

    Audits that lack a changed score do not count. Each count goes with the number of audits.
    """
    changed = set(before) ^ set(after)
    counts: dict[str, dict[str, list[int]]] = {"leaks": {}, "clean": {}}
    for audit in audits:
        if not audit.has(changed):
            continue
        at = {"leaks": 0, "clean": 1}[audit.kind]
        verdicts_before = verdicts(audit.held, before)
        verdicts_after = verdicts(audit.held, after)
        row = counts[audit.kind].setdefault(audit.corpus, [0, 0, 0])
        row[0] += verdicts_before[at]
        row[1] += verdicts_after[at]
        row[2] += verdicts_before[2]
    return counts


def share_of(counts: Mapping[str, Sequence[int]], at: int) -> float:
    """Give the mean share over corpora."""
    return float(np.mean([one[at] / one[2] for one in counts.values()]))
