"""Outcomes of an attack's trials: from the journal, or from an engine, here or on workers."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

import audit
from audit.attacks.interface import Attack
from audit.cards import TargetCard, Timing
from audit.case import Case
from audit.corpus.canaries.pages import open_page
from audit.corpus.documents import Corpus
from audit.corpus.manifest import files_of as files_of_corpus
from audit.corpus.manifest import load as load_corpus
from audit.corpus.near_copies import Copies, without_copies
from audit.corpus.removal.tesseract import TESSERACT
from audit.engine.driver import make_engine
from audit.engine.interface import Attempt, EngineSettings, Json, Progress, Trial, Work, WorkSource
from audit.engine.journal import Journal
from audit.errors import EngineError
from audit.files import write_atomically
from audit.references.resolve import LoadedReferences
from audit.report.remedies import QueryDefense
from audit.targets import opening
from audit.targets.answering.denoiser import DENOISING, Denoiser, load_denoiser
from audit.targets.checkpoint.content import files_of
from audit.targets.encoders.target import EncoderTarget
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
    loaded = _LoadedModel.of(target)
    key = journal_key(opened, attack, loaded, filled)
    origin = origin or Origin()
    kept = open_journal(options.evidence / f"journal-{attack.name}-{key}.jsonl", options.fresh, origin.policy)
    journal = kept.journal
    todo = [trial for trial in trials if trial.id not in journal.outcomes]
    progress.stage(opened.stage_of(attack), len(todo))
    # Closed at once when the journal fails: an engine may hold processes and files.
    settings = EngineSettings(width=options.width, threads=opening.threads(), gpu=opened.target.card.device == "cuda")
    engine = make_engine(options.engine, settings)
    with closing(engine.run(work_source(opened, attack, target, filled), todo)) as done:
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


def work_source(opened: ScanSetup, attack: Attack, target: opening.Checkpoint, filled: LoadedReferences) -> WorkSource:
    """Package an attack's trials for any engine; `target` is the audited checkpoint as it computes."""
    case = Case(opened.defended(target), opened.corpus, opened.references_behind_defense(filled))
    remote_work = _RemoteWork(
        attack=attack,
        seed=opened.options.seed,
        corpus=opened.corpus.sha256,
        copies=opened.copies,
        unread=opened.unread,
        target=_LoadedModel.of(target),
        defense=opened.defense,
        models={role: _LoadedModel.of(model) for role, model in filled.models.items()},
        members=filled.members,
        threads=opening.threads(),
        packages=opening.packages(),
        ocr=TESSERACT.version(),
    )
    folders = {
        "target": {} if opened.options.no_model else files_of(opened.options.model_dir),
        "data": files_of_corpus(opened.whole or opened.corpus),
        **{reference.role: files_of(reference.folder) for reference in filled.loaded},
    }
    return WorkSource(AttackWork(attack, case, opened.options.seed), folders, remote_work)


@dataclass(frozen=True)
class _LoadedModel:
    """A checkpoint as this process loaded it."""

    card: TargetCard
    batch_tokens: int | None
    batch_rows: int | None

    @classmethod
    def of(cls, model: opening.Checkpoint | Denoiser) -> _LoadedModel:
        """Record the settings that a loaded model computes with."""
        if isinstance(model, EncoderTarget):
            return cls(model.card, model.batch_tokens, None)
        return cls(model.card, None, None if isinstance(model, Denoiser) else model.batch_rows)

    def again(self, folder: Path, corpus: Corpus) -> opening.Checkpoint | Denoiser:
        """Load a copy of the model with the same settings."""
        copy: opening.Checkpoint | Denoiser
        if self.card.task == DENOISING:
            copy = load_denoiser(folder, device=self.card.device, images=partial(open_page, corpus))
        else:
            copy = opening.target_of(folder, corpus, self.card.device, self.batch_tokens, self.batch_rows)
        if copy.card.sha256 != self.card.sha256:
            raise EngineError(f"{self.card.name} has changed since the scan began", "scan again, and leave it alone")
        if isinstance(copy, Denoiser) or copy.card.dtype == self.card.dtype:
            return copy
        return copy.rounded(self.card.dtype)


@dataclass(frozen=True)
class _RemoteWork:
    """Opens an attack's work in another process, from copies of the files; every choice was made in this one."""

    attack: Attack
    seed: int
    corpus: str
    copies: Copies
    unread: opening.Unread
    target: _LoadedModel
    defense: QueryDefense | None
    models: Mapping[str, _LoadedModel]
    members: Mapping[str, frozenset[str]]
    threads: int
    packages: Mapping[str, str]
    ocr: str | None

    def __call__(self, folders: Mapping[str, Path]) -> Work:
        """Return the work, from the folders "target", "data" and one for each reference, by role.

        Raises:
            EngineError: the other process would get other results.
        """
        for name, version in opening.packages().items():
            if self.packages[name] != version:
                raise EngineError(
                    f"a worker has {name} {version}, this machine {self.packages[name]}", "install one on all machines"
                )
        if TESSERACT.version() != self.ocr:
            raise EngineError(
                f"a worker has {TESSERACT.version() or 'no Tesseract'}, this machine {self.ocr or 'none'}",
                "install one on all machines",
            )
        opening.use_threads(self.threads)
        corpus = load_corpus(folders["data"])
        if corpus.sha256 != self.corpus:
            raise EngineError("the data set has changed since the scan began", "scan again, and leave it alone")
        corpus = opening.without_unread(without_copies(corpus, self.copies), self.unread)
        target = cast("opening.Checkpoint", self.target.again(folders["target"], corpus))
        models = {role: model.again(folders[role], corpus) for role, model in self.models.items()}
        references = defended_references(self.defense, models, self.members)
        return AttackWork(self.attack, Case(wrap_target(self.defense, target), corpus, references), self.seed)


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


def journal_key(opened: ScanSetup, attack: Attack, loaded: _LoadedModel, filled: LoadedReferences) -> str:
    """Hash all that an outcome depends on, apart from its trial; a change of any starts another journal.

    `loaded` is the audited checkpoint as it computes.
    """
    card = loaded.card
    depends_on = {
        "parameters": asdict(attack),
        "seed": opened.options.seed,
        "target": card.sha256,
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
        # On a CPU an encoder's answers do not depend on it; those of a model that answers questions do in their bits.
        "batch": [loaded.batch_rows, None if card.device == "cpu" else loaded.batch_tokens],
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:16]


def now() -> str:
    """Return the time, in UTC and to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _written(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _read(begun: Path) -> tuple[str, str | None]:
    """Read the time and the policy of a journal's beginning."""
    time, _, policy = begun.read_text(encoding="ascii", errors="replace").partition("\n")
    try:
        return dt.datetime.fromisoformat(time).astimezone(dt.UTC).isoformat(timespec="seconds"), policy.strip() or None
    except ValueError:
        raise EngineError(f"{begun}: no time", "scan again with --fresh") from None
