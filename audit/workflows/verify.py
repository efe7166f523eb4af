"""A report folder against its attestation, its model, its data set, and what its PDF files hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit import attestation as attestations
from audit import policy as policies
from audit.attestation import FILE_NAME, INSTALL, Json, Statement
from audit.errors import RecordError, UsageError
from audit.files import read_file
from audit.record import AuditRecord
from audit.record import read as read_record
from audit.report.files import PDF_NAME
from audit.workflows.attest import DOCUMENTATION, DRAWN, RECORD, state
from audit.workflows.gate import other_data, other_model, warn_unscanned

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
        raise RecordError(f"{path}: {error.strerror}", f"write it with: docaudit attest {folder}") from None
    record = read_record(folder)
    found = Findings()
    if key is not None:
        signed = attestations.is_signed_by(sealed, key)
        found.add("the signature is that of this key", [] if signed else ["the attestation is not signed by this key"])
    elif sealed.envelope is not None:
        found.notes.append("the signature was not checked: give the signer's public key with --pub")
    else:
        found.notes.append("the attestation is not signed: whoever can change these files can write it anew")
    _compare_statement(folder, record, sealed.statement, found)
    if (folder / PDF_NAME).exists():
        _compare_embedded(folder, PDF_NAME, record, found)
    if model is not None:
        found.add(f"{model} is the model that was scanned", other_model(record, model))
        found.notes += warn_unscanned(model)
    elif record.target.is_model:
        found.notes.append("the model's files were not hashed again: give its folder with --model")
    if data is not None:
        found.add(f"{data} is the data set that was scanned", other_data(record, data))
    else:
        found.notes.append("the data set was not hashed again: give its folder with --data")
    known = {RECORD, *DRAWN, FILE_NAME, path.name}
    names = sorted(one.name for one in folder.iterdir() if one.is_file() and one.name[0] != ".")
    if others := [name for name in names if name not in known]:
        # A reader may take them for part of the report.
        found.notes.append(f"files that the attestation says nothing of: {', '.join(others)}")
    return record, found


def _compare_statement(folder: Path, record: AuditRecord, attested: Statement, found: Findings) -> None:
    """Make the statement anew from the files as they are, and compare it part by part."""
    day, problem = _day_of(attested, record)
    if problem is not None:
        found.differences.append(problem)
    own = state(folder, record, day)
    subjects = list(_other_subjects(attested.digests, own.digests))
    found.add(f"{len(own.subject)} files and digests are those that were attested", subjects)
    results = list(_other_results(attested.predicate, own.predicate))
    found.add(f"the verdict, {own.predicate[DOCUMENTATION]['verdict']}, follows from the record", results)
    if not subjects and not results and attested != own:
        found.differences.append("the attestation holds more, or in another order, than docaudit attest writes")
    expired = _expired(folder, record, own)
    if expired is not None:
        found.differences.append(expired)


def _day_of(statement: Statement, record: AuditRecord) -> tuple[dt.date, str | None]:
    """The day that the verdict was reached on (UTC), and what is wrong with it."""
    today, own = policies.today(), statement.predicate.get(DOCUMENTATION)
    text = own.get("evaluated") if isinstance(own, dict) else None
    try:
        day = dt.date.fromisoformat(str(text))
    except ValueError:
        return today, "the attestation does not say on which day the verdict was reached"
    ended = policies.finished_on(record)
    if day < ended:
        return day, f"the attestation is of {day}, and the scan ended on {ended}"
    return (day, None) if day <= today else (today, f"the attestation is of {day}, which is yet to come")


def _expired(folder: Path, record: AuditRecord, own: Statement) -> str | None:
    """Say that the verdict does not hold any more, as a waiver has ended since."""
    then = own.predicate[DOCUMENTATION]
    if then["evaluated"] == policies.today().isoformat():
        return None
    now = state(folder, record, policies.today()).predicate[DOCUMENTATION]
    if then["verdict"] == now["verdict"]:
        return None
    return f"the verdict of {then['evaluated']} was {then['verdict']}; today it is {now['verdict']}"


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
    others = [f"{name} embeds another {what}" for what, content in expected.items() if embedded.get(what) != content]
    found.add(f"{name} embeds this record and its policy", others)


def read_attachments(path: Path) -> dict[str, bytes]:
    """The files that a PDF file embeds, by name.

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
