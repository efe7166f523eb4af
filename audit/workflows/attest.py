"""Attestations: statements that tie a verdict to its files, and the check of files against one."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from audit import attestation as attestations
from audit import policy as policies
from audit.attestation import (
    DATA_SET,
    FILE_NAME,
    INSTALL,
    Attestation,
    Json,
    Statement,
    Subject,
)
from audit.cards import NO_MODEL, SERVED, DeclaredPolicy
from audit.errors import RecordError, UsageError, command_line
from audit.files import check_file, read_file, write_output
from audit.policy import Decision, Policy, Verdict
from audit.policy.decision import word_of
from audit.policy.overall import lets_through
from audit.policy.reading import read_declared
from audit.record import AuditRecord
from audit.record import read as read_record
from audit.report.facts.leaks import unlimited, within
from audit.report.files import NAMES, PDF_NAME
from audit.workflows import wording
from audit.workflows.gate import check_meaning, other_data, other_model, warn_uncompared

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey

RECORD = "record.json"
DOCUMENTATION = "docauditVerdict"
"""The part of the test result that in-toto does not define: verdict, exit code, its day, and the
auditor as stated."""


@dataclass(frozen=True)
class Attested:
    """A statement that was written.

    Attributes:
        path: path of the file.
        result: PASSED, WARNED or FAILED.
        subjects: number of things that it names.
        key: id of the key that signed it; None: it is not signed.
    """

    path: Path
    result: str
    subjects: int
    key: str | None


def attest(folder: Path, key: Path | None = None, out: Path | None = None) -> Attested:
    """Write a statement of the verdict on the record of a report folder.

    The verdict is that under the policy which the record declares.

    Args:
        folder: folder that a scan wrote.
        key: file of an ed25519 private key in PEM; None: the statement is not signed.
        out: file of the statement; None: beside the record.

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
    key_id = None
    if signer is not None:
        key_id = signer.public_key.keyid
    return Attested(path, statement.predicate["result"], len(statement.subject), key_id)


def state(folder: Path, record: AuditRecord, today: dt.date) -> Statement:
    """Build the attestation statement about the present files of a report folder.

    Args:
        folder: folder that a scan wrote.
        record: record in it.
        today: day that waivers are held against.

    Raises:
        DocauditError: the record declares no policy, or a file cannot be read.
    """
    if record.policy is None:
        raise RecordError(*wording("no_declared_policy"))
    policy = read_declared(record.policy)
    check_meaning(policy)
    verdict = policies.evaluate(record, policy, today)
    subjects = _list_subjects(folder, record, record.policy)
    return Statement(subject=subjects, predicate=_test_result(record, policy, verdict, today))


def _list_subjects(folder: Path, record: AuditRecord, policy: DeclaredPolicy) -> list[Subject]:
    """List what a verdict is about: model, data set, policy and files of a report."""
    subjects = [
        Subject(name=f"model/{name}", digest={"sha256": digest})
        for name, digest in record.target.files.items()
    ]
    corpus = record.corpus
    subjects.append(Subject(name=f"data-set/{corpus.name}", digest={DATA_SET: corpus.sha256}))
    subjects.append(Subject(name="policy.toml", digest={"sha256": policy.sha256}))
    if corpus.forgotten:
        digest = {"sha256": corpus.forgotten.sha256}
        subjects.append(Subject(name="documents to be forgotten", digest=digest))
    for name in (RECORD, *NAMES):
        path = folder / name
        if path.exists():
            subjects.append(Subject(name=name, digest={"sha256": _hash(path)}))
    return subjects


def _test_result(record: AuditRecord, policy: Policy, verdict: Verdict, today: dt.date) -> Json:
    """Build the test-result predicate, without limits that do not apply to model or data set."""
    assert record.policy is not None
    tests = _sort_tests(policy, verdict)
    leaks = _name_leaks(verdict)
    is_whole = record.target.family not in (NO_MODEL, SERVED)
    warns = bool(tests["warnedTests"] or leaks)
    if verdict.exit_code:
        result = "FAILED"
    elif verdict.overall == "passed" and is_whole and not warns:
        result = "PASSED"
    else:
        result = "WARNED"
    documentation: Json = {
        "verdict": verdict.word,
        "exitCode": verdict.exit_code,
        "evaluated": today.isoformat(),
    }
    if record.audit.auditor is not None:
        documentation["auditor"] = record.audit.auditor
    return {
        "result": result,
        "configuration": [
            {"name": f"policy {policy.name}", "digest": {"sha256": record.policy.sha256}}
        ],
        **tests,
        DOCUMENTATION: documentation | leaks,
    }


