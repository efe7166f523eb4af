"""Runs trials in this process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.engine.driver import drive
from audit.engine.interface import Outcomes, Trial, WorkSource

WIDTH = 64
"""Attempts in flight (ours): enough to fill a batch of the largest bucket, few enough to keep memory flat."""

PATIENCE = 30.0
"""Seconds without an outcome after which fewer attempts are in flight (ours): what a kill may cost, about."""


@dataclass(frozen=True)
class LocalEngine:
    """The engine for one process and one device; implements `audit.engine.interface.Engine`."""

    width: int = WIDTH

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """See `Engine.run`."""
        yield from drive(source.here, trials, self.width, PATIENCE if self.width <= WIDTH else math.inf)
