"""Share done of a run of several parts, and the seconds left: from first guesses, put right by what has been seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

TELLING_SHARE = 0.1
"""The share of a stage that must be done before its own speed counts (ours): many steps are under way at once."""
_DOUBT = 5.0
"""Seconds of first guesses that weigh as much as what has been seen of this machine's speed (ours)."""


class Stage:
    """Steps of one kind, and how many are done."""

    def __init__(self, name: str, total: int, now: float) -> None:
        self.name, self.total, self.done, self.began = name, total, 0, now

    @property
    def share(self) -> float:
        """The share of the steps that is done, 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total > 0 else 1.0

    def left(self, now: float) -> float | None:
        """The seconds left; None while too little is done to tell."""
        if self.share < TELLING_SHARE or not self.done:
            return None
        return (now - self.began) * (1 - self.share) / self.share


class Forecast:
    """A run of parts of which each has a first guess of its seconds.

    What the parts so far took, by what was guessed of them, says how fast this machine is with this model; the stage
    that bears the name of its part says it of that part.
    """

    def __init__(self, title: str, parts: Mapping[str, float], clock: Callable[[], float]) -> None:
        self.title, self._clock = title, clock
        self._guessed = dict(parts)
        self._began = self._part_began = clock()
        self._part = ""
        self._seen = self._guessed_of_seen = 0.0
        self._shown = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._began

    def part(self, name: str) -> None:
        """See `Progress.part`."""
        now = self._clock()
        if name == self._part:
            return
        if self._part:
            self._seen += now - self._part_began
            self._guessed_of_seen += self._guessed.pop(self._part, 0.0)
        if name in self._guessed:
            # What was planned before it did not take place.
            order = [*self._guessed]
            for skipped in order[: order.index(name)]:
                del self._guessed[skipped]
        self._part, self._part_began = name, now

    def left(self, stage: Stage | None) -> float:
        """Estimate the seconds to the end of the run, under way with a stage."""
        now = self._clock()
        later = sum(seconds for name, seconds in tuple(self._guessed.items()) if name != self._part)
        return self._left_of_part(stage, now) + later * self._slowness(stage, now)

    def share(self, stage: Stage | None) -> float:
        """Estimate the share of the time that is over, 0 to 1; it never falls, and is 1 at the end alone."""
        left = self.left(stage)
        total = self.elapsed + left
        self._shown = max(self._shown, min(self.elapsed / total, 0.99) if total > 0 else 0.0)
        return self._shown

    def _slowness(self, stage: Stage | None, now: float) -> float:
        """Seconds that a guessed second takes here."""
        seen, guessed = self._seen, self._guessed_of_seen
        own = self._own(stage, now)
        if own is not None:
            seen += now - self._part_began + own
            guessed += self._guessed.get(self._part, 0.0)
        return (seen + _DOUBT) / (guessed + _DOUBT)

    def _left_of_part(self, stage: Stage | None, now: float) -> float:
        own = self._own(stage, now)
        if own is not None:
            return own
        passed = now - self._part_began
        guess = self._guessed.get(self._part, 0.0) * (self._seen + _DOUBT) / (self._guessed_of_seen + _DOUBT)
        # A part that takes longer than was guessed is thought to take a little longer still.
        return max(guess - passed, 0.1 * passed)

    def _own(self, stage: Stage | None, now: float) -> float | None:
        """The seconds left of the part, where its own stage tells."""
        if stage is None or not stage.total or not f": {stage.name}".endswith(f": {self._part}"):
            return None
        return stage.left(now)
