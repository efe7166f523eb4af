"""The choice of an engine for one model: the fastest that equals the definition on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from audit.errors import UsageError
from audit.extensions.private.engines.exact import ExactEngine
from audit.extensions.private.engines.grouped import samples_at_a_time
from audit.extensions.private.engines.hooks import HooksEngine
from audit.extensions.private.engines.preflight import preflight
from audit.extensions.private.engines.vmap import VmapEngine
from audit.extensions.private.interface import DrawnUnit, Engine, Learner, MakeEngine, Parameters

FAST: Mapping[str, MakeEngine] = MappingProxyType({"vmap": VmapEngine, "hooks": HooksEngine})
"""In the order in which "auto" tries them; about as fast as each other with few parameters, and vmap is the faster with
many (benchmarks/dp_engines.json)."""
_DEFINITION = "exact, one unit at a time"


@dataclass(frozen=True, eq=False)
class ChosenEngine:
    """An engine that may be used, and how it came to be chosen.

    Attributes:
        note: for the record, in words.
        preflight_error: of the engine, see `Preflight.error`; None for the definition.
    """

    engine: Engine
    note: str
    preflight_error: float | None


def choose_engine(
    name: str,
    learner: Learner,
    parameters: Parameters,
    units: Sequence[DrawnUnit],
    rows: int = 8,
    fast: Mapping[str, MakeEngine] = FAST,
) -> ChosenEngine:
    """The engine of this name where it equals the definition on these units, else the definition.

    Args:
        name: "auto" (the first of `fast` that passes), "exact", or a name in `fast`.
        learner: whose losses are differentiated.
        parameters: what is trained.
        units: for the preflight; best of unequal lengths and of public documents, because the choice is written down.
        rows: samples of one forward pass at most.
        fast: the engines that may take the definition's place.

    Raises:
        UsageError: no engine of this name.
    """
    if name not in ("auto", "exact", *fast):
        raise UsageError(f"no engine {name!r}", f"known: {', '.join(('auto', 'exact', *fast))}")
    exact = ExactEngine(learner, parameters, rows)
    if name == "exact":
        return ChosenEngine(exact, _DEFINITION, None)
    if name == "auto" and (obstacle := _obstacle(learner, parameters, units, rows)):
        return ChosenEngine(exact, f"{_DEFINITION}: {obstacle}", None)
    reasons = []
    for tried in fast if name == "auto" else (name,):
        engine = fast[tried](learner, parameters, rows)
        outcome = preflight(engine, exact, units)
        if outcome.ok:
            return ChosenEngine(engine, f"{tried}, equal to single units in a preflight", outcome.error)
        reasons.append(f"{tried} refused ({outcome.reason})")
    return ChosenEngine(exact, f"{_DEFINITION}: {'; '.join(reasons)}", None)


def _obstacle(learner: Learner, parameters: Parameters, units: Sequence[DrawnUnit], rows: int) -> str:
    """Why no fast engine would be faster; "" where one may be."""
    together = min(rows, samples_at_a_time(parameters, learner.device))
    if together < 2:
        return "the gradients of single samples are too large for batches to be faster"
    if units and sum(len(unit.samples) for unit in units) / len(units) > together / 2:
        return "a unit's own samples fill a batch"
    return ""
