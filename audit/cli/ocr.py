"""`docaudit ocr`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import DataDir

if TYPE_CHECKING:
    from audit.workflows.ocr import WordsAdded

MAX_NAMES = 5
"""Documents that a warning names."""


def ocr(
    data_dir: DataDir,
    language: Annotated[str, typer.Option(help="Of the pages, as Tesseract names it; several as in deu+eng.")] = "eng",
) -> None:
    """Add words and boxes, read by Tesseract, to documents that have an image and no words.

    The answers of their questions are then located among the words. documents.jsonl is replaced; the old file stays as
    documents.before-ocr.jsonl. A run that was interrupted goes on when it is run again.
    """
    from audit.importers.ocr import PageReader
    from audit.workflows.ocr import add_words

    with console.Reporter() as progress:
        added = add_words(data_dir, progress, reader=PageReader(language))
    _show(added, data_dir)


def _show(added: WordsAdded, written: Path) -> None:
    rows: list[tuple[str, int]] = [
        ("documents that got words", added.read),
        ("words", added.words),
        ("documents that had words, left as they were", added.had_words),
        ("documents with neither image nor words", added.without_image),
    ]
    answers = sum(added.answers.values()) + added.not_located
    if answers:
        rows += [(f"answers located: {quality}", count) for quality, count in added.answers.items()]
        rows.append(("answers not located", added.not_located))
    console.show_table("Words", ("", "number"), rows)
    console.warn(*_warnings(added))
    if not (added.read or added.empty or added.failed):
        console.say("Every document with an image has words already.")
    if added.read:
        console.say(f"Written to {written}")


def _warnings(added: WordsAdded) -> list[str]:
    found = []
    if added.empty:
        found.append(f"nothing was read on {_named(added.empty)}: is the language right, are the pages upright?")
    if added.failed:
        found.append(f"Tesseract failed on {_named(added.failed)}: run the same command again")
    if added.unclassified:
        found.append(
            f"{added.unclassified} answers were located, but their questions have no category: no field was made of "
            "them; give the questions a category where fields are wanted"
        )
    return found


def _named(documents: tuple[str, ...]) -> str:
    shown = ", ".join(documents[:MAX_NAMES])
    more = f" and {len(documents) - MAX_NAMES} more" if len(documents) > MAX_NAMES else ""
    return f"{len(documents)} {'page' if len(documents) == 1 else 'pages'} ({shown}{more})"
