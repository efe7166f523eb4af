"""Writes the report's files, so that what lies in the output folder always shows this verdict or nothing."""

from __future__ import annotations

from pathlib import Path

from audit.errors import DocauditError, EngineError, RenderError
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, write_atomically
from audit.report.page import html
from audit.report.pdf import pdf

HTML_NAME = "report.html"
PDF_NAME = "report.pdf"


def write(record: AuditRecord, verdict: Verdict, policy: Policy, out: Path) -> tuple[str, ...]:
    """Write `report.html` and `report.pdf` into `out`, each whole or not at all.

    An older file that could not be replaced is removed: it would show another verdict.

    Returns:
        Warnings, one line each: why there is no PDF, and what to install.

    Raises:
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    try:
        text = html(record, verdict, policy)
        write_atomically(out / HTML_NAME, text.encode())
    except DocauditError:
        _remove(out / HTML_NAME, out / PDF_NAME)
        raise
    try:
        write_atomically(out / PDF_NAME, pdf(text))
    except (RenderError, EngineError) as error:
        _remove(out / PDF_NAME)
        return (f"{error}; {HTML_NAME} was written",)
    return ()


def _remove(*stale: Path) -> None:
    for path in stale:
        path.unlink(missing_ok=True)
