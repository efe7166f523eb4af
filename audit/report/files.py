"""Writes the report's files, so that the output folder always shows this verdict or nothing."""

import atexit
import csv
import ctypes.util
import gc
import io
import logging
import sys
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from unicodedata import category

from audit.attacks import text_of
from audit.attacks.text import AttackText
from audit.compare.defended import MeasuredDefense
from audit.errors import DocauditError, EngineError, RenderError
from audit.files import shipped_folder, write_atomically
from audit.measurements import Estimate, Measurement
from audit.parts import missing_module
from audit.policy import Policy, Verdict
from audit.progress import observer
from audit.record import AuditRecord, dumps
from audit.report.changes import Changes
from audit.report.commands import Called
from audit.report.html import render, report_context, shorter_decisions
from audit.report.labels import UTILITY
from audit.report.where import COLUMNS as COLUMNS_OF_LEAKS
from audit.report.where import csv_rows

PANGO = (
    "PDF: pango is missing; install it (Debian: libpango-1.0-0 libpangoft2-1.0-0; macOS: brew "
    "install pango)"
)
AFTER_PAGE_ONE = "scope"
"""The section of the decision report that begins page two."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Attachment:
    """A file within a PDF.

    Attributes:
        name: name of the file.
        content: its bytes.
        media_type: such as application/json.
        relationship: "Source" where the pages were drawn from it, "Data" where they show some of
            it.
        description: one line on it, for who reads the list of attachments.
    """

    name: str
    content: bytes
    media_type: str
    relationship: Literal["Source", "Data"]
    description: str


def pdf(html: str, attachments: Sequence[Attachment] = (), shorter: Iterable[str] = ()) -> bytes:
    """Print a page as PDF/UA-1.

    Title, author, language and date are those of the HTML: the same HTML and attachments give the
    same bytes. A letter that no font of this machine has is written as its number, as the standard
    allows no gap.

    Args:
        html: the page.
        attachments: files that the PDF holds.
        shorter: the same page with ever less on page one, tried in turn while page one runs over.

    Raises:
        RenderError: weasyprint is not installed, cannot load pango, or cannot draw the page.
    """
    weasyprint = _import_weasyprint()
    try:
        html = _spell_private(html)
        document = _lay_out(weasyprint, html)
        for page in shorter:
            if not _runs_over(document):
                break
            html = _spell_private(page)
            document = _lay_out(weasyprint, html)
        content = _pdf_bytes(weasyprint, document, attachments)
        missing = _missing_letters(document)
        if missing:
            document = _lay_out(weasyprint, _spell_letters(html, missing))
            content = _pdf_bytes(weasyprint, document, attachments)
    except (OSError, ValueError) as error:
        raise RenderError(f"PDF: weasyprint could not draw it ({type(error).__name__})") from None
    return content


def _import_weasyprint() -> Any:
    """Import weasyprint, without its log.

    Raises:
        RenderError: it is not installed, or cannot load pango.
    """
    search = ctypes.util.find_library
    try:
        # It also tries plain names, which the loader of Linux finds; a search for others runs a
        # compiler nine times.
        ctypes.util.find_library = (lambda name: None) if sys.platform == "linux" else search
        import weasyprint
    except OSError:
        raise RenderError(PANGO) from None
    except ModuleNotFoundError as error:
        lacking = missing_module(error.name or "")
        if lacking is None:
            raise RenderError(f"PDF: {error}") from None
        raise RenderError(f"PDF: {': '.join(lacking.lines)}") from None
    except ImportError as error:
        raise RenderError(f"PDF: {error}") from None
    finally:
        ctypes.util.find_library = search
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    return weasyprint


def _missing_letters(document: Any) -> set[str]:
    """Return the letters that no font of a document has."""
    codes: set[int] = set()
    for font in document.fonts.values():
        codes.update(font.missing)
    return {chr(code) for code in codes}


def _runs_over(document: Any) -> bool:
    """Tell whether page one takes more than a page: the section after it begins later."""
    after_page_one = document.pages[1:2]
    return bool(after_page_one) and AFTER_PAGE_ONE not in after_page_one[0].anchors


def _spell_private(html: str) -> str:
    """Replace letters of private use, which each font draws as it likes, by their code points."""
    return _spell_letters(html, {letter for letter in set(html) if category(letter) == "Co"})


def _spell_letters(html: str, letters: Collection[str]) -> str:
    """Replace letters that no font has by their code points, "[U+2190]"."""
    return html.translate({ord(letter): f"[U+{ord(letter):04X}]" for letter in letters})


def _lay_out(weasyprint: Any, html: str) -> Any:
    """Lay a page out; weasyprint takes the alternative text of a drawing from its title alone."""
    page = weasyprint.HTML(string=html, url_fetcher=_refuse_download)
    for svg in page.etree_element.iter(f"{SVG}svg"):
        text = svg.get("aria-label") or ("symbol" if svg.get("aria-hidden") == "true" else "")
        if text and svg.find(f"{SVG}title") is None:
            title = svg.makeelement(f"{SVG}title", {})
            title.text = " ".join(text.split())
            svg.insert(0, title)
    faces, fonts = _load_typeface()
    return page.render(stylesheets=[faces], font_config=fonts)


@cache
def _load_typeface() -> tuple[Any, Any]:
    """Load the stylesheet with the shipped typeface, and the fonts it names.

    The only files that are read to draw.
    """
    from weasyprint import CSS
    from weasyprint.text.fonts import FontConfiguration
    from weasyprint.urls import URLFetcher

    fonts = FontConfiguration()
    # Garbage by then, they remove their folder when they are collected: too late once Python takes
    # modules apart.
    atexit.register(gc.collect)
    atexit.register(_load_typeface.cache_clear)
    fetcher = URLFetcher(allowed_protocols=("file",))
    return CSS(
        filename=str(shipped_folder("templates") / "fonts.css"),
        font_config=fonts,
        url_fetcher=fetcher,
    ), fonts


def _pdf_bytes(weasyprint: Any, document: Any, attachments: Sequence[Attachment]) -> bytes:
    """Write a laid-out document as PDF/UA-1 bytes, with its attachments embedded."""
    metadata = document.metadata
    metadata.modified = metadata.created
    moment = _creation_time(metadata.created)
    fetcher = weasyprint.urls.URLFetcher(allowed_protocols=("data",))
    metadata.attachments = [
        weasyprint.Attachment(
            # A data URL has its media type with it; by the name alone each machine would guess
            # another one.
            url=f"data:{file.media_type};base64,{b64encode(file.content).decode()}",
            url_fetcher=fetcher,
            name=file.name,
            description=file.description,
            relationship=file.relationship,
            created=moment,
            modified=moment,
        )
        for file in sorted(attachments, key=lambda file: file.name)  # as readers search the names
    ]
    content: bytes = document.write_pdf(pdf_variant="pdf/ua-1")
    return content


def _creation_time(created: str | None) -> datetime:
    """Return the time that an HTML page states, in UTC; a fixed one where it states none."""
    try:
        return datetime.fromisoformat(created or "").astimezone(UTC)
    except ValueError:
        return EPOCH


def _refuse_download(url: str, *_: Any, **__: Any) -> dict[str, Any]:
    """Refuse any download: a report holds all it needs."""
    raise ValueError(f"a report fetches nothing: {url}")


_ESTIMATE = (
    "value",
    "low",
    "high",
    "level",
    "n",
    "unit",
    "total",
    "open_above",
    "clusters",
    "null",
    "null_kind",
    "method",
)
COLUMNS = ("attack", "metric", "label", *_ESTIMATE, "unresolved", "needed")
"""Of `measurements.csv`. A metric without a number says why under `unresolved`, and how many units
it needs."""

_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""The characters that begin a formula in a spreadsheet; the last four are full-width forms of the
first."""


