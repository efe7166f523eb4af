"""An attack's trials as work for an engine, in this process and on workers.

What a worker needs is data that can be pickled: a `WorkerSpec` opens a `Worker`, and an
`AttackSpec` says what the worker is to attack, and how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from audit.attacks.interface import Attack
from audit.cards import TargetCard
from audit.case import Case
from audit.corpus.canaries.pages import open_page
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import Copies, without_copies
from audit.corpus.removal.tesseract import TESSERACT
from audit.defenses.interface import QueryDefense
from audit.engine.interface import Attempt, Trial, Work
from audit.errors import EngineError
from audit.files import Fetch
from audit.references.load import share_weights
from audit.targets import opening
from audit.targets.answering.denoiser import DENOISING, Denoiser, load_denoiser
from audit.targets.checkpoint.folder import (
    CheckpointFolder,
    NumberFormat,
    Places,
    in_format,
    open_checkpoint,
    places_of,
)
from audit.workflows.defended import defended_case
from audit.workflows.session import Session


@dataclass(frozen=True)
class AttackWork(Work):
    """An attack's trials as work for an engine.

    Attributes:
        attack: the attack.
        case: what it is put to.
        seed: seed of the scan.
    """

    attack: Attack
    case: Case
    seed: int

    def attempt(self, trial: Trial) -> Attempt:
        """Start a trial with a random generator seeded by (seed, attack, trial id)."""
        digest = hashlib.sha256(f"{self.attack.name}\0{trial.id}".encode()).digest()
        rng = np.random.default_rng([self.seed, int.from_bytes(digest[:16])])
        return self.attack.attempt(self.case, trial, rng)


@dataclass(frozen=True)
class ModelSpec:
    """A checkpoint as this process loaded it, to be loaded again by a worker.

    Attributes:
        card: card of the model, with the device that workers put it on.
        batch_tokens: largest number of tokens in a forward pass of an encoder.
        batch_rows: rows that a model which answers reads at once.
        places: folders and files of the checkpoint.
        number_format: format that its weights are loaded in.
    """

    card: TargetCard
    batch_tokens: int | None
    batch_rows: int | None
    places: Places
    number_format: NumberFormat

    @classmethod
    def of(
        cls, model: opening.Checkpoint | Denoiser, folder: CheckpointFolder | None, session: Session
    ) -> ModelSpec:
        """Record the settings that a model computes with.

        Args:
            model: the model as this process loaded it.
            folder: its folder; None where it has none.
            session: the scan, which names the device and the size of a batch.
        """
        batch_tokens = getattr(model, "batch_tokens", None)
        batch_rows = getattr(model, "batch_rows", None)
        if session.device != model.card.device:
            # Chosen for the device of this process, and not for that of the workers.
            batch_tokens = batch_rows = session.options.batch_size
        card = replace(model.card, device=session.device)
        if folder is None:
            return cls(card, batch_tokens, batch_rows, (), "auto")
        return cls(card, batch_tokens, batch_rows, places_of(folder), folder.number_format)


@dataclass(frozen=True)
class AttackSpec:
    """An attack of a scan, as a worker runs it.

    Attributes:
        attack: the attack.
        seed: seed of the scan.
        target: the audited model.
        models: references by role.
        members: ids of the documents that each split model was trained on, by its role.
    """

    attack: Attack
    seed: int
    target: ModelSpec
    models: Mapping[str, ModelSpec]
    members: Mapping[str, frozenset[str]]

    def open(self, worker: Worker) -> Work:
        """Return the work; models are loaded where no attack before it took them."""
        target = cast("opening.Checkpoint", worker.load(self.target))
        adapted = target if len(self.target.places) > 1 else None
        models = {role: worker.load(model, adapted) for role, model in self.models.items()}
        case = defended_case(worker.defense, target, worker.corpus, models, self.members)
        return AttackWork(self.attack, case, self.seed)


@dataclass(frozen=True)
class WorkerSpec:
    """What all attacks of a scan share in another process; every choice was made in this one.

    Attributes:
        open_corpus: opens the data set, whose files it has brought.
        copies: near copies, which are left out.
        unread: documents and questions that the model does not read.
        defense: the countermeasure that all models are asked behind; None: there is none.
        threads: CPU threads of a model.
        versions: versions of all that a number can depend on.
    """

    open_corpus: Callable[[Fetch], Corpus]
    copies: Copies
    unread: opening.Unread
    defense: QueryDefense | None
    threads: int
    versions: Mapping[str, str]

    def open(self, fetch: Fetch) -> Worker:
        """Open the data set in the process of a worker.

        Args:
            fetch: brings files to where the worker runs.

        Raises:
            EngineError: the worker would get other results.
        """
        for name, version in versions().items():
            if self.versions[name] != version:
                raise EngineError(
                    f"a worker has {name} {version}, this machine {self.versions[name]}",
                    "install one on all machines",
                )
        opening.use_threads(self.threads)
        corpus = without_copies(self.open_corpus(fetch), self.copies)
        return Worker(opening.without_unread(corpus, self.unread), self.defense, fetch)


@dataclass(frozen=True)
class Worker:
    """What a worker keeps from one attack to the next.

    Attributes:
        corpus: the audited documents.
        defense: the countermeasure that all models are asked behind; None: there is none.
        fetch: brings files to where the worker runs.
        models: each model that was loaded, by what tells it from others.
    """

    corpus: Corpus
    defense: QueryDefense | None
    fetch: Fetch
    models: dict[Any, Any] = field(default_factory=dict)

    def load(self, model: ModelSpec, adapted: Any = None) -> opening.Checkpoint | Denoiser:
        """Return a copy of a model with the same settings, which is loaded once.

        Args:
            model: the model as it was loaded first.
            adapted: an adapter on the same base, with which it shares weights; None: there is none.

        Raises:
            EngineError: its files are others than those that were loaded first.
        """
        card = model.card
        key = card.sha256, card.task, card.device, model.number_format
        if key not in self.models:
            copy = self._open(model)
            if adapted is not None:
                share_weights(copy.model, adapted.model)
            self.models[key] = copy
        loaded: opening.Checkpoint | Denoiser = self.models[key]
        if loaded.card.dtype != card.dtype:
            loaded = cast("Any", loaded).rounded(card.dtype)
        return loaded

    def _open(self, model: ModelSpec) -> Any:
        """Load a model from its files.

        Raises:
            EngineError: they have changed.
        """
        card = model.card
        folder = open_checkpoint(*(self.fetch(*place) for place in model.places))
        folder = in_format(folder, model.number_format)
        copy: Any
        if card.task == DENOISING:
            images = partial(open_page, self.corpus)
            copy = load_denoiser(folder, device=card.device, images=images)
        else:
            copy = opening.target_of(
                folder, self.corpus, card.device, model.batch_tokens, model.batch_rows
            )
        if copy.card.sha256 != card.sha256:
            raise EngineError(
                f"{card.name} has changed since the scan began", "scan again, and leave it alone"
            )
        return copy


def versions() -> dict[str, str]:
    """Return the versions of all that a number can depend on, "None" for what is not installed."""
    return {**opening.packages(), "Tesseract": str(TESSERACT.version())}
