"""Outcomes of an attack's trials: from the journal, or from an engine, here or on workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass

import audit
from audit.attacks.interface import Attack
from audit.case import Case
from audit.corpus.manifest import open_elsewhere
from audit.corpus.removal.tesseract import TESSERACT
from audit.engine.interface import Json, Progress, Trial, WorkSource
from audit.measurements import Diagnostic
from audit.references.resolve import LoadedReferences
from audit.targets import opening
from audit.workflows.journals import Origin, open_journal
from audit.workflows.session import Session
from audit.workflows.workers import AttackSpec, AttackWork, ModelSpec, WorkerSpec, versions


@dataclass(frozen=True)
class PlannedTrials:
    """The trials of an attack that the budget takes, and what they are put to.

    Attributes:
        attack: the attack with its parameters.
        case: the model in the number format of these trials, the documents and the references.
        checkpoint: the same model, without a countermeasure.
        agreement: how alike the model's answers are in that format.
        trials: the trials, in the order in which they are run.
    """

    attack: Attack
    case: Case
    checkpoint: opening.Checkpoint
    agreement: tuple[Diagnostic, ...]
    trials: Sequence[Trial]


def run_trials(
    session: Session,
    planned: PlannedTrials,
    loaded: LoadedReferences,
    progress: Progress,
    origin: Origin,
) -> list[Json]:
    """Run the trials of an attack, but for those whose outcomes its journal holds.

    Args:
        session: the scan.
        planned: the trials.
        loaded: the references of the scan.
        progress: receiver of the progress, told of every trial.
        origin: counts the outcomes, and those among them that earlier runs computed.

    Returns:
        One outcome for each trial, in the order of the trials.
    """
    options = session.options
    key = journal_key(session, planned, loaded)
    path = options.evidence / f"journal-{planned.attack.name}-{key}.jsonl"
    opened = open_journal(path, options.fresh, origin.policy)
    journal = opened.journal
    todo = [trial for trial in planned.trials if trial.id not in journal.outcomes]
    progress.stage(session.stage_of(planned.attack), len(todo))
    progress.expect(session.steps_after(planned.attack))
    source = work_source(session, planned, loaded)
    # Closed at once when the journal fails: an engine may hold processes and files.
    with closing(session.engine.run(source, todo)) as outcomes:
        for trial_id, outcome in outcomes:
            journal.append(trial_id, outcome)
            progress.advance()
    journal.sync()
    n_trials = len(planned.trials)
    origin.add(n_trials, n_trials - len(todo), opened)
    return [journal.outcomes[trial.id] for trial in planned.trials]


def work_source(session: Session, planned: PlannedTrials, loaded: LoadedReferences) -> WorkSource:
    """Package the trials of an attack for any engine."""
    seed = session.options.seed
    data = session.data
    shared = WorkerSpec(
        open_elsewhere(data.whole),
        data.copies,
        data.unread,
        session.defense,
        session.worker_threads,
        versions(),
    )
    models = {
        reference.role: ModelSpec.of(reference.target, reference.folder, session)
        for reference in loaded.loaded
    }
    target = ModelSpec.of(planned.checkpoint, session.folder, session)
    attack = AttackSpec(planned.attack, seed, target, models, loaded.members)
    return WorkSource(AttackWork(planned.attack, planned.case, seed), shared.open, attack.open)


def journal_key(session: Session, planned: PlannedTrials, loaded: LoadedReferences) -> str:
    """Hash all that an outcome depends on, apart from its trial.

    A change of any starts another journal.
    """
    model = ModelSpec.of(planned.checkpoint, session.folder, session)
    card = model.card
    depends_on = {
        "parameters": asdict(planned.attack),
        "seed": session.options.seed,
        "target": [card.sha256, card.architecture],
        "defence": session.options.defense,
        "device": [card.device, opening.device_words(card.device), opening.instructions()],
        "dtype": card.dtype,
        "references": [(reference.role, reference.card.sha256) for reference in loaded.cards],
        "members": {role: sorted(documents) for role, documents in loaded.members.items()},
        "corpus": session.corpus.sha256,
        "left out": sorted(session.data.left_out),
        "version": audit.__version__,
        "packages": opening.packages(),
        "threads": opening.threads(),
        "ocr": TESSERACT.version(),
        # On a CPU an encoder's answers do not depend on it; those of a model that answers questions
        # do in their bits.
        "batch": [model.batch_rows, None if card.device == "cpu" else model.batch_tokens],
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:16]
