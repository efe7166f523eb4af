"""Questions in capitals."""

from __future__ import annotations

from audit.defenses.interface import QueryDefense
from audit.defenses.remedy import AnsweredFinding, Remedy
from audit.defenses.rewording import Reworded, reworded
from audit.targets.interface import Target


class Capitals(QueryDefense):
    """Every question in capitals."""

    name = "capitals"
    title = "Question in capitals"
    remedy = Remedy(
        id="capitals",
        name="Put every question in capitals",
        does="The question of training is not asked in its own words.",
        cost="Answers may become worse.",
        check="docaudit defend capitals MODEL_DIR DATA_DIR",
        source="An example.",
        answers=(AnsweredFinding("memorisation", "*", ("violated",)),),
        measured_by=("capitals",),
    )

    def wrap(self, target: Target) -> Reworded:
        """Return the target, asked in capitals."""
        return reworded(self.name, target, str.upper)
