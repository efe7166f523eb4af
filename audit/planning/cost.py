"""What a scan costs: how much each attack tries, as far as the data set alone tells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.attacks import BATTERY
from audit.attacks.attributes import AttributeInference
from audit.attacks.attributes.attack import NO_REFERENCE as NO_CHOICE
from audit.attacks.attributes.offered import most_trials as most_trials_of_values
from audit.attacks.budget import SHARES
from audit.attacks.interface import Attack
from audit.attacks.membership import Membership
from audit.attacks.membership.attack import NO_REFERENCE as NO_DOCUMENT_REFERENCE
from audit.attacks.membership.documents import CALIBRATING
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.questions import all_questions
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.provider_membership.asking import GIVE
from audit.attacks.provider_membership.asking import NO_REFERENCE as NO_PROVIDER_REFERENCE
from audit.attacks.provider_membership.providers import knows_public, untold
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.offered import most_trials
from audit.corpus.documents import Corpus, Split, TaskKind

Sides = tuple[int, int]
"""Of members and of others."""
ANSWERING = "applies to models that read pages as words only (VT5, UDOP): give --model"
UNASKED: Mapping[tuple[str, TaskKind], str] = {
    ("reconstruction", "question-answering"): ANSWERING,
    ("reconstruction", "intent-slots"): "does not apply to models of utterances, which have a vocabulary of their own",
}
"""Attacks that no model of a task is put to, or few: what `Attack.inapplicable` may say, before there is a model."""
UNTIMED = "give --model to time it"
SPLITS: tuple[Split, Split] = ("member", "heldout")


@dataclass(frozen=True)
class Time:
    """Estimated seconds of all trials of an attack, and the range they should lie in.

    Attributes:
        seconds: the estimate; the least, where there is no more.
        low, high: the range; no `high` where not even one trial was done in time, so that this is a least time.
        trials: how many trials it rests on.
    """

    seconds: float
    low: float
    high: float | None
    trials: int


@dataclass(frozen=True)
class Cost:
    """What one attack tries under a budget.

    Attributes:
        attack: its name.
        trials: how many.
        exact: counted with the model's tokens; otherwise there are at most so many.
        reached: how many units (documents, providers) of members and of others these trials belong to, at most.
        inapplicable: why the model cannot be attacked this way; None when it can, or no model was given.
        lacks: what the attack cannot do without and nobody gave; None when nothing.
        weakened: what it does without, and so passes no limit; None when nothing.
        time: None where it was not measured.
        untimed: why not, where nothing above says so.
    """

    attack: str
    trials: int
    exact: bool
    reached: Sides
    inapplicable: str | None = None
    lacks: str | None = None
    weakened: str | None = None
    time: Time | None = None
    untimed: str = ""


def at_most(corpus: Corpus, budget: str) -> tuple[Cost, ...]:
    """The cost of every attack without a model, from what the data set offers: a tokenizer may leave some of it out."""
    return tuple(_at_most(kind.preset(budget), corpus, SHARES[budget]) for kind in BATTERY)


def _at_most(attack: Attack, corpus: Corpus, share: float) -> Cost:
    unasked = UNASKED.get((attack.name, corpus.manifest.task.kind))
    if unasked is not None:
        return Cost(attack.name, 0, False, (0, 0), inapplicable=unasked)
    sides = offered(attack, corpus)
    references = corpus.manifest.references
    given = {"baselines": len(references.baselines), "pretrained": int(references.pretrained is not None)}
    if corpus.manifest.task.kind == "mlm":
        given["auxiliary"] = int(references.auxiliary is not None)
    sampled = (math.ceil(share * sides[0]), math.ceil(share * sides[1]))
    return Cost(
        attack.name,
        sum(sampled),
        False,
        sampled,
        lacks=attack.lacks(corpus) or unprovided(attack, corpus),
        weakened=weakened(attack, corpus, given),
        untimed=UNTIMED,
    )


def unprovided(attack: Attack, corpus: Corpus) -> str | None:
    """The reference that an attack cannot do without and nobody gave, in its own words; None when none is missing.

    It is no part of `Attack.lacks`: the owner can mend it, so it excuses no limit.
    """
    return attack.unprovided(corpus) if isinstance(attack, Reconstruction) else None


def weakened(attack: Attack, corpus: Corpus, given: Mapping[str, int]) -> str | None:
    """What an attack lacks of the references that it can do without, in its own words and what to give.

    Policies pass no limit with a weakened attacker. None when nothing weakens it.

    Args:
        attack: one of the battery.
        corpus: the data set.
        given: how many references there are, of "baselines", of "pretrained", and of "auxiliary" where it can be asked
            what the target is asked.
    """
    match attack:
        case ProviderMembership() if untold(corpus) is not None:
            return untold(corpus)
        case ProviderMembership() if not given["pretrained"]:
            if not given["baselines"]:
                return f"no reference: {NO_PROVIDER_REFERENCE} ({GIVE}: --reference pretrained=PATH or baselines=PATH)"
            if knows_public(corpus):
                saw = "baselines saw public documents of providers that are asked about"
                return f"no reference: {NO_PROVIDER_REFERENCE}, for {saw} ({GIVE})"
        case Membership() if not any(given.get(name) for name in CALIBRATING):
            return (
                f"no reference: {NO_DOCUMENT_REFERENCE} (give --reference baselines=PATH, see docaudit train-baseline, "
                "or pretrained=PATH)"
            )
        case AttributeInference() if not any(given.get(name) for name in attack.uses):
            return (
                f"no reference: {NO_CHOICE} (give --reference baselines=PATH, see docaudit train-baseline, or "
                "pretrained=PATH)"
            )
        case Memorisation() if 0 < given["baselines"] < attack.n_baselines:
            return f"{given['baselines']} of {attack.n_baselines} baselines (give more: --reference baselines=PATH)"
    return None


def offered(attack: Attack, corpus: Corpus) -> Sides:
    """Trials of members and of others: fields, questions, or else one for each unit."""
    match attack:
        case Reconstruction():
            return _of_each_split(most_trials(corpus))
        case AttributeInference():
            return _of_each_split(most_trials_of_values(corpus, attack.n_per_document))
        case Memorisation():
            return _of_each_split([asked.document.split for asked in all_questions(corpus)])
    units = attack.units(corpus)
    return max((unit.members for unit in units), default=0), max((unit.others for unit in units), default=0)


def _of_each_split(splits: Sequence[Split]) -> Sides:
    return splits.count(SPLITS[0]), splits.count(SPLITS[1])
