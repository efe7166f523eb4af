"""Scan an export of an audited model with the trials of that model's scan, and compare both."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from audit import record as records
from audit.beside import OUT_OPTION, next_folder
from audit.cards import DerivedFrom
from audit.compare.conditions import differences
from audit.compare.exports import AUDITED, EXPORT, derive, in_words
from audit.compare.scans import compare_pair, pair_scans
from audit.corpus.manifest import load as load_corpus
from audit.engine.interface import Progress
from audit.errors import RecordError, TargetError, UsageError, command_line, is_address, typed
from audit.files import EVIDENCE, EXPORT_OUT
from audit.policy import Policy
from audit.policy.reading import read_declared
from audit.record import AuditRecord, Result
from audit.targets.checkpoint.content import (
    BASE,
    file_digest,
    is_adapter,
    named_base,
    read_settings,
)
from audit.workflows import wording
from audit.workflows.arguments import read_arguments
from audit.workflows.gate import load_policy
from audit.workflows.options import REFERENCES_FOLDER, ScanOptions
from audit.workflows.sampling import Sampling

if TYPE_CHECKING:
    from audit.workflows.session import Session

FIXED = {
    "seed": "--seed",
    "budget": "--budget",
    "only": "--only",
    "documents": "--documents",
    "seconds": "--time",
    "attack_parameters": "--attack-parameters",
    "defense": "--defence",
}
"""Options that the scan of the audited model fixes for its exports, as commands name them."""
PRETRAINED = "pretrained"
"""The reference that the audited model was fine-tuned from."""
DEFAULT_POLICY = "default"
"""The policy of an export where neither the audited model's record nor anybody names one."""


@dataclass(frozen=True)
class AuditedModel:
    """The scan of the model that an export was made of.

    Attributes:
        path: its folder or record, as it was given.
        record: record of the scan.
        sha256: digest of the file of the record.
        arguments: options of the scan; None where its evidence does not say them.
    """

    path: Path
    record: AuditRecord
    sha256: str
    arguments: ScanOptions | None

    @property
    def folder(self) -> Path:
        """Return the folder of the record."""
        return records.file_of(self.path).parent

    @property
    def evidence(self) -> Path:
        """Return the folder of the evidence of the scan."""
        return self.folder / EVIDENCE

    @property
    def had_adapter(self) -> bool:
        """Test whether the audited model was an adapter over a base."""
        return any(name.startswith(BASE) for name in self.record.target.files)


def read_audited(path: Path) -> AuditedModel:
    """Read the scan of an audited model.

    Args:
        path: its folder, or its record.

    Raises:
        RecordError: it cannot be read.
    """
    record = records.read(path)
    digest = hashlib.sha256(records.file_of(path).read_bytes()).hexdigest()
    try:
        arguments = read_arguments(path, record)
    except RecordError:
        # A pipeline may have kept the record alone.
        arguments = None
    return AuditedModel(path, record, digest, arguments)


def refuse_other_subjects(options: ScanOptions, sweeps: bool) -> None:
    """Refuse to compare anything else than one model with an audited model.

    Args:
        options: options of the scan.
        sweeps: whether they are of every checkpoint of a training.

    Raises:
        UsageError: there is no model, or there are several.
    """
    refused = {"--checkpoints": sweeps, "--no-model": options.no_model}
    for option, is_given in refused.items():
        if is_given:
            alone = replace(options, model_dir=Path("EXPORT_DIR"))
            raise UsageError(*wording("export_alone", option=option, command=command_of(alone)))


def scan_as_audited(
    options: ScanOptions, policy: Policy | None, names: Collection[str]
) -> tuple[ScanOptions, Policy]:
    """Return options and policy by which an export is scanned as the audited model was.

    Args:
        options: options as somebody gave them, with `derived_from`.
        policy: policy that somebody asks for; None: nobody does.
        names: options that somebody gave, of any; those in `FIXED` must be as in the scan of the
            audited model.

    Raises:
        DocauditError: the scans cannot be compared; the message has the command that can.
    """
    assert options.derived_from is not None
    audited = read_audited(options.derived_from)
    loaded_policy = policy_of(audited, policy, command_of(options))
    if loaded_policy is None:
        loaded_policy = load_policy(DEFAULT_POLICY)
    values = {option: getattr(options, name) for name, option in FIXED.items() if name in names}
    return as_audited(options, audited, values), loaded_policy


