"""Writes the report's files, so that the output folder always shows this verdict or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.errors import DocauditError, EngineError, RenderError
from audit.files import write_atomically
from audit.policy import Policy, Verdict
from audit.progress import observer
from audit.record import AuditRecord, dumps
from audit.report.comparison import Comparison
from audit.report.html import render, report_context
from audit.report.measurements_csv import measurements_csv
from audit.report.pdf import Attachment, pdf

HTML_NAME = "report.html"
PDF_NAME = "report.pdf"
CSV_NAME = "measurements.csv"
NAMES = (PDF_NAME, HTML_NAME, CSV_NAME)
"""The files of a report, the one to read first in front."""
TREND_NAMES = ("trend.pdf", "trend.html")
"""The files of the trend of several checkpoints, the one to read first in front."""


def write(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    out: Path,
    comparisons: Sequence[Comparison] = (),
    written: bytes | None = None,
) -> tuple[str, ...]:
    """Write decision report (PDF), annex (HTML) and every measurement (CSV) into `out`, each whole or not at all.

    The PDF holds record.json, and as policy.toml the policy that the record was held against. An older file that could
    not be replaced is removed: it would show another verdict.

    Args:
        record: the measurements.
        verdict: of `policy.evaluate` on them.
        policy: the policy it was held against.
        out: the folder of the files.
        comparisons: what countermeasures were measured to do to this model; it stands beside the remedies.
        written: the record's file, which another version may have written; None: the record as this one writes it.

    Returns:
        Warnings, one line each: why there is no PDF, and what to install.

    Raises:
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    observer().stage(f"drawing {HTML_NAME}")
    try:
        context = report_context(record, verdict, policy, comparisons)
        annex, decision = render("report.html", context), render("decision.html", context)
        write_atomically(out / CSV_NAME, measurements_csv(record).encode())
        write_atomically(out / HTML_NAME, annex.encode())
    except DocauditError as error:
        remove(*(out / name for name in NAMES), after=error)
        raise
    return _write_pdf(decision, out / HTML_NAME, out / PDF_NAME, sources(written or dumps(record).encode(), policy))


def sources(json: bytes, policy: Policy) -> tuple[Attachment, ...]:
    """What every page of a report follows from, as files within it: record.json and policy.toml."""
    files = [Attachment("record.json", json, "application/json", "Source", "Every measurement of this audit")]
    if policy.origin is not None:
        toml = policy.origin.toml.encode()
        files.append(Attachment("policy.toml", toml, "application/toml", "Source", "The policy it was held against"))
    return tuple(files)


def write_pages(text: str, page: Path, printed: Path) -> tuple[str, ...]:
    """Write a finished HTML page and its PDF, each whole or not at all; an older file that stays behind is removed.

    Returns:
        Warnings, as `write` does.

    Raises:
        EngineError: the HTML could not be written.
    """
    try:
        write_atomically(page, text.encode())
    except DocauditError as error:
        remove(page, printed, after=error)
        raise
    return _write_pdf(text, page, printed, ())


def _write_pdf(text: str, page: Path, printed: Path, attachments: Sequence[Attachment]) -> tuple[str, ...]:
    """Print HTML; a warning where that fails, which names the page that was written all the same."""
    observer().stage(f"drawing {printed.name}")
    try:
        write_atomically(printed, pdf(text, attachments))
    except (RenderError, EngineError) as error:
        remove(printed, after=error)
        return (f"{error}; {page.name} was written",)
    return ()


def remove(*stale: Path, after: DocauditError | None = None) -> None:
    """Remove files that would show something else than what was just measured.

    Args:
        stale: the files; as many as can be are removed.
        after: the error why they are stale; its problems are told first.

    Raises:
        EngineError: one of them cannot be removed.
    """
    left = []
    for path in stale:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            left.append(f"{path}: of an earlier run, cannot be removed ({error.strerror})")
    if left:
        told = () if after is None else after.problems
        raise EngineError((*told, *left), "remove it yourself: it may show another verdict") from None
