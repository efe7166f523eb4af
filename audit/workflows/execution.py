"""The outcomes of an attack's trials: from the journal, or from an engine, here or on workers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from audit.attacks.interface import Attack
from audit.cards import TargetCard
from audit.case import Case
from audit.corpus.canaries.pages import open_page
from audit.corpus.documents import Corpus
from audit.corpus.manifest import files_of as files_of_corpus
from audit.corpus.manifest import load as load_corpus
from audit.corpus.near_copies import Copies, without_copies
from audit.corpus.removal.tesseract import TESSERACT
from audit.engine.interface import Attempt, Engine, EngineSettings, Json, Progress, Trial, Work, WorkSource
from audit.engine.local import make_engine
from audit.errors import EngineError
from audit.references.resolve import LoadedReferences
from audit.report.remedies import QueryDefense
from audit.targets.answering.denoiser import DENOISING, Denoiser, load_denoiser
from audit.targets.checkpoint.content import files_of
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import Target
from audit.targets.opening import Checkpoint, packages, target_of, threads, use_threads
from audit.targets.unread import Unread, without_unread
from audit.workflows.checking import wrap_target
from audit.workflows.journal import Origin, journal_key, open_journal
from audit.workflows.setup import ScanSetup, defended_references

M = TypeVar("M", bound=Target)


def collect_outcomes(
    opened: ScanSetup,
    attack: Attack,
    target: Checkpoint,
    filled: LoadedReferences,
    trials: Sequence[Trial],
    progress: Progress,
    origin: Origin | None = None,
) -> list[Json]:
    """Collect the outcome of every trial, in trial order, from the journal where it holds one.

    Args:
        opened: the scan.
        attack: the one that they are trials of.
        target: the audited checkpoint, in the number format that was settled on.
        filled: the references.
        trials: what to try.
        progress: advanced by every outcome.
        origin: counts the outcomes, and those among them that earlier runs computed.
    """
    options = opened.options
    loaded = _LoadedModel.of(target)
    key = journal_key(opened, attack, target.card, filled, (loaded.batch_rows, loaded.batch_tokens))
    declared = None if origin is None else origin.policy
    kept = open_journal(options.evidence / f"journal-{attack.name}-{key}.jsonl", options.fresh, declared)
    journal = kept.journal
    todo = [trial for trial in trials if trial.id not in journal.outcomes]
    progress.stage(attack.name, len(todo))
    # Closed at once when the journal fails: an engine may hold processes and files.
    with closing(_engine(opened).run(work_source(opened, attack, target, filled), todo)) as done:
        for trial_id, outcome in done:
            journal.append(trial_id, outcome)
            progress.advance()
    journal.sync()
    if origin is not None:
        origin.add(len(trials), len(trials) - len(todo), kept)
    return [journal.outcomes[trial.id] for trial in trials]


@dataclass(frozen=True)
class AttackWork(Work):
    """An attack's trials as work for an engine."""

    attack: Attack
    case: Case
    seed: int

    def attempt(self, trial: Trial) -> Attempt:
        """The trial with a source of randomness of its own, from (seed, attack, trial id)."""
        return self.attack.attempt(self.case, trial, _randomness(self.seed, self.attack, trial))


def _randomness(seed: int, attack: Attack, trial: Trial) -> np.random.Generator:
    """A trial's own source of randomness."""
    digest = hashlib.sha256(f"{attack.name}\0{trial.id}".encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16])])


def _engine(opened: ScanSetup) -> Engine:
    gpu = opened.target.card.device == "cuda"
    settings = EngineSettings(width=opened.options.width, threads=threads(), gpu=gpu)
    return make_engine(opened.options.engine, settings)


def work_source(opened: ScanSetup, attack: Attack, target: Checkpoint, filled: LoadedReferences) -> WorkSource:
    """An attack's trials as work for any engine; `target` is the audited checkpoint as it computes."""
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
        threads=threads(),
        packages=packages(),
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
    def of(cls, model: Checkpoint | Denoiser) -> _LoadedModel:
        """The settings that this model computes with."""
        if isinstance(model, EncoderTarget):
            return cls(model.card, model.batch_tokens, None)
        return cls(model.card, None, None if isinstance(model, Denoiser) else model.batch_rows)

    def reference_again(self, folder: Path, corpus: Corpus) -> Checkpoint | Denoiser:
        """A copy of a reference, computing as it does here."""
        if self.card.task != DENOISING:
            return self.again(folder, corpus)
        return self._unchanged(load_denoiser(folder, device=self.card.device, images=partial(open_page, corpus)))

    def again(self, folder: Path, corpus: Corpus) -> Checkpoint:
        """A copy of it, computing as it does here."""
        copy = self._unchanged(target_of(folder, corpus, self.card.device, self.batch_tokens, self.batch_rows))
        return copy if copy.card.dtype == self.card.dtype else copy.rounded(self.card.dtype)

    def _unchanged(self, copy: M) -> M:
        if copy.card.sha256 != self.card.sha256:
            raise EngineError(f"{self.card.name} has changed since the scan began", "scan again, and leave it alone")
        return copy


@dataclass(frozen=True)
class _RemoteWork:
    """Opens an attack's work in another process, from copies of the files; every choice was made in this one."""

    attack: Attack
    seed: int
    corpus: str
    copies: Copies
    unread: Unread
    target: _LoadedModel
    defense: QueryDefense | None
    models: Mapping[str, _LoadedModel]
    members: Mapping[str, frozenset[str]]
    threads: int
    packages: Mapping[str, str]
    ocr: str | None

    def __call__(self, folders: Mapping[str, Path]) -> Work:
        """The work, from the folders "target", "data" and one for each reference, by role.

        Raises:
            EngineError: the other process would get other results.
        """
        for name, version in packages().items():
            if self.packages[name] != version:
                raise EngineError(
                    f"a worker has {name} {version}, this machine {self.packages[name]}", "install one on all machines"
                )
        if TESSERACT.version() != self.ocr:
            raise EngineError(
                f"a worker has {TESSERACT.version() or 'no Tesseract'}, this machine {self.ocr or 'none'}",
                "install one on all machines",
            )
        use_threads(self.threads)
        corpus = load_corpus(folders["data"])
        if corpus.sha256 != self.corpus:
            raise EngineError("the data set has changed since the scan began", "scan again, and leave it alone")
        corpus = without_unread(without_copies(corpus, self.copies), self.unread)
        target = self.target.again(folders["target"], corpus)
        models = {role: model.reference_again(folders[role], corpus) for role, model in self.models.items()}
        references = defended_references(self.defense, models, self.members)
        return AttackWork(self.attack, Case(wrap_target(self.defense, target), corpus, references), self.seed)
