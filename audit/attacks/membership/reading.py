"""How a reference does the task beside the target, on held-out documents (methods.md#checks-of-the-scan)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from audit.attacks.membership.documents import first_by_name, reference_of
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.measurements import Check
from audit.stats.paired import Ratios, ratio_difference
from audit.targets.interface import Answer, BestClass, BestLinks, BestTokens, TagProbabilities
from audit.targets.utility import usefulness_by_document

MAX_GAP = 0.10
"""A reference reads as well as the target where their usefulness on held-out documents differs by at most so much (the
value that memorisation takes for its baseline): references trained too little have a power of 0.6 and hide a leak."""
MOST_READ = 100
"""Held-out documents that both are compared on, at most."""
_READING = frozenset({Answer, BestClass, BestLinks, BestTokens, TagProbabilities})
"""Queries that show how well a model does its task."""
_READING_SEED = 12


def check_reference_reading(case: Case) -> Iterator[Check]:
    """Test whether a reference does the task much worse or better than the target, on held-out documents.

    Args:
        case: the audit; nothing is tested where it has no reference that shows how it does the task.
    """
    models = [model for model in reference_of(case)[1] if _READING & model.answers]
    if not models or not _READING & case.target.answers:
        return
    chosen = first_by_name(case.corpus.of("heldout"), MOST_READ)
    documents = tuple(one for one in case.corpus.documents if one.split != "heldout" or one.id in chosen)
    corpus = replace(case.corpus, documents=documents)
    own = usefulness_by_document(case.target, corpus, _READING_SEED)
    gaps = [gap for model in models for gap in _compare(own, usefulness_by_document(model, corpus, _READING_SEED))]
    if gaps:
        p_value, reason = min(gaps)
        yield Check("reference reads otherwise", min(1.0, len(gaps) * p_value), "alarm", reason, SENTENCES["better"])


def _compare(own: dict[str, Ratios], other: dict[str, Ratios]) -> Iterator[tuple[float, str]]:
    """Compare two models by each measure of usefulness: the p of a difference beyond `MAX_GAP`, and its reason."""
    for name in own.keys() & other.keys():
        found = ratio_difference(own[name], other[name], None, np.random.default_rng(_READING_SEED))
        if found is None:
            continue
        gap = found.interval
        beyond = [alpha for alpha, low, high in gap.bounds if low > MAX_GAP or high < -MAX_GAP]
        word = "better" if gap.value > 0 else "worse"
        reason = (
            f"the reference reads unseen documents much {word} than the model ({name.replace('_', ' ')} differs by"
            f" {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]). It does not show how hard they are"
        )
        yield min(1.0, 2 * min(beyond, default=1.0)), reason
