"""Load and check everything that a scan reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from audit import plugins
from audit.attacks import text_of
from audit.attacks.battery import BATTERY, AttackParameters, read_parameters
from audit.attacks.budget import BY_TIME, SHARES, sample
from audit.attacks.interface import Attack, nothing_to_try, why_inapplicable
from audit.attacks.membership import MembershipInference
from audit.attacks.membership.documents import describe_forgotten, select_forgotten
from audit.cards import Forgotten, PrivacyCard
from audit.case import Case, References
from audit.corpus.documents import Corpus
from audit.corpus.manifest import load as load_corpus
from audit.corpus.near_copies import NO_COPIES, Copies, find_copies, without_copies
from audit.engine.driver import HERE, LOCAL, make_engine
from audit.engine.interface import Engine, EngineSettings, Trial
from audit.errors import ManifestError, TargetError, UsageError
from audit.files import table_beside
from audit.references.provenance import FILE_NAME, adapter_of
from audit.references.resolve import LoadedReferences, ReferencePlan, prepare
from audit.report.remedies import QueryDefense, query_defense
from audit.targets import opening
from audit.targets.answering.denoiser import Denoiser
from audit.targets.answering.loading import is_answering
from audit.targets.batching import STEP
from audit.targets.checkpoint.folder import (
    AnyFolder,
    CheckpointFolder,
    NumberFormat,
    in_format,
    stated_guarantee,
)
from audit.targets.checkpoint.safety import method_of
from audit.targets.encoders.forward import DTYPES
from audit.targets.encoders.target import EncoderTarget
from audit.targets.extractive import is_extractive
from audit.targets.interface import NONE_AUDITED, MaskedLoss, NoModel, Target
from audit.workflows import wording
from audit.workflows.options import ScanOptions, check_work


@dataclass(frozen=True)
class ScanSetup:
    """Everything a scan reads, loaded and checked; nothing has been written yet.

    `attacks` and `share` (of the trials) follow from the budget; whoever replaces them names the
    result in `budget`. `shares` are of attacks that take another share, by their names; None: where
    time decides, it was not asked yet. `corpus` is without the documents that `copies` and `unread`
    leave out, `whole` is as it was loaded. `parameters_file` is the sha256 of the file that set
    attack parameters, `dp` the guarantee that the checkpoint states. `part` of the units fits into
    the time that was given. `engine` runs the attacks' trials, on models on `device`; `notice` says
    of it what nobody asked for. `folder` is the target's. `forgotten`: see `CorpusCard`.
    """

    options: ScanOptions
    budget: str
    share: float
    attacks: tuple[Attack, ...]
    corpus: Corpus
    target: opening.Checkpoint
    prepared: ReferencePlan
    warnings: tuple[str, ...] = ()
    parameters_file: str | None = None
    defense: QueryDefense | None = None
    copies: Copies = NO_COPIES
    whole: Corpus | None = None
    dp: PrivacyCard | None = None
    unread: opening.Unread = opening.NONE_UNREAD
    part: float = 1.0
    engine: Engine = HERE
    notice: str = ""
    device: str = "cpu"
    folder: CheckpointFolder | None = None
    forgotten: Forgotten | None = None
    shares: Mapping[str, float] | None = None

    @property
    def by_time(self) -> bool:
        """Test whether time is still to choose the share of each attack's trials."""
        bounded = self.options.documents is not None or self.options.seconds is not None
        asked_here = self.target.card.is_model and self.device == self.target.card.device
        return self.budget == BY_TIME and self.shares is None and asked_here and not bounded

    def share_of(self, attack: str) -> float:
        """Return the share of an attack's trials that the budget takes."""
        return (self.shares or {}).get(attack, self.share)

    def sampled(self, attack: Attack, trials: Sequence[Trial]) -> list[Trial]:
        """Sample the trials that the budget takes of an attack.

        See `audit.attacks.budget.sample`.
        """
        share = self.share_of(attack.name)
        return sample(trials, share, self.options.seed, self.options.documents, self.part)

    def asked(self, corpus: Corpus) -> Corpus:
        """Draw as many held-out documents as the bounds leave, for the measurement of usefulness."""
        heldout = [document.id for document in corpus.of("heldout")]
        most = math.ceil(self.part * len(heldout))
        if self.options.documents is not None:
            most = min(most, self.options.documents)
        if most >= len(heldout):
            return corpus
        drawn = np.random.default_rng([self.options.seed, *b"useful"]).permutation(len(heldout))[
            : max(2, most)
        ]
        kept = {heldout[index] for index in drawn}
        documents = tuple(
            one for one in corpus.documents if one.split != "heldout" or one.id in kept
        )
        return replace(corpus, documents=documents)

    def stage_of(self, attack: Attack) -> str:
        """Name an attack for its progress, with its place among those that run."""
        title = text_of(attack.name).title or attack.name
        return f"attack {1 + self.attacks.index(attack)} of {len(self.attacks)} ({title})"

    @property
    def batch_tokens(self) -> int | None:
        """Return the largest number of tokens in a forward pass of an encoder."""
        return self.options.batch_size if isinstance(self.target, EncoderTarget) else None

    def defended(self, target: opening.Checkpoint) -> Target:
        """Wrap the target in the scan's countermeasure, when there is one."""
        return wrap_target(self.defense, target)

    def references_behind_defense(self, filled: LoadedReferences) -> References:
        """Wrap the references in the scan's countermeasure, as the target is."""
        asked = defended_references(self.defense, filled.models, filled.members)
        return replace(asked, uncounted=filled.uncounted)


