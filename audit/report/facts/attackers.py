"""Define what an output says of attackers by their access to the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from audit.attacks.text import Access
from audit.measurements import Estimate
from audit.policy import Outcome

AccessState = Literal["shown", "not shown", "not tested", "needs the model"]
"""Whether a leak was shown to attackers with one kind of access.

"not shown" is no proof of the contrary; "needs the model": what the question is about is in the
model alone."""
Release = Literal["internal", "hosted", "shared"]
"""Whether the file and the service stay inside, outsiders use the service, or outsiders get the
file."""


@dataclass(frozen=True)
class AccessCell:
    """What an attack found with one kind of access to the model, or with less.

    Attributes:
        state: whether a leak was shown.
        measured: the number that shows it, or that the limit was held against, else the first one
            within this access; None where nothing was measured.
        outcome: the worst outcome of the limits on numbers within this access; empty where none
            limits one, or nothing was tested.
        n_exceeded: number of limits on numbers within this access that are exceeded.
        guessed: share that somebody reaches without the model; of "needs the model" only, None
            where it is not known.
    """

    state: AccessState
    measured: Estimate | None = None
    outcome: Outcome | Literal[""] = ""
    n_exceeded: int = 0
    guessed: float | None = None

    @property
    def is_undecided(self) -> bool:
        """Tell whether no leak was shown, and a limit within this access is undecided."""
        return self.state == "not shown" and self.outcome == "undecided"


@dataclass(frozen=True)
class AccessRow:
    """What an attack found, by the attacker's access to the model.

    Attributes:
        attack: its name.
        cells: by access, most first. Whoever has more access can do what those with less can.
        ran: whether it ran to its end.
        reason: why it did not, where the record says so.
    """

    attack: str
    cells: Mapping[Access, AccessCell]
    ran: bool = True
    reason: str = ""


@dataclass(frozen=True)
class ReleaseFacts:
    """What the table of access says of one way to give a model away.

    Attributes:
        release: the way.
        shown: attacks whose leak was shown to whoever then has access.
        exceeded: of `shown`, those by which a limit is exceeded and not waived.
        n_exceeded: number of limits that they exceed.
        not_shown: those that were tried with this access and showed none.
        undecided: of `not_shown`, those with an undecided limit.
        not_tested: those that nobody tried with this access.
        by_server: of `not_tested`, those that a scan of a server would try on answers alone; of
            "hosted" only.
        with_scores: attacks whose leak was shown to outsiders who get scores, and not to those who
            get answers alone; of "hosted" only.
        undecided_with_scores: attacks with an undecided limit on what outsiders reach who get
            scores, and none on what those reach who get answers alone; of "hosted" only.
    """

    release: Release
    shown: tuple[str, ...]
    exceeded: tuple[str, ...]
    not_shown: tuple[str, ...]
    undecided: tuple[str, ...]
    not_tested: tuple[str, ...]
    by_server: tuple[str, ...] = ()
    n_exceeded: int = 0
    with_scores: tuple[str, ...] = ()
    undecided_with_scores: tuple[str, ...] = ()

    @property
    def was_tested(self) -> bool:
        """Tell whether any attack was tried with this access."""
        return bool(self.shown or self.not_shown)
