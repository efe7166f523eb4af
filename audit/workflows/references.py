"""References of a model: which ones its attacks take, how to get those, and their training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audit.attacks.battery import BATTERY
from audit.attacks.interface import why_inapplicable
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.engine.driver import make_engine
from audit.engine.interface import EngineSettings, Progress
from audit.errors import TargetError
from audit.references import training
from audit.references.load import REFERENCE_NAMES, advise_public_model, has_masked_head, takes_public_model
from audit.targets.checkpoint.content import is_adapter
from audit.targets.checkpoint.folder import stated_guarantee
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import device_named, open_model, threads
from audit.workflows.setup import CheckedModel, ScanSetup, check_model, doubt_draw, open_target, usable_references

State = Literal["there", "trained by the scan", "can be trained", "missing"]
Given = Mapping[str, Sequence[Path]]
"""Folders of references by name, as a scan is given them."""


@dataclass(frozen=True)
class ReferenceNeed:
    """One reference and the attacks that take it.

    Attributes:
        name: of the reference, as `--reference` takes it.
        needed_by: attacks that cannot run without it.
        used_by: attacks that are weaker without it.
        state: "there": named in the manifest or on the command line; "trained by the scan": from what is there; "can be
            trained" by a command; else "missing".
        source: where it was found; empty where it was not.
        folders: its folders.
        how: the command, or what to give; empty for one that is there.
    """

    name: str
    needed_by: tuple[str, ...]
    used_by: tuple[str, ...]
    state: State
    source: str = ""
    folders: tuple[str, ...] = ()
    how: str = ""


@dataclass(frozen=True)
class InspectedModel:
    """A model that a scan takes.

    Attributes:
        architecture: family and head.
        inapplicable: by attack, why the model cannot be attacked this way.
        trials: attack, stratum and number of trials.
        warnings: those that a scan gives.
        lacking: for each reference that an attack cannot run without, what to do, a line each.
    """

    architecture: str
    inapplicable: Mapping[str, str]
    trials: tuple[tuple[str, str, int], ...]
    warnings: tuple[str, ...]
    lacking: tuple[str, ...]


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
    folder = open_target(model_dir, corpus, given)
    attacks = [kind.preset("standard") for kind in BATTERY]
    checked = check_model(folder, corpus, attacks)
    case = Case(checked.target, checked.corpus)
    reasons = {attack.name: why_inapplicable(attack, case) for attack in attacks}
    _, doubts = stated_guarantee(folder)
    return InspectedModel(
        checked.target.card.architecture,
        {name: reason for name, reason in reasons.items() if reason is not None},
        tuple(
            (name, *one)
            for name, own in checked.trials.items()
            for one in sorted(Counter(trial.stratum for trial in own).items())
        ),
        (*checked.copies.warnings, *checked.unread.warnings, *doubts, *doubt_draw(folder, corpus)),
        tuple(missing(needs_of(checked, data_dir, model_dir, given))),
    )


def list_references(data_dir: Path, model_dir: Path, given: Given, device: str = "auto") -> tuple[ReferenceNeed, ...]:
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
    folder = open_target(model_dir, corpus, given)
    checked = check_model(folder, corpus, [kind.preset("standard") for kind in BATTERY], device_named(device))
    return needs_of(checked, data_dir, model_dir, given)


def missing(needs: Sequence[ReferenceNeed]) -> Iterator[str]:
    """Say, of each reference without which attacks are skipped, how to get it."""
    for need in needs:
        if need.needed_by and need.state in ("can be trained", "missing"):
            yield f"{', '.join(need.needed_by)}: skipped without the reference {need.name}: {need.how}"


def missing_references(opened: ScanSetup) -> tuple[str, ...]:
    """Say the same for a scan that was opened."""
    case = Case(opened.defended(opened.target), opened.corpus)
    attacks = tuple(attack for attack in opened.attacks if why_inapplicable(attack, case) is None)
    trials = {attack.name: attack.trials(case) for attack in attacks if attack.needs}
    checked = CheckedModel(opened.target, opened.corpus, opened.copies, opened.unread, attacks, trials)
    options = opened.options
    return tuple(missing(needs_of(checked, options.data_dir, options.model_dir, options.references)))


def needs_of(checked: CheckedModel, data_dir: Path, model_dir: Path, given: Given) -> tuple[ReferenceNeed, ...]:
    """List the references that the attacks which apply to a checked model take."""
    target, corpus = checked.target, checked.corpus
    attacks = [attack for attack in checked.applicable if checked.trials.get(attack.name)]
    taken = usable_references(attacks, target)
    if not takes_public_model(target):
        taken.discard("auxiliary")
    trains_public = isinstance(target, EncoderTarget) and has_masked_head(target)
    if "auxiliary" in taken and trains_public:
        taken.add("pretrained")
    base = _base(model_dir, corpus, given)
    places = {name: _folders(name, corpus, data_dir, given, base) for name in REFERENCE_NAMES}
    start = next(iter(places["pretrained"][1]), None)

    def need(name: str) -> ReferenceNeed:
        source, folders = places[name]
        needed = tuple(attack.name for attack in attacks if name in attack.needs)
        by = needed, tuple(attack.name for attack in attacks if name in attack.uses)
        if folders:
            return ReferenceNeed(name, *by, "there", source, tuple(map(str, folders)))
        if name == "auxiliary" and trains_public and corpus.of("public") and start is not None:
            return ReferenceNeed(name, *by, "trained by the scan", "from pretrained and the public documents")
        if name == "splits" or (name == "baselines" and corpus.of("public")):
            kind = "baseline" if name == "baselines" else name
            command = f"docaudit train-{kind} {data_dir} --out {name}{_start(start, base, model_dir, corpus, given)}"
            return ReferenceNeed(name, *by, "can be trained", how=command)
        words = {
            "baselines": "train one like the model on documents that are not audited",
            "pretrained": "give the checkpoint that the model was fine-tuned from (--reference pretrained=PATH)",
        }
        return ReferenceNeed(name, *by, "missing", how=words.get(name) or advise_public_model(target))

    return tuple(need(name) for name in REFERENCE_NAMES if name in taken)


def _folders(name: str, corpus: Corpus, data_dir: Path, given: Given, base: Path | None) -> tuple[str, Sequence[Path]]:
    """Find who named a reference, and its folders; none where nobody did."""
    if name in given:
        return "command line", given[name]
    named = getattr(corpus.manifest.references, name) or ()
    paths = [data_dir / path for path in ((named,) if isinstance(named, str) else named)]
    if not paths and name == "pretrained" and base is not None:
        return "what the adapter was trained on", [base]
    return "manifest", paths


def _base(model_dir: Path, corpus: Corpus, given: Given) -> Path | None:
    """Find the model under an adapter."""
    if not is_adapter(model_dir):
        return None
    base = open_target(model_dir, corpus, given).base
    return None if base is None else base.own_path


def _start(start: Path | None, base: Path | None, model_dir: Path, corpus: Corpus, given: Given) -> str:
    """End a command that trains models as the audited one was."""
    if base is None:
        if start is None:
            return " --reference pretrained=PATH (what the model was fine-tuned from)"
        return f" --reference pretrained={start}" if "pretrained" in given else ""
    # An adapter's settings are read in its folder; its base is looked for in the manifest and in them.
    named = f" --reference pretrained={model_dir}"
    try:
        open_model(model_dir, corpus)
    except TargetError:
        return f"{named} (first name its base as references.pretrained in manifest.toml: {start})"
    return named


def train_baselines(
    data_dir: Path, out: Path, *, start: Path | None, count: int, seed: int | None, device: str, progress: Progress
) -> int:
    """Train baselines on the public documents of a data set, and count them; see `baselines.train_baseline`.

    Raises:
        DocauditError: the data set is broken, or a model cannot be trained.
    """
    corpus, chosen = manifest.load(data_dir), device_named(device)
    return len(training.train_baseline(start, corpus, out, count=count, seed=seed, device=chosen, progress=progress))


def train_splits(
    data_dir: Path,
    out: Path,
    *,
    start: Path | None,
    count: int,
    seed: int,
    device: str,
    engine: str,
    progress: Progress,
) -> int:
    """Train models, each on half of the member documents, and count them; see `training.train_splits`.

    Raises:
        DocauditError: there is no such engine, the data set is broken, or a model cannot be trained.
    """
    chosen = device_named(device)
    made = make_engine(engine, EngineSettings(width=1, threads=threads(), gpu=chosen == "cuda"))
    corpus = manifest.load(data_dir)
    return len(
        training.train_splits(start, corpus, out, count=count, seed=seed, device=chosen, engine=made, progress=progress)
    )