def options_given(options: ScanOptions) -> list[str]:
    """List the options of `FIXED` that are not at their defaults, where nothing else tells."""
    defaults = ScanOptions(options.model_dir, options.data_dir, options.out)
    return [name for name in FIXED if getattr(options, name) != getattr(defaults, name)]


def policy_of(audited: AuditedModel, given: Policy | None, command: str) -> Policy | None:
    """Return the policy that the audited model was scanned under.

    Args:
        audited: scan of the audited model.
        given: policy that somebody asks for; None: nobody does.
        command: scan without the policy.

    Returns:
        None where the record declares none, and nobody asks for one.

    Raises:
        UsageError: another policy was asked for.
    """
    declared = audited.record.policy
    if declared is None:
        return given
    if given is None:
        return read_declared(declared)
    digest = None
    if given.origin is not None:
        digest = given.origin.sha256
    if digest != declared.sha256:
        raise UsageError(
            *wording("other_policy", name=given.name, other=declared.name, command=command)
        )
    return given


def command_of(options: ScanOptions, data: Path | None = None, *, out: str = "") -> str:
    """Return the scan of an export with nothing but what it needs.

    Args:
        options: options of the scan.
        data: folder of the data set; None: as it was given.
        out: another folder for the record; empty: as it was given.
    """
    words = [options.model_dir, data or options.data_dir, "--derived-from", options.derived_from]
    if out:
        words += ["--out", Path(out)]
    elif options.out != Path(EXPORT_OUT):
        words += ["--out", options.out]
    return command_line("scan", *words)


def as_audited(
    options: ScanOptions, audited: AuditedModel, given: Mapping[str, object]
) -> ScanOptions:
    """Return options by which an export is scanned with the trials of the audited model.

    Args:
        options: options as somebody gave them.
        audited: scan of the audited model.
        given: values of options that somebody gave and that the audited model's scan fixes, by
            option.

    Raises:
        DocauditError: the scans cannot be compared; the message has the command that can.
    """
    _refuse_unfit(options, audited)
    record = audited.record
    arguments = audited.arguments
    bound = None
    if record.bounds is not None:
        bound = record.bounds.documents
    only: tuple[str, ...] = ()
    if record.left_out:
        only = tuple(result.attack for result in record.attacks)
    taken = replace(
        options,
        budget=record.budget,
        seed=record.seed,
        only=only,
        documents=bound,
        seconds=None,
        references=options.references or _references_of(audited),
    )
    if arguments is not None:
        taken = replace(
            taken, attack_parameters=arguments.attack_parameters, defense=arguments.defense
        )
    cache = audited.evidence / REFERENCES_FOLDER
    if taken.cache is None and cache.is_dir():
        taken = replace(taken, cache=cache)
    _refuse_other_options(options, taken, record, given)
    return taken


def _refuse_unfit(options: ScanOptions, audited: AuditedModel) -> None:
    """Refuse a record that no export can be compared with, and its folder as that of the scan."""
    record = audited.record
    what = ""
    if not record.target.is_model:
        what = "the text alone"
    elif record.corpus.forgotten is not None:
        what = "documents that a model was to forget"
    if what:
        command = command_line("scan", "MODEL_DIR", options.data_dir)
        raise RecordError(
            *wording("no_audited_model", record=audited.path, what=what, command=command)
        )
    if not record.completed:
        command = _scan_of_audited(options, audited)
        raise RecordError(*wording("no_numbers", record=audited.path, command=command))
    if options.out.resolve() == audited.folder.resolve():
        command = command_of(options, out=EXPORT_OUT)
        raise UsageError(*wording("over_audited", out=options.out, command=command))


def _references_of(audited: AuditedModel) -> dict[str, Sequence[Path]]:
    """Return the references of the audited model's scan, with the base of an audited adapter."""
    references: dict[str, Sequence[Path]] = {}
    arguments = audited.arguments
    if arguments is None:
        return references
    references.update(arguments.references)
    if audited.had_adapter and PRETRAINED not in references:
        base = named_base(arguments.model_dir)
        if base is not None:
            references[PRETRAINED] = (base,)
    return references


