"""Run trials in this process; choose the engine that the user names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from audit import plugins
from audit.engine.driver import drive
from audit.engine.interface import WIDTH, Engine, EngineSettings, Outcomes, Trial, WorkSource
from audit.errors import UsageError

LOCAL = "local"
PATIENCE = 30.0
"""Seconds without an outcome after which fewer attempts are in flight: about what a kill may cost."""


@dataclass(frozen=True)
class LocalEngine:
    """The engine for one process and one device; implements `audit.engine.interface.Engine`."""

    width: int = WIDTH

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """See `Engine.run`."""
        yield from drive(source.here, trials, self.width, PATIENCE)


def make_engine(engine: str, settings: EngineSettings) -> Engine:
    """Make the engine of `--engine NAME[:KEY=VALUE,...]`.

    Args:
        engine: "local", or the name of an engine that an extension adds; then its options.
        settings: everything else that an engine needs.

    Raises:
        UsageError: no engine has this name, or it does not take these options.
    """
    name, _, text = engine.partition(":")
    pairs = [option.partition("=") for option in text.split(",") if option]
    settings = replace(settings, options={key: value for key, _, value in pairs})
    if name == LOCAL:
        if settings.options:
            raise UsageError("--engine local takes no options", "leave them out")
        return LocalEngine(settings.width)
    engines: dict[str, Callable[[EngineSettings], Engine]] = plugins.load("docaudit.engines")
    if name not in engines:
        raise UsageError(f"--engine {engine}: no engine is called {name!r}", f"one of {', '.join((LOCAL, *engines))}")
    return engines[name](settings)
