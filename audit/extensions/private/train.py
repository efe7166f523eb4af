"""Train a model like the audited one, from where that began, with a guarantee that is accounted.

The order of things: options and start are checked, units made, the noise found; then the model is
opened, frozen but for what is trained, and the mechanism runs. What a training spent outlives it
(`ledger`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audit import __version__
from audit.cards import PrivacyCard
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.engine.interface import SILENT, Progress
from audit.engine.journal import exclusive
from audit.errors import TargetError, UsageError
from audit.extensions.private.adapters import choose_trained, merge_adapters
from audit.extensions.private.gradients import Contribute, gradient_of, local_change
from audit.extensions.private.learners import open_learner
from audit.extensions.private.mechanism import Ledger, SeededRandom, SystemRandom, run_mechanism
from audit.extensions.private.options import DpOptions, Proves, check_options, learning_rate, settle
from audit.extensions.private.units import DrawnUnit, Learner, Unit, draw_samples, kind_of, units_of
from audit.files import read_file, read_toml, write_atomically
from audit.references.provenance import refuse_the_target
from audit.references.recipes import key_of, made_once
from audit.targets.checkpoint import folder as checkpoint_folder
from audit.targets.checkpoint.safety import quiet
from audit.targets.opening import open_model, trainer_of


@dataclass(frozen=True)
class PreparedTraining:
    """A training before its model is opened.

    Attributes:
        start: what is trained.
        options: what the owner chose.
        units: units of the members.
        card: the numbers of the training.
        clients: the names of each client's units; None: a central training.
    """

    start: checkpoint_folder.CheckpointFolder
    options: DpOptions
    units: tuple[Unit, ...]
    card: PrivacyCard
    clients: Mapping[str, tuple[str, ...]] | None = None


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
    open_with: Callable[..., Learner] = open_learner,
) -> Path:
    """Train a model on members with differential privacy; return its folder within `out`.

    A training that was killed goes on with the steps that it has not spent. Members decide nothing
    but the noisy sums: no number of steps, no checkpoint, no statistic that is printed.

    Args:
        start: what the audited model was fine-tuned from.
        corpus: the data set.
        out: gets the checkpoint and the ledger, in folders named after all that they depend on.
        options: what the owner chose.
        device: "cpu", "cuda" or "mps".
        progress: receiver of the progress, told of steps.
        audited: the audited model, which must not be the start.
        proves: whether a guarantee is strong enough, where `options.to_policy` names a policy.
        open_with: opens a model for training.

    Returns:
        The checkpoint's folder, with `PRIVACY_FILE` in it.

    Raises:
        UsageError: options that make no sense, or ask for what cannot be had.
        ManifestError: see `units_of`.
        TargetError: the start is the audited model, or cannot be trained.
        TrainingError: training broke down.
        EngineError: the disk does not take it, or another training holds the folder.
    """
    prepared = prepare_training(start, corpus, options, audited=audited, proves=proves)
    settings = {
        name: str(own) if isinstance(own, Path) else own
        for name, own in asdict(cast("Any", options)).items()
    }
    del settings["rows"]  # changes no result
    key = key_of(
        [
            prepared.start.sha256,
            corpus.sha256,
            settings,
            prepared.clients,
            prepared.card.noise_multiplier,
            __version__,
        ]
    )

    def train(folder: Path) -> None:
        """Train into `folder` while the ledger is locked."""
        ledger = Ledger(out / f"private-{key}.ledger")
        with exclusive(ledger.folder):
            learner = open_with(prepared.start.path, corpus, seed=options.seed, device=device)
            _train_with_noise(prepared, learner, ledger, folder, progress)

    return made_once(out / f"private-{key}", train)


def prepare_training(
    start: Path,
    corpus: Corpus,
    options: DpOptions,
    *,
    audited: Path | None = None,
    proves: Proves | None = None,
) -> PreparedTraining:
    """Check all that a private training needs before its model is opened; return it."""
    check_options(options)
    opened = checkpoint_folder.open_checkpoint(start)
    # For a task with a trainer of its own the start gives sizes alone, so that the audited model
    # may be named.
    if audited is not None and trainer_of(corpus.manifest.task.kind) is None:
        refuse_the_target("pretrained", opened, open_model(audited, corpus, start))
    members = corpus.of("member")
    kind = kind_of(members, options.unit)
    units = units_of(corpus, members, kind, per_unit=options.per_unit, seed=options.seed)
    card = settle(options, kind, len(units), proves)
    if options.clients is None:
        return PreparedTraining(opened, options, units, card)
    if kind != "provider":
        raise UsageError(
            "clients hold providers, and documents are protected", "give --unit provider"
        )
    clients = read_clients(options.clients, [unit.name for unit in units])
    return PreparedTraining(opened, options, units, replace(card, clients=len(clients)), clients)


def _train_with_noise(
    prepared: PreparedTraining, learner: Learner, ledger: Ledger, folder: Path, progress: Progress
) -> None:
    """Choose what is trained, run the noisy steps, and save the model with its card."""
    options = prepared.options
    units = prepared.units
    draw = partial(_draw, learner, options.seed)
    if all(draw_samples(learner, unit, 0, options.seed) is None for unit in units):
        raise TargetError(
            "no document makes a sample to train on", "give documents with words, or with answers"
        )
    seed = options.seed
    held = prepared.start.weight_names
    trained = choose_trained(
        learner.model, options.trained, embeddings=options.embeddings, seed=seed, held=held
    )
    learner.model.eval()
    card = replace(
        prepared.card,
        learning_rate=learning_rate(options, trained.code),
        trained=trained.code,
        embeddings=trained.embeddings,
        head=trained.head,
        trained_parameters=trained.count,
        frozen_parameters=trained.frozen,
    )
    named = {unit.name: unit for unit in units}
    groups = [named] if prepared.clients is None else prepared.clients.values()
    clients = [[named[name] for name in own] for own in groups]
    random = SeededRandom(options.seed) if options.reproducible else SystemRandom()
    contribute: Contribute = partial(gradient_of, learner, trained.parameters, rows=options.rows)
    if card.local_steps:
        contribute = partial(
            local_change,
            learner,
            trained.parameters,
            rows=options.rows,
            passes=card.local_steps,
            learning_rate=card.learning_rate,
        )
    run_mechanism(trained.parameters, clients, draw, contribute, card, random, ledger, progress)
    merge_adapters(learner.model)
    with quiet():
        learner.save(folder)
    write_atomically(
        folder / checkpoint_folder.PRIVACY_FILE,
        checkpoint_folder.dump_privacy(
            replace(card, weights=checkpoint_folder.weights_sha256(folder))
        ),
    )


def _draw(learner: Learner, seed: int, unit: Unit, step: int) -> DrawnUnit | None:
    """Return the samples of a unit in a step, which follow from the seed; None without any."""
    return draw_samples(learner, unit, step, seed)


_HINT = 'name every provider once: [clients], then a line such as north = ["provider 1", "provider 2"] for each client'


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    clients: dict[str, list[str]] = Field(min_length=1)


def read_clients(path: Path, providers: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the providers of each client, from the table `clients` of a TOML file.

    Args:
        path: path of the file.
        providers: the names of all units that are trained on; names are folded, as theirs are.

    Returns:
        The folded names of providers, by client in the file's order.

    Raises:
        UsageError: the file cannot be read, a client has no provider, a provider is named twice or
            not at all, or one is named that is not trained on; all that is wrong is said at once.
    """
    stated = _read_groups(path)
    clients = {client: tuple(map(fold, group)) for client, group in stated.items()}
    expected = set(map(fold, providers))
    problems = [f"{path}: {problem}" for problem in _client_problems(clients, expected)]
    if problems:
        raise UsageError(sorted(problems), _HINT)
    return clients


def _read_groups(path: Path) -> dict[str, list[str]]:
    """Return the providers of each client as a file lists them, unchecked.

    Raises:
        UsageError: the file cannot be read, or has another form.
    """
    try:
        return _File.model_validate(read_toml(read_file(path))).clients
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", _HINT) from None
    except ValidationError as error:
        problems = [
            f"{path}: {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        ]
        raise UsageError(problems, _HINT) from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}", _HINT) from None


def _client_problems(clients: Mapping[str, tuple[str, ...]], expected: Set[str]) -> Iterator[str]:
    """Yield a problem for each provider that is unknown, missing or of two clients.

    Args:
        clients: folded names of providers, by client.
        expected: folded names of the providers that are trained on.
    """
    counts: Counter[str] = Counter()
    for client, group in clients.items():
        counts.update(group)
        if not group:
            yield f"client {client!r} has no provider"
    for provider, times in counts.items():
        if times > 1:
            yield f"provider {provider!r} is named {times} times"
    for provider in counts.keys() - expected:
        yield f"provider {provider!r} has no document that is trained on"
    for provider in expected - counts.keys():
        yield f"provider {provider!r} has no client"
