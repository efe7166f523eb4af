"""The outcomes of attribute inference as columns, and how a value is chosen among the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks.attributes.hidden import Hidden
from audit.attacks.given_away import TriedValues
from audit.attacks.measuring import (
    MEAN,
    TARGET_WEIGHT,
    TEMPERATURE,
    DocumentColumns,
    combine,
    log_likelihood_of_losses,
    log_softmax,
    memory_of,
)
from audit.engine.interface import Json
from audit.stats.paired import UnitScores

LOSS, CALIBRATED = "loss", "calibrated"
METHODS = (LOSS, CALIBRATED)
GROUPS = ("unique", "all")
EXCESS, CHOSEN, LISTED, POWER = "excess", "chosen", "candidates", "planted_choice"


def named(name: str, method: str) -> str:
    """A metric by a method; those by the loss bear the bare name."""
    return name if method == LOSS else f"{name}.{method}"


@dataclass(frozen=True, eq=False)
class AttributeTable(DocumentColumns):
    """One row a value that was asked about; every column has shape (n_values,).

    Attributes:
        member, unique: whether the value is a member's, and stands in no other document.
        category: names.
        cluster: the value's document.
        value: a number for what counts as the value.
        n_candidates: how many there were, the true one among them.
        chosen: by method, the chance that the true value is chosen with the model: 1, 0, or a share among equals.
        public: the same without the model: by the loss of the public model, else 1 / n_candidates.
        rank: by method, the place of the true value, 1 the best, the mean of places among equals.
        calibrated: whether a public model gave losses.
        planted: by method, the chance that the true value is chosen with the model, its loss lowered by `memory_of`.
    """

    member: Bools
    unique: Bools
    category: NDArray[np.str_]
    cluster: Ints
    value: Ints
    n_candidates: Ints
    chosen: dict[str, Floats]
    public: Floats
    rank: dict[str, Floats]
    calibrated: Bools
    planted: dict[str, Floats]

    def group(self, name: str) -> AttributeTable:
        """Return the rows whose value is "unique" to a document, or all."""
        return self if name == "all" else self.where(self.unique)

    def tried(self, method: str) -> TriedValues:
        """The values as a method picks them or not."""
        return TriedValues(self.member, self.cluster, self.value, self.chosen[method], self.public)


def build_table(hidden: Sequence[Hidden], outcomes: Sequence[Json], *, alike: bool) -> AttributeTable:
    """The values and their outcomes, in the same order, as a table.

    Args:
        hidden: values that were asked about.
        outcomes: see `AttributeInference.attempt`.
        alike: whether the public model is asked what the target is asked.
    """
    target = [_read(outcome["target"]) for outcome in outcomes]
    public = [None if outcome["public"] is None else _read(outcome["public"]) for outcome in outcomes]
    scores, planted = (
        {
            LOSS: losses,
            CALIBRATED: [calibrate(own, other, alike=alike) for own, other in zip(losses, public, strict=True)],
        }
        for losses in (target, [_planted(own) for own in target])
    )
    documents = {name: index for index, name in enumerate(sorted({one.document.id for one in hidden}))}
    sizes = np.array([len(own) for own in target], np.int64)
    return AttributeTable(
        member=np.array([one.document.split == "member" for one in hidden], bool),
        unique=np.array([one.unique for one in hidden], bool),
        category=np.array([one.category for one in hidden], np.str_),
        cluster=np.array([documents[one.document.id] for one in hidden], np.int64),
        value=np.unique(["\0".join(sorted(one.values)) for one in hidden], return_inverse=True)[1],
        n_candidates=sizes,
        chosen=_chances(scores),
        public=np.array(
            [1 / n if own is None else chance_of_first(own) for n, own in zip(sizes, public, strict=True)], float
        ),
        rank={method: np.array([rank_of_first(own) for own in found], float) for method, found in scores.items()},
        calibrated=np.array([own is not None for own in public], bool),
        planted=_chances(planted),
    )


def paired_by_value(hidden: Sequence[Hidden], table: AttributeTable) -> dict[str, UnitScores]:
    """Return for each metric the chance to pick a value with the model minus that without it."""
    units = np.array([one.trial.id for one in hidden], object)
    documents = np.array([one.document.id for one in hidden], object)
    rows = {"all": np.ones(len(hidden), bool), "unique": table.unique}
    return {
        named(f"{EXCESS}.{group}", method): UnitScores(
            units[own].tolist(), documents[own].tolist(), table.member[own], (table.chosen[method] - table.public)[own]
        )
        for group, own in rows.items()
        for method in METHODS
    }


def _chances(scores: Mapping[str, Sequence[Floats]]) -> dict[str, Floats]:
    return {method: np.array([chance_of_first(own) for own in found], float) for method, found in scores.items()}


def _planted(losses: Floats) -> Floats:
    """The losses with a memory of the first candidate."""
    return np.concatenate([losses[:1] - memory_of(losses), losses[1:]])


def calibrate(target: Floats, public: Floats | None, *, alike: bool) -> Floats:
    """Weigh the target's losses by the public model's: (n_candidates,), lowest where the target alone likes a value.

    Where both were asked the same, the difference of their losses, the logarithm of the likelihood ratio that
    membership inference rests on (Carlini et al. 2021). A tagger's loss is of labels, that of a masked language model
    of words: these are weighed as CDMI weighs them (Dentan et al. 2024, steps 4 and 5, with the settings that docaudit
    ships). Without a public model, the target's loss.
    """
    if public is None:
        return target
    if alike:
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(target - public, nan=np.inf, posinf=np.inf, neginf=np.inf)
    log_target, _ = log_likelihood_of_losses(target, TEMPERATURE)
    finite = np.where(np.isfinite(public), public, np.finfo(float).max / 1e9)
    log_public = log_softmax(-finite / TEMPERATURE)
    return -combine(log_public, log_target, TARGET_WEIGHT, MEAN)


def chance_of_first(losses: Floats) -> float:
    """The chance that the first of the candidates is taken for the one of lowest loss, among equals by lot."""
    best = losses == losses.min()
    return float(best[0]) / float(best.sum())


def rank_of_first(losses: Floats) -> float:
    """The first candidate's place, 1 the lowest loss, the mean of places among equals."""
    return float((losses < losses[0]).sum() + ((losses == losses[0]).sum() + 1) / 2)


def _read(losses: Sequence[float | None]) -> Floats:
    """Losses from the journal; those that are no finite number come last."""
    return np.array([np.inf if loss is None else loss for loss in losses], float)
