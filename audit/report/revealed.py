"""What its owner alone may see.

The one report with recovered values, and pictures of the data set's pages.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from audit.errors import EngineError, RenderError, UsageError
from audit.files import EVIDENCE, OWNING_SCAN, RECOVERED, write_atomically
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.report.html import html

if TYPE_CHECKING:  # A report shows no page.
    from PIL.Image import Image

    from audit.corpus.documents import Corpus, Document
    from audit.report.crops import PageCrops

NAME = "report-revealed.html"
RECOVERED_WAYS = ("exact", "exact_in_any_attempt", "extracted", "near")
"""Names in the evidence under which an attack says that a value came out."""


class RevealedRow(NamedTuple):
    """A line of the evidence: its cells as text, and the place of its value as a data URL."""

    cells: list[str]
    picture: str


class RevealedTable(NamedTuple):
    """The evidence of an attack: names of its columns, and its rows."""

    names: list[str]
    rows: list[RevealedRow]

    @property
    def has_pictures(self) -> bool:
        """Tell whether any row has a picture."""
        return any(row.picture for row in self.rows)


def write_revealed(
    record: AuditRecord, verdict: Verdict, policy: Policy, out: Path, evidence: Path | None = None
) -> Path:
    """Write `report-revealed.html` (mode 0600) from `recovered.jsonl`, beside it.

    Args:
        record: the measurements.
        verdict: on them.
        policy: what it was reached by.
        out: the folder that the scan wrote.
        evidence: the folder of both files; None: `evidence/` in `out`.

    Returns:
        Its path.

    Raises:
        RenderError: the evidence is missing, damaged (values are never quoted) or of another scan,
            or a template is.
        EngineError: the file could not be written.
    """
    folder = evidence or out / EVIDENCE
    _refuse_another_scan(record, folder)
    # Opens images and arrays, which a report without values does without.
    from audit.report.crops import PageCrops, corpus_of

    crops = PageCrops(corpus_of(record, folder / OWNING_SCAN))
    rows = {
        attack: _make_table(attack_rows, crops)
        for attack, attack_rows in read_recovered(folder / RECOVERED).items()
    }
    text = html(record, verdict, policy, revealed=rows)
    path = folder / NAME
    try:
        folder.chmod(0o700)  # so that the file is private from its first byte on
    except OSError as error:
        raise RenderError(f"{folder}: cannot be made private ({error.strerror})") from None
    write_atomically(path, text.encode(), mode=0o600)
    return path


def write_owner(
    record: AuditRecord,
    evidence: Path,
    paths: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
) -> None:
    """Write the identity of the scan that the evidence belongs to, and how it was called.

    Args:
        record: record of the scan.
        evidence: folder of the evidence.
        paths: folders of model and data, as they were given.
        arguments: options of the scan, as JSON holds them; None: they are not kept.
    """
    content = {**_scan_identity(record), "paths": dict(paths), "arguments": arguments}
    write_atomically(evidence / OWNING_SCAN, json.dumps(content).encode(), mode=0o600)


def _scan_identity(record: AuditRecord) -> dict[str, str | float]:
    """Return what tells one scan from another: both digests, start, seed and duration."""
    scanned = {
        "model": record.target.sha256,
        "data": record.corpus.sha256,
        "started": record.timing.started,
    }
    # Two short scans may begin within one second.
    return {**scanned, "seed": record.seed, "seconds": record.timing.seconds}


def _refuse_another_scan(record: AuditRecord, evidence: Path) -> None:
    """Refuse evidence that names another scan; a folder that names none is accepted."""
    try:
        identity = {**json.loads((evidence / OWNING_SCAN).read_bytes())}
    except (OSError, ValueError, TypeError):
        return
    identity.pop("paths", None)
    identity.pop("arguments", None)
    if identity != _scan_identity(record):
        raise RenderError(
            f"{evidence}: the evidence of another scan than this record's",
            "name the folder of its own",
        )


def read_recovered(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the lines of the evidence by attack: what came out first, members before others.

    Raises:
        RenderError: the file is missing, or every line that is no JSON object of an attack, by
            number.
    """
    hint = (
        "scan again, or name the folder that was given as --evidence: a scan writes it beside "
        "its record otherwise"
    )
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RenderError(
            f"{path}: {error.strerror or 'cannot be read'}: nothing to reveal", hint
        ) from None
    rows: dict[str, list[dict[str, Any]]] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.setdefault(str(row.pop("attack")), []).append(row)
        except (ValueError, AttributeError, KeyError, TypeError):
            problems.append(f"{path.name}:{number} is no JSON object of an attack")
    if problems:
        raise RenderError(problems, hint)
    return {
        attack: sorted(attack_rows, key=_evidence_sort_key) for attack, attack_rows in rows.items()
    }


