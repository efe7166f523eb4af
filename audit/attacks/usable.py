"""References that can be asked what the target is asked."""

from __future__ import annotations

from typing import Any, Literal

from audit.case import Case
from audit.corpus.documents import TaskKind
from audit.targets.interface import AnswerLoss, MaskedLoss, Query, Target, TrainingLoss

GIVE_REFERENCE = "(give --reference baselines=PATH, see docaudit train-baseline, or pretrained=PATH)"
"""How an owner adds a reference that can be asked."""
LossKind = Literal["answers", "pages", "masks"]
POINTING: TaskKind = "extractive-qa"
"""The task of models that point at words of a page."""
POINTS = (
    "the model points at words of the page: it can neither give a value that does not stand there nor say how likely "
    "one is; what it leaks shows in document and provider membership"
)
"""Why such a model is not asked for values that are off the page."""


def points(target: Target) -> bool:
    """True for a model that points at words of the page, so that no answer of its own can be off the page."""
    return target.card.task == POINTING


def loss_kind(target: Target) -> LossKind | None:
    """Return the kind of a target's loss of a document: of answers, pages or masked pages; None where it gives none."""
    kinds: dict[type[Query[Any]], LossKind] = {AnswerLoss: "answers", TrainingLoss: "pages", MaskedLoss: "masks"}
    return next((kind for query, kind in kinds.items() if query in target.answers), None)


def given_in_vain(case: Case) -> str:
    """Name the references that were given and give no loss of the target's kind, in a clause; empty without any."""
    own, references = loss_kind(case.target), case.references
    given = {"baselines": references.baselines, "pretrained": (references.pretrained,)}
    names = [
        name for name, models in given.items() if any(model is not None and loss_kind(model) != own for model in models)
    ]
    return f"; not counted, for it lacks the head for the target's task: {', '.join(names)}" if names else ""


def given(case: Case) -> dict[str, int]:
    """Count the references that give the loss that the target gives, by name; without a model those of the manifest."""
    if not case.target.card.is_model:
        named = case.corpus.manifest.references
        asked = named.auxiliary is not None and case.corpus.manifest.task.kind == "mlm"
        return {
            "baselines": len(named.baselines),
            "pretrained": int(named.pretrained is not None),
            "auxiliary": int(asked),
        }
    own, references = loss_kind(case.target), case.references
    given = {
        "baselines": references.baselines,
        "pretrained": (references.pretrained,),
        "auxiliary": (references.auxiliary,),
    }
    return {
        name: sum(model is not None and loss_kind(model) == own for model in models) for name, models in given.items()
    }
