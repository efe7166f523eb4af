"""The guarantee that a checkpoint states about its training: numbers and codes beside the weights they are about.

The file comes from whoever gave the checkpoint, and a scan cannot verify what it states. It is believed only where it
could be ours, names the weights that lie beside it, and its epsilon follows from its own numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from audit.cards import PrivacyCard
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint

PRIVACY_FILE = "docaudit_privacy.json"
_MAX_BYTES = 2**16
_CARD: TypeAdapter[PrivacyCard] = TypeAdapter(PrivacyCard)
_NOT_GIVEN = (
    "the checkpoint states a guarantee of its training, epsilon {epsilon:.3g} at delta {delta:.2g}, that its own "
    "numbers do not give: it is left out"
)


def weights_sha256(folder: AnyFolder) -> str:
    """Compute the sha256 over the digests of a checkpoint's weight files, in their order, whatever they are called.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    return hashlib.sha256(b"".join(sorted(open_checkpoint(folder).weights))).hexdigest()


def dump_privacy(card: PrivacyCard) -> bytes:
    """Write the content of `PRIVACY_FILE`."""
    return (json.dumps(asdict(cast("Any", card)), indent=1) + "\n").encode()


def privacy_card(folder: AnyFolder) -> PrivacyCard | None:
    """Read the guarantee that a checkpoint states; None where it states none of these weights that could be ours.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    opened = open_checkpoint(folder)
    path = opened.path / PRIVACY_FILE
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        card = _CARD.validate_json(path.read_bytes())
    except (OSError, ValidationError, RecursionError):
        return None
    private = card.epsilon is not None
    could_be_ours = card.delta <= 1 / card.n_units and private == (card.secure and card.noise_multiplier > 0)
    return card if could_be_ours and not card.curve and card.weights == weights_sha256(opened) else None


def stated_guarantee(model: AnyFolder) -> tuple[PrivacyCard | None, tuple[str, ...]]:
    """Read the guarantee that a checkpoint states; one that does not follow from its numbers is not believed.

    Returns:
        The card with its privacy curve, None where there is none to believe, and warnings.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    card = privacy_card(model)
    if card is None or card.epsilon is None:
        return card, ()
    # Loads torch and Opacus, which scans of other models do without.
    from audit.stats.dp_accounting import may_give, privacy_curve

    numbers = (card.noise_multiplier, card.delta, card.unit_rate, card.steps, card.client_rate)
    if card.sample_rate <= card.client_rate * (1 + 1e-9) and may_give(card.epsilon, *numbers):
        return replace(card, curve=privacy_curve(*numbers)[1:]), ()
    return None, (_NOT_GIVEN.format(epsilon=card.epsilon, delta=card.delta),)
