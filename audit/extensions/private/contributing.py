"""The choice of what sums the contributions of units: local steps, or an engine of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from audit.corpus.documents import Corpus
from audit.extensions.private.engines.preflight import UNITS
from audit.extensions.private.interface import Contributions, DrawnUnit, Engine, Learner, Parameters, UnitKind
from audit.extensions.private.local_steps import LocalSteps
from audit.extensions.private.options import DpOptions
from audit.extensions.private.settings import learning_rate
from audit.extensions.private.trained import Trained
from audit.extensions.private.units import draw_samples, outsiders
from audit.targets.checkpoint.privacy import Reason


class ChosenEngine(Protocol):
    """What `engines.choose.choose_engine` gives."""

    @property
    def engine(self) -> Engine:
        """The engine that may be used."""
        ...

    @property
    def preflight_error(self) -> float | None:
        """Its largest relative difference from the exact one; None: it is the exact one."""
        ...


ChooseEngine = Callable[[str, Learner, Parameters, list[DrawnUnit], int], ChosenEngine]


@dataclass(frozen=True)
class Contributing:
    """What sums contributions, in the words of the card."""

    contributions: Contributions
    engine: str
    reason: Reason
    preflight_error: float | None


def choose_contributions(
    corpus: Corpus, kind: UnitKind, options: DpOptions, learner: Learner, trained: Trained, given: ChooseEngine | None
) -> Contributing:
    """Choose local steps or an engine; no member is looked at.

    Args:
        corpus: its public and held-out documents are for the preflight.
        kind: whoever is protected.
        options: what the owner chose.
        learner: whose losses are differentiated.
        trained: what is trained.
        given: chooses the engine; None: `engines.choose.choose_engine`.

    Raises:
        UsageError: no engine of this name.
    """
    if options.local_steps:
        rate = learning_rate(options, trained.scope)
        steps = LocalSteps(learner, trained.parameters, options.local_steps, rate, options.rows)
        return Contributing(steps, "local steps", "asked", None)
    if given is None:
        from audit.extensions.private.engines.choose import choose_engine

        given = choose_engine
    others = outsiders(corpus, kind, options.per_unit)
    drawn = (draw_samples(learner, unit, 0, options.seed) for unit in others)
    tried = [*islice((unit for unit in drawn if unit is not None), UNITS)]
    chosen = given(options.engine, learner, trained.parameters, tried, options.rows)
    name = chosen.engine.name
    reason: Reason = "no faster one serves" if name == "exact" else "equal"
    if name == "exact" and options.engine == "exact":
        reason = "asked"
    return Contributing(chosen.engine, name, reason, None if name == "exact" else chosen.preflight_error)
