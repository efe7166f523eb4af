"""Effect of a countermeasure that rewrites data on attackers of redactions, and whether that recommends it.

Numbers in, a sentence out; no attacker is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from audit.corpus.documents import Mask
from audit.corpus.evasion import EvasionCost
from audit.defenses.evasion import EVASION
from audit.defenses.interface import DataDefense
from audit.measurements import Estimate

Text = Literal["clean", "evaded", "folded"]
"""How text reads: as it was, rewritten, or as somebody reads it who knows of that."""


@dataclass(frozen=True)
class Attacker:
    """Somebody who tells categories.

    Attributes:
        name: what files call this attacker.
        trained: how the text reads that the classifier is fitted on.
        tested: how the shared text reads.
        adaptive: whether the attacker knows of evasion.
        words: for a table.
    """

    name: str
    trained: Text
    tested: Text
    adaptive: bool
    words: str


def attackers(defense: DataDefense) -> tuple[Attacker, ...]:
    """Whoever reads the documents as they were first, with whom all others are compared."""
    done = defense.done
    return (
        Attacker("clean", "clean", "clean", False, f"no {defense.name}"),
        Attacker("unaware", "clean", "evaded", False, f"{done}, attacker unaware (the paper)"),
        Attacker("folding", "folded", "folded", True, f"{done}, {defense.undone}"),
        Attacker("retrained", "evaded", "evaded", True, f"{done}, trained on {done} text"),
    )


@dataclass(frozen=True)
class Attacked:
    """What one attacker reaches; every number with its interval by document.

    Attributes:
        attacker: name, training and test text, and whether evasion is known.
        accuracy: share of values whose category is named.
        macro_f1: mean over categories of F1.
        lift: accuracy over naming the commonest category.
        lift_over_length: accuracy over seeing only how long values are.
        change: `lift` (and as much of accuracy) after minus before evasion, paired; None without evasion.
        p: two-sided, of the change, by sign flips over documents; None without evasion.
    """

    attacker: Attacker
    accuracy: Estimate
    macro_f1: Estimate
    lift: Estimate
    lift_over_length: Estimate
    change: Estimate | None = None
    p: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """What evasion does.

    Attributes:
        mask: how values are hidden: the manifest's.
        classifier: one of `audit.attacks.redaction.classifiers.CLASSIFIERS`.
        embedding: what contexts become numbers by, as `audit.attacks.redaction.embedding` calls it.
        n_folds: of the cross-validation by document.
        seed: of everything random.
        attacked: one for each of `attackers`, in that order.
        cost: what evasion changes and breaks.
        recommended: whether every adaptive attacker's lift falls, beyond its interval.
        sentence: the recommendation in words, with the costs.
    """

    mask: Mask
    classifier: str
    embedding: str
    n_folds: int
    seed: int
    attacked: tuple[Attacked, ...]
    cost: EvasionCost
    recommended: bool
    sentence: str


def verdict(attacked: Sequence[Attacked], cost: EvasionCost, defense: DataDefense = EVASION) -> tuple[bool, str]:
    """Recommend evasion or not, with the sentence that says so and names its costs.

    It is when the lift of every adaptive attacker falls, the whole interval of the change below zero.

    Args:
        attacked: without evasion first, then with it.
        cost: what evasion breaks.
        defense: what was measured.
    """
    before = attacked[0].lift
    adaptive = [one for one in attacked if one.attacker.adaptive]
    strongest = max(adaptive, key=lambda one: one.lift.value)
    recommended = all(one.change is not None and one.change.high < 0 for one in adaptive)
    assert strongest.change is not None  # only the first has none
    change = f"{strongest.change.value:+.3f} [{strongest.change.low:+.3f}, {strongest.change.high:+.3f}]"
    reached = f"{strongest.lift.value:.3f} over the commonest category ({strongest.attacker.words})"
    if recommended:
        words = "Recommended: the lift of every attacker who knows of it falls; the strongest still reaches"
    else:
        words = "Not recommended: an attacker who knows of it reaches a lift of"
    words += f" {reached}, {before.value:.3f} without {defense.name} ({change})."
    lost, foreign = cost.lost / max(cost.searched, 1), cost.non_ascii_after / max(cost.characters, 1)
    before_it = cost.non_ascii_before / max(cost.characters, 1)
    return recommended, (
        f"{words} {defense.done.capitalize()} text breaks {defense.breaks}: a plain search finds {lost:.0%} of the "
        f"words no more, and {foreign:.0%} of the characters are outside ASCII ({before_it:.0%} before)."
    )
