"""Parameters that make an attacker weaker than the smallest budget's: such an attack passes no limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from audit.attacks.interface import Attack

AnyAttack = TypeVar("AnyAttack", bound=Attack)


def weaker(attack: AnyAttack, *, more: Iterable[str] = (), kept: Iterable[str] = ()) -> tuple[str, ...]:
    """Describe how parameters that somebody set weaken the attack; empty when none does.

    Args:
        attack: with the parameters as they are.
        more: names of the parameters of which less makes a weaker attacker than the smallest budget's.
        kept: names of those that blind the attack when they are far from the shipped ones: any change counts.
    """
    usual = type(attack).preset("quick")
    found = [
        f"{name} {getattr(attack, name):g}, less than the {getattr(usual, name):g} of the smallest budget"
        for name in more
        if getattr(attack, name) < getattr(usual, name)
    ]
    found += [
        f"{name} {getattr(attack, name)} instead of {getattr(usual, name)}"
        for name in kept
        if getattr(attack, name) != getattr(usual, name)
    ]
    return tuple(found)
