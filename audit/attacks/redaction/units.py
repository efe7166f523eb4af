"""What a data set holds for the numbers of redactions that policies limit, before anything is told."""

from __future__ import annotations

from functools import partial

import numpy as np

from audit.arrays import Bools, Ints
from audit.attacks.interface import Units
from audit.attacks.redaction.samples import groups_of
from audit.attacks.redaction.target_gain import EXCESS, SPLITS
from audit.attacks.redaction.text_leak import NEEDED, kinds_of
from audit.corpus.documents import CATEGORIES, Corpus
from audit.corpus.redaction.contexts import RedactedSpan, redacted_spans

UNIT = "documents"
NOT_HIDDEN = "limit one that a common kind of value does not hide (lift_share, worst_class)"


def units_of(corpus: Corpus, n_classifiers: int) -> tuple[Units, ...]:
    """The units of each metric: documents with a redacted value, those that are never divided being one.

    A lift cannot exceed what naming the commonest category leaves. Its share of that rests on documents with a value of
    another category; the category told best on those with the rarest that is judged, against all documents with others.

    Args:
        corpus: the data set, which says how its values are hidden.
        n_classifiers: that are tried: a limit on the text must be met with each.
    """
    spans = () if corpus.manifest.redaction is None else redacted_spans(corpus.documents, "fixed")
    classes = np.array([CATEGORIES.index(span.category) for span in spans], np.int64)
    documents = _documents(corpus, spans)
    uncommon = classes != np.bincount(classes, minlength=1).argmax()
    n_uncommon = _count(documents[uncommon]) if uncommon.sum() >= NEEDED else 0
    own, others, n_kinds = _rarest(classes, documents)
    paired = partial(Units, kind="paired difference", unit=UNIT, others=0, about_text=True)
    return (
        paired("lift", members=_count(documents), most=float(uncommon.mean()) if spans else None, instead=NOT_HIDDEN),
        paired("lift_over_length", members=_count(documents)),
        paired("lift_share", members=n_uncommon, methods=n_classifiers),
        # Each category has an interval of its own, as if it were a method: the rarest stands for all.
        Units("worst_class", "difference", UNIT, own, others, methods=n_kinds * n_classifiers, about_text=True),
        _target_gain(corpus, spans, uncommon),
    )


def _rarest(classes: Ints, documents: Ints) -> tuple[int, int, int]:
    """Documents with the rarest category that is judged, those with others, and how many categories are judged."""
    kinds = kinds_of(classes)
    judged = kinds.of(classes)
    places = [place for place in np.unique(judged).tolist() if place != kinds.left_out]
    if len(places) < 2:
        return 0, 0, 1
    own, others = min((_count(documents[judged == place]), _count(documents[judged != place])) for place in places)
    return own, others, len(places)


def _target_gain(corpus: Corpus, spans: tuple[RedactedSpan, ...], uncommon: Bools) -> Units:
    """Members and held-out documents with a value that is not of the commonest category."""
    held = {split: set[str]() for split in SPLITS}
    for span, rare in zip(spans, uncommon, strict=True):
        split = corpus.document(span.document).split
        if rare and split in held:
            held[split].add(span.document)
    members, others = (len(held[split]) for split in SPLITS)
    return Units(EXCESS[0], "difference", UNIT, members, others, methods=len(EXCESS))


def _documents(corpus: Corpus, spans: tuple[RedactedSpan, ...]) -> Ints:
    """A number for each value's document, the same for those that are never divided."""
    names = sorted({span.document for span in spans})
    groups = dict(zip(names, groups_of([corpus.document(name) for name in names]).tolist(), strict=True))
    return np.array([groups[span.document] for span in spans], np.int64)


def _count(documents: Ints) -> int:
    return int(np.unique(documents).size)