def measurements_csv(record: AuditRecord) -> str:
    """Write all measurements of a record as CSV, a row each, numbers in full precision.

    Usefulness comes last.
    """
    rows: list[dict[str, object]] = []
    for result in record.completed.values():
        text = text_of(result.attack)
        rows += [_csv_row(result.attack, text, item) for item in result.measurements]
    rows += [_csv_row("usefulness", UTILITY, item) for item in record.utility]
    return csv_text(COLUMNS, rows)


def _csv_row(attack: str, text: AttackText, item: Measurement) -> dict[str, object]:
    """Return the CSV row of a measurement by column: attack, label, then the number's columns."""
    return {"attack": attack, "label": text.label(item.name), **_estimate_columns(item)}


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Write rows as CSV (RFC 4180) whose text no spreadsheet takes for a formula.

    Such a text gets an apostrophe before it, which spreadsheets hide (OWASP, "CSV Injection").
    Numbers stay.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({column: _escape_formula(value) for column, value in row.items()})
    return text.getvalue()


def _escape_formula(value: object) -> object:
    """Put "'" before a text that a spreadsheet would read as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _estimate_columns(item: Measurement) -> dict[str, object]:
    """Return the numbers of a measurement by CSV column, or why it has no value."""
    if not isinstance(item, Estimate):
        return {"metric": item.name, "n": item.n, "unresolved": item.reason, "needed": item.needed}
    return {"metric": item.name, **{name: getattr(item, name) for name in _ESTIMATE}}


HTML_NAME = "report.html"
PDF_NAME = "report.pdf"
CSV_NAME = "measurements.csv"
LEAKS_NAME = "leaks.csv"
NAMES = (PDF_NAME, HTML_NAME, CSV_NAME, LEAKS_NAME)
"""The files of a report, the one to read first in front."""
TREND_NAMES = ("trend.pdf", "trend.html")
"""The files of the trend of several checkpoints, the one to read first in front."""


def write(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    out: Path,
    comparisons: Sequence[MeasuredDefense] = (),
    written: bytes | None = None,
    changes: Changes | None = None,
    called: Called | None = None,
) -> tuple[str, ...]:
    """Write a report's files into `out`, each whole or not at all.

    These are the decision report (PDF), the annex (HTML), and two tables (CSV): every measurement,
    and where values leak.

    The PDF holds record.json, and as policy.toml the policy that the record was held against. An
    older file that could not be replaced is removed: it would show another verdict.

    Args:
        record: the measurements.
        verdict: of `policy.evaluate` on them.
        policy: the policy it was held against.
        out: the folder of the files.
        comparisons: what countermeasures were measured to do to this model; it stands beside the
            remedies.
        written: the record's file, which another version may have written; None: the record as this
            one writes it.
        changes: since the last audit; None: no earlier record was given.
        called: how the scan was called; None: names stand in commands for its arguments.

    Returns:
        Warnings, one line each: why there is no PDF, and what to install.

    Raises:
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    observer().stage(f"drawing {HTML_NAME}")
    try:
        context = report_context(record, verdict, policy, comparisons, changes, called)
        annex = render("report.html", context)
        decision = render("decision.html", context)
        write_atomically(out / CSV_NAME, measurements_csv(record).encode())
        leaks = csv_text(COLUMNS_OF_LEAKS, csv_rows(context["facts"]))
        write_atomically(out / LEAKS_NAME, leaks.encode())
        write_atomically(out / HTML_NAME, annex.encode())
    except DocauditError as error:
        remove_stale(*(out / name for name in NAMES), after=error)
        raise
    attachments = sources(written or dumps(record).encode(), policy)
    shorter = shorter_decisions(context)
    return _write_pdf(decision, out / HTML_NAME, out / PDF_NAME, attachments, shorter)


