"""Private retraining: a model like the audited one, trained from where that began, with a guarantee that is accounted.

The order of things: options and start are checked, units made, the noise found; then the model is opened, frozen but
for what is trained, and the mechanism runs. What a training spent outlives it (`ledger`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from audit import __version__
from audit.corpus.documents import Corpus
from audit.engine.interface import SILENT, Progress
from audit.engine.journal import exclusive
from audit.errors import TargetError, UsageError
from audit.extensions.private.accounting import accountant_version
from audit.extensions.private.contributing import ChooseEngine, Contributing, choose_contributions
from audit.extensions.private.interface import (
    Contributions,
    DrawnUnit,
    Learner,
    Parameters,
    RandomSource,
    Unit,
    UnitKind,
)
from audit.extensions.private.ledger import Ledger
from audit.extensions.private.mechanism import Draw, MechanismPlan, run_mechanism, run_steps
from audit.extensions.private.options import DpOptions, Proves
from audit.extensions.private.randomness import SeededRandom, SystemRandom
from audit.extensions.private.settings import Budget, budget_of, check_options, with_epsilon
from audit.extensions.private.trained import Trained, choose_trained, merge_adapters, rank_of
from audit.extensions.private.units import draw_samples, kind_of, units_of
from audit.files import write_atomically
from audit.references.cache import key_of, made_once
from audit.references.provenance import refuse_the_target
from audit.targets.checkpoint.folder import CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.privacy import PRIVACY_FILE, StatedPrivacy, dump_privacy, weights_sha256
from audit.targets.checkpoint.safety import quiet
from audit.targets.opening import open_model, trainer_of

OpenLearner = Callable[..., Learner]


@dataclass(frozen=True)
class PreparedTraining:
    """A training before its model is opened."""

    start: CheckpointFolder
    corpus: Corpus
    options: DpOptions
    units: tuple[Unit, ...]
    kind: UnitKind
    device: str
    clients: Any = None


def train_private(
    start: Path,
    corpus: Corpus,
    out: Path,
    options: DpOptions,
    *,
    device: str = "cpu",
    progress: Progress = SILENT,
    audited: Path | None = None,
    proves: Proves | None = None,
    open_learner: OpenLearner | None = None,
    choose_engine: ChooseEngine | None = None,
) -> Path:
    """Train a model on the member documents with differential privacy, or find it in `out`.

    A training that was killed goes on with the steps that it has not spent. Members decide nothing but the noisy sums:
    no number of steps, no checkpoint, no statistic that is printed.

    Args:
        start: what the audited model was fine-tuned from.
        corpus: the data set.
        out: gets the checkpoint and the ledger, in folders named after all that they depend on.
        options: what the owner chose.
        device: "cpu", "cuda" or "mps".
        progress: told of steps.
        audited: the audited model, which must not be the start.
        proves: whether a guarantee is strong enough, where `options.to_policy` names a policy.
        open_learner: opens a model for training; None: `learners.open_learner`.
        choose_engine: chooses what computes gradients; None: `engines.choose_engine`.

    Returns:
        The checkpoint's folder, with `PRIVACY_FILE` in it.

    Raises:
        UsageError: options that make no sense, or ask for what cannot be had.
        ManifestError: see `units_of`.
        TargetError: the start is the audited model, or cannot be trained.
        TrainingError: training broke down.
        EngineError: the disk does not take it, or another training holds the folder.
    """
    prepared = prepare_training(start, corpus, options, device=device, audited=audited, proves=proves)
    clients = prepared.clients
    owners = None if clients is None else {name: list(own) for name, own in clients.providers.items()}
    key = key_of([prepared.start.sha256, corpus.sha256, _settings_of(prepared.options), owners, __version__])

    def train(folder: Path) -> None:
        ledger = Ledger(out / f"private-{key}.ledger")
        with exclusive(ledger.folder):
            _train(prepared, ledger, folder, progress, open_learner, choose_engine)

    return made_once(out / f"private-{key}", train)


def prepare_training(
    start: Path,
    corpus: Corpus,
    options: DpOptions,
    *,
    device: str = "cpu",
    audited: Path | None = None,
    proves: Proves | None = None,
) -> PreparedTraining:
    """Check a training before its model is opened; for arguments and errors see `train_private`."""
    check_options(options)
    rank_of(options.trained)
    opened = open_checkpoint(start)
    if audited is not None:
        refuse_audited(opened, open_model(audited, corpus, start), corpus)
    members = corpus.of("member")
    kind = kind_of(members, options.unit)
    units = units_of(corpus, members, kind, per_unit=options.per_unit, seed=options.seed)
    settled = with_epsilon(options, kind, len(units), proves)
    clients = None if options.clients is None else _clients_of(options.clients, kind, units)
    return PreparedTraining(opened, corpus, settled, units, kind, device, clients)


def refuse_audited(start: CheckpointFolder, audited: CheckpointFolder, corpus: Corpus) -> None:
    """Refuse the audited model as the start: it knows the members already, and no noise takes that away.

    For models that name intents and slots the start gives sizes alone, so that the audited one may be named.

    Raises:
        TargetError: the start holds the audited model's weights, or the same but for rounding.
    """
    if trainer_of(corpus.manifest.task.kind) is not None:
        return
    refuse_the_target("pretrained", start, audited)


def _train(
    prepared: PreparedTraining,
    ledger: Ledger,
    folder: Path,
    progress: Progress,
    open_learner: OpenLearner | None,
    choose_engine: ChooseEngine | None,
) -> None:
    options, units = prepared.options, prepared.units
    learner = _open(prepared, open_learner)
    _refuse_silent_members(prepared, learner)
    held = prepared.start.weight_names
    trained = choose_trained(
        learner.model, options.trained, embeddings=options.embeddings, seed=options.seed, held=held
    )
    learner.model.eval()
    budget = budget_of(options, len(units), trained.scope)
    draw = partial(_draw, learner, options.seed)
    contributing = choose_contributions(
        prepared.corpus, prepared.kind, prepared.options, learner, trained, choose_engine
    )
    random: RandomSource = SeededRandom(options.seed) if options.reproducible else SystemRandom()
    if prepared.clients is None:
        chosen = contributing.contributions
        run_mechanism(trained.parameters, units, draw, chosen, budget.plan, random, ledger, progress)
    else:
        means = _federated_means(prepared, draw, contributing.contributions, trained.parameters, budget.plan, random)
        run_steps(trained.parameters, means, budget.plan, ledger, progress)
    merge_adapters(learner.model)
    with quiet():
        learner.save(folder)
    stated = _stated(prepared, trained, budget, contributing, random.secure, weights_sha256(folder))
    write_atomically(folder / PRIVACY_FILE, dump_privacy(stated))


def _clients_of(path: Path, kind: str, units: tuple[Unit, ...]) -> Any:
    """The clients that a file names, with their providers."""
    if kind != "provider":
        raise UsageError("clients hold providers, and documents are protected", "give --unit provider")
    from audit.extensions.private.federated import read_clients

    return read_clients(path, [unit.name for unit in units])


def _federated_means(
    prepared: PreparedTraining,
    draw: Draw,
    contributions: Contributions,
    parameters: Parameters,
    plan: MechanismPlan,
    random: RandomSource,
) -> Callable[[int], Mapping[str, torch.Tensor]]:
    """The noisy mean of a round: every party's own code runs, in this process."""
    from audit.extensions.private.federated import federate

    client_rate = prepared.options.client_rate
    federation = federate(
        prepared.clients,
        prepared.units,
        draw,
        contributions,
        parameters,
        lambda party, step: random,
        client_rate=client_rate,
        provider_rate=min(1.0, plan.sample_rate / client_rate),
        noise_multiplier=plan.noise_multiplier,
        max_norm=plan.max_norm,
        chunk=plan.chunk,
    )
    means: Callable[[int], Mapping[str, torch.Tensor]] = federation.noisy_mean
    return means


