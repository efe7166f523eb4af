"""Attestations: a statement, signed or not, that ties a verdict to its files, and the check of files against one."""

import datetime as dt
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit import attestation as attestations
from audit import policy as policies
from audit.attestation import DATA_SET, FILE_NAME, INSTALL, Json, Statement, Subject
from audit.cards import NO_MODEL, SERVED
from audit.errors import RecordError, UsageError
from audit.files import check_file, read_file, write_output
from audit.policy import Policy, Verdict
from audit.policy.reading import read_declared
from audit.policy.verdict import lets_through
from audit.record import AuditRecord
from audit.record import read as read_record
from audit.report.files import NAMES, PDF_NAME
from audit.report.leaks import unlimited, within
from audit.workflows import wording
from audit.workflows.gate import check_meaning, other_data, other_model, warn_uncompared

RECORD = "record.json"
DOCUMENTATION = "docauditVerdict"
"""The part of the test result that in-toto does not define: verdict, exit code, its day, and the
auditor as stated."""


@dataclass(frozen=True)
class Attested:
    """A statement that was written.

    Attributes:
        path: of the file.
        result: PASSED, WARNED or FAILED.
        subjects: how many things it names.
        key: id of the key that signed it; None: it is not signed.
    """

    path: Path
    result: str
    subjects: int
    key: str | None


def attest(folder: Path, key: Path | None = None, out: Path | None = None) -> Attested:
    """Write a statement of the verdict on the record of a report folder, under the policy that the record declares.

    Args:
        folder: what a scan wrote.
        key: an ed25519 private key in PEM; None: the statement is not signed.
        out: the file; None: beside the record.

    Raises:
        DocauditError: the record or the key cannot be read, or the file cannot be written.
    """
    if out is not None:
        check_file("--out", out)
    signer = None if key is None else attestations.read_private_key(key)
    record = read_record(folder)
    statement = state(folder, record, policies.today())
    path = folder / FILE_NAME if out is None else out
    write_output(path, attestations.seal(statement, signer).encode())
    own = None if signer is None else signer.public_key.keyid
    return Attested(path, statement.predicate["result"], len(statement.subject), own)


def state(folder: Path, record: AuditRecord, today: dt.date) -> Statement:
    """Build the attestation statement about the present files of a report folder.

    Args:
        folder: what a scan wrote.
        record: its record.
        today: the day that waivers are held against.

    Raises:
        DocauditError: the record declares no policy, or a file cannot be read.
    """
    if record.policy is None:
        raise RecordError(*wording("no_declared_policy"))
    policy = read_declared(record.policy)
    check_meaning(policy)
    verdict = policies.evaluate(record, policy, today)
    subjects: list[tuple[str, dict[str, str]]] = [
        *((f"model/{name}", {"sha256": digest}) for name, digest in record.target.files.items()),
        (f"data-set/{record.corpus.name}", {DATA_SET: record.corpus.sha256}),
        ("policy.toml", {"sha256": record.policy.sha256}),
        *(
            (("documents to be forgotten", {"sha256": own.sha256}),)
            if (own := record.corpus.forgotten)
            else ()
        ),
        *(
            (name, {"sha256": _hash(folder / name)})
            for name in (RECORD, *NAMES)
            if (folder / name).exists()
        ),
    ]
    named = [Subject(name=name, digest=digests) for name, digests in subjects]
    return Statement(subject=named, predicate=_test_result(record, policy, verdict, today))


