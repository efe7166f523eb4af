"""First guesses of the seconds that the parts of a scan take; what is seen under way puts them right."""

from __future__ import annotations

from audit.attacks.interface import Attack
from audit.report.files import SECONDS_OF_FILES
from audit.workflows.bounded import Bound
from audit.workflows.plan.cost import at_most

USEFULNESS, CHECKS = "usefulness", "checks of the scan"
REFERENCES = "references"
"""Part of a scan, and the folder of trained references in the evidence."""
SECONDS_OF_USEFULNESS, SECONDS_OF_REFERENCES, SECONDS_OF_CHECKS = 2.0, 5.0, 3.0
"""Of the small samples on two processor cores (ours); where references are trained their own epochs tell."""


def measuring(attack: str) -> str:
    """The part of a scan in which an attack's outcomes are measured."""
    return f"{attack}: measuring"


def expected_seconds(bound: Bound) -> dict[str, float]:
    """Guess the seconds of every part of a scan, in order.

    Trials are counted from the data set alone; a scan whose time is bounded has planned their time already.
    """
    opened = bound.opened
    corpus, options = opened.corpus, opened.options
    costs = {one.attack: one for one in at_most(corpus, options.budget, options.documents, opened.part)}
    expected = {USEFULNESS: SECONDS_OF_USEFULNESS, REFERENCES: SECONDS_OF_REFERENCES}
    for attack in opened.attacks:
        cost = costs.get(attack.name)
        if cost is not None and cost.inapplicable is None and cost.lacks is None:
            expected |= _of_attack(attack, bound.shares.get(attack.name, cost.trials * attack.seconds[0]))
    return expected | {CHECKS: SECONDS_OF_CHECKS} | SECONDS_OF_FILES


def _of_attack(attack: Attack, trials: float) -> dict[str, float]:
    return {attack.name: trials, measuring(attack.name): attack.seconds[1]}
