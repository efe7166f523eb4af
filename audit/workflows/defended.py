"""Build the case of a scan: a model and its references behind a countermeasure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from audit.case import Case, References
from audit.corpus.documents import Corpus
from audit.defenses.interface import QueryDefense
from audit.targets import opening
from audit.targets.answering.denoiser import Denoiser
from audit.targets.interface import Target


def defended_case(
    defense: QueryDefense | None,
    target: opening.Checkpoint,
    corpus: Corpus,
    models: Mapping[str, opening.Checkpoint | Denoiser] = MappingProxyType({}),
    members: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Case:
    """Return what attacks are put to, in the process of the scan and on its workers.

    Args:
        defense: the countermeasure that all models are asked behind; None: there is none.
        target: the audited model.
        corpus: the audited documents.
        models: references by role, see `References.of`.
        members: ids of the documents that each split model was trained on, by its role.
    """
    references = wrap_references(defense, models, members)
    return Case(wrap_target(defense, target), corpus, references)


def wrap_target(defense: QueryDefense | None, target: opening.Checkpoint) -> Target:
    """Wrap a target in a countermeasure, where there is one."""
    if defense is None:
        return target
    return defense.wrap(target)


def wrap_references(
    defense: QueryDefense | None,
    models: Mapping[str, opening.Checkpoint | Denoiser],
    members: Mapping[str, frozenset[str]],
) -> References:
    """Wrap references in the target's countermeasure, so that all are asked the same.

    The public model proposes tokens and is asked nothing that a countermeasure changes.

    Args:
        defense: the countermeasure; None: there is none.
        models: models by role, see `References.of`.
        members: ids of the documents that each split model was trained on, by its role.
    """
    wrapped: dict[str, Target] = {}
    for role, model in models.items():
        if role == "auxiliary" or isinstance(model, Denoiser):
            wrapped[role] = model
        else:
            wrapped[role] = wrap_target(defense, model)
    return References.of(wrapped, members)
