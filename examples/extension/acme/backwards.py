"""Trials in this process, the last one first."""

from collections.abc import Sequence

from audit.engine.driver import LocalEngine, drive
from audit.engine.interface import EngineSettings, Outcomes, Trial, WorkSource


class Backwards(LocalEngine):
    """The engine of `--engine backwards`."""

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """Yield outcomes, those of the last trials first."""
        yield from drive(source.here, trials[::-1], self.width)


def make(settings: EngineSettings) -> Backwards:
    """Make the engine."""
    return Backwards(settings.width)