def defended_references(
    defense: QueryDefense | None,
    models: Mapping[str, opening.Checkpoint | Denoiser],
    members: Mapping[str, frozenset[str]],
) -> References:
    """Wrap the references in the target's countermeasure, so that both are asked the same.

    See `References.of`.

    The public model proposes tokens and is asked nothing that a countermeasure changes.
    """
    asked: dict[str, Target] = {
        role: model
        if role == "auxiliary" or isinstance(model, Denoiser)
        else wrap_target(defense, model)
        for role, model in models.items()
    }
    return References.of(asked, members)


def open_scan(options: ScanOptions) -> ScanSetup:
    """Load and check all that the scan needs, of a model or of the text alone.

    Raises:
        DocauditError: the scan cannot start; nothing was written.
    """
    given = (
        read_parameters(options.attack_parameters)
        if options.attack_parameters is not None
        else None
    )
    attacks = choose_attacks(options, given)
    if options.no_model:
        return _open_text_scan(options, given, attacks)
    check_work(options)
    if options.dtype not in ("auto", *DTYPES):
        raise UsageError(
            f"--dtype {options.dtype!r}: no such number format", f"one of auto, {', '.join(DTYPES)}"
        )
    # A head of a cluster may have no GPU.
    elsewhere = options.device == "cuda" and "address=" in options.engine and not opening.n_gpus()
    device = "cpu" if elsewhere else opening.device_named(options.device)
    whole, forgotten, known = load_corpus(options.data_dir), frozenset[str](), tuple[str, ...]()
    if options.forgotten is not None:
        whole, forgotten, known = select_forgotten(whole, options.forgotten)
    folder = open_target(options.model_dir, whole, options.references)
    folder = hold_weights(folder, options.dtype)
    guard = query_defense(options.defense, options.seed) if options.defense is not None else None
    model = check_model(folder, whole, attacks, device, options.batch_size, guard)
    target, corpus, copies = model.target, model.corpus, model.copies
    if answers := options.engine.partition("answers=")[2]:
        target = plugins.find("docaudit.sources", "answers")(target, answers, whole)
    batch_tokens = options.batch_size if isinstance(target, EncoderTarget) else None
    n_rows = 1 if isinstance(target, EncoderTarget) else options.batch_size or 1
    if device == "cpu" and n_rows > 1 and n_rows % STEP:
        raise UsageError(*wording("batch_steps", n=n_rows, step=STEP))
    given_folders = dict(options.references)
    others = given_folders.pop("public", [])
    if len(others) > 1:
        raise UsageError(f"--reference public: {len(others)} data sets", "there is one of it")
    public = load_corpus(others[0]) if others else None
    needs = usable_references(attacks, target)
    prepared = prepare(needs, target, folder, corpus, given_folders, batch_tokens, public)
    promised, doubts = stated_guarantee(folder)
    unlike = (_TEXTS["no_gpu_here"],) if elsewhere else ()
    warned = (
        *unlike,
        *known,
        *copies.warnings,
        *model.unread.warnings,
        *doubts,
        *opening.warn_of_memory(target),
    )
    warnings = (
        *warned,
        *getattr(target, "untested", ()),
        *doubt_draw(folder, whole),
        *warn_of_recipes(prepared),
    )
    opened = ScanSetup(
        options, options.budget, SHARES[options.budget], attacks, corpus, target, prepared, warnings
    )
    engine, notice = choose_engine(options, options.device if elsewhere else device, target)
    opened = replace(
        opened, engine=engine, notice=notice, device="cuda" if elsewhere else device, folder=folder
    )
    opened = replace(
        opened,
        parameters_file=None if given is None else given.sha256,
        defense=guard,
        copies=copies,
    )
    listed = describe_forgotten(forgotten, attacks, corpus) if forgotten else None
    return replace(opened, whole=whole, dp=promised, unread=model.unread, forgotten=listed)


