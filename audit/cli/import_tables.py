"""What an import says when it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from audit.cli import console

if TYPE_CHECKING:
    from audit.importers.report import ImportReport


def show_import(report: ImportReport, destination: Path) -> None:
    """The documents and fields of an import, and those that it could not find."""
    rows = []
    for label, count in report.fields.items():
        lost = ", ".join(f"{number} {reason}" for reason, number in report.not_located.get(label, {}).items() if number)
        rows.append((label, count, *report.qualities.get(label, {}).values(), lost or "-"))
    if rows:
        titles = ("label", "fields", "located exactly", "normalised", "loosely", "not located")
        console.show_table("Fields", titles, rows)
    if report.task is not None:
        console.say(f"The model's task, for the manifest: {report.task}")
    console.show_table("Documents", ("split", "documents"), list(report.documents.items()))
    for name, count in report.notes.items():
        console.say(f"{name}: {count}")
    console.say(f"{len(report.duplicates)} groups of documents with the same image, never in two splits")
    console.say(f"Written to {destination}; fields without words are listed in {destination / 'import-report.json'}")


def show_next(report: ImportReport, destination: Path) -> None:
    """The commands that lead on."""
    wordless = any("docaudit ocr" in warning for warning in report.warnings)
    commands = (
        *([f"docaudit ocr {destination}"] if wordless else []),
        f"docaudit inspect {destination} --model MODEL_DIR",
        f"docaudit scan MODEL_DIR {destination} --documents 20 --budget quick --out first-look",
    )
    console.show_commands("Next:", commands)