def _evidence_sort_key(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
    """Return a sort key.

    Recovered values first, then members, then the surest by the attack's first score.
    """
    first_rank = float("inf")
    ranks = row.get("ranks") or {}
    for name in row.get("scores", ()):
        if ranks.get(name) is not None:
            first_rank = ranks[name]
            break
    return not _is_recovered(row), row.get("split") != "member", first_rank


def _is_recovered(row: Mapping[str, Any]) -> bool:
    """Test whether a row, or an attempt in it, says that a value came out."""
    attempts = [value for value in row.values() if isinstance(value, dict)]
    return any(_says_recovered(attempt) for attempt in (row, *attempts))


def _says_recovered(attempt: Mapping[str, Any]) -> bool:
    """Test whether an attempt recovered its value in any of `RECOVERED_WAYS`."""
    return any(attempt.get(way) is True for way in RECOVERED_WAYS)


def _make_table(rows: Sequence[Mapping[str, Any]], crops: PageCrops) -> RevealedTable:
    """Make a table of rows, a column for each name that any of them has.

    Values that came out have a picture of their place, the first ones first.
    """
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    columns = [*names]
    lines = []
    for row in rows:
        picture = ""
        if _is_recovered(row):
            picture = crops.picture_of(row)
        lines.append(RevealedRow(_format_row(row, columns), picture))
    return RevealedTable(columns, lines)


def _format_row(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Write the cells of a row as text, in the order of the columns; a missing one is empty."""
    return [_format_value(row.get(name, "")) for name in columns]


def _format_value(value: object) -> str:
    """Write a JSON value on one line: "name value; ...", items joined by " | ", None as "".

    Booleans become "yes" or "no"; floats get 4 significant digits.
    """
    match value:
        case dict():
            return "; ".join(f"{name} {_format_value(inner)}" for name, inner in value.items())
        case list():
            return " | ".join(map(_format_value, value))
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
    return "" if value is None else str(value)


PREVIEW = Path("docaudit-preview")
"""The folder of the pictures, in the current one. It holds pages of the data set, so its owner
alone may read it."""
WORD = "#1f6feb"
"""Colour of the boxes of words."""
FIELD = "#d1242f"
"""Colour of the boxes of fields."""
PIECES = 500
"""A line is a page's longer side over this number wide."""


def draw_preview(corpus: Corpus, most: int, folder: Path = PREVIEW) -> str:
    """Draw the first pages with their boxes, fields and labels, as PNG files.

    Args:
        corpus: the data set.
        most: pages that are drawn.
        folder: made where it is missing; pictures of an earlier preview go.

    Returns:
        What was drawn, in a sentence.

    Raises:
        UsageError: no page has an image or boxes, or the folder is a link.
        ManifestError: an image cannot be decoded.
        EngineError: the folder cannot be written.
    """
    pages = [document for document in corpus.documents if _is_drawable(document)][:most]
    if not pages:
        raise UsageError("no page has an image or boxes: there is nothing to draw")
    if folder.is_symlink():
        raise UsageError(f"{folder}: is a link")
    _empty_folder(folder)
    for number, page in enumerate(pages, start=1):
        picture = io.BytesIO()
        _draw(corpus, page).save(picture, "PNG")
        write_atomically(folder / f"page-{number}.png", picture.getvalue(), mode=0o600)
    names = [f"page-{number}.png is {page.id}" for number, page in enumerate(pages[:3], start=1)]
    drawn = f"Drawn into {folder}/: {len(pages)} pages ({', '.join(names)})"
    return f"{drawn}. Words are blue, fields red."


def _is_drawable(document: Document) -> bool:
    """Test whether a page has an image, or boxes on a page of known size."""
    if document.image:
        return True
    return bool(document.size) and any(word.box for word in document.words)


def _empty_folder(folder: Path) -> None:
    """Make the folder of a preview private, and remove the pictures of an earlier one.

    Raises:
        EngineError: the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        for picture in folder.glob("page-*.png"):
            picture.unlink()
    except OSError as error:
        raise EngineError(f"{folder}: {error.strerror}") from None


def _draw(corpus: Corpus, document: Document) -> Image:
    """Draw one page; without an image, its words are written into their boxes."""
    from PIL import ImageDraw, ImageFont

    page = _open_page(corpus, document)
    brush = ImageDraw.Draw(page)
    width = max(1, max(page.size) // PIECES)
    label_font = ImageFont.load_default(9 * width)
    labels = {entity.words[0]: entity.label for entity in document.entities}
    fields: set[int] = set()
    for entity in document.entities:
        fields.update(entity.words)
    for index, word in enumerate(document.words):
        if word.box is None:
            continue
        colour = FIELD if index in fields else WORD
        place = (word.box[0], word.box[1])
        brush.rectangle(word.box, outline=colour, width=width)
        if document.image is None:
            height = max(4.0, 0.8 * (word.box[3] - word.box[1]))
            brush.text(place, word.text, fill="black", font=ImageFont.load_default(height))
        brush.text(place, labels.get(index, ""), fill=colour, font=label_font, anchor="lb")
    return page


def _open_page(corpus: Corpus, document: Document) -> Image:
    """Open the image of a page; an empty page of its size where it has none."""
    from PIL.Image import new as new_image

    from audit.corpus.images import open_image

    if document.image:
        return open_image(corpus, document)
    return new_image("RGB", document.size or (1, 1), "white")
