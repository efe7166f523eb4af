"""Reports beside a record, held against what this version draws from it."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from audit import __version__
from audit import policy as policies
from audit.errors import DocauditError, RecordError
from audit.policy.declared import read_declared
from audit.record import AuditRecord
from audit.report.files import CSV_NAME, HTML_NAME, PDF_NAME, sources
from audit.report.html import decision_html, html
from audit.report.measurements_csv import measurements_csv
from audit.report.pdf import pdf
from audit.workflows.attest import RECORD

Drawing = Mapping[str, Callable[[], bytes]]


def compare_drawn(folder: Path, record: AuditRecord, day: dt.date) -> tuple[list[str], list[str], list[str]]:
    """Draw the reports of a folder again, in memory, and compare them with its files.

    A report is drawn on the day of the scan or of the attestation, which tell how long waivers still hold. The bytes of
    a PDF file depend on the versions of the packages that draw it too: where they differ its text is compared.

    Args:
        folder: what a scan wrote.
        record: its record.
        day: of the attestation.

    Returns:
        What agrees, what differs, and what could not be compared.
    """
    there = [name for name in (HTML_NAME, CSV_NAME, PDF_NAME) if (folder / name).exists()]
    if record.environment.docaudit != __version__ or record.policy is None:
        why = f"docaudit {record.environment.docaudit} drew them, and this is {__version__}"
        return [], [], [f"{', '.join(there)} were not drawn again: {why}"] if there else []
    days = sorted({day, dt.datetime.fromisoformat(record.timing.finished).date()})
    drawings = [_drawings(folder, record, one) for one in days]
    agreed, differences, notes = [], [], []
    for name in there:
        try:
            found, drawn = (folder / name).read_bytes(), [drawing[name]() for drawing in drawings]
            same, alike = found in drawn, name.endswith(".pdf") and _has_text_of(name, found, drawn)
        except DocauditError as error:
            notes.append(f"{name} could not be drawn again: {error}")
            continue
        if same:
            agreed.append(f"{name} is what this record draws")
        elif alike:
            notes.append(
                f"{name} has the text that this record draws and other bytes, as other versions of packages would draw "
                "them: only its text was compared"
            )
        else:
            differences.append(
                f"{name} is not what this record draws under the policy that it declares, without measured "
                "countermeasures"
            )
    return agreed, differences, notes


def _drawings(folder: Path, record: AuditRecord, day: dt.date) -> Drawing:
    """By file name, a report as it is drawn on a day."""
    assert record.policy is not None
    policy = read_declared(record.policy)
    verdict = policies.evaluate(record, policy, day)
    attached = sources((folder / RECORD).read_bytes(), policy)
    return {
        HTML_NAME: lambda: html(record, verdict, policy).encode(),
        CSV_NAME: lambda: measurements_csv(record).encode(),
        PDF_NAME: lambda: pdf(decision_html(record, verdict, policy), attached),
    }


def _has_text_of(name: str, found: bytes, drawn: Sequence[bytes]) -> bool:
    text = _text_of(name, found)
    return any(text == _text_of(name, one) for one in drawn)


def _text_of(name: str, content: bytes) -> str:
    """The text of a PDF file without its spaces.

    Raises:
        RecordError: it cannot be read.
    """
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        pages = [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RecordError(f"{name}: not readable as a PDF file") from None
    return re.sub(r"\s+", "", "".join(pages))
