"""How a reference does the task beside the target, on held-out documents.

See methods/checks.md#checks-of-the-documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from audit.attacks.membership.documents import first_by_name, reference_of
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.measurements import READS_ALIKE, Check, Condition, Estimate
from audit.stats.intervals import Interval
from audit.stats.paired import ratio_difference
from audit.targets.interface import (
    Answer,
    BestClass,
    BestLinks,
    BestTokens,
    TagProbabilities,
    Target,
)
from audit.targets.utility import Measured, usefulness_with_sums

READS_CLOSE = "the reference reads within 10 points of the model"
"""The name of the condition under which a reference may stand for the model, as controls do."""
MAX_GAP = 0.10
"""A reference reads like the target where their usefulness on held-out documents differs by at most so much (the value
that memorisation takes for its baseline): references trained too little have a power of 0.6 and
hide a leak."""
WIDEST_GAP = 0.20
"""A pass needs proof that the usefulness differs by less.

Two one-sided tests at `EQUIVALENCE` (Schuirmann 1987). The value is ours. It rules out references
that read 21 points worse, and lets honest ones of 100 documents pass.
"""
EQUIVALENCE = 0.05
MOST_READ = 100
"""Held-out documents that both are compared on, at most."""
_READING = frozenset({Answer, BestClass, BestLinks, BestTokens, TagProbabilities})
"""Queries that show how well a model does its task."""
_READING_SEED = 12


class Reading(NamedTuple):
    """What comes of comparing references with the target."""

    conditions: tuple[Condition, ...] = ()
    checks: tuple[Check, ...] = ()


def examine_reading(case: Case) -> Reading:
    """Test whether every reference does the task like the target, on held-out documents.

    A reference that reads far worse or better does not show how hard documents are. A check fires
    where it certainly reads otherwise. A pass needs proof of the contrary besides, an equivalence
    test, which no other test weakens.

    Args:
        case: the audit; without a reference there is nothing to test. Nor is there where the target
            cannot be asked to do its task: then nothing passes anyway, as it may leak nothing
            because it does nothing.
    """
    references = reference_of(case)[1]
    if not references or not _READING & case.target.answers:
        return Reading()
    gaps = compare_readings(case, references)
    if not gaps:
        reason = SENTENCES["reading_unmeasured"]
        unmeasured = Condition(
            READS_ALIKE, "unmeasured", ("membership",), reason=reason, remedy=SENTENCES["better"]
        )
        return Reading((unmeasured,))
    main_gaps = [gap for gap in gaps if gap.is_main]
    return Reading(
        (_alike_condition(main_gaps), _close_condition(main_gaps)), (_large_gap_check(gaps),)
    )


def _alike_condition(gaps: Sequence[ReadingGap]) -> Condition:
    """Return the condition that a pass asks for: no gap in reading reaches `WIDEST_GAP`."""
    widest = max(gaps, key=lambda gap: gap.reach)
    if widest.reach <= WIDEST_GAP:
        return Condition(
            READS_ALIKE, "met", ("membership",), reason=SENTENCES["reading_gap"].format(gap=widest)
        )
    text = SENTENCES["reads_otherwise" if widest.is_large else "reading_unshown"]
    reason = text.format(widest=WIDEST_GAP, gap=widest)
    return Condition(
        READS_ALIKE, "unmet", ("membership",), reason=reason, remedy=SENTENCES["better"]
    )


def _close_condition(gaps: Sequence[ReadingGap]) -> Condition:
    """Return the condition that no gap in reading is large; no limit asks for it by itself."""
    largest = max(gaps, key=lambda gap: abs(gap.interval.value))
    if not largest.is_large:
        return Condition(READS_CLOSE, "met", reason=SENTENCES["reading_gap"].format(gap=largest))
    reason = SENTENCES["reads_otherwise"].format(gap=largest)
    return Condition(READS_CLOSE, "unmet", reason=reason, remedy=SENTENCES["better"])


def _large_gap_check(gaps: Sequence[ReadingGap]) -> Check:
    """Make the check that a gap in reading is certainly large, by Bonferroni's rule over all."""
    clearest = min(gaps, key=lambda gap: gap.p_large)
    reason = SENTENCES["reads_otherwise"].format(gap=clearest)
    p_value = min(1.0, len(gaps) * clearest.p_large)
    return Check("reference reads otherwise", p_value, "alarm", reason, SENTENCES["better"])


@dataclass(frozen=True)
class ReadingGap:
    """A measure of a reference's usefulness less that of the target.

    Attributes:
        measure: its name, in words.
        interval: interval of the difference, paired by document.
        is_main: whether the measure is the main one of the task, the first of `usefulness`. Others
            see one thing a document, which is too coarse to show that two models are alike.
    """

    measure: str
    interval: Interval
    is_main: bool

    @property
    def is_large(self) -> bool:
        """Test whether the reference reads otherwise than the target, by the number itself."""
        return abs(self.interval.value) > MAX_GAP

    @property
    def p_large(self) -> float:
        """Return the two-sided p-value that the gap is larger than `MAX_GAP`."""
        beyond = [
            alpha for alpha, low, high in self.interval.bounds if low > MAX_GAP or high < -MAX_GAP
        ]
        return min(1.0, 2 * min(beyond, default=1.0))

    @property
    def reach(self) -> float:
        """Return the largest distance from 0 of the gap's value or bounds at `EQUIVALENCE`."""
        bounds = [
            (lower, upper) for alpha, lower, upper in self.interval.bounds if alpha == EQUIVALENCE
        ]
        return max(abs(bound) for bound in (*bounds[0], self.interval.value))

    @property
    def word(self) -> str:
        """Return "better" or "worse": how the reference reads beside the target."""
        return "better" if self.interval.value > 0 else "worse"


def compare_readings(case: Case, references: Sequence[Target]) -> list[ReadingGap]:
    """Compare each reference with the target by every measure of usefulness.

    Empty where one cannot be measured.

    Args:
        case: the audit.
        references: references, at least one.
    """
    if not all(_READING & reference.answers for reference in references):
        return []
    corpus = _with_fewer_heldout(case.corpus)
    target, *beside = (
        usefulness_with_sums(model, corpus, _READING_SEED) for model in (case.target, *references)
    )
    gaps: list[ReadingGap] = []
    for place, (name, measured) in enumerate(target.items()):
        for reference in beside:
            gap = _gap(measured, reference[name]) if name in reference else None
            if gap is None:
                return []
            gaps.append(ReadingGap(name.replace("_", " "), gap, place == 0))
    return gaps


def _with_fewer_heldout(corpus: Corpus) -> Corpus:
    """Return the data set with `MOST_READ` of its held-out documents, at most."""
    chosen = first_by_name(corpus.of("heldout"), MOST_READ)
    documents = tuple(
        document
        for document in corpus.documents
        if document.split != "heldout" or document.id in chosen
    )
    return replace(corpus, documents=documents)


def _gap(target: Measured, reference: Measured) -> Interval | None:
    """Return a reference's usefulness less the target's; None where either is not measured.

    Two models that read every document alike have no paired interval: then it is that of two
    separate measurements.
    """
    estimates = (target[0], reference[0])
    sums = (target[1], reference[1])
    if not (isinstance(estimates[0], Estimate) and isinstance(estimates[1], Estimate)):
        return None
    if sums[0] is None or sums[1] is None:
        return None
    rng = np.random.default_rng(_READING_SEED)
    difference = ratio_difference(sums[0], sums[1], (estimates[0], estimates[1]), rng)
    return None if difference is None else difference.interval
