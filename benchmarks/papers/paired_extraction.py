"""Compare memorised answers of two models over the same questions, paired, by document.

Method: methods/index.md#intervals.

Numbers in, numbers out; no model is asked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.measurements import Estimate
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, cluster_sums
from audit.stats.paired import sign_flip
from audit.stats.rates import net, rate, scaled

UNIT = "questions"


@dataclass(frozen=True, eq=False)
class Extraction:
    """What a model and its baselines gave in one context, the answers removed.

    Attributes:
        questions: (n,) names of the questions, each once.
        documents: (n,) names of their documents.
        target: (n,) 1 where the model gave the answer (E), else 0.
        baseline: (n,) the share of the baselines that gave it (G), in [0, 1]. A model that was
            trained in another way than before is compared with baselines that were trained in that
            way too.
    """

    questions: Sequence[str]
    documents: Sequence[str]
    target: npt.ArrayLike
    baseline: npt.ArrayLike


@dataclass(frozen=True)
class Change:
    """A number before and after a countermeasure.

    Attributes:
        metric: "memorised" (|E - G| / n) or "net" ((|E - G| - |G - E|) / n).
        context: in which it was measured.
        before: the number without the countermeasure.
        after: with it.
        difference: after minus before, over the same questions; null 0.
        p: two-sided, that the difference is as large if signs were coin flips by document; not
            corrected for the number of contexts.
    """

    metric: str
    context: str
    before: Estimate
    after: Estimate
    difference: Estimate
    p: float


def extraction_changes(
    before: Mapping[str, Extraction], after: Mapping[str, Extraction], rng: np.random.Generator
) -> tuple[Change, ...]:
    """Changes of the memorised answers, in every context: two rows each, "memorised" and "net".

    Args:
        before: by context, what was extracted without the countermeasure.
        after: with it; the same contexts and in each the same questions, in any order.
        rng: the source of randomness.

    Raises:
        ValueError: contexts or questions differ, shapes do not fit, or values lie out of range.
    """
    if set(before) != set(after):
        raise ValueError("before and after must have the same contexts")
    rows = []
    for context, first in before.items():
        names, documents = _named(first)
        _, other = _named(after[context])
        if set(documents) != set(other) or any(
            documents[name] != other[name] for name in documents
        ):
            raise ValueError("before and after must have the same questions")
        clusters = np.unique([documents[name] for name in names], return_inverse=True)[1]
        (e0, g0), (e1, g1) = (
            _in_order(extraction, names) for extraction in (first, after[context])
        )
        gained = (e0 * (1 - g0), e1 * (1 - g1))
        lost = ((1 - e0) * g0, (1 - e1) * g1)
        name = f"memorised.{context}"
        shares = [rate(part, clusters, rng) for part in gained]
        rows.append(_change(name, shares, gained[1] - gained[0], clusters, rng, width=1.0))
        name = f"net.{context}"
        nets = [net(more, less, clusters, rng) for more, less in zip(gained, lost, strict=True)]
        difference = (gained[1] - lost[1]) - (gained[0] - lost[0])
        rows.append(_change(name, nets, difference, clusters, rng, width=2.0))
    return tuple(rows)


def _named(extraction: Extraction) -> tuple[list[str], dict[str, str]]:
    """The questions, sorted, and the document of each."""
    documents = dict(zip(extraction.questions, extraction.documents, strict=True))
    if not documents or len(documents) < len(extraction.questions):
        raise ValueError("an extraction needs questions, each once")
    return sorted(documents), documents


def _in_order(extraction: Extraction, names: Sequence[str]) -> tuple[Floats, Floats]:
    """What the model and what the baselines gave, in the order of these questions."""
    indices = {name: index for index, name in enumerate(extraction.questions)}
    order = [indices[name] for name in names]
    target, baseline = (
        _shares(values, len(order))[order] for values in (extraction.target, extraction.baseline)
    )
    if not np.isin(target, (0.0, 1.0)).all():
        raise ValueError("a model gave an answer or did not: 1 or 0")
    return target, baseline


def _shares(values: npt.ArrayLike, n: int) -> Floats:
    rows = np.asarray(values, np.float64)
    if not n or rows.shape != (n,) or not ((rows >= 0) & (rows <= 1)).all():
        raise ValueError("give one value in [0, 1] for each question, and at least one question")
    return rows


def _change(
    name: str,
    sides: Sequence[Interval],
    differences: Floats,
    clusters: npt.NDArray[np.intp],
    rng: np.random.Generator,
    width: float,
) -> Change:
    """A row. `width` is the largest difference a question can make."""
    metric, _, context = name.partition(".")
    gains = np.maximum(differences, 0) / width
    losses = np.maximum(-differences, 0) / width
    paired = scaled(net(gains, losses, clusters, rng), width)
    flips = sign_flip(cluster_sums([differences], clusters)[:, 0], rng)
    before, after = (
        replace(estimate(f"{name}.{when}", side, UNIT, 0.0, "chance"), null=None, null_kind=None)
        for when, side in zip(("before", "after"), sides, strict=True)
    )
    return Change(
        metric,
        context,
        before,
        after,
        estimate(f"{name}.change", paired, UNIT, 0.0, "chance"),
        flips,
    )
