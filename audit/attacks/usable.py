"""Which references can be asked what the target is asked."""

from __future__ import annotations

from typing import Any, Literal

from audit.case import Case
from audit.targets.interface import AnswerLoss, MaskedLoss, Query, Target, TrainingLoss

GIVE_REFERENCE = "(give --reference baselines=PATH, see docaudit train-baseline, or pretrained=PATH)"
"""How an owner adds a reference that can be asked."""
LossKind = Literal["answers", "pages", "masks"]


def loss_kind(target: Target) -> LossKind | None:
    """Whether a target is asked about answers, pages or masked pages; None: it gives no loss of a document."""
    kinds: dict[type[Query[Any]], LossKind] = {AnswerLoss: "answers", TrainingLoss: "pages", MaskedLoss: "masks"}
    return next((kind for query, kind in kinds.items() if query in target.answers), None)


def usable(case: Case) -> dict[str, int]:
    """How many references give the loss that the target gives, by name."""
    own, references = loss_kind(case.target), case.references
    given = {
        "baselines": references.baselines,
        "pretrained": (references.pretrained,),
        "auxiliary": (references.auxiliary,),
    }
    return {
        name: sum(model is not None and loss_kind(model) == own for model in models) for name, models in given.items()
    }
