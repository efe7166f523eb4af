"""What everybody says of every hidden value, put together from the folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.arrays import Bools, Ints
from audit.attacks.budget import FOLDS
from audit.attacks.redaction.folds import FoldTrial
from audit.attacks.redaction.samples import Samples
from audit.corpus.documents import Mask
from audit.engine.interface import Json, Trial

BLIND = ("length-only", "prior")
"""Who sees the values' lengths only, and who knows only how common each category is."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What everybody says of every value, in the order of the data set; all arrays are (n_values,).

    Attributes:
        samples: the values under the manifest's mask.
        by: places in `CATEGORIES`, by mask and classifier.
        blind: the same of each of `BLIND`.
        names, fits, own: as `folds.predict` gives them under the mask "length"; None where there is no page, or that
            mask was not tried.
    """

    samples: Samples
    by: Mapping[tuple[Mask, str], Ints]
    blind: Mapping[str, Ints]
    names: Ints | None
    fits: Ints | None
    own: Ints | None = None

    @property
    def documents(self) -> Ints:
        """The document of each value."""
        return self.samples.documents

    def hits(self, predicted: Ints) -> Bools:
        """Where this is right."""
        hits: Bools = self.samples.classes == predicted
        return hits


def gather(samples: Samples, tried: Sequence[tuple[Trial, Json]]) -> Predictions:
    """Put the folds together."""
    by: dict[tuple[Mask, str], Ints] = {}
    blind = {who: np.zeros(len(samples), np.int64) for who in BLIND}
    widths: dict[str, Ints] = {}
    for trial, outcome in tried:
        if trial.stratum != FOLDS:
            continue
        fold = FoldTrial.of(trial.id)
        held = samples.folds == fold.number
        by.setdefault((fold.mask, fold.classifier), np.zeros(len(samples), np.int64))[held] = outcome["predicted"]
        blind["length-only"][held], blind["prior"][held] = outcome["length"], outcome["prior"]
        for name in ("names", "fits", "own"):
            if name in outcome:
                widths.setdefault(name, np.zeros(len(samples), np.int64))[held] = outcome[name]
    return Predictions(samples, by, blind, widths.get("names"), widths.get("fits"), widths.get("own"))