def _test_result(
    record: AuditRecord, policy: Policy, verdict: Verdict, today: dt.date
) -> dict[str, Any]:
    """Build the test-result predicate, without limits that do not apply to the model or data set."""
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for decision in verdict.decisions:
        reported = decision.about_text and policy.text == "report"
        if decision.outcome == "passed":
            tests["passedTests"].append(decision.limit.test)
        elif decision.outcome not in ("inapplicable", "not run"):
            warned = decision.outcome == "waived" or reported or lets_through(policy, decision)
            tests["warnedTests" if warned else "failedTests"].append(decision.limit.test)
    leaks = {
        "findingsOutsidePolicy": unlimited(record, verdict),
        "leaksWithinLimits": within(record, verdict),
    }
    named = {
        key: [f"{one.attack} {one.metric}" for one in found]
        for key, found in leaks.items()
        if found
    }
    known = record.target.family not in (NO_MODEL, SERVED)
    clean = verdict.overall == "passed" and known and not (tests["warnedTests"] or named)
    result = "FAILED" if verdict.exit_code else "PASSED" if clean else "WARNED"
    assert record.policy is not None
    own = {
        "verdict": verdict.overall,
        "exitCode": verdict.exit_code,
        "evaluated": today.isoformat(),
    }
    stated = {} if record.audit.auditor is None else {"auditor": record.audit.auditor}
    return {
        "result": result,
        "configuration": [
            {"name": f"policy {policy.name}", "digest": {"sha256": record.policy.sha256}}
        ],
        **tests,
        DOCUMENTATION: {**own, **stated, **named},
    }


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None


_EMBEDDED_POLICY = "policy.toml"


@dataclass
class Findings:
    """What a verification found: lines each.

    Attributes:
        agreed: what was compared and is equal.
        differences: what is not as it was attested; with any, the verification failed.
        notes: what could not be compared, and why.
    """

    agreed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, agreed: str, differences: list[str]) -> None:
        """Note that something agrees, or how it differs."""
        self.differences += differences
        if not differences:
            self.agreed.append(agreed)


def verify(
    folder: Path,
    public: Path | None = None,
    model: Path | None = None,
    data: Path | None = None,
    attestation: Path | None = None,
) -> tuple[AuditRecord, Findings]:
    """Compare a report folder with its attestation, and with the model and the data set where these are given.

    Args:
        folder: what a scan wrote, with an attestation of it.
        public: the signer's public key, ed25519 in PEM; None: signatures are not checked.
        model: the folder of the audited model.
        data: the folder of the audited data set.
        attestation: the file; None: beside the record.

    Returns:
        The record, and what was found.

    Raises:
        DocauditError: the record contradicts itself, or something cannot be read.
    """
    key = None if public is None else attestations.read_public_key(public)
    path = folder / FILE_NAME if attestation is None else attestation
    try:
        sealed = attestations.unseal(read_file(path), path.name)
    except OSError as error:
        raise RecordError(
            f"{path}: {error.strerror}", f"write it with: docaudit attest {folder}"
        ) from None
    record = read_record(folder)
    found = Findings()
    if key is not None:
        signed = attestations.is_signed_by(sealed, key)
        found.add(
            "the signature is that of this key",
            [] if signed else ["the attestation is not signed by this key"],
        )
    elif sealed.envelope is not None:
        found.notes.append("the signature was not checked: give the signer's public key with --pub")
    else:
        found.notes.append(
            "the attestation is not signed: anyone who can change these files can write it anew"
        )
    _compare_statement(folder, record, sealed.statement, found)
    if (folder / PDF_NAME).exists():
        _compare_embedded(folder, PDF_NAME, record, found)
    if model is not None:
        found.add(f"{model} is the model that was scanned", other_model(record, model))
        found.notes += warn_uncompared(record, model)
    elif record.target.is_model:
        found.notes.append("the model's files were not hashed again: give its folder with --model")
    if data is not None:
        found.add(f"{data} is the data set that was scanned", other_data(record, data))
    else:
        found.notes.append("the data set was not hashed again: give its folder with --data")
    known = {RECORD, *NAMES, FILE_NAME, path.name}
    names = sorted(one.name for one in folder.iterdir() if one.is_file() and one.name[0] != ".")
    if others := [name for name in names if name not in known]:
        # A reader may take them for part of the report.
        found.notes.append(f"files that the attestation says nothing of: {', '.join(others)}")
    return record, found