def choose_engine(
    options: ScanOptions, device: str, target: opening.Checkpoint
) -> tuple[Engine, str]:
    """Make the engine that was asked for.

    Where none was and there are several GPUs, one of all of them, and say so.
    """
    places = [options.model_dir, *(one for own in options.references.values() for one in own)]
    if any(str(place).startswith(("http:/", "https:/")) for place in places):
        return HERE, "" if options.engine.startswith(
            LOCAL
        ) else "A server answers: no workers are started"
    settings = EngineSettings(width=options.width, threads=opening.threads(), gpu=device == "cuda")
    n = (
        opening.n_gpus()
        if settings.gpu and options.engine == LOCAL and options.seconds is None
        else 1
    )
    if n < 2 or not opening.has_room_again(target):
        return make_engine(options.engine, settings), ""
    try:
        return make_engine(f"ray:workers={n}", settings), f"Using {n} GPUs: one worker each"
    except UsageError as error:
        return make_engine(
            LOCAL, settings
        ), f"Using 1 of {n} GPUs. For one worker each: {error.hint}"


def _open_text_scan(
    options: ScanOptions, given: AttackParameters | None, attacks: tuple[Attack, ...]
) -> ScanSetup:
    """Load and check what an audit of the text alone needs; `options.model_dir` is not read."""
    refused = {
        "--engine": options.engine != LOCAL,
        "--defence": options.defense is not None,
        "--reference": bool(options.references),
        "--time": options.seconds is not None,
    }
    for name, wanted in refused.items():
        if wanted:
            raise UsageError(
                f"{name} says how a model is asked, and with --no-model there is none",
                "leave it out",
            )
    whole = load_corpus(options.data_dir)
    copies = find_copies(whole)
    corpus = without_copies(whole, copies)
    # It answers nothing, so that nothing of a checkpoint is ever asked of it.
    target = cast("opening.Checkpoint", NoModel(whole))
    if not find_trials(attacks, Case(target, corpus)):
        able = [kind.name for kind in BATTERY if not text_of(kind.name).needs_model]
        raise UsageError(
            f"{', '.join(options.only)}: {NONE_AUDITED}",
            f"without a model there is {', '.join(able)}",
        )
    sha256, share = None if given is None else given.sha256, SHARES[options.budget]
    opened = ScanSetup(
        options, options.budget, share, attacks, corpus, target, ReferencePlan(), copies.warnings
    )
    return replace(opened, parameters_file=sha256, copies=copies, whole=whole)


def open_target(
    model_dir: Path, corpus: Corpus, references: Mapping[str, Sequence[Path]]
) -> CheckpointFolder:
    """Open the folder of the audited model; an adapter's base may be among the references."""
    return opening.open_model(model_dir, corpus, next(iter(references.get("pretrained", ())), None))


def refuse_changed(opened: ScanSetup) -> None:
    """Hash the files of the model again, those of an adapter's base too, and hold them against its card.

    It reads them whole: sizes and dates are the owner's to set.

    Raises:
        TargetError: they are not what they were before the model was loaded.
    """
    card = opened.target.card
    if not card.is_model:
        return
    options = opened.options
    folder = open_target(options.model_dir, opened.whole or opened.corpus, options.references)
    found = folder.file_hashes
    changed = [
        name for name in sorted({*found, *card.files}) if found.get(name) != card.files.get(name)
    ]
    if changed or folder.sha256 != card.sha256:
        raise TargetError(*wording("changed_model", folder=folder, name=(*changed, "it")[0]))


def usable_references(attacks: Sequence[Attack], target: Target) -> set[str]:
    """List the references that these attacks need or take and that the target can be compared with.

    Attacks that can do without the public model take it beside a masked language model only, which
    alone can be asked the same.
    """
    able = [
        attack for attack in attacks if target.card.is_model or not text_of(attack.name).needs_model
    ]
    needs = {need for attack in able for need in (*attack.needs, *attack.uses)}
    if MaskedLoss not in target.answers and not any(
        "auxiliary" in attack.needs for attack in attacks
    ):
        needs.discard("auxiliary")
    return needs


def choose_attacks(options: ScanOptions, given: AttackParameters | None) -> tuple[Attack, ...]:
    """Choose the attacks that the options ask for, with their parameters.

    Raises:
        UsageError: there is no such budget or attack.
    """
    if options.budget not in SHARES:
        raise UsageError(f"no budget is called {options.budget!r}", f"one of {', '.join(SHARES)}")
    names = [kind.name for kind in BATTERY]
    unknown = [name for name in options.only if name not in names]
    if unknown:
        raise UsageError(f"no attack is called {unknown[0]!r}", f"one of {', '.join(names)}")
    kinds = [kind for kind in BATTERY if not options.only or kind.name in options.only]
    attacks = tuple(kind.preset(options.budget) for kind in kinds)
    if options.forgotten is not None:
        attacks = (replace(MembershipInference.preset(options.budget), two_sided=True),)
    return attacks if given is None else tuple(map(given.applied, attacks))


