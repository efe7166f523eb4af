"""References of a model: which ones its attacks take, how to get those, and their training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from audit.attacks.battery import BATTERY
from audit.attacks.interface import why_inapplicable
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.engine.driver import LOCAL, make_engine
from audit.engine.interface import SILENT, EngineSettings, Progress
from audit.references import TEXTS, load, recommends_splits, training
from audit.references.resolve import prepare
from audit.targets.checkpoint.content import is_adapter
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, stated_guarantee
from audit.targets.opening import device_named, threads, trainer_of
from audit.workflows.checking import (
    CheckedModel,
    check_model,
    doubt_draw,
    open_target,
    usable_references,
)
from audit.workflows.options import refuse_inside
from audit.workflows.session import Session

State = Literal["there", "trained by the scan", "can be trained", "missing"]
STANDARD = [kind.preset("standard") for kind in BATTERY]
Given = Mapping[str, Sequence[Path]]
"""Folders of references by name, as a scan is given them."""


@dataclass(frozen=True)
class ReferenceNeed:
    """One reference and the attacks that take it.

    Attributes:
        name: of the reference, as `--reference` takes it.
        needed_by: attacks that cannot run without it.
        used_by: attacks that are weaker without it.
        state: "there": named in the manifest or on the command line; "trained by the scan": from
            what is there; "can be trained" by a command; else "missing".
        source: where it was found; empty where it was not.
        folders: its folders.
        how: the command, or what to give; empty for one that is there.
        seconds: that its training takes on this machine, at least and at most; None where that was
            not timed.
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
        inapplicable: by attack, why the model cannot be attacked this way.
        trials: attack, stratum and number of trials.
        warnings: those that a scan gives.
        lacking: for each reference that an attack cannot run without, what to do, a line each.
        skipped: the same by attack.
    """

    architecture: str
    inapplicable: Mapping[str, str]
    trials: tuple[tuple[str, str, int], ...]
    warnings: tuple[str, ...]
    lacking: tuple[str, ...]
    skipped: Mapping[str, str]


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
    case = Case(checked.target, checked.corpus)
    strata = {name: Counter(trial.stratum for trial in own) for name, own in checked.trials.items()}
    _, doubts = stated_guarantee(folder)
    needs = needs_of(checked, data_dir, model_dir, given)
    return InspectedModel(
        checked.target.card.architecture,
        {
            one.name: reason
            for one in STANDARD
            if (reason := why_inapplicable(one, case)) is not None
        },
        tuple((name, *one) for name, own in strata.items() for one in sorted(own.items())),
        (
            *checked.data.copies.warnings,
            *checked.data.unread.warnings,
            *doubts,
            *doubt_draw(folder, corpus),
        ),
        tuple(missing(needs)),
        {
            attack: _why_skipped(need)
            for need in needs
            if _is_missing(need)
            for attack in need.needed_by
        },
    )


def list_references(data_dir: Path, model_dir: Path, given: Given, device: str = "auto") -> Needs:
    """List the references that the attacks which apply to a model take.

    Args:
        data_dir: the data set.
        model_dir: the checkpoint to be audited.
        given: references.
        device: of the model.

    Raises:
        DocauditError: a scan would refuse the model.
    """
    corpus = manifest.load(data_dir)
    _, checked = _open(model_dir, corpus, given, device_named(device))
    needs = needs_of(checked, data_dir, model_dir, given)
    times = _time(needs, checked, model_dir, given)
    short = {"splits"} if recommends_splits(times) else set()
    return tuple(
        replace(one, seconds=times.get(one.name), recommended=one.name in short) for one in needs
    )


def _open(
    model_dir: Path, corpus: Corpus, given: Given, device: str = "cpu"
) -> tuple[CheckpointFolder, CheckedModel]:
    """Open the model, and refuse it and folders of references where a scan does."""
    folder = open_target(model_dir, corpus, given)
    checked = check_model(folder, corpus, STANDARD, device)
    named = {name: own for name, own in given.items() if name != "public"}
    load.locate(load.AuditedModel(checked.target, folder, corpus), named)
    return folder, checked


def _time(
    needs: Needs, checked: CheckedModel, model_dir: Path, given: Given
) -> dict[str, tuple[float, float]]:
    """Estimate how many seconds the trainings take that a command or the scan would run, at least and at most."""
    target, corpus = checked.target, checked.corpus
    names = [need.name for need in needs if need.state in ("can be trained", "trained by the scan")]
    begun, folder = _training_start(model_dir, corpus, given), open_target(model_dir, corpus, given)
    prepared = partial(prepare, ["auxiliary"], target, folder, corpus, given)
    return training.time_references(names, begun, corpus, target.card.device, prepared)


def missing(needs: Sequence[ReferenceNeed]) -> Iterator[str]:
    """Say, of each reference without which attacks are skipped, how to get it."""
    for need in needs:
        if need.needed_by and _is_missing(need):
            yield f"{', '.join(need.needed_by)}: {_why_skipped(need)}"


def _is_missing(need: ReferenceNeed) -> bool:
    return need.state in ("can be trained", "missing")


def _why_skipped(need: ReferenceNeed) -> str:
    return f"skipped without the reference {need.name}: {need.how}"


def missing_references(session: Session) -> tuple[str, ...]:
    """Say the same for a scan that was opened."""
    options = session.options
    return tuple(
        missing(
            needs_of(_checked(session), options.data_dir, options.model_dir, options.references)
        )
    )


def time_scan_references(session: Session) -> dict[str, tuple[float, float]]:
    """Estimate the seconds of the trainings that a scan that was opened lacks, at least and at most."""
    checked = _checked(session)
    options = session.options
    needs = needs_of(checked, options.data_dir, options.model_dir, options.references)
    return _time(needs, checked, options.model_dir, options.references)


def _checked(session: Session) -> CheckedModel:
    """Return the model of a scan that was opened, with the attacks that it can be put to."""
    case = session.case
    attacks = tuple(attack for attack in session.attacks if why_inapplicable(attack, case) is None)
    trials = {attack.name: attack.trials(case) for attack in attacks if attack.needs}
    return CheckedModel(session.target, session.data, attacks, trials)


def needs_of(checked: CheckedModel, data_dir: Path, model_dir: Path, given: Given) -> Needs:
    """List the references that the attacks which apply to a checked model take."""
    target, corpus = checked.target, checked.corpus
    attacks = [attack for attack in checked.applicable if checked.trials.get(attack.name)]
    taken = usable_references(attacks, target)
    if not load.takes_public_model(target):
        taken.discard("auxiliary")
    trains_public = load.has_masked_head(target)
    taken |= {"pretrained"} if "auxiliary" in taken else set()
    begun = _training_start(model_dir, corpus, given)
    base = begun.base.own_path if isinstance(begun, CheckpointFolder) and begun.base else None
    places = {name: _folders(name, corpus, data_dir, given, base) for name in load.REFERENCE_NAMES}
    start = next(iter(places["pretrained"][1]), None)
    named = "".join(f" --reference pretrained={path}" for path in given.get("pretrained", ()))
    if start is None and begun is None:
        named = " --reference pretrained=PATH (what the model was fine-tuned from)"

    def need(name: str) -> ReferenceNeed:
        source, folders = places[name]
        needed = tuple(attack.name for attack in attacks if name in attack.needs)
        by = needed, tuple(attack.name for attack in attacks if name in attack.uses)
        if folders:
            return ReferenceNeed(name, *by, "there", source, tuple(map(str, folders)))
        if name == "auxiliary" and start is not None and trains_public and corpus.of("public"):
            return ReferenceNeed(
                name, *by, "trained by the scan", "from pretrained and the public documents"
            )
        if name == "auxiliary" and start is not None and load.may_propose(start, target):
            return ReferenceNeed(name, *by, "there", "pretrained, as it is", (str(start),))
        if name == "splits" or (name == "baselines" and corpus.of("public")):
            command = f"docaudit references {data_dir} {model_dir} --train {name}{named}"
            return ReferenceNeed(name, *by, "can be trained", how=command)
        return ReferenceNeed(
            name, *by, "missing", how=TEXTS["missing"].get(name) or load.advise_public_model(target)
        )

    return tuple(need(name) for name in load.REFERENCE_NAMES if name in taken)


def _folders(
    name: str, corpus: Corpus, data_dir: Path, given: Given, base: Path | None
) -> tuple[str, Sequence[Path]]:
    """Find who named a reference, and its folders; none where nobody did."""
    if name in given:
        return "command line", given[name]
    named = getattr(corpus.manifest.references, name) or ()
    paths = [data_dir / path for path in ((named,) if isinstance(named, str) else named)]
    if not paths and name == "pretrained" and base is not None:
        return "what the adapter was trained on", [base]
    return "manifest", paths


def train_references(
    data_dir: Path,
    model_dir: Path,
    given: Given,
    names: Sequence[str],
    out: Path,
    *,
    count: int | None = None,
    seed: int | None = None,
    device: str = "auto",
    engine: str = LOCAL,
    progress: Progress = SILENT,
) -> dict[str, tuple[Path, ...]]:
    """Train references of a model, those that are in `out` already excepted.

    Args:
        data_dir: the data set.
        model_dir: the audited checkpoint.
        given: references; training begins from pretrained, or with the settings of the audited
            adapter.
        names: "baselines" or "splits"; none: those that attacks take and nobody gave, split models
            where recommended.
        out: gets a folder for each name.
        count: models of each name, or baselines; None: 1 baseline. Split models:
            `training.N_SPLITS` unless named.
        seed: of the first baseline and of the draw of the splits; None: the recipe's, and 0.
        device: "auto", "cpu", "cuda" or "mps".
        engine: where split models are trained, as `make_engine` takes it.
        progress: of epochs and models.

    Returns:
        The folders of each name; `out` may hold baselines of other models too.

    Raises:
        DocauditError: there is no such engine, the data set is broken, or a model cannot be
            trained.
    """
    refuse_inside("MODEL_DIR", model_dir, "--out", out)
    chosen = device_named(device)
    made = make_engine(engine, EngineSettings(width=1, threads=threads(), gpu=chosen == "cuda"))
    corpus = manifest.load(data_dir)
    named = bool(names)
    if not named:
        needs = list_references(data_dir, model_dir, given, device)
        trainable = [need for need in needs if need.state == "can be trained"]
        names = [need.name for need in trainable if need.name != "splits" or need.recommended]
    start, how = (
        _training_start(model_dir, corpus, given),
        dict[str, Any](device=chosen, progress=progress),
    )
    folders: dict[str, tuple[Path, ...]] = {}
    if "baselines" in names:
        place = out / "baselines"
        folders["baselines"] = training.train_baseline(
            start, corpus, place, count=count or 1, seed=seed, **how
        )
    if "splits" in names:
        how |= {"count": (named and count) or training.N_SPLITS, "seed": seed or 0, "engine": made}
        with closing(made):
            training.train_splits(start, corpus, out / "splits", **how)
        folders["splits"] = (out / "splits",)
    return folders


def _training_start(model_dir: Path, corpus: Corpus, given: Given) -> AnyFolder | None:
    """Find what models like the audited one begin from: its own folder for an adapter, and for an extension's sizes."""
    if is_adapter(model_dir):
        return open_target(model_dir, corpus, given)
    named = next(iter(given.get("pretrained", ())), None)
    own = (
        corpus.manifest.references.pretrained is None
        and trainer_of(corpus.manifest.task.kind) is not None
    )
    return model_dir if named is None and own else named
