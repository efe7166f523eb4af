"""A countermeasure, measured: the same scan without it and with it, and the differences unit by unit."""

from audit.workflows.defend.measuring import (
    COMPARISON,
    FILES,
    DefenseChoice,
    DefenseComparison,
    measure_defense,
    measure_defenses,
)

__all__ = ["COMPARISON", "FILES", "DefenseChoice", "DefenseComparison", "measure_defense", "measure_defenses"]
