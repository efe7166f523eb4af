"""A policy that asks for what there is, and the verdict on a record."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from audit import policy as policies
from audit import record as records
from audit.attacks import TEXTS, known_metrics
from audit.attacks.text import AttackText
from audit.errors import RecordError, TargetError, UsageError, is_address, typed
from audit.files import digest_of_files, read_file
from audit.policy import EXIT_CODES, Policy, Verdict
from audit.record import AuditRecord
from audit.workflows import wording

SHOWN = 8
"""Files that a warning names."""
UNSIGNED = "unsigned: nobody vouches for this record"
UNAUDITED = (
    "no model was audited: this is the record of a text alone. To gate the text, give --no-model"
)


def load_policy(given: str | Path | Policy, *, complete: bool = True) -> Policy:
    """Read a policy, and check names and limits before anything is run that may take hours.

    Args:
        given: name of a shipped policy, path of a file, or a policy that was read.
        complete: whether to check its names too; without, a record says itself which attacks there
            were.

    Raises:
        PolicyError: it cannot be read, names an attack or a metric that does not exist, or a limit
            can never be reached.
    """
    policy = policies.check_made(given) if isinstance(given, Policy) else policies.load(str(given))
    policies.check_names(policy, known_metrics(), complete)
    check_meaning(policy)
    return policy


def check_meaning(policy: Policy) -> None:
    """Refuse a policy with limits that a leaking model would meet.

    Raises:
        PolicyError: a limit is out of its metric's range, on the wrong side of it, or rests on a
            lower bound alone.
    """
    rules = {attack: _metric_rules(text) for attack, text in TEXTS.items()}
    policies.check_limits(policy, rules)


def _metric_rules(text: AttackText) -> dict[str, policies.MetricRules]:
    """Return by metric of an attack which limits on it can be held."""
    leaks = text.leaks()
    beginnings = tuple(f"{leak}." for leak in leaks)
    counts = text.tallies()
    rules: dict[str, policies.MetricRules] = {}
    for name in text.names:
        is_leak = name in leaks or name.startswith(beginnings)
        rules[name] = policies.MetricRules(
            upper=text.metric(name).upper,
            cap=text.cap(name),
            is_leak=is_leak,
            is_count=name in counts,
            has_power=text.power is not None,
        )
    return rules


def gate_record(
    path: Path,
    policy: str,
    model: Path | None = None,
    data: Path | None = None,
    *,
    no_model: bool = False,
) -> tuple[AuditRecord, Verdict]:
    """Hold a record against a policy.

    Args:
        path: path of the record, or of the folder that a scan wrote.
        policy: name of a shipped policy, or path of a file.
        model: folder of the model that the record must be of.
        data: folder of the data set that the record must be of.
        no_model: whether the record is to be that of a text audited alone; else such a record
            cannot pass.

    Returns:
        The record, and the verdict on it.

    Raises:
        UsageError: `no_model`, and the record is of a model.
        DocauditError: one of them cannot be read, or they do not fit each other.
    """
    chosen = load_policy(policy, complete=False)
    record = records.read(path)
    _refuse_other_files(record, model, data)
    if model is not None:
        _refuse_other_weights(model)
    verdict = policies.evaluate(record, chosen, policies.today())
    if record.target.is_model and no_model:
        raise UsageError(
            "--no-model: the record is of a model", "leave it out, or give that of scan --no-model"
        )
    if record.target.is_model or no_model or verdict.overall == "violated":
        return record, verdict
    # A pipeline that takes a model on would take this one on unaudited.
    return record, replace(
        verdict,
        overall="undecided",
        exit_code=EXIT_CODES["undecided"],
        reason=UNAUDITED,
        counted="",
    )


def _refuse_other_files(record: AuditRecord, model: Path | None, data: Path | None) -> None:
    """Refuse a model or a data set that a record is not of.

    Raises:
        RecordError: it is of another one.
    """
    problems: list[str] = []
    if model is not None:
        problems += other_model(record, model)
    if data is not None:
        problems += other_data(record, data)
    if problems:
        raise RecordError(
            problems, "scan this model with this data set, and gate the record of that scan"
        )


def _refuse_other_weights(model: Path) -> None:
    """Refuse a model with weights beside those that were scanned.

    Raises:
        RecordError: there are some.
    """
    from audit.targets.checkpoint.content import other_weights

    text = "was not scanned, and a loader may take it for the model's weights"
    problems = [f"{model}: {name} {text}" for name in other_weights(model)]
    if problems:
        raise RecordError(problems, "move it out of the folder")


def check_signature(path: Path, public: Path) -> str:
    """Name the key that a record is signed with.

    Args:
        path: path of the record, or of its folder; the attestation lies beside it.
        public: file of the signer's key, ed25519 in PEM.

    Raises:
        UsageError: it is no key, or securesystemslib is not installed.
        RecordError: the attestation is missing, is not signed with the key, or is of another
            record.
    """
    from audit import attestation as attestations

    key = attestations.read_public_key(public)
    written = records.file_of(path)
    place = written.parent / attestations.FILE_NAME
    try:
        sealed = attestations.unseal(read_file(place), place.name)
        digest = sha256(read_file(written)).hexdigest()
    except OSError as error:
        raise RecordError(*wording("no_attestation", place=place, why=error.strerror)) from None
    if not attestations.is_signed_by(sealed, key):
        raise RecordError(
            f"{place} is not signed with this key", "give the public key of the signer with --pub"
        )
    if sealed.statement.digests.get("record.json") != {"sha256": digest}:
        raise RecordError(
            f"{written} is not the record that was signed", "give the record as it was signed"
        )
    return f"signed with the key {key.keyid[:12]}"


def mark_pass(verdict: Verdict, signed: str) -> Verdict:
    """Say beside a verdict that lets a model through by whom its record is signed."""
    if verdict.exit_code:
        return verdict
    return verdict.followed_by(f"; {signed}")


def other_model(record: AuditRecord, folder: Path) -> list[str]:
    """Say how a model's files differ from those that a record names.

    Its weights are hashed, never loaded.

    Raises:
        TargetError: the folder or a file of it cannot be read, or it is a server's address.
    """
    from audit.targets.checkpoint.content import BASE, hash_files

    if is_address(folder):
        raise TargetError(*wording("no_files_served", address=typed(folder)))

    present = hash_files(folder)
    scanned = dict(record.target.files)
    if not scanned:
        # Records of older versions name no files.
        if digest_of_files(present) == record.target.sha256:
            return []
        return [f"{folder}: the record is of another model"]
    if not any(name.startswith(BASE) for name in present):
        # What an adapter takes from its base lies in the base's own folder, which may be on another
        # machine.
        scanned = {name: sha for name, sha in scanned.items() if not name.startswith(BASE)}
    differences: list[str] = []
    for name in sorted({*present, *scanned}):
        if present.get(name) != scanned.get(name):
            difference = _describe_digests(present.get(name), scanned.get(name))
            differences.append(f"{folder}: {name} {difference}")
    return differences + _other_code(record, folder)


def _other_code(record: AuditRecord, folder: Path) -> list[str]:
    """Name the code in a model's folder that some loaders would run, and that no record names.

    What the scan met and did not run is in its record: there the class of transformers was audited.
    """
    from audit.targets.checkpoint.content import unrun_code

    text = "is run by what config.json names, and was not scanned"
    met = record.target.unrun_code
    return [
        f"{folder}: {name} {text}"
        for name, digest in unrun_code(folder).items()
        if met.get(name) != digest
    ]


def warn_uncompared(record: AuditRecord, folder: Path) -> list[str]:
    """Name what a model's folder has that was not scanned, or an adapter's base not compared.

    Args:
        record: record of the model.
        folder: folder of the model; weights and code beside those that were scanned may be taken
            by another loader.
    """
    from audit.targets.checkpoint.content import BASE, named_base
    from audit.targets.checkpoint.tree import unscanned_files

    warnings: list[str] = []
    names = unscanned_files(folder)
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        warnings += wording("unscanned", folder=folder, names=", ".join(names[:SHOWN]) + more)
    has_base = any(name.startswith(BASE) for name in record.target.files)
    if has_base and named_base(folder) is None:
        warnings += wording("base_elsewhere", folder=folder)
    return warnings


def _describe_digests(present: str | None, scanned: str | None) -> str:
    """Say how a file differs from what was scanned, by both digests; None where it is missing."""
    if present is None:
        return "is in the record, and not there"
    if scanned is None:
        return "is there, and not in the record"
    return "is not the file that was scanned"


def other_data(record: AuditRecord, folder: Path) -> list[str]:
    """Say that a data set is another one than a record names.

    Raises:
        ManifestError: it cannot be read.
    """
    from audit.corpus.manifest import load

    if load(folder).sha256 == record.corpus.sha256:
        return []
    return [f"{folder}: the record is of another data set, or of another state of it"]
