"""Put a model and its references behind the countermeasure of a scan."""

from __future__ import annotations

from collections.abc import Mapping

from audit.case import References
from audit.defenses.interface import QueryDefense
from audit.targets import opening
from audit.targets.answering.denoiser import Denoiser
from audit.targets.interface import Target


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
