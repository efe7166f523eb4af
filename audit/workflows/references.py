"""References of a model: which ones its attacks take, how to get those, and their training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Literal

from audit.attacks.battery import BATTERY
from audit.attacks.interface import Attack, why_inapplicable
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.engine.driver import AUTO, make_engine
from audit.engine.interface import SILENT, EngineSettings, Progress
from audit.errors import command_line, typed
from audit.references import TEXTS, load, recommends_splits, training
from audit.references.resolve import prepare
from audit.references.retrain import check_start, start_of
from audit.targets.checkpoint.content import is_adapter
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, stated_guarantee
from audit.targets.fit import TaskScore, WordsRead, fit_of
from audit.targets.opening import (
    Checkpoint,
    device_named,
    threads,
    trainer_of,
    warn_of_code,
)
from audit.workflows.apart import refuse_inside
from audit.workflows.checking import (
    CheckedModel,
    Listing,
    check_model,
    doubt_draw,
    open_target,
    usable_references,
)
from audit.workflows.session import Session

State = Literal["there", "trained by the scan", "can be trained", "missing"]
STANDARD = [kind.preset("standard") for kind in BATTERY]
Given = Mapping[str, Sequence[Path]]
"""Folders of references by name, as a scan is given them."""


@dataclass(frozen=True)
class ReferenceNeed:
    """One reference and the attacks that take it.

    Attributes:
        name: name of the reference, as `--reference` takes it.
        needed_by: attacks that cannot run without it.
        used_by: attacks that are weaker without it.
        state: "there": named in the manifest or on the command line; "trained by the scan": from
            what is there; "can be trained" by a command; else "missing".
        source: place where it was found; empty where it was not.
        folders: its folders.
        how: the command, or what to give; empty for one that is there.
        seconds: seconds that its training takes on this machine, at least and at most; None where
            that was not timed.
        recommended: whether split models are trained unasked, as that is short.
    """

    name: str
    needed_by: tuple[str, ...]
    used_by: tuple[str, ...]
    state: State
    source: str = ""
    folders: tuple[str, ...] = ()
    how: str = ""
    seconds: tuple[float, float] | None = None
    recommended: bool = False


Needs = tuple[ReferenceNeed, ...]


@dataclass(frozen=True)
class InspectedModel:
    """A model that a scan takes.

    Attributes:
        architecture: family and head.
        inapplicable: reasons by attack why the model cannot be attacked this way.
        trials: attack, stratum and number of trials.
        warnings: warnings that a scan gives.
        lacking: what to do about each reference that an attack cannot run without, a line each.
        skipped: the same by attack.
        scores: how well it does its task on a few pages of its training.
        words: words of training pages that it reads; None where it reads pictures alone, or windows
            all over.
    """

    architecture: str
    inapplicable: Mapping[str, str]
    trials: tuple[tuple[str, str, int], ...]
    warnings: tuple[str, ...]
    lacking: tuple[str, ...]
    skipped: Mapping[str, str]
    scores: tuple[TaskScore, ...] = ()
    words: WordsRead | None = None


def inspect_model(model_dir: Path, corpus: Corpus, data_dir: Path, given: Given) -> InspectedModel:
    """Check a model as a scan does, and count what each attack finds to try.

    Args:
        model_dir: the checkpoint.
        corpus: the data set.
        data_dir: its folder.
        given: references.

    Raises:
        DocauditError: what a scan would raise.
    """
    folder, checked = _open(model_dir, corpus, given)
    inapplicable = {}
    for attack in STANDARD:
        reason = why_inapplicable(attack, checked.case)
        if reason is not None:
            inapplicable[attack.name] = reason
    _, doubts = stated_guarantee(folder)
    needs = needs_of(checked, data_dir, model_dir, given)
    skipped = {}
    for need in needs:
        if _is_missing(need):
            skipped.update(dict.fromkeys(need.needed_by, _why_skipped(need)))
    fit = fit_of(checked.target, checked.corpus)
    return InspectedModel(
        architecture=checked.target.card.architecture,
        inapplicable=inapplicable,
        trials=tuple(_trial_counts(checked)),
        warnings=(
            *checked.data.copies.warnings,
            *checked.data.unread.warnings,
            *doubts,
            *warn_of_code(folder),
            *doubt_draw(folder, corpus),
            *fit.warnings,
        ),
        lacking=tuple(missing(needs)),
        skipped=skipped,
        scores=fit.scores,
        words=fit.read,
    )


def _trial_counts(checked: CheckedModel) -> Iterator[tuple[str, str, int]]:
    """Yield attack, stratum and number of trials."""
    for attack, trials in checked.trials.items():
        strata = Counter(trial.stratum for trial in trials)
        for stratum, n_trials in sorted(strata.items()):
            yield attack, stratum, n_trials


def list_references(data_dir: Path, model_dir: Path, given: Given, device: str = "auto") -> Needs:
    """List the references that the attacks which apply to a model take.

    Args:
        data_dir: the data set.
        model_dir: the checkpoint to be audited.
        given: references.
        device: device of the model.

    Raises:
        DocauditError: a scan would refuse the model.
    """
    corpus = manifest.load(data_dir)
    _, checked = _open(model_dir, corpus, given, device_named(device))
    needs = needs_of(checked, data_dir, model_dir, given)
    times = _time(needs, checked, model_dir, given)
    splits_are_short = recommends_splits(times)
    return tuple(
        replace(
            need,
            seconds=times.get(need.name),
            recommended=need.name == "splits" and splits_are_short,
        )
        for need in needs
    )


def _open(
    model_dir: Path, corpus: Corpus, given: Given, device: str = "cpu"
) -> tuple[CheckpointFolder, CheckedModel]:
    """Open the model, and refuse it and folders of references where a scan does."""
    folder = open_target(model_dir, corpus, given)
    checked = check_model(folder, corpus, STANDARD, device)
    models = {name: folders for name, folders in given.items() if name != "public"}
    load.locate(load.AuditedModel(checked.target, folder, corpus), models)
    return folder, checked


def _time(
    needs: Needs, checked: CheckedModel, model_dir: Path, given: Given
) -> dict[str, tuple[float, float]]:
    """Estimate the seconds of trainings that a command or the scan runs, at least and at most."""
    target = checked.target
    corpus = checked.corpus
    names = [need.name for need in needs if need.state in ("can be trained", "trained by the scan")]
    start = _training_start(model_dir, corpus, given)
    folder = open_target(model_dir, corpus, given)
    prepared = partial(prepare, ["auxiliary"], target, folder, corpus, given)
    return training.time_references(names, start, corpus, target.card.device, prepared)


def missing(needs: Sequence[ReferenceNeed]) -> Iterator[str]:
    """Say, of each reference without which attacks are skipped, how to get it."""
    for need in needs:
        if need.needed_by and _is_missing(need):
            yield f"{', '.join(need.needed_by)}: {_why_skipped(need)}"


def _is_missing(need: ReferenceNeed) -> bool:
    """Test whether a scan runs without a reference."""
    return need.state in ("can be trained", "missing")


def _why_skipped(need: ReferenceNeed) -> str:
    """Say that attacks are skipped without a reference, and how to get it."""
    return f"skipped without the reference {need.name}: {need.how}"


def missing_references(session: Session) -> tuple[str, ...]:
    """Say, of each reference that an opened scan lacks, how to get it."""
    options = session.options
    return tuple(
        missing(
            needs_of(_checked(session), options.data_dir, options.model_dir, options.references)
        )
    )


def time_scan_references(session: Session) -> dict[str, tuple[float, float]]:
    """Estimate the seconds of the trainings that an opened scan lacks, at least and at most."""
    checked = _checked(session)
    options = session.options
    needs = needs_of(checked, options.data_dir, options.model_dir, options.references)
    return _time(needs, checked, options.model_dir, options.references)


def _checked(session: Session) -> CheckedModel:
    """Return the model of a scan that was opened, with the attacks that it can be put to."""
    case = session.case
    attacks = tuple(attack for attack in session.attacks if why_inapplicable(attack, case) is None)
    # What attacks that can do without a reference find to try does not matter here.
    trials = {attack.name: session.trials_of(attack, case) for attack in attacks if attack.needs}
    return CheckedModel(session.target, session.data, Listing(case, attacks, trials))


def needs_of(checked: CheckedModel, data_dir: Path, model_dir: Path, given: Given) -> Needs:
    """List the references that the attacks which apply to a checked model take.

    Args:
        checked: the model.
        data_dir: folder of the data set.
        model_dir: folder of the model.
        given: folders of references.
    """
    target = checked.target
    corpus = checked.corpus
    attacks = tuple(attack for attack in checked.applicable if checked.trials.get(attack.name))
    names = usable_references(attacks, target)
    if not load.takes_public_model(target):
        names.discard("auxiliary")
    if "auxiliary" in names:
        names.add("pretrained")
    training_start = _training_start(model_dir, corpus, given)
    base = None
    if isinstance(training_start, CheckpointFolder) and training_start.base:
        base = training_start.base.own_path
    places = {name: _place(name, corpus, data_dir, given, base) for name in load.REFERENCE_NAMES}
    finding = _Finding(
        target=target,
        corpus=corpus,
        attacks=attacks,
        places=places,
        command=command_line("references", model_dir, data_dir),
        pretrained=_pretrained_argument(places, training_start, given),
    )
    return tuple(finding.need(name) for name in load.REFERENCE_NAMES if name in names)


def _pretrained_argument(
    places: Mapping[str, _ReferencePlace], training_start: AnyFolder | None, given: Given
) -> str:
    """Write the arguments of a command that trains: what the model was fine-tuned from."""
    if not places["pretrained"].folders and training_start is None:
        return " --reference pretrained=PATH (what the model was fine-tuned from)"
    words = (quote(f"pretrained={typed(path)}") for path in given.get("pretrained", ()))
    return "".join(f" --reference {word}" for word in words)


@dataclass(frozen=True)
class _ReferencePlace:
    """Where references of one name are.

    Attributes:
        source: who named them.
        folders: their folders; empty where nobody named any.
    """

    source: str
    folders: Sequence[Path]


@dataclass(frozen=True)
class _Finding:
    """What is known of a model when its references are listed.

    Attributes:
        target: the model.
        corpus: the audited documents.
        attacks: the attacks that find something to try.
        places: places of references, by their names.
        command: the command that lists and trains references.
        pretrained: its arguments for what the model was fine-tuned from.
    """

    target: Checkpoint
    corpus: Corpus
    attacks: tuple[Attack, ...]
    places: Mapping[str, _ReferencePlace]
    command: str
    pretrained: str

    def need(self, name: str) -> ReferenceNeed:
        """Say who takes a reference, whether it is there, and how to get it.

        Args:
            name: name of the reference.
        """
        bare = self._bare_need(name)
        place = self.places[name]
        if place.folders:
            folders = tuple(map(typed, place.folders))
            return replace(bare, state="there", source=place.source, folders=folders)
        if name == "auxiliary":
            public = self._public_model(bare)
            if public is not None:
                return public
        if name == "splits" or (name == "baselines" and self.corpus.of("public")):
            how = f"{self.command} --train {name}{self.pretrained}"
            return replace(bare, state="can be trained", how=how)
        how = TEXTS["missing"].get(name) or load.advise_public_model(self.target)
        return replace(bare, how=how)

    def _bare_need(self, name: str) -> ReferenceNeed:
        """Say who takes a reference, as if nothing made it."""
        needed_by = tuple(attack.name for attack in self.attacks if name in attack.needs)
        used_by = tuple(attack.name for attack in self.attacks if name in attack.uses)
        return ReferenceNeed(name, needed_by=needed_by, used_by=used_by, state="missing")

    def _public_model(self, bare: ReferenceNeed) -> ReferenceNeed | None:
        """Say what makes a public model of what the model was fine-tuned from.

        None where nothing does.
        """
        start = next(iter(self.places["pretrained"].folders), None)
        if start is None:
            return None
        if load.has_masked_head(self.target) and self.corpus.of("public"):
            source = "from pretrained and the public documents"
            return replace(bare, state="trained by the scan", source=source)
        if load.may_propose(start, self.target):
            source = "pretrained, as it is"
            return replace(bare, state="there", source=source, folders=(typed(start),))
        return None


def _place(
    name: str, corpus: Corpus, data_dir: Path, given: Given, base: Path | None
) -> _ReferencePlace:
    """Find who named a reference, and its folders.

    Args:
        name: name of the reference.
        corpus: the data set, whose manifest may name it.
        data_dir: folder of the data set.
        given: folders of references that the command line names.
        base: what an adapter was trained on; None for a whole model.
    """
    if name in given:
        return _ReferencePlace("command line", given[name])
    in_manifest = getattr(corpus.manifest.references, name) or ()
    if isinstance(in_manifest, str):
        in_manifest = (in_manifest,)
    paths = [data_dir / path for path in in_manifest]
    if not paths and name == "pretrained" and base is not None:
        return _ReferencePlace("what the adapter was trained on", [base])
    return _ReferencePlace("manifest", paths)


@dataclass(frozen=True)
class TrainingRequest:
    """References of a model that are to be trained.

    Attributes:
        data_dir: folder of the data set.
        model_dir: folder of the audited checkpoint.
        given: references; training begins from pretrained, or with the settings of the audited
            adapter.
        names: "baselines" or "splits"; none: those that attacks take and nobody gave, split models
            where recommended.
        out: folder that gets a folder for each name.
        count: number of models of each name, or of baselines; None: 1 baseline. Split models:
            `training.N_SPLITS` unless named.
        seed: seed of the first baseline and of the draw of the splits; None: the recipe's, and 0.
        device: "auto", "cpu", "cuda" or "mps".
        engine: engine that trains split models, as `make_engine` takes it.
    """

    data_dir: Path
    model_dir: Path
    given: Given
    names: Sequence[str]
    out: Path
    count: int | None = None
    seed: int | None = None
    device: str = "auto"
    engine: str = AUTO


def train_references(
    request: TrainingRequest, progress: Progress = SILENT
) -> dict[str, tuple[Path, ...]]:
    """Train references of a model, those that are in the folder already excepted.

    Args:
        request: references that are to be trained.
        progress: receiver of the progress of epochs and models.

    Returns:
        The folders of each name; the folder may hold baselines of other models too.

    Raises:
        DocauditError: there is no such engine, the data set is broken, or a model cannot be
            trained.
    """
    data_dir = request.data_dir
    model_dir = request.model_dir
    refuse_inside("MODEL_DIR", model_dir, "--out", request.out)
    device = device_named(request.device)
    settings = EngineSettings(width=1, threads=threads(), gpu=device == "cuda")
    engine = make_engine(request.engine, settings)
    corpus = manifest.load(data_dir)
    names = request.names
    n_splits = training.N_SPLITS
    if names:
        n_splits = request.count or n_splits
    else:
        needs = list_references(data_dir, model_dir, request.given, request.device)
        names = _untrained(needs)
        if _lacks_baselines(needs):
            training.material(corpus)  # its error says what is lacking to train them on
    start = _training_start(model_dir, corpus, request.given)
    if names and not is_adapter(model_dir):
        _refuse_audited_start(corpus, start, model_dir)
    folders: dict[str, tuple[Path, ...]] = {}
    if "baselines" in names:
        folders["baselines"] = training.train_baseline(
            start,
            corpus,
            request.out / "baselines",
            count=request.count or 1,
            seed=request.seed,
            device=device,
            progress=progress,
        )
    if "splits" in names:
        place = request.out / "splits"
        with closing(engine):
            training.train_splits(
                start,
                corpus,
                place,
                count=n_splits,
                seed=request.seed or 0,
                engine=engine,
                device=device,
                progress=progress,
            )
        folders["splits"] = (place,)
    return folders


def _lacks_baselines(needs: Needs) -> bool:
    """Test whether an attack needs baselines, and the data set has nothing to train them on."""
    baselines = [need for need in needs if need.name == "baselines" and need.needed_by]
    return any(need.state == "missing" for need in baselines)


def _refuse_audited_start(corpus: Corpus, start: AnyFolder | None, model_dir: Path) -> None:
    """Refuse the audited model as what references are trained from.

    Raises:
        TargetError: nothing names a start, or it holds the audited model's weights.
    """
    begins_from = start_of(corpus, start)
    if isinstance(begins_from, Path):
        check_start(corpus, begins_from, model_dir)


def _untrained(needs: Needs) -> list[str]:
    """Name the references that are trained unasked: split models only where that is short."""
    trainable = [need for need in needs if need.state == "can be trained"]
    return [need.name for need in trainable if need.name != "splits" or need.recommended]


def _training_start(model_dir: Path, corpus: Corpus, given: Given) -> AnyFolder | None:
    """Find what models like the audited one begin from.

    That is its own folder for an adapter, and for an extension's sizes.
    """
    if is_adapter(model_dir):
        return open_target(model_dir, corpus, given)
    pretrained = next(iter(given.get("pretrained", ())), None)
    if pretrained is not None:
        return pretrained
    has_own_trainer = trainer_of(corpus.manifest.task.kind) is not None
    if corpus.manifest.references.pretrained is None and has_own_trainer:
        return model_dir
    return None
