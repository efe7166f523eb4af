"""Open a scan: everything that it reads, loaded and checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from audit import plugins
from audit.attacks import text_of
from audit.attacks.battery import BATTERY, AttackParameters, read_parameters
from audit.attacks.budget import SHARES
from audit.attacks.interface import Attack, needed_references
from audit.attacks.membership import MembershipInference
from audit.attacks.membership.documents import describe_forgotten, select_forgotten
from audit.cards import PrivacyCard
from audit.case import Case
from audit.corpus.canaries.schema import read_proof
from audit.corpus.documents import Corpus
from audit.corpus.manifest import load as load_corpus
from audit.defenses.interface import QueryDefense, query_defense
from audit.engine.driver import AUTO, HERE
from audit.engine.interface import Engine, Trial
from audit.errors import TargetError, UsageError
from audit.references.provenance import FILE_NAME, adapter_of
from audit.references.resolve import LoadedReferences, ReferencePlan, prepare
from audit.targets import opening
from audit.targets.batching import STEP
from audit.targets.checkpoint.folder import CheckpointFolder, stated_guarantee
from audit.targets.encoders.forward import DTYPES
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import NONE_AUDITED, NoModel
from audit.workflows import wording
from audit.workflows.checking import (
    TEXTS,
    AuditedData,
    CheckedModel,
    Listing,
    check_model,
    doubt_draw,
    find_trials,
    hold_weights,
    open_target,
    usable_references,
)
from audit.workflows.defended import defended_case, wrap_references, wrap_target
from audit.workflows.engines import choose_engine
from audit.workflows.options import ScanOptions, check_work
from audit.workflows.sampling import Sampling


@dataclass(frozen=True)
class Session:
    """Everything that a scan reads, loaded and checked; nothing has been written yet.

    Attributes:
        options: what the user asked for.
        sampling: the trials that are taken of all that could be tried.
        attacks: the attacks that are run, with their parameters.
        data: the data set, and what the audit leaves out of it.
        target: the audited model.
        case: what the attacks are put to: the model behind the countermeasure, where there is one,
            and the audited documents. References are added when the first attack needs them.
        listing: what the attacks found to try when the session was opened.
        prepared: the references that were given, and how those that are missing are trained.
        engine: runs the attacks' trials.
        worker_threads: CPU threads of each worker that the engine starts.
        device: device that models are asked on: "cpu", "cuda" or "mps".
        folder: folder of the model; None for an audit of the text alone.
        defense: the countermeasure that all models are asked behind; None: there is none.
        dp: the guarantee that the checkpoint states.
        parameters_file: sha256 of the file that set attack parameters; None: there was none.
        warnings: warnings about data set, model and references.
        notice: what nobody asked for about the engine; empty where there is nothing to say.
    """

    options: ScanOptions
    sampling: Sampling
    attacks: tuple[Attack, ...]
    data: AuditedData
    target: opening.Checkpoint
    case: Case
    listing: Listing
    prepared: ReferencePlan = field(default_factory=ReferencePlan)
    engine: Engine = HERE
    worker_threads: int = 1
    device: str = "cpu"
    folder: CheckpointFolder | None = None
    defense: QueryDefense | None = None
    dp: PrivacyCard | None = None
    parameters_file: str | None = None
    warnings: tuple[str, ...] = ()
    notice: str = ""

    @property
    def corpus(self) -> Corpus:
        """Return the audited documents."""
        return self.data.corpus

    @property
    def awaits_time(self) -> bool:
        """Test whether time is still to choose the share of each attack's trials."""
        asked_here = self.target.card.is_model and self.device == self.target.card.device
        return self.sampling.awaits_time and asked_here

    @property
    def batch_tokens(self) -> int | None:
        """Return the largest number of tokens in a forward pass of an encoder."""
        if isinstance(self.target, EncoderTarget):
            return self.options.batch_size
        return None

    def stage_of(self, attack: Attack) -> str:
        """Name an attack for its progress, with its place among those that run."""
        title = text_of(attack.name).title or attack.name
        attacks = self.running_attacks
        if attack not in attacks:
            return f"attack ({title})"
        return f"attack {1 + attacks.index(attack)} of {len(attacks)} ({title})"

    @property
    def running_attacks(self) -> list[Attack]:
        """Return the attacks that run, as far as the opening of the scan tells."""
        return [attack for attack in self.attacks if self._runs(attack)]

    def _runs(self, attack: Attack) -> bool:
        """Tell whether an attack finds something to try, and has the references that it needs."""
        if attack not in self.listing.attacks or not self.listing.trials.get(attack.name):
            return False
        return not any(map(self._lacks, needed_references(attack, self.case)))

    def _lacks(self, role: str) -> bool:
        """Tell whether a reference is neither given nor trained by the scan."""
        return self.prepared.lacks(role, self.target)

    def steps_after(self, attack: Attack) -> int:
        """Count the trials of the attacks that run after this one."""
        attacks = self.running_attacks
        if attack not in attacks:
            return 0
        n_trials = 0
        for later in attacks[attacks.index(attack) + 1 :]:
            trials = self.listing.trials[later.name]
            n_trials += len(self.sampling.sample(later.name, trials))
        return n_trials

    def trials_of(self, attack: Attack, case: Case) -> Sequence[Trial]:
        """Return all that an attack can try of a case of this session."""
        return self.listing.trials_of(attack, case)

    def with_fewer_unseen(self, case: Case) -> Case:
        """Return a case of this session with as many unseen documents as the sampling takes."""
        return replace(case, corpus=self.sampling.with_fewer_unseen(self.corpus))

    def case_with(self, loaded: LoadedReferences) -> Case:
        """Return the case with references, which are asked behind the same countermeasure."""
        references = wrap_references(self.defense, loaded.models, loaded.members)
        return replace(self.case, references=replace(references, uncounted=loaded.uncounted))

    def case_in_format(self, case: Case, target: opening.Checkpoint) -> Case:
        """Return a case whose model computes in another number format.

        Args:
            case: a case of this session.
            target: the audited model in that format.
        """
        if target is self.target:
            return case
        return replace(case, target=wrap_target(self.defense, target))