def sources(json: bytes, policy: Policy) -> tuple[Attachment, ...]:
    """Return record.json and policy.toml as attachments of the PDF."""
    record = Attachment(
        "record.json", json, "application/json", "Source", "Every measurement of this audit"
    )
    if policy.origin is None:
        return (record,)
    limits = Attachment(
        "policy.toml",
        policy.origin.toml.encode(),
        "application/toml",
        "Source",
        "The policy of its verdict",
    )
    return record, limits


def write_pages(text: str, page: Path, printed: Path) -> tuple[str, ...]:
    """Write a finished HTML page and its PDF, each whole or not at all.

    An older file that stays behind is removed.

    Returns:
        Warnings, as `write` does.

    Raises:
        EngineError: the HTML could not be written.
    """
    try:
        write_atomically(page, text.encode())
    except DocauditError as error:
        remove_stale(page, printed, after=error)
        raise
    return _write_pdf(text, page, printed, ())


def _write_pdf(
    text: str,
    page: Path,
    printed: Path,
    attachments: Sequence[Attachment],
    shorter: Iterable[str] = (),
) -> tuple[str, ...]:
    """Print HTML as PDF; return a warning where that fails."""
    observer().stage(f"drawing {printed.name}")
    try:
        write_atomically(printed, pdf(text, attachments, shorter))
    except (RenderError, EngineError) as error:
        remove_stale(printed, after=error)
        return (f"{error}; {page.name} was written",)
    return ()


def remove_stale(*stale: Path, after: DocauditError | None = None) -> None:
    """Remove stale files, which would show another verdict than the one just reached.

    Args:
        stale: the files; as many as can be are removed.
        after: the error why they are stale; its problems are told first.

    Raises:
        EngineError: one of them cannot be removed.
    """
    problems: list[str] = []
    for path in stale:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            problems.append(f"{path}: of an earlier run, cannot be removed ({error.strerror})")
    if problems:
        causes = () if after is None else after.problems
        hint = "remove it yourself: it may show another verdict"
        raise EngineError((*causes, *problems), hint) from None
