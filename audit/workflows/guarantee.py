"""The guarantee that a checkpoint states, as far as a scan can check it: its numbers must give its epsilon."""

from __future__ import annotations

from pathlib import Path

from audit.record import PrivacyCard
from audit.targets.checkpoint.privacy import privacy_card

_WARNING = (
    "the checkpoint states a guarantee of its training, epsilon {epsilon:.3g} at delta {delta:.2g}, that its own "
    "numbers do not give: it is left out"
)


def stated_guarantee(model_dir: Path) -> tuple[PrivacyCard | None, tuple[str, ...]]:
    """Read the guarantee that a checkpoint states; one that does not follow from its numbers is not believed.

    Returns:
        The card, None where there is none to believe, and warnings.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    card = privacy_card(model_dir)
    if card is None or card.epsilon is None:
        return card, ()
    # Loads torch and Opacus, which scans of other models do without.
    from audit.training.dp.accounting import gives

    if gives(card):
        return card, ()
    return None, (_WARNING.format(epsilon=card.epsilon, delta=card.delta),)