@dataclass(frozen=True)
class _Place:
    """Where models are asked.

    Attributes:
        device: device of the models that attacks ask.
        here: device of the models that this process loads.
        is_elsewhere: whether workers have a GPU and this machine has none.
    """

    device: str
    here: str
    is_elsewhere: bool

    @classmethod
    def of(cls, options: ScanOptions) -> _Place:
        """Choose the device; the head of a cluster may have no GPU."""
        on_cluster = options.device == "cuda" and "address=" in options.engine
        if on_cluster and not opening.n_gpus():
            return cls("cuda", "cpu", True)
        device = opening.device_named(options.device)
        return cls(device, device, False)


def open_session(options: ScanOptions) -> Session:
    """Load and check all that a scan needs, of a model or of the text alone.

    Raises:
        DocauditError: the scan cannot start; nothing was written.
    """
    given = None
    if options.attack_parameters is not None:
        given = read_parameters(options.attack_parameters)
    attacks = choose_attacks(options, given)
    session = _open_text(options, attacks) if options.no_model else _open_model(options, attacks)
    if given is None:
        return session
    return replace(session, parameters_file=given.sha256)


def _open_model(options: ScanOptions, attacks: tuple[Attack, ...]) -> Session:
    """Load and check what an audit of a model needs."""
    check_work(options)
    if options.dtype not in ("auto", *DTYPES):
        raise UsageError(
            f"--dtype {options.dtype!r}: no such number format", f"one of auto, {', '.join(DTYPES)}"
        )
    place = _Place.of(options)
    whole = load_corpus(options.data_dir)
    forgotten: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    if options.forgotten is not None:
        whole, forgotten, notes = select_forgotten(whole, options.forgotten)
    folder = open_target(options.model_dir, whole, options.references)
    folder = hold_weights(folder, options.dtype)
    guard = None
    if options.defense is not None:
        guard = query_defense(options.defense, options.seed)
    checked = check_model(folder, whole, attacks, place.here, options.batch_size, guard)
    data = checked.data
    if forgotten:
        data = replace(data, forgotten=describe_forgotten(forgotten, attacks, data.corpus))
    target = _with_stored_answers(checked, options)
    _refuse_batch_size(options.batch_size, target, place.here)
    prepared = _prepare_references(options, attacks, target, folder, data.corpus)
    guarantee, doubts = stated_guarantee(folder)
    chosen = choose_engine(options, place.device, target)
    warnings = (
        *((TEXTS["no_gpu_here"],) if place.is_elsewhere else ()),
        *notes,
        *data.copies.warnings,
        *data.unread.warnings,
        *doubts,
        *opening.warn_of_memory(target),
        *opening.warn_of_code(folder),
        *getattr(target, "untested", ()),
        *doubt_draw(folder, whole),
        *warn_of_recipes(prepared),
    )
    case = checked.case
    if target is not checked.target:
        case = replace(case, target=wrap_target(guard, target))
    case = replace(case, canary_loss=read_proof(options.model_dir, data.corpus))
    return Session(
        options=options,
        sampling=Sampling.of(options),
        attacks=attacks,
        data=data,
        target=target,
        case=case,
        listing=checked.listing,
        prepared=prepared,
        engine=chosen.engine,
        worker_threads=chosen.threads,
        device=place.device,
        folder=folder,
        defense=guard,
        dp=guarantee,
        warnings=warnings,
        notice=chosen.notice,
    )


def _with_stored_answers(checked: CheckedModel, options: ScanOptions) -> opening.Checkpoint:
    """Return the model, or what an engine puts in its place to record or replay its answers."""
    place = options.engine.partition("answers=")[2]
    if not place:
        return checked.target
    source = plugins.find("docaudit.sources", "answers")
    replaying: opening.Checkpoint = source(checked.target, place, checked.data.whole)
    return replaying


