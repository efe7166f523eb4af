"""All constructions, by their names, in the order of the tables."""

from benchmarks.calibration.false_passes import (
    cases_letters,
    cases_open,
    cases_receipts,
    cases_utterances,
)
from benchmarks.calibration.false_passes.lab import CONSTRUCTIONS

__all__ = ["CONSTRUCTIONS", "cases_letters", "cases_open", "cases_receipts", "cases_utterances"]
