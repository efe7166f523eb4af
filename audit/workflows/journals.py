"""Journals of a scan's outcomes: when and under which policy they were begun, by which runs."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

from audit.cards import Timing
from audit.engine.journal import Journal
from audit.errors import EngineError
from audit.files import write_atomically
from audit.workflows import wording


@dataclass
class Origin:
    """Outcomes of a scan, and those among them that earlier runs computed; see `Timing`.

    Attributes:
        policy: sha256 of the policy that the scan declares.
        same_policy: whether all journals of earlier runs were begun under it.
        journals: journals that hold the outcomes.
    """

    policy: str | None = None
    outcomes: int = 0
    resumed: int = 0
    oldest: str | None = None
    newest: str | None = None
    undated: bool = False
    same_policy: bool = True
    journals: list[Journal] = field(default_factory=list)

    def add(self, outcomes: int, resumed: int, opened: OpenedJournal) -> None:
        """Count the outcomes of an attack, `resumed` of which stood in its journal already."""
        self.journals.append(opened.journal)
        self.outcomes += outcomes
        self.resumed += resumed
        if resumed:
            self.undated |= opened.oldest is None
            self.same_policy &= self.policy is not None and opened.policy == self.policy
            self.oldest = min(filter(None, (self.oldest, opened.oldest)), default=None)
            self.newest = max(filter(None, (self.newest, opened.newest)))

    def timing(self, started: str, finished: str, seconds: float) -> Timing:
        """Return the timing of a run, with how many outcomes came from the journal."""
        oldest = None if self.undated else self.oldest
        same = self.same_policy and self.resumed > 0
        return Timing(
            started, finished, seconds, self.outcomes, self.resumed, oldest, self.newest, same
        )


@dataclass(frozen=True)
class OpenedJournal:
    """A journal, and when the first and the last of its outcomes were computed, in UTC.

    None: nothing says when.

    Attributes:
        policy: sha256 of the policy that was declared when it was begun; None where none was.
    """

    journal: Journal
    oldest: str | None
    newest: str
    policy: str | None = None


def open_journal(path: Path, fresh: bool, policy: str | None = None) -> OpenedJournal:
    """Open a journal, with the time and the policy of its beginning, which a file beside it holds.

    Args:
        path: the journal.
        fresh: start anew.
        policy: sha256 of the policy that the scan declares, for a journal that it begins.

    Raises:
        EngineError: it cannot be read or written, is damaged, or is dated in the future.
    """
    beginning = path.with_suffix(".begun")
    try:
        # Before it is opened: a torn last line is cut then.
        newest = (
            _utc_text(dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC))
            if path.exists()
            else now()
        )
        journal = Journal(path, fresh)
        if not journal.outcomes:
            newest = now()
            write_atomically(
                beginning, "\n".join(filter(None, (newest, policy))).encode(), mode=0o600
            )
        oldest, declared = _read(beginning) if beginning.exists() else (None, None)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None
    if max(newest, oldest or newest) > now():
        raise EngineError(*wording("dated_ahead", path=path))
    return OpenedJournal(journal, None if oldest is None else min(oldest, newest), newest, declared)


def now() -> str:
    """Return the time, in UTC and to the second."""
    return _utc_text(dt.datetime.now(dt.UTC))


def _utc_text(time: dt.datetime) -> str:
    """Write a time in UTC as ISO 8601, to the second."""
    return time.astimezone(dt.UTC).isoformat(timespec="seconds")


def _read(beginning: Path) -> tuple[str, str | None]:
    """Read the time and the policy of a journal's beginning from the file beside it."""
    time, _, policy = beginning.read_text(encoding="ascii", errors="replace").partition("\n")
    try:
        return _utc_text(dt.datetime.fromisoformat(time)), policy.strip() or None
    except ValueError:
        raise EngineError(f"{beginning}: no time", "scan again with --fresh") from None
