"""Outcomes of an attack's trials: from the journal, or from an engine, here or on workers."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

import audit
from audit.attacks.interface import Attack
from audit.cards import TargetCard, Timing
from audit.case import Case
from audit.corpus.canaries.pages import open_page
from audit.corpus.documents import Corpus
from audit.corpus.manifest import open_elsewhere
from audit.corpus.near_copies import Copies, without_copies
from audit.corpus.removal.tesseract import TESSERACT
from audit.engine.interface import Attempt, Json, Progress, Trial, Work, WorkSource
from audit.engine.journal import Journal
from audit.errors import EngineError
from audit.files import Fetch, write_atomically
from audit.references.load import share_weights
from audit.references.resolve import LoadedReferences
from audit.report.remedies import QueryDefense
from audit.targets import opening
from audit.targets.answering.denoiser import DENOISING, Denoiser, load_denoiser
from audit.targets.checkpoint.folder import (
    NumberFormat,
    Places,
    in_format,
    open_checkpoint,
    places_of,
)
from audit.workflows import wording
from audit.workflows.setup import ScanSetup, defended_references, wrap_target


def collect_outcomes(
    opened: ScanSetup,
    attack: Attack,
    target: opening.Checkpoint,
    filled: LoadedReferences,
    trials: Sequence[Trial],
    progress: Progress,
    origin: Origin | None = None,
) -> list[Json]:
    """Collect the outcome of every trial, in trial order, from the journal where it holds one.

    `target` is in the number format that was settled on; `origin` counts the outcomes.
    """
    options = opened.options
    loaded = _LoadedModel.of(target, opened.folder, opened)
    key = journal_key(opened, attack, loaded, filled)
    origin = origin or Origin()
    kept = open_journal(
        options.evidence / f"journal-{attack.name}-{key}.jsonl", options.fresh, origin.policy
    )
    journal = kept.journal
    todo = [trial for trial in trials if trial.id not in journal.outcomes]
    progress.stage(opened.stage_of(attack), len(todo))
    # Closed at once when the journal fails: an engine may hold processes and files.
    with closing(opened.engine.run(work_source(opened, attack, target, filled), todo)) as done:
        for trial_id, outcome in done:
            journal.append(trial_id, outcome)
            progress.advance()
    journal.sync()
    origin.add(len(trials), len(trials) - len(todo), kept)
    return [journal.outcomes[trial.id] for trial in trials]


@dataclass(frozen=True)
class AttackWork(Work):
    """An attack's trials as work for an engine."""

    attack: Attack
    case: Case
    seed: int

    def attempt(self, trial: Trial) -> Attempt:
        """Start a trial with a random generator seeded by (seed, attack, trial id)."""
        digest = hashlib.sha256(f"{self.attack.name}\0{trial.id}".encode()).digest()
        rng = np.random.default_rng([self.seed, int.from_bytes(digest[:16])])
        return self.attack.attempt(self.case, trial, rng)


def work_source(
    opened: ScanSetup, attack: Attack, target: opening.Checkpoint, filled: LoadedReferences
) -> WorkSource:
    """Package an attack's trials for any engine.

    `target` is the audited checkpoint as it computes.
    """
    case = Case(opened.defended(target), opened.corpus, opened.references_behind_defense(filled))
    choices = opened.copies, opened.unread, opened.defense, opening.threads(), _versions()
    keeps = _Shared(open_elsewhere(opened.whole or opened.corpus), *choices)
    roles = {one.role: _LoadedModel.of(one.target, one.folder, opened) for one in filled.loaded}
    audited = _LoadedModel.of(target, opened.folder, opened)
    elsewhere = _RemoteWork(attack, opened.options.seed, audited, roles, filled.members)
    return WorkSource(AttackWork(attack, case, opened.options.seed), keeps, elsewhere)


@dataclass(frozen=True)
class _LoadedModel:
    """A checkpoint as this process loaded it, to be loaded again by a worker."""

    card: TargetCard
    batch_tokens: int | None
    batch_rows: int | None
    places: Places
    number_format: NumberFormat

    @classmethod
    def of(
        cls, model: opening.Checkpoint | Denoiser, folder: Any, opened: ScanSetup
    ) -> _LoadedModel:
        """Record the settings that a model from a folder computes with, and the device that workers put it on."""
        moved, size = opened.device != model.card.device, opened.options.batch_size
        tokens, rows = (
            size if moved else getattr(model, name, None) for name in ("batch_tokens", "batch_rows")
        )
        held: NumberFormat = "auto" if folder is None else folder.number_format
        card, places = (
            replace(model.card, device=opened.device),
            () if folder is None else places_of(folder),
        )
        return cls(card, tokens, rows, places, held)


@dataclass(frozen=True)
class _Shared:
    """Opens what all attacks of a scan share in another process.

    Every choice was made in this one.
    """

    corpus: Callable[[Fetch], Corpus]
    copies: Copies
    unread: opening.Unread
    defense: QueryDefense | None
    threads: int
    versions: Mapping[str, str]

    def __call__(self, fetch: Fetch) -> _Opened:
        """Return the data set, and room for models.

        Raises:
            EngineError: the other process would get other results.
        """
        for name, version in _versions().items():
            if self.versions[name] != version:
                problem = f"a worker has {name} {version}, this machine {self.versions[name]}"
                raise EngineError(problem, "install one on all machines")
        opening.use_threads(self.threads)
        corpus = opening.without_unread(
            without_copies(self.corpus(fetch), self.copies), self.unread
        )
        return _Opened(corpus, self.defense, fetch)


