"""The countermeasures, by name."""

from __future__ import annotations

from collections.abc import Mapping

from audit import plugins
from audit.defenses.blocking import Blocking
from audit.defenses.capping import Capping
from audit.defenses.dp import DpTraining
from audit.defenses.evasion import EVASION
from audit.defenses.interface import DataDefense, Defense, QueryDefense, TrainingDefense
from audit.defenses.nlu_training import CharacterEmbeddings, Dropout, EarlyStopping, Regularisation
from audit.defenses.paraphrase import Paraphrase
from audit.defenses.random_string import RandomString
from audit.defenses.resolution import HigherResolution
from audit.defenses.scrubbing import Scrubbing
from audit.errors import UsageError

_CORE: tuple[Defense, ...] = (
    Paraphrase(),
    RandomString("before"),
    RandomString("after"),
    Blocking(),
    Scrubbing(),
    Capping(),
    DpTraining(),
    Dropout(),
    EarlyStopping(),
    CharacterEmbeddings(),
    Regularisation(),
    HigherResolution(),
    EVASION,
)
DEFENSES: Mapping[str, Defense] = plugins.extend({one.name: one for one in _CORE}, "docaudit.countermeasures")


def query_defenses() -> dict[str, QueryDefense]:
    """Those that work while a model is used."""
    return {name: defense for name, defense in DEFENSES.items() if isinstance(defense, QueryDefense)}


def training_defenses() -> dict[str, TrainingDefense]:
    """Those for which the model is trained again."""
    return {name: defense for name, defense in DEFENSES.items() if isinstance(defense, TrainingDefense)}


def data_defenses() -> dict[str, DataDefense]:
    """Those that rewrite a data set."""
    return {name: defense for name, defense in DEFENSES.items() if isinstance(defense, DataDefense)}


def query_defense(name: str, seed: int = 0) -> QueryDefense:
    """The countermeasure of this name that works while a model is used.

    Args:
        name: one of `query_defenses`.
        seed: of its random choices.

    Raises:
        UsageError: there is none of this name.
    """
    known = query_defenses()
    if name not in known:
        raise UsageError(f"no countermeasure is called {name!r}", f"one of {', '.join(known)}")
    return known[name].seeded(seed)
