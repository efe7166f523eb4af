"""The guarantee that a checkpoint states about its training: numbers and codes beside the weights they are about.

The file comes from whoever gave the checkpoint, and a scan cannot verify what it states. It is believed only where it
could be ours and names the weights that lie beside it; sentences are made here, so that none of its text gets further.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.cards import PrivacyCard
from audit.measurements import STRICT
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint

PRIVACY_FILE = "docaudit_privacy.json"
_MAX_BYTES = 2**16
_MAX = 2**53
Count = Annotated[int, Field(strict=True, ge=0, le=_MAX)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1)]
Reason = Literal["asked", "equal", "no faster one serves"]
_REASONS: dict[Reason, str] = {
    "asked": "as asked",
    "equal": "a preflight found it equal to the exact one",
    "no faster one serves": "no other is equal to it in a preflight and faster",
}
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD", "add": "addition of the mean change"}
_ADJACENCY = {
    "document": "one document and its copies more or less",
    "provider": "one provider with all its documents more or less",
}
_NOT_COVERED = (
    "The weights that training started from, and what they were trained on.",
    "The tokenizer, and settings that were chosen after a look at the documents or at results on them.",
    "Whatever else is released from the same documents: other models, a training with other settings, statistics.",
    "The number of units, from which settings follow, and that a training was refused or broke off.",
)
_OTHERS_PAGES = {
    "document": "A person of whom several documents speak, and near copies of a page: each document is protected on "
    "its own, with its exact copies.",
    "provider": "People and companies named in documents of other providers, and pages that several providers have: "
    "one provider's absence leaves the others' copies.",
}
_LEFT_DOCUMENTS = "Documents that training did not take, beyond the bound of a unit."


@strict_dataclass(frozen=True, config=STRICT)
class StatedPrivacy:
    """What `PRIVACY_FILE` holds; see `cards.PrivacyCard` for all that is not named here.

    Attributes:
        accountant_version: of Opacus, whose PRV accountant it is.
        engine: what computed the gradients; "local steps" where changes are contributed.
        engine_reason: why this one.
        optimizer: "add": the mean change is added.
        scope: of what was trained: adapters, head, or all but what is frozen.
        rank: of adapters; None: there were none.
        no_attention: adapters were asked for, and the model has no attention to put them on.
        embeddings: whether embeddings were trained.
        head: whether the head was.
        secure: coins and noise came from the operating system.
    """

    schema: Literal[1]
    unit: Literal["document", "provider"]
    n_units: Annotated[int, Field(strict=True, ge=2, le=_MAX)]
    epsilon: Positive | None
    delta: Annotated[float, Field(gt=0, le=0.5)]
    noise_multiplier: AtLeastZero
    max_norm: Positive
    sample_rate: Rate
    steps: Count
    per_unit: Annotated[int, Field(strict=True, ge=1, le=_MAX)] | None
    local_steps: Count
    clients: Annotated[int, Field(strict=True, ge=1, le=_MAX)] | None
    client_rate: Rate
    accountant_version: Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$")]
    engine: Literal["exact", "vmap", "hooks", "local steps"]
    engine_reason: Reason
    preflight_error: AtLeastZero | None
    optimizer: Literal["adam", "sgd", "add"]
    learning_rate: Positive
    scope: Literal["lora", "head", "full"]
    rank: Annotated[int, Field(strict=True, ge=1, le=9999)] | None
    no_attention: bool
    embeddings: bool
    head: bool
    trained_parameters: Count
    frozen_parameters: Count
    secure: bool
    weights: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


_STATED: TypeAdapter[StatedPrivacy] = TypeAdapter(StatedPrivacy)


def weights_sha256(folder: AnyFolder) -> str:
    """The sha256 over the digests of a checkpoint's weight files, in their order: the same whatever they are called.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    return hashlib.sha256(b"".join(sorted(open_checkpoint(folder).weights))).hexdigest()


def dump_privacy(stated: StatedPrivacy) -> bytes:
    """The content of `PRIVACY_FILE`."""
    return (json.dumps(asdict(cast("Any", stated)), indent=1) + "\n").encode()


def privacy_card(folder: AnyFolder) -> PrivacyCard | None:
    """The guarantee that a checkpoint states; None where it states none of these weights that could be ours.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    opened = open_checkpoint(folder)
    path = opened.path / PRIVACY_FILE
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        stated = _STATED.validate_json(path.read_bytes())
    except (OSError, ValidationError, RecursionError):
        return None
    if stated.weights != weights_sha256(opened) or not _holds_together(stated):
        return None
    return card_of(stated)


def card_of(stated: StatedPrivacy) -> PrivacyCard:
    """The card for a record: the numbers as they are, and sentences made from the codes."""
    return PrivacyCard(
        unit=stated.unit,
        adjacency=_ADJACENCY[stated.unit],
        n_units=stated.n_units,
        epsilon=stated.epsilon,
        delta=stated.delta,
        noise_multiplier=stated.noise_multiplier,
        max_norm=stated.max_norm,
        sample_rate=stated.sample_rate,
        steps=stated.steps,
        expected_units=stated.sample_rate * stated.n_units,
        per_unit=stated.per_unit,
        local_steps=stated.local_steps,
        clients=stated.clients,
        client_rate=stated.client_rate,
        accountant=f"PRV (Opacus {stated.accountant_version})",
        engine=f"{stated.engine}: {_REASONS[stated.engine_reason]}",
        preflight_error=stated.preflight_error,
        optimizer=f"{_OPTIMIZERS[stated.optimizer]}, learning rate {stated.learning_rate:g}",
        trained=_trained(stated),
        trained_parameters=stated.trained_parameters,
        frozen_parameters=stated.frozen_parameters,
        noise_source="the operating system" if stated.secure else "a seed: anybody can draw it again",
        not_covered=(*_NOT_COVERED, _OTHERS_PAGES[stated.unit], _LEFT_DOCUMENTS),
        weights=stated.weights,
    )


def _holds_together(stated: StatedPrivacy) -> bool:
    """False for what no training of ours states."""
    private = stated.epsilon is not None
    return (
        stated.delta <= 1 / stated.n_units
        and private == (stated.secure and stated.noise_multiplier > 0)
        and (stated.rank is not None) == (stated.scope == "lora")
        and (stated.engine == "local steps") == (stated.local_steps > 0)
        and math.isfinite(stated.sample_rate * stated.n_units)
    )


def _trained(stated: StatedPrivacy) -> str:
    words = {
        "lora": f"adapters of rank {stated.rank} on queries and values{', and the head' if stated.head else ''}",
        "head": "the head",
        "full": "all weights",
    }[stated.scope]
    if stated.no_attention:
        words = f"{words}, as there is no attention to put adapters on"
    return f"{words}; {'embeddings too' if stated.embeddings else 'embeddings are frozen'}"