def _versions() -> dict[str, str]:
    """Return the versions of all that a number can depend on, "None" for what is not installed."""
    return {**opening.packages(), "Tesseract": str(TESSERACT.version())}


@dataclass(frozen=True)
class _Opened:
    """What a worker keeps from one attack to the next: the data set, and each model that it has loaded."""

    corpus: Corpus
    defense: QueryDefense | None
    fetch: Fetch
    models: dict[Any, Any] = field(default_factory=dict)

    def load(self, model: _LoadedModel, adapted: Any = None) -> opening.Checkpoint | Denoiser:
        """Return a copy of the model with the same settings, which is loaded once and shares weights with `adapted`.

        Raises:
            EngineError: its files are others than those that were loaded first.
        """
        card = model.card
        key = card.sha256, card.task, card.device, model.number_format
        if key not in self.models:
            folder = open_checkpoint(*(self.fetch(*place) for place in model.places))
            folder = in_format(folder, model.number_format)
            if card.task == DENOISING:
                copy: Any = load_denoiser(
                    folder, device=card.device, images=partial(open_page, self.corpus)
                )
            else:
                copy = opening.target_of(
                    folder, self.corpus, card.device, model.batch_tokens, model.batch_rows
                )
            if copy.card.sha256 != card.sha256:
                raise EngineError(
                    f"{card.name} has changed since the scan began",
                    "scan again, and leave it alone",
                )
            if adapted is not None:
                share_weights(copy.model, adapted.model)
            self.models[key] = copy
        known = self.models[key]
        rounded: opening.Checkpoint | Denoiser = (
            known if known.card.dtype == card.dtype else known.rounded(card.dtype)
        )
        return rounded


@dataclass(frozen=True)
class _RemoteWork:
    """Opens an attack's work in another process, from what that keeps."""

    attack: Attack
    seed: int
    target: _LoadedModel
    models: Mapping[str, _LoadedModel]
    members: Mapping[str, frozenset[str]]

    def __call__(self, opened: _Opened) -> Work:
        """Return the work; models are loaded where no attack before it took them."""
        target = cast("opening.Checkpoint", opened.load(self.target))
        adapted = target if len(self.target.places) > 1 else None
        models = {role: opened.load(model, adapted) for role, model in self.models.items()}
        references = defended_references(opened.defense, models, self.members)
        return AttackWork(
            self.attack,
            Case(wrap_target(opened.defense, target), opened.corpus, references),
            self.seed,
        )


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
    begun = path.with_suffix(".begun")
    try:
        # Before it is opened: a torn last line is cut then.
        newest = (
            _written(dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC))
            if path.exists()
            else now()
        )
        journal = Journal(path, fresh)
        if not journal.outcomes:
            newest = now()
            write_atomically(begun, "\n".join(filter(None, (newest, policy))).encode(), mode=0o600)
        oldest, declared = _read(begun) if begun.exists() else (None, None)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None
    if max(newest, oldest or newest) > now():
        raise EngineError(*wording("dated_ahead", path=path))
    return OpenedJournal(journal, None if oldest is None else min(oldest, newest), newest, declared)


def journal_key(
    opened: ScanSetup, attack: Attack, loaded: _LoadedModel, filled: LoadedReferences
) -> str:
    """Hash all that an outcome depends on, apart from its trial.

    A change of any starts another journal.

    `loaded` is the audited checkpoint as it computes.
    """
    card = loaded.card
    depends_on = {
        "parameters": asdict(attack),
        "seed": opened.options.seed,
        "target": [card.sha256, card.architecture],
        "defence": opened.options.defense,
        "device": [card.device, opening.device_words(card.device), opening.instructions()],
        "dtype": card.dtype,
        "references": [(reference.role, reference.card.sha256) for reference in filled.cards],
        "members": {role: sorted(documents) for role, documents in filled.members.items()},
        "corpus": opened.corpus.sha256,
        "left out": sorted(opened.copies.left_out | opened.unread.documents),
        "version": audit.__version__,
        "packages": opening.packages(),
        "threads": opening.threads(),
        "ocr": TESSERACT.version(),
        # On a CPU an encoder's answers do not depend on it; those of a model that answers questions
        # do in their bits.
        "batch": [loaded.batch_rows, None if card.device == "cpu" else loaded.batch_tokens],
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:16]


def now() -> str:
    """Return the time, in UTC and to the second."""
    return _written(dt.datetime.now(dt.UTC))


def _written(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).isoformat(timespec="seconds")


def _read(begun: Path) -> tuple[str, str | None]:
    """Read the time and the policy of a journal's beginning."""
    time, _, policy = begun.read_text(encoding="ascii", errors="replace").partition("\n")
    try:
        return _written(dt.datetime.fromisoformat(time)), policy.strip() or None
    except ValueError:
        raise EngineError(f"{begun}: no time", "scan again with --fresh") from None