def _refuse_other_options(
    options: ScanOptions, taken: ScanOptions, record: AuditRecord, given: Mapping[str, object]
) -> None:
    """Refuse an option that somebody gave and that the audited model's scan had otherwise."""
    fixed = {option: getattr(taken, name) for name, option in FIXED.items()}
    if record.bounds is not None:
        fixed["--time"] = record.bounds.seconds
    for option, value in given.items():
        if value != fixed[option]:
            raise UsageError(
                *wording(
                    "other_option",
                    option=option,
                    value=_in_words(value),
                    other=_in_words(fixed[option]),
                    command=command_of(options),
                )
            )


def _in_words(value: object) -> str:
    """Write the value of an option."""
    if value is None:
        return "none"
    if value == ():
        return "all attacks"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:g} s"
    return str(value)


def open_export(session: Session, audited: AuditedModel) -> Session:
    """Return the opened scan of an export, with the trials of the audited model's scan.

    Raises:
        RecordError: the scans cannot be compared.
    """
    session = replace(session, sampling=_sampling_of(audited.record))
    problems = differences(audited.record, _foreseen(session, audited.record), (AUDITED, EXPORT))
    if problems:
        command = _scan_of_audited(session.options, audited)
        raise RecordError(problems, *wording("other_trials", command=command))
    return session


def _scan_of_audited(options: ScanOptions, audited: AuditedModel) -> str:
    """Return the command that scans the audited model again, as this version does."""
    model = "MODEL_DIR"
    if audited.arguments is not None:
        model = typed(audited.arguments.model_dir)
    return command_line("scan", model, options.data_dir, OUT_OPTION, next_folder(audited.folder))


def _sampling_of(record: AuditRecord) -> Sampling:
    """Return the sampling that took the trials of a record."""
    sampling = Sampling(
        budget=record.budget, share=record.share, seed=record.seed, shares=record.shares
    )
    bounds = record.bounds
    if bounds is None:
        return sampling
    return replace(sampling, documents=bounds.documents, seconds=bounds.seconds, part=bounds.part)


def _foreseen(session: Session, record: AuditRecord) -> AuditRecord:
    """Return a record as far as the opening of a scan foresees what it will be compared by.

    Args:
        session: the opened scan.
        record: record of the audited model, for all else.
    """
    case = session.case
    results = tuple(
        Result(attack.name, parameters=attack.parameters_on(case)) for attack in session.attacks
    )
    environment = replace(record.environment, docaudit=_version())
    return replace(
        record,
        corpus=session.data.card(),
        seed=session.options.seed,
        budget=session.sampling.budget,
        bounds=session.sampling.bounds,
        attacks=results,
        environment=environment,
    )


def _version() -> str:
    """Return the version of docaudit that runs."""
    from audit import __version__

    return __version__


def refuse_other_data(options: ScanOptions, audited: AuditedModel) -> None:
    """Refuse another data set than the audited model was scanned with, before a model is loaded.

    Raises:
        RecordError: it is another one.
        ManifestError: it cannot be read.
    """
    if load_corpus(options.data_dir).sha256 == audited.record.corpus.sha256:
        return
    command = command_line(
        "scan", options.model_dir, "DATA_DIR", "--derived-from", options.derived_from
    )
    arguments = audited.arguments
    if arguments is not None and arguments.data_dir.resolve() != options.data_dir.resolve():
        command = command_of(options, arguments.data_dir)
    raise RecordError(*wording("other_data", data=options.data_dir, command=command))


def refuse_lost_training(options: ScanOptions, audited: AuditedModel) -> None:
    """Refuse an export whose weights are those of the model before the fine-tuning.

    Args:
        options: options of the scan of the export.
        audited: scan of the audited model.

    Raises:
        TargetError: the export lost its adapter, or its training.
    """
    # Loads transformers, which the checks of options do without.
    from audit.targets.checkpoint.same_weights import compare_weights

    export = options.model_dir
    if is_address(export) or not export.is_dir() or is_adapter(export):
        return
    bases = [*_bases(options, audited)]
    if _has_files_of_base(export, audited):
        # Without the folder of the audited adapter nothing says where its base is.
        base = next(iter(bases), Path("BASE_DIR"))
        raise _lost_adapter(export, base, audited)
    for base in bases:
        shared = compare_weights(export, base)
        if shared is None or not shared.are_equal:
            continue
        if audited.had_adapter:
            raise _lost_adapter(export, base, audited)
        if shared.is_whole:
            command = command_of(options)
            raise TargetError(*wording("lost_training", export=export, base=base, command=command))