def _compare_statement(
    folder: Path, record: AuditRecord, attested: Statement, found: Findings
) -> None:
    """Make the statement anew from the files as they are, and compare it part by part."""
    day, problem = _day_of(attested, record)
    if problem is not None:
        found.differences.append(problem)
    own = state(folder, record, day)
    subjects = list(_other_subjects(attested.digests, own.digests))
    found.add(f"{len(own.subject)} files and digests are those that were attested", subjects)
    results = list(_other_results(attested.predicate, own.predicate))
    found.add(
        f"the verdict, {own.predicate[DOCUMENTATION]['verdict']}, follows from the record", results
    )
    if not subjects and not results and attested != own:
        found.differences.append(
            "the attestation holds more, or in another order, than docaudit attest writes"
        )
    found.differences += _expired(folder, record, own)


def _day_of(statement: Statement, record: AuditRecord) -> tuple[dt.date, str | None]:
    """Read the day of the verdict (UTC), and describe what is wrong with it."""
    today, own = policies.today(), statement.predicate.get(DOCUMENTATION)
    text = own.get("evaluated") if isinstance(own, dict) else None
    try:
        day = dt.date.fromisoformat(str(text))
    except ValueError:
        return today, "the attestation does not say on which day the verdict was reached"
    ended = policies.finished_on(record)
    if day < ended:
        return day, f"the attestation is of {day}, and the scan ended on {ended}"
    return (
        (day, None)
        if day <= today
        else (today, f"the attestation is of {day}, which is yet to come")
    )


def _expired(folder: Path, record: AuditRecord, own: Statement) -> Iterator[str]:
    """Yield that the verdict does not hold any more, as a waiver has ended since."""
    then = own.predicate[DOCUMENTATION]
    now = state(folder, record, policies.today()).predicate[DOCUMENTATION]
    if then["verdict"] != now["verdict"]:
        yield f"the verdict of {then['evaluated']} was {then['verdict']}; today it is {now['verdict']}"


def _other_subjects(attested: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    for name in sorted({*attested, *found}):
        if name not in found:
            yield f"{name} was attested, and is not there"
        elif name not in attested:
            yield f"{name} is there, and was not attested"
        elif attested[name] != found[name]:
            yield f"{name} is not what was attested"


def _other_results(attested: Json, found: Json) -> Iterator[str]:
    for part in sorted({*attested, *found}):
        then, now = attested.get(part), found.get(part)
        if then != now:
            yield f"{part} is not what follows from the record: {_short(then)}, not {_short(now)}"


def _short(value: object) -> str:
    return str(value) if len(str(value)) <= 80 else f"{str(value)[:77]}..."


def _compare_embedded(folder: Path, name: str, record: AuditRecord, found: Findings) -> None:
    """Compare what a PDF file embeds with the record beside it, and with the policy in that."""
    embedded = read_attachments(folder / name)
    if not {RECORD, _EMBEDDED_POLICY} & set(embedded):
        found.notes.append(f"{name} embeds no record, so that nothing in it was compared")
        return
    policy = None if record.policy is None else record.policy.toml.encode()
    expected = {RECORD: (folder / RECORD).read_bytes(), _EMBEDDED_POLICY: policy}
    others = [
        f"{name} embeds another {what}"
        for what, content in expected.items()
        if embedded.get(what) != content
    ]
    found.add(f"{name} embeds this record and its policy", others)


def read_attachments(path: Path) -> dict[str, bytes]:
    """Read the files that a PDF file embeds, by name.

    Raises:
        UsageError: pypdf is not installed.
        RecordError: it is no PDF file, or holds two files of one name.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise UsageError("what a PDF file embeds is read with the package pypdf", INSTALL) from None
    try:
        attached = {name: list(contents) for name, contents in PdfReader(path).attachments.items()}
    except (OSError, PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RecordError(f"{path}: not readable as a PDF file") from None
    twice = [name for name, contents in attached.items() if len(contents) != 1]
    if twice:
        raise RecordError(f"{path}: embeds several files of one name: {', '.join(twice)}")
    return {name: contents[0] for name, contents in attached.items()}
