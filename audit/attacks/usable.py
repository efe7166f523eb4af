"""References that can be asked what the target is asked."""

from __future__ import annotations

from typing import Any, Literal

from audit.case import Case
from audit.targets.interface import AnswerLoss, MaskedLoss, Query, Target, TrainingLoss

GIVE_REFERENCE = "(give --reference baselines=PATH, see docaudit train-baseline, or pretrained=PATH)"
"""How an owner adds a reference that can be asked."""
LossKind = Literal["answers", "pages", "masks"]


def loss_kind(target: Target) -> LossKind | None:
    """Return the kind of a target's loss of a document: of answers, pages or masked pages; None where it gives none."""
    kinds: dict[type[Query[Any]], LossKind] = {AnswerLoss: "answers", TrainingLoss: "pages", MaskedLoss: "masks"}
    return next((kind for query, kind in kinds.items() if query in target.answers), None)


def usable(case: Case) -> dict[str, int]:
    """Count the references that give the loss that the target gives, by name."""
    own, references = loss_kind(case.target), case.references
    given = {
        "baselines": references.baselines,
        "pretrained": (references.pretrained,),
        "auxiliary": (references.auxiliary,),
    }
    return {
        name: sum(model is not None and loss_kind(model) == own for model in models) for name, models in given.items()
    }