def _sort_tests(policy: Policy, verdict: Verdict) -> dict[str, list[str]]:
    """Sort the tests of limits into passed, warned and failed ones."""
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for decision in verdict.decisions:
        if decision.outcome in ("inapplicable", "not run"):
            continue
        tests[_kind_of_test(policy, decision)].append(decision.limit.test)
    return tests


def _kind_of_test(policy: Policy, decision: Decision) -> str:
    """Name the list that the test of a limit belongs to."""
    if decision.outcome == "passed":
        return "passedTests"
    is_reported = decision.about_text and policy.text == "report"
    if decision.outcome == "waived" or is_reported or lets_through(policy, decision):
        return "warnedTests"
    return "failedTests"


def _name_leaks(verdict: Verdict) -> dict[str, list[str]]:
    """Name attack and metric of the leaks that fail no limit, by the reason for it."""
    leaks = {
        "findingsOutsidePolicy": unlimited(verdict),
        "leaksWithinLimits": within(verdict),
    }
    names: dict[str, list[str]] = {}
    for reason, measured in leaks.items():
        if measured:
            names[reason] = [f"{leak.attack} {leak.metric}" for leak in measured]
    return names


def _hash(path: Path) -> str:
    """Hash a file with SHA-256.

    Raises:
        RecordError: it cannot be read.
    """
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None


_EMBEDDED_POLICY = "policy.toml"


@dataclass
class Findings:
    """What a verification found, in lines.

    Attributes:
        agreed: lines on what was compared and is equal.
        differences: lines on what is not as it was attested; with any, the verification failed.
        notes: lines on what could not be compared, and why.
    """

    agreed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, agreed: str, differences: list[str]) -> None:
        """Record that a part agrees, as `agreed` says, or record its differences."""
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
    """Compare a report folder with its attestation, and with model and data set where given.

    Args:
        folder: folder that a scan wrote, with an attestation of it.
        public: file of the signer's public key, ed25519 in PEM; None: signatures are not checked.
        model: folder of the audited model.
        data: folder of the audited data set.
        attestation: file of the attestation; None: beside the record.

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
            f"{path}: {error.strerror}", f"write it with: {command_line('attest', folder)}"
        ) from None
    record = read_record(folder)
    findings = Findings()
    _compare_signature(sealed, key, findings)
    _compare_statement(folder, record, sealed.statement, findings)
    if (folder / PDF_NAME).exists():
        _compare_embedded(folder, PDF_NAME, record, findings)
    _compare_model(record, model, findings)
    if data is None:
        findings.notes.append("the data set was not hashed again: give its folder with --data")
    else:
        findings.add(f"{data} is the data set that was scanned", other_data(record, data))
    _note_unattested(folder, path.name, findings)
    return record, findings


def _compare_signature(sealed: Attestation, key: SSlibKey | None, findings: Findings) -> None:
    """Compare the signature of an attestation with a key, or note why nothing is compared."""
    if key is not None:
        differences: list[str] = []
        if not attestations.is_signed_by(sealed, key):
            differences.append("the attestation is not signed by this key")
        findings.add("the signature is that of this key", differences)
    elif sealed.envelope is not None:
        findings.notes.append(
            "the signature was not checked: give the signer's public key with --pub"
        )
    else:
        findings.notes.append(
            "the attestation is not signed: anyone who can change these files can write it anew"
        )


def _compare_model(record: AuditRecord, model: Path | None, findings: Findings) -> None:
    """Compare the files of a model with those of a record, or note that nobody gave them."""
    if model is not None:
        findings.add(f"{model} is the model that was scanned", other_model(record, model))
        findings.notes += warn_uncompared(record, model)
    elif record.target.is_model:
        findings.notes.append(
            "the model's files were not hashed again: give its folder with --model"
        )


def _note_unattested(folder: Path, attestation: str, findings: Findings) -> None:
    """Note files of a folder that a reader may take for a part of the report.

    Args:
        folder: folder of the report.
        attestation: name of the attestation's file.
        findings: what was found, which gets the note.
    """
    attested = {RECORD, *NAMES, FILE_NAME, attestation}
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    unattested = [name for name in names if name not in attested]
    if unattested:
        listing = ", ".join(unattested)
        findings.notes.append(f"files that the attestation says nothing of: {listing}")


def _compare_statement(
    folder: Path, record: AuditRecord, attested: Statement, findings: Findings
) -> None:
    """Make the statement anew from the files as they are, and compare it part by part."""
    attested = _in_words_of_today(attested)
    day, problem = _day_of(attested, record)
    if problem is not None:
        findings.differences.append(problem)
    present = state(folder, record, day)
    subjects = list(_other_subjects(attested.digests, present.digests))
    n_subjects = len(present.subject)
    findings.add(f"{n_subjects} files and digests are those that were attested", subjects)
    results = list(_other_results(attested.predicate, present.predicate))
    verdict = present.predicate[DOCUMENTATION]["verdict"]
    findings.add(f"the verdict, {verdict}, follows from the record", results)
    if not subjects and not results and attested != present:
        findings.differences.append(
            "the attestation holds more, or in another order, than docaudit attest writes"
        )
    findings.differences += _expired_waivers(folder, record, present)


def _in_words_of_today(statement: Statement) -> Statement:
    """Return a statement with the verdict in today's words, which older ones lack."""
    documentation = statement.predicate.get(DOCUMENTATION)
    if not isinstance(documentation, dict) or not isinstance(documentation.get("verdict"), str):
        return statement
    stated = documentation | {"verdict": word_of(documentation["verdict"])}
    predicate = statement.predicate | {DOCUMENTATION: stated}
    return statement.model_copy(update={"predicate": predicate})