def refuse_quantised(options: ScanOptions) -> None:
    """Refuse a quantised encoder, which docaudit opens only with its numbers unpacked.

    Raises:
        TargetError: the export is one; with the command that unpacks it.
    """
    # Loads transformers, which the checks of options do without.
    from audit.targets.checkpoint.safety import method_of
    from audit.targets.encoders.families import family_of

    export = options.model_dir
    config = read_settings(export / "config.json", damaged_is_empty=True)
    method = method_of(config)
    if method is None or family_of(str(config.get("model_type"))) is None:
        return
    unpacked = export.with_name(f"{export.name}-unpacked")
    command = (
        f'python -c "from transformers import {_class_of(config)} as M, AutoTokenizer as T; '
        f"M.from_pretrained('{export}').dequantize().save_pretrained('{unpacked}'); "
        f"T.from_pretrained('{export}').save_pretrained('{unpacked}')\""
    )
    scan = command_of(replace(options, model_dir=unpacked))
    raise TargetError(
        *wording("packed_export", export=export, method=method, command=command, scan=scan)
    )


def _class_of(config: Mapping[str, object]) -> str:
    """Return the name of the class that a configuration states."""
    classes = config.get("architectures")
    if isinstance(classes, list) and classes:
        return str(classes[0])
    return "CLASS"


def _lost_adapter(export: Path, base: Path, audited: AuditedModel) -> TargetError:
    """Return the error that an export has the weights of a base alone."""
    command = _merging(export, base, audited)
    return TargetError(*wording("lost_adapter", export=export, base=base, command=command))


def _has_files_of_base(export: Path, audited: AuditedModel) -> bool:
    """Test whether the weight files of an export are those of the audited adapter's base."""
    of_base = set()
    for name, digest in audited.record.target.files.items():
        if name.startswith(BASE) and name.endswith(".safetensors"):
            of_base.add(digest)
    digests = {file_digest(path).hex() for path in export.glob("*.safetensors")}
    return bool(of_base) and digests == of_base


def _bases(options: ScanOptions, audited: AuditedModel) -> Iterator[Path]:
    """Yield the folders with weights that the audited model was fine-tuned from."""
    named = [*options.references.get(PRETRAINED, ())]
    manifest = load_corpus(options.data_dir).manifest
    if manifest.references.pretrained:
        named.append(options.data_dir / manifest.references.pretrained)
    if audited.arguments is not None:
        base = named_base(audited.arguments.model_dir)
        if base is not None:
            named.append(base)
    for folder in named:
        if folder.is_dir() and not is_adapter(folder):
            yield folder


def _merging(export: Path, base: Path, audited: AuditedModel) -> str:
    """Return the command that merges the audited adapter into its base, in place of the export."""
    adapter = "ADAPTER_DIR"
    if audited.arguments is not None:
        adapter = str(audited.arguments.model_dir)
    kind = _class_of(read_settings(export / "config.json", damaged_is_empty=True))
    return (
        f'python -c "from transformers import {kind} as M; from peft import PeftModel as P; '
        f"P.from_pretrained(M.from_pretrained('{base}'), '{adapter}').merge_and_unload()"
        f".save_pretrained('{export}')\""
    )


def compare_with_audited(
    record: AuditRecord, options: ScanOptions, policy: Policy, progress: Progress
) -> AuditRecord:
    """Return the record of an export with what the comparison with the audited model says.

    A comparison that cannot be made leaves the export's own numbers as they are, and says why.

    Args:
        record: record of the export, whose evidence has been written.
        options: options of its scan.
        policy: policy whose limits are among the numbers.
        progress: receiver of the progress.
    """
    assert options.derived_from is not None
    audited = read_audited(options.derived_from)
    evidence = (audited.evidence, options.evidence)
    try:
        pair = pair_scans((audited.record, record), evidence, policy)
        comparison = compare_pair(pair, evidence, progress)
    except RecordError as error:
        return replace(record, derived_from=_incomparable(audited, error))
    return replace(record, derived_from=derive(pair, comparison, audited.sha256))


def _incomparable(audited: AuditedModel, error: RecordError) -> DerivedFrom:
    """Say that nothing can be compared, and why."""
    earlier = audited.record
    return DerivedFrom(
        record_sha256=audited.sha256,
        subject=earlier.subject,
        model_sha256=earlier.target.sha256,
        scanned=earlier.timing.started,
        docaudit=earlier.environment.docaudit,
        incomparable=in_words("; ".join(error.problems)),
    )
