"""The trials of each attack under a budget, as far as the data set alone shows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.attacks.battery import BATTERY
from audit.attacks.budget import SHARES, halves
from audit.attacks.interface import Attack, Sides
from audit.corpus.documents import Corpus

UNTIMED = "give --model to time it"


@dataclass(frozen=True)
class Cost:
    """What one attack tries under a budget.

    Attributes:
        attack: its name.
        trials: their number.
        exact: counted with the model's tokens; otherwise there are at most so many.
        reached: how many units (documents, providers) of members and of others these trials belong to, at most.
        inapplicable: why the model cannot be attacked this way; None when it can, or no model was given.
        lacks: what the attack cannot do without and nobody gave; None when nothing.
        by_data: whether the data set lacks it; a reference can be given, and its lack excuses no limit.
        weakened: what it does without, and so passes no limit; None when nothing.
        seconds: estimate for all trials; None where it was not measured.
        least: whether not even one trial was done in time, so that they take longer than `seconds`.
        untimed: why there is no time, where nothing above says so.
    """

    attack: str
    trials: int
    exact: bool
    reached: Sides
    inapplicable: str | None = None
    lacks: str | None = None
    weakened: str | None = None
    by_data: bool = True
    seconds: float | None = None
    least: bool = False
    untimed: str = ""


def at_most(corpus: Corpus, budget: str, documents: int | None = None, part: float = 1.0) -> tuple[Cost, ...]:
    """The cost of every attack without a model, from what the data set offers: a tokenizer may leave some of it out.

    Args:
        corpus: the data set.
        budget: of the scan.
        documents: units of members and others together that are tried at most.
        part: of the units of each side that is tried.
    """
    return tuple(_at_most(kind.preset(budget), corpus, SHARES[budget], documents, part) for kind in BATTERY)


def _at_most(attack: Attack, corpus: Corpus, share: float, documents: int | None, part: float) -> Cost:
    inapplicable = attack.inapplicable_tasks.get(corpus.manifest.task.kind)
    if inapplicable is not None:
        return Cost(attack.name, 0, False, (0, 0), inapplicable=inapplicable)
    sides = attack.offered(corpus)
    references = corpus.manifest.references
    given = {"baselines": len(references.baselines), "pretrained": int(references.pretrained is not None)}
    if corpus.manifest.task.kind == "mlm":
        given["auxiliary"] = int(references.auxiliary is not None)
    sampled = reached = (math.ceil(share * sides[0]), math.ceil(share * sides[1]))
    if documents is not None or part < 1:
        sampled, reached = _bounded(attack, corpus, sides, share, documents, part)
    lacks = attack.lacks(corpus)
    return Cost(
        attack.name,
        sum(sampled),
        False,
        reached,
        lacks=lacks or attack.unprovided(corpus),
        by_data=attack.excused(corpus),
        weakened=attack.weakened(corpus, given),
        untimed=UNTIMED,
    )


def _bounded(
    attack: Attack, corpus: Corpus, sides: Sides, share: float, documents: int | None, part: float
) -> tuple[Sides, Sides]:
    """Trials and units of a scan that is bounded: at least one trial of each unit that is drawn."""
    units = attack.units(corpus)
    there = [max((one.members for one in units), default=0), max((one.others for one in units), default=0)]
    there = [max(n, min(1, offered)) for n, offered in zip(there, sides, strict=True)]
    kept = [math.ceil(part * n) for n in there]
    if documents is not None:
        kept = [min(pair) for pair in zip(kept, halves(documents, there), strict=True)]
    trials = [
        max(own, math.ceil(share * offered * own / n)) if n else 0
        for own, offered, n in zip(kept, sides, there, strict=True)
    ]
    return (trials[0], trials[1]), (kept[0], kept[1])
