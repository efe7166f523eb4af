"""A statement, signed or not, that ties a verdict to the files it is about."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit import attestation as attestations
from audit import policy as policies
from audit.attestation import DATA_SET, FILE_NAME, Statement, Subject
from audit.errors import RecordError
from audit.files import check_file, read_file, write_output
from audit.policy import Decision, Policy, Verdict
from audit.policy.reading import read_declared
from audit.policy.verdict import lets_through
from audit.record import AuditRecord
from audit.record import read as read_record
from audit.report.leaks import unlimited, within
from audit.workflows.gate import check_meaning

RECORD = "record.json"
DRAWN = ("report.pdf", "report.html", "measurements.csv")
"""What a scan writes beside its record, as far as it did."""
DOCUMENTATION = "docauditVerdict"
"""The part of the test result that in-toto does not define: verdict, exit code, its day, and the auditor as stated."""


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
    """The statement about the files of a folder as they are now.

    Args:
        folder: what a scan wrote.
        record: its record.
        today: the day that waivers are held against.

    Raises:
        DocauditError: the record declares no policy, or a file cannot be read.
    """
    if record.policy is None:
        raise RecordError(
            "the record declares no policy: an older version wrote it", "scan again: what was tried is not tried again"
        )
    policy = read_declared(record.policy)
    check_meaning(policy)
    verdict = policies.evaluate(record, policy, today)
    subjects: list[tuple[str, dict[str, str]]] = [
        *((f"model/{name}", {"sha256": digest}) for name, digest in record.target.files.items()),
        (f"data-set/{record.corpus.name}", {DATA_SET: record.corpus.sha256}),
        ("policy.toml", {"sha256": record.policy.sha256}),
        *((name, {"sha256": _hash(folder / name)}) for name in (RECORD, *DRAWN) if (folder / name).exists()),
    ]
    named = [Subject(name=name, digest=digests) for name, digests in subjects]
    return Statement(subject=named, predicate=_test_result(record, policy, verdict, today))


def _test_result(record: AuditRecord, policy: Policy, verdict: Verdict, today: dt.date) -> dict[str, Any]:
    """The predicate: limits that do not apply to this model or data set are no tests of it and are not listed."""
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for decision in verdict.decisions:
        kind = _kind(decision, policy)
        if kind is not None:
            tests[kind].append(name_of(decision))
    leaks = {"findingsOutsidePolicy": unlimited(record, verdict), "leaksWithinLimits": within(record, verdict)}
    named = {key: [f"{one.attack} {one.metric}" for one in found] for key, found in leaks.items() if found}
    if verdict.exit_code:
        result = "FAILED"
    else:
        clean = verdict.overall == "passed" and not tests["warnedTests"] and not named
        clean = clean and record.target.is_model
        result = "PASSED" if clean else "WARNED"
    assert record.policy is not None
    own = {"verdict": verdict.overall, "exitCode": verdict.exit_code, "evaluated": today.isoformat()}
    stated = {} if record.audit.auditor is None else {"auditor": record.audit.auditor}
    return {
        "result": result,
        "configuration": [{"name": f"policy {policy.name}", "digest": {"sha256": record.policy.sha256}}],
        **tests,
        DOCUMENTATION: {**own, **stated, **named},
    }


def _kind(decision: Decision, policy: Policy) -> str | None:
    if decision.outcome in ("inapplicable", "not run"):
        return None
    if decision.outcome == "passed":
        return "passedTests"
    reported = decision.about_text and policy.text == "report"
    warned = decision.outcome == "waived" or reported or lets_through(policy, decision)
    return "warnedTests" if warned else "failedTests"


def name_of(decision: Decision) -> str:
    """A limit as a test's name."""
    limit = decision.limit
    bound = f"<= {limit.max:g}" if limit.max is not None else f">= {limit.min:g}"
    return f"{limit.attack} {limit.metric} {bound}"


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None