def _day_of(statement: Statement, record: AuditRecord) -> tuple[dt.date, str | None]:
    """Read the day of the verdict (UTC), and describe what is wrong with it."""
    today = policies.today()
    documentation = statement.predicate.get(DOCUMENTATION)
    text = None
    if isinstance(documentation, dict):
        text = documentation.get("evaluated")
    try:
        day = dt.date.fromisoformat(str(text))
    except ValueError:
        return today, "the attestation does not say on which day the verdict was reached"
    ended = policies.finished_on(record)
    if day < ended:
        return day, f"the attestation is of {day}, and the scan ended on {ended}"
    if day > today:
        return today, f"the attestation is of {day}, which is yet to come"
    return day, None


def _expired_waivers(folder: Path, record: AuditRecord, statement: Statement) -> Iterator[str]:
    """Yield that the verdict of a statement does not hold any more, as a waiver has ended since."""
    then = statement.predicate[DOCUMENTATION]
    now = state(folder, record, policies.today()).predicate[DOCUMENTATION]
    if then["verdict"] != now["verdict"]:
        past = f"the verdict of {then['evaluated']} was {then['verdict']}"
        yield f"{past}; today it is {now['verdict']}"


def _other_subjects(attested: Json, present: Json) -> Iterator[str]:
    """Yield how the files and digests that are there differ from those that were attested."""
    for name in sorted({*attested, *present}):
        if name not in present:
            yield f"{name} was attested, and is not there"
        elif name not in attested:
            yield f"{name} is there, and was not attested"
        elif attested[name] != present[name]:
            yield f"{name} is not what was attested"


def _other_results(attested: Json, present: Json) -> Iterator[str]:
    """Yield each part of a test result that does not follow from the record."""
    for key in sorted({*attested, *present}):
        then = attested.get(key)
        now = present.get(key)
        if then != now:
            yield f"{key} is not what follows from the record: {_short(then)}, not {_short(now)}"


def _short(value: object) -> str:
    """Write a value in 80 letters at most."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _compare_embedded(folder: Path, name: str, record: AuditRecord, findings: Findings) -> None:
    """Compare what a PDF file embeds with the record beside it, and with the policy in that."""
    embedded = read_attachments(folder / name)
    if not {RECORD, _EMBEDDED_POLICY} & set(embedded):
        findings.notes.append(f"{name} embeds no record, so that nothing in it was compared")
        return
    policy = None
    if record.policy is not None:
        policy = record.policy.toml.encode()
    expected = {RECORD: (folder / RECORD).read_bytes(), _EMBEDDED_POLICY: policy}
    differences = [
        f"{name} embeds another {what}"
        for what, content in expected.items()
        if embedded.get(what) != content
    ]
    findings.add(f"{name} embeds this record and its policy", differences)


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
