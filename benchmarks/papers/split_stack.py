"""The split stack of losses: a fit on split models, whose documents the auditor knows.

Each split model is a target in turn. Larger scores are more like a member.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Bools, Floats
from benchmarks.papers.membership_weights_scores import fit_on_splits, unseen_by

OutsideLoss = Callable[[Floats, Bools, int | None], Floats]
"""Takes losses by split model, which of them saw a document, and a model that is left out; returns
the loss of models that did not see the document, (n_documents,)."""


def single_unseen(losses: Floats, trained: Bools, but: int | None) -> Floats:
    """Return the loss of one split model that did not see a document."""
    chosen: NDArray[np.intp] = unseen_by(trained, but)
    picked: Floats = losses[np.arange(len(losses)), chosen]
    return picked


def mean_unseen(losses: Floats, trained: Bools, but: int | None) -> Floats:
    """Return the mean loss of all split models that did not see a document."""
    is_counted = ~trained
    if but is not None:
        is_counted[:, but] = False
    means: Floats = np.where(is_counted, losses, 0.0).sum(axis=1) / is_counted.sum(axis=1)
    return means


def stack_of_losses(
    target: Floats, reference: Floats, splits: Floats, trained: Bools, outside_of: OutsideLoss
) -> Floats:
    """Score documents by the split stack of losses.

    Args:
        target: losses of the target, (n_documents,).
        reference: losses of the model that losses are calibrated by, (n_documents,).
        splits: losses of the split models, (n_documents, n_models).
        trained: whether a split model saw a document, (n_documents, n_models). Documents that none
            saw take no part in the fit.
        outside_of: gives the losses of models that did not see a document.
    """
    by_split: list[Floats] = []
    for place, loss in enumerate(splits.T):
        by_split.append(_features(loss, reference, outside_of(splits, trained, place)))
    of_target = _features(target, reference, outside_of(splits, trained, None))
    return fit_on_splits(by_split, of_target, trained)


def _features(loss: Floats, reference: Floats, outside: Floats) -> Floats:
    """Return the features of documents, (n_documents, 3)."""
    return np.column_stack([-loss, reference - loss, outside - loss])
