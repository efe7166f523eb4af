"""Scans that are bounded by documents or by time (methods.md#bounded-scans).

Trials are tried in blocks that are alike, and a block that was begun is finished: the stop depends on durations alone,
and no trial is left out for how long it took.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from audit.attacks.budget import blocks
from audit.attacks.interface import Attack
from audit.cards import Bounds, TriedTrials
from audit.engine.interface import Json, Progress, Trial
from audit.errors import EngineError
from audit.files import write_atomically
from audit.references.resolve import LoadedReferences
from audit.targets.opening import Checkpoint
from audit.workflows.execution import collect_blocks
from audit.workflows.journal import Origin
from audit.workflows.setup import ScanSetup

N_BLOCKS = 8
"""Blocks of an attack whose time is bounded (ours)."""


class _Kept(TypedDict):
    """What `evidence/` keeps of a scan whose time is bounded."""

    part: float
    shares: dict[str, float]
    stopped: dict[str, int]


@dataclass
class Bound:
    """What bounds one scan, and how far it came.

    Attributes:
        opened: the scan, with the part of its units that is planned.
        path: where the plan is kept, so that the same command goes on with the same; None: time is not bounded.
        shares: of the time left, by attack, what it is expected to take.
        stopped: by attack, the blocks that were done when the time was up.
        ends: when the time is up.
        origin: of the outcomes, as they are collected.
    """

    opened: ScanSetup
    path: Path | None = None
    shares: dict[str, float] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    ends: float = float("inf")
    origin: Origin = field(default_factory=Origin)
    _tried: dict[str, TriedTrials] = field(default_factory=dict)
    _due: float = float("inf")

    def blocks_of(self, attack: str, trials: Sequence[Trial]) -> list[list[Trial]]:
        """Divide the trials of an attack into the blocks that may be tried, and give the attack its time."""
        if self.path is None:
            return [[*trials]]
        now = time.monotonic()
        names = [*self.shares]
        later = sum(self.shares[name] for name in names[names.index(attack) :]) if attack in names else 0.0
        own = self.shares.get(attack, 0.0)
        self._due = now + (self.ends - now) * (own / later if later > 0 else 1.0)
        divided = blocks(trials, N_BLOCKS)
        return divided[: self.stopped.get(attack, len(divided))]

    def goes_on(self) -> bool:
        """Ask whether there is time for another block."""
        return time.monotonic() < self._due

    def finish(self, attack: str, trials: Sequence[Trial], divided: Sequence[Sequence[Trial]], done: int) -> None:
        """Keep how far an attack came: `done` of its blocks."""
        self._tried[attack] = TriedTrials(attack, len(trials), sum(map(len, divided[:done])))
        if self.path is not None and done < len(divided):
            self.stopped[attack] = done
            self._write()

    def card(self) -> Bounds | None:
        """Give what goes into the record; None for a scan without bounds."""
        options = self.opened.options
        if options.documents is None and options.seconds is None:
            return None
        return Bounds(options.documents, options.seconds, self.opened.part, tuple(self._tried.values()))

    def _write(self) -> None:
        assert self.path is not None
        kept = {"part": self.opened.part, "shares": self.shares, "stopped": self.stopped}
        write_atomically(self.path, json.dumps(kept).encode(), mode=0o600)


def bound_scan(opened: ScanSetup, progress: Progress) -> Bound:
    """Plan what fits into the bounds of a scan, before any outcome is seen.

    With a bound on time a few trials are timed, once: what was found is kept in `evidence/`, which must be there, and
    read again by the same scan.

    Raises:
        EngineError: what was kept cannot be read.
    """
    seconds = opened.options.seconds
    if seconds is None:
        return Bound(opened)
    path = opened.options.evidence / f"time-{_key(opened)}.json"
    kept = None if opened.options.fresh else _read(path)
    if kept is None:
        kept = _plan(opened, seconds, progress)
    found = Bound(
        replace(opened, part=kept["part"]),
        path,
        dict(kept["shares"]),
        dict(kept["stopped"]),
        time.monotonic() + seconds,
    )
    found._write()
    return found


def _plan(opened: ScanSetup, seconds: float, progress: Progress) -> _Kept:
    """The part of the units that fits into the time, and what each attack will take of it."""
    from audit.workflows.plan.timing import part_in, time_attacks

    costs = [cost for cost in time_attacks(opened, progress) if cost.lacks is None and cost.inapplicable is None]
    known = {cost.attack: max(cost.seconds, 1e-3) for cost in costs if cost.seconds is not None}
    usual = max(known.values(), default=1.0)
    shares = {cost.attack: known.get(cost.attack, usual) for cost in costs}
    return {"part": part_in(seconds, sum(shares.values())), "shares": shares, "stopped": {}}


def _key(opened: ScanSetup) -> str:
    options = opened.options
    named = [attack.name for attack in opened.attacks]
    depends_on = [
        opened.target.card.sha256,
        opened.corpus.sha256,
        opened.budget,
        options.seed,
        options.seconds,
        options.documents,
        options.defense,
        named,
        repr(opened.attacks),
    ]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:16]


def _read(path: Path) -> _Kept | None:
    if not path.exists():
        return None
    try:
        kept: _Kept = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise EngineError(f"{path}: cannot be read", "scan again with --fresh") from None
    return kept


def collect(
    bound: Bound,
    attack: Attack,
    target: Checkpoint,
    filled: LoadedReferences,
    trials: list[Trial],
    progress: Progress,
) -> tuple[list[Trial], list[Json]]:
    """The trials that were tried within the bounds, and their outcomes, in their order."""
    divided = bound.blocks_of(attack.name, trials)
    found = collect_blocks(bound.opened, attack, target, filled, divided, progress, bound.goes_on, bound.origin)
    bound.finish(attack.name, trials, divided, sum(block[0].id in found for block in divided))
    tried = [trial for trial in trials if trial.id in found]
    return tried, [found[trial.id] for trial in tried]
