"""A sentence about all that can be audited, for a checkpoint of another kind."""

from __future__ import annotations

from typing import get_args

from audit.targets.encoders.families import known_families
from audit.targets.encoders.heads import HEADS, HeadName
from audit.targets.table import TABLE


def unknown_hint(kind: str) -> str:
    """What to do about a checkpoint of a `model_type` that docaudit does not know."""
    if kind in TABLE["refused"]:
        return str(TABLE["refused"][kind])
    why = TABLE["left_out"].get(kind)
    left_out = f"{kind} cannot be audited: {why}; " if why else ""
    return f"{left_out}docaudit knows {known_models()}"


def known_models() -> str:
    """Every kind of model that can be audited, by what it is for."""
    # Both import what loads encoders.
    from audit.targets.answering.loading import known_answering
    from audit.targets.opening import openers

    families = known_families().values()
    parts = [
        f"for {HEADS[head].words}: {', '.join(family.name for family in families if head in family.heads)}"
        for head in get_args(HeadName)
    ]
    parts += [f"that answer questions: {known_answering()}"]
    parts += ["that point at answers: any with an extractive question answering head of transformers"]
    parts += [opener.words for opener in openers().values() if opener.words]
    return "models " + "; ".join(parts)
