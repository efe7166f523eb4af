"""The journal of an attack: what its outcomes depend on, and when they were computed."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import audit
from audit.attacks.interface import Attack
from audit.cards import TargetCard, Timing
from audit.corpus.removal.tesseract import TESSERACT
from audit.engine.journal import Journal
from audit.errors import EngineError
from audit.files import write_atomically
from audit.references.resolve import LoadedReferences
from audit.targets.opening import device_words, instructions, packages, threads
from audit.workflows.setup import ScanSetup


@dataclass
class Origin:
    """Outcomes of a scan, and those among them that earlier runs computed; see `Timing`.

    Attributes:
        policy: sha256 of the policy that the scan declares.
        same_policy: whether all journals of earlier runs were begun under it.
        journals: that hold the outcomes.
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
        """Return the timing of a run that began and ended then."""
        oldest = None if self.undated else self.oldest
        same = self.same_policy and self.resumed > 0
        return Timing(started, finished, seconds, self.outcomes, self.resumed, oldest, self.newest, same)


@dataclass(frozen=True)
class OpenedJournal:
    """A journal, and when the first and the last of its outcomes were computed, in UTC; None: nothing says when.

    Attributes:
        policy: sha256 of the policy that was declared when it was begun; None where none was.
    """

    journal: Journal
    oldest: str | None
    newest: str
    policy: str | None = None


def open_journal(path: Path, fresh: bool, policy: str | None = None) -> OpenedJournal:
    """Open a journal; beside it is kept when it was begun, which the file itself does not tell, and under which policy.

    Args:
        path: the journal.
        fresh: start anew.
        policy: sha256 of the policy that the scan declares, for a journal that it begins.

    Raises:
        EngineError: it cannot be read or written, is damaged, or is dated in the future.
    """
    begun = path.with_suffix(".begun")
    try:
        # Before it is opened: a torn last line is cut then.
        newest = _written(path.stat().st_mtime) if path.exists() else now()
        journal = Journal(path, fresh)
        if not journal.outcomes:
            newest = now()
            write_atomically(begun, "\n".join(filter(None, (newest, policy))).encode(), mode=0o600)
        oldest, declared = _read(begun) if begun.exists() else (None, None)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None
    present = now()
    if max(newest, oldest or newest) > present:
        raise EngineError(
            f"{path}: dated in the future, so that nothing says when its outcomes were computed",
            "set this machine's clock, or scan again with --fresh",
        )
    return OpenedJournal(journal, None if oldest is None else min(oldest, newest), newest, declared)


def journal_key(
    opened: ScanSetup,
    attack: Attack,
    card: TargetCard,
    filled: LoadedReferences,
    batch: tuple[int | None, int | None],
) -> str:
    """Hash all that an outcome depends on, apart from its trial; a change of any starts another journal.

    Args:
        opened: the scan.
        attack: the one that is tried.
        card: of the audited checkpoint, as it computes.
        filled: the references.
        batch: rows and tokens of a forward pass of the checkpoint at most.
    """
    rows, tokens = batch
    depends_on = {
        "parameters": asdict(attack),
        "seed": opened.options.seed,
        "target": card.sha256,
        "defence": opened.options.defense,
        "device": [card.device, device_words(card.device), instructions()],
        "dtype": card.dtype,
        "references": [(reference.role, reference.card.sha256) for reference in filled.cards],
        "members": {role: sorted(documents) for role, documents in filled.members.items()},
        "corpus": opened.corpus.sha256,
        "left out": sorted(opened.copies.left_out | opened.unread.documents),
        "version": audit.__version__,
        "packages": packages(),
        "threads": threads(),
        "ocr": TESSERACT.version(),
        # On a CPU an encoder's answers do not depend on it; those of a model that answers questions do in their bits.
        "batch": [rows, None if card.device == "cpu" else tokens],
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:16]


def now() -> str:
    """Return the time, in UTC and to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _written(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _read(begun: Path) -> tuple[str, str | None]:
    """When a journal was begun, and under which policy."""
    time, _, policy = begun.read_text(encoding="ascii", errors="replace").partition("\n")
    try:
        return dt.datetime.fromisoformat(time).astimezone(dt.UTC).isoformat(timespec="seconds"), policy.strip() or None
    except ValueError:
        raise EngineError(f"{begun}: no time", "scan again with --fresh") from None