def _refuse_batch_size(batch_size: int | None, target: opening.Checkpoint, device: str) -> None:
    """Refuse a number of rows at once that would change answers on a CPU.

    Raises:
        UsageError: it is no multiple of `STEP`.
    """
    if isinstance(target, EncoderTarget) or device != "cpu":
        return
    n_rows = batch_size or 1
    if n_rows > 1 and n_rows % STEP:
        raise UsageError(*wording("batch_steps", n=n_rows, step=STEP))


def _prepare_references(
    options: ScanOptions,
    attacks: tuple[Attack, ...],
    target: opening.Checkpoint,
    folder: CheckpointFolder,
    corpus: Corpus,
) -> ReferencePlan:
    """Load and check the references that the attacks need or can use; see `prepare`."""
    folders = dict(options.references)
    public_folders = folders.pop("public", [])
    if len(public_folders) > 1:
        raise UsageError(
            f"--reference public: {len(public_folders)} data sets", "there is one of it"
        )
    public = None
    if public_folders:
        public = load_corpus(public_folders[0])
    batch_tokens = options.batch_size if isinstance(target, EncoderTarget) else None
    needs = usable_references(attacks, target)
    return prepare(needs, target, folder, corpus, folders, batch_tokens, public)


def _open_text(options: ScanOptions, attacks: tuple[Attack, ...]) -> Session:
    """Load and check what an audit of the text alone needs; `options.model_dir` is not read."""
    refused = {
        "--engine": options.engine != AUTO,
        "--defence": options.defense is not None,
        "--reference": bool(options.references),
        "--time": options.seconds is not None,
    }
    for name, is_given in refused.items():
        if is_given:
            raise UsageError(
                f"{name} says how a model is asked, and with --no-model there is none",
                "leave it out",
            )
    data = AuditedData.for_text(load_corpus(options.data_dir))
    # It answers nothing, so that nothing of a checkpoint is ever asked of it.
    target = cast("opening.Checkpoint", NoModel(data.whole))
    case = defended_case(None, target, data.corpus)
    listing = find_trials(attacks, case)
    if not listing.attacks:
        names = [kind.name for kind in BATTERY if not text_of(kind.name).needs_model]
        raise UsageError(
            f"{', '.join(options.only)}: {NONE_AUDITED}",
            f"without a model there is {', '.join(names)}",
        )
    return Session(
        options=options,
        sampling=Sampling.of(options),
        attacks=attacks,
        data=data,
        target=target,
        case=case,
        listing=listing,
        warnings=data.copies.warnings,
    )


def choose_attacks(options: ScanOptions, given: AttackParameters | None) -> tuple[Attack, ...]:
    """Choose the attacks that the options ask for, with their parameters.

    Raises:
        UsageError: there is no such budget or attack.
    """
    _refuse_unknown(options)
    attacks: list[Attack]
    if options.forgotten is None:
        kinds = [kind for kind in BATTERY if not options.only or kind.name in options.only]
        attacks = [kind.preset(options.budget) for kind in kinds]
    else:
        attacks = [replace(MembershipInference.preset(options.budget), two_sided=True)]
    if given is not None:
        attacks = [given.applied(attack) for attack in attacks]
    return tuple(attacks)


def _refuse_unknown(options: ScanOptions) -> None:
    """Refuse a budget or an attack that does not exist."""
    if options.budget not in SHARES:
        raise UsageError(f"no budget is called {options.budget!r}", f"one of {', '.join(SHARES)}")
    names = [kind.name for kind in BATTERY]
    unknown = [name for name in options.only if name not in names]
    if unknown:
        raise UsageError(f"no attack is called {unknown[0]!r}", f"one of {', '.join(names)}")


def refuse_changed(session: Session) -> None:
    """Hash the files of the model again, and compare them with its card.

    Those of an adapter's base are among them. It reads them whole: sizes and dates are the owner's
    to set.

    Raises:
        TargetError: they are not what they were before the model was loaded.
    """
    card = session.target.card
    if not card.is_model:
        return
    options = session.options
    folder = open_target(options.model_dir, session.data.whole, options.references)
    hashes = folder.file_hashes
    names = sorted({*hashes, *card.files})
    changed = [name for name in names if hashes.get(name) != card.files.get(name)]
    if changed or folder.sha256 != card.sha256:
        first = changed[0] if changed else "it"
        raise TargetError(*wording("changed_model", folder=folder, name=first))


def warn_of_recipes(prepared: ReferencePlan) -> Iterator[str]:
    """Warn of each reference that was trained here in another way than the audited adapter."""
    if not prepared.adapter:
        return
    for reference in prepared.same_kind:
        path = reference.folder.path
        if not (path / FILE_NAME).is_file():
            continue
        adapter = adapter_of(path)
        if adapter == prepared.adapter:
            continue
        how = f"with another adapter ({adapter})" if adapter else "in all its weights"
        yield TEXTS["other_recipe"].format(role=reference.role, how=how, adapter=prepared.adapter)