_TEXTS = table_beside(__file__, "setup.toml")


@dataclass(frozen=True)
class CheckedModel:
    """A model that a scan takes with a data set.

    `applicable` are the attacks on it, `trials` are by their names.

    `corpus` is without the documents that `copies` and `unread` leave out.
    """

    target: opening.Checkpoint
    corpus: Corpus
    copies: Copies
    unread: opening.Unread
    applicable: tuple[Attack, ...]
    trials: Mapping[str, Sequence[Trial]]


def check_model(
    folder: AnyFolder,
    whole: Corpus,
    attacks: Sequence[Attack],
    device: str = "cpu",
    batch_size: int | None = None,
    guard: QueryDefense | None = None,
) -> CheckedModel:
    """Load a model and refuse what no scan takes: the one check of `docaudit inspect`, `plan`, `references` and `scan`.

    `guard` is the countermeasure that the model is asked behind; see `ScanOptions` for the others.

    Raises:
        TargetError: it cannot be loaded, or is for other documents or another task.
        ManifestError: the documents lack what it reads, or give no attack anything to try.
    """
    target = opening.target_of(folder, whole, device, batch_size, batch_size)
    opening.check(target, whole)
    copies = find_copies(whole)
    unread = opening.find_unread(target, whole)
    corpus = opening.without_unread(without_copies(whole, copies), unread)
    trials = find_trials(attacks, Case(wrap_target(guard, target), corpus))
    applicable = tuple(attack for attack in attacks if attack.name in trials)
    return CheckedModel(target, corpus, copies, unread, applicable, trials)


def find_trials(attacks: Sequence[Attack], case: Case) -> dict[str, Sequence[Trial]]:
    """List what each attack that the model can be put to finds to try, by its name.

    Raises:
        ManifestError: the data set gives none of them anything to try.
    """
    applicable = [attack for attack in attacks if why_inapplicable(attack, case) is None]
    trials: dict[str, Sequence[Trial]] = {attack.name: attack.trials(case) for attack in applicable}
    if applicable and not any(trials.values()):
        reasons = {attack.name: nothing_to_try(attack, case) for attack in applicable}
        problems = [f"{name}: {reason.why}" for name, reason in reasons.items()]
        raise ManifestError(problems, next(iter(reasons.values())).fix)
    return trials


def wrap_target(defense: QueryDefense | None, target: opening.Checkpoint) -> Target:
    """Wrap the target in a countermeasure, when there is one."""
    return target if defense is None else defense.wrap(target)


def doubt_draw(model: CheckpointFolder, corpus: Corpus) -> tuple[str, ...]:
    """Warn of weights that are older than the draw of membership: they cannot have been trained on it.

    The days of files are weak evidence, for copying changes them: the warning says so, and nothing
    is refused.
    """
    membership = corpus.manifest.membership
    written = model.weights_written
    if membership.drawn is None or written is None or str(written) >= membership.drawn:
        return ()
    return (
        _TEXTS["before_draw"].format(
            day=membership.drawn, by=membership.drawn_by, model=model, written=written
        ),
    )


def hold_weights(folder: CheckpointFolder, dtype: str) -> CheckpointFolder:
    """Return the folder of a model that answers, to be loaded in the number format that was asked for.

    Encoders keep float32 weights: attacks take their gradients, and compare losses that rounding
    would hide.

    Raises:
        UsageError: the weights are quantised.
    """
    if dtype == "auto" or not (is_answering(folder) or is_extractive(folder)):
        return folder
    if method_of(folder.config) is not None:
        raise UsageError(f"--dtype {dtype}: the weights of {folder} are quantised", "leave it out")
    return in_format(folder, cast("NumberFormat", dtype))


def warn_of_recipes(prepared: ReferencePlan) -> tuple[str, ...]:
    """Warn of each reference that was trained here in another way than the audited adapter."""
    trained = [
        one
        for one in prepared.same_kind
        if prepared.adapter and (one.folder.path / FILE_NAME).is_file()
    ]
    found = {one.role: adapter_of(one.folder.path) for one in trained}
    others = {role: own for role, own in found.items() if own != prepared.adapter}
    hows = {
        role: f"with another adapter ({own})" if own else "in all its weights"
        for role, own in others.items()
    }
    text, adapter = _TEXTS["other_recipe"], prepared.adapter
    return tuple(text.format(role=role, how=how, adapter=adapter) for role, how in hows.items())