def _open(prepared: PreparedTraining, given: OpenLearner | None) -> Learner:
    if given is None:
        from audit.extensions.private.learners.opening import open_learner

        given = open_learner
    return given(prepared.start.path, prepared.corpus, seed=prepared.options.seed, device=prepared.device)


def _draw(learner: Learner, seed: int, unit: Unit, step: int) -> DrawnUnit | None:
    return draw_samples(learner, unit, step, seed)


def _refuse_silent_members(prepared: PreparedTraining, learner: Learner) -> None:
    """Refuse members that would teach nothing."""
    if all(draw_samples(learner, unit, 0, prepared.options.seed) is None for unit in prepared.units):
        raise TargetError("no document makes a sample to train on", "give documents with words, or with answers")


def _stated(
    prepared: PreparedTraining,
    trained: Trained,
    budget: Budget,
    contributing: Contributing,
    secure: bool,
    weights: str,
) -> StatedPrivacy:
    options, plan = prepared.options, budget.plan
    return StatedPrivacy(
        schema=1,
        unit=prepared.kind,
        n_units=plan.n_units,
        epsilon=budget.epsilon,
        delta=budget.delta,
        noise_multiplier=plan.noise_multiplier,
        max_norm=plan.max_norm,
        sample_rate=plan.sample_rate,
        steps=plan.steps,
        per_unit=options.per_unit,
        local_steps=options.local_steps,
        clients=None if prepared.clients is None else len(prepared.clients.providers),
        client_rate=options.client_rate,
        accountant_version=accountant_version(),
        engine=cast("Any", contributing.engine),
        engine_reason=contributing.reason,
        preflight_error=contributing.preflight_error,
        optimizer=plan.optimizer,
        learning_rate=plan.learning_rate,
        scope=cast("Any", trained.scope),
        rank=trained.rank,
        no_attention=trained.scope == "full" and rank_of(options.trained) is not None,
        embeddings=trained.embeddings,
        head=trained.head,
        trained_parameters=trained.count,
        frozen_parameters=trained.frozen,
        secure=secure,
        weights=weights,
    )


def _settings_of(options: DpOptions) -> dict[str, Any]:
    """The options for a key: all but what changes no result."""
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}
    del settings["rows"]
    return settings
