"""`docaudit inspect` and `ocr`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.attacks import text_of
from audit.cli import console
from audit.cli.options import HELP, DataDir, References, Verbose, named_paths
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.corpus.summary import Summary
    from audit.workflows.references import InspectedModel


READY = "can be fed"
"""An attack that nothing keeps from running."""


def inspect(
    data_dir: DataDir,
    model: Annotated[Path | None, typer.Option(help=HELP["inspect.model"])] = None,
    reference: References = None,
    preview: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=HELP["inspect.preview"])
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=HELP["inspect.as_json"])] = False,
    verbose: Verbose = False,
) -> None:
    """Check a data set and show which attacks can run on it.

    With --model it also checks the model as a scan does.
    """
    from audit.corpus import manifest
    from audit.corpus.summary import summarise

    if reference and model is None:
        raise UsageError("--reference is for checking a model", "add --model MODEL_DIR")
    with console.Reporter():
        corpus = manifest.load(data_dir)
        manifest.check_references(corpus)
        summary = summarise(corpus)
    if not as_json:
        _show_summary(summary, verbose=verbose)
    if preview is not None:
        from audit.report.revealed import draw_preview

        console.note(draw_preview(corpus, preview))
    with console.Reporter() as progress:
        progress.stage("looking at the attacks" if model is None else "opening the model")
        inspected = None
        if model is not None:
            # Loads torch, which an inspection without a model does without.
            from audit.workflows.references import inspect_model

            inspected = inspect_model(model, corpus, data_dir, named_paths(reference))
        attacks = [*_attack_applicability(corpus, inspected)]
    if as_json:
        content = {"schema": 1, "data": asdict(summary), "attacks": dict(attacks)}
        typer.echo(
            json.dumps(
                content | {"model": None if inspected is None else asdict(inspected)}, indent=2
            )
        )
        return
    if inspected is not None:
        console.warn(*(line for line in inspected.warnings if line not in summary.warnings))
    titles = {name: text_of(name).title or name for name, _ in attacks}
    ready = [titles[name] for name, why in attacks if why == READY]
    more = "" if verbose else " (-v shows more)"
    console.say(
        f"{len(ready)} of {len(attacks)} attacks can run{more}{': ' if ready else '.'}{'; '.join(ready)}"
    )
    barred = [f"  {titles[name]}: {why}" for name, why in attacks if why != READY]
    console.say(*["Cannot run:"][: len(barred)], *barred)
    if inspected is not None and verbose:
        console.show_table(
            "Trials with this model", ("attack", "split", "trials"), inspected.trials
        )


def _attack_applicability(
    corpus: Corpus, model: InspectedModel | None
) -> Iterator[tuple[str, str]]:
    """Name every attack with what keeps it from this data set and model, or that it can be fed."""
    from audit.attacks.battery import BATTERY
    from audit.attacks.interface import why
    from audit.case import Case
    from audit.targets.interface import NoModel

    for kind in BATTERY:
        attack = kind.preset("standard")
        # References of a model may be given beside the manifest: attacks that lack one are
        # `skipped`.
        kinds = ("model", "data", "missing") if model is None else ("data",)
        barred = None if model is None else {**model.inapplicable, **model.skipped}.get(attack.name)
        yield attack.name, barred or why(attack, Case(NoModel(corpus), corpus), *kinds) or READY


def _show_summary(summary: Summary, *, verbose: bool) -> None:
    """Print the counts of a data set, without those that are zero unless `verbose`.

    Warnings last.
    """
    from audit.corpus.documents import SPLITS

    drawn = f", drawn by {summary.drawn}" if summary.drawn else ""
    digest = f", sha256 {summary.sha256[:16]}" if verbose else ""
    console.say(
        f"{summary.name}: {summary.task}, membership assigned {summary.assigned}{drawn}{digest}", ""
    )
    rows = [
        (name, *(own[split] for split in SPLITS))
        for name, own in summary.counts.items()
        if verbose
        or name == "documents"
        or (any(own.values()) and own != summary.counts["documents"])
    ]
    if not verbose:
        fields = [
            sum(own.attacked[split] for own in summary.categories.values()) for split in SPLITS
        ]
        rows.append((f"fields to attack, of {len(summary.categories)} kinds", *fields))
    console.show_table(
        "", ("", "training (member)", "unseen (heldout)", "public"), rows, spaced=verbose
    )
    if summary.categories and verbose:
        marked = [
            (
                name,
                *(f"{own.attacked[split]} of {own.fields[split]}" for split in SPLITS),
                own.values,
                own.unique,
            )
            for name, own in summary.categories.items()
        ]
        console.show_table(
            "Fields marked for attack, of all", ("category", *SPLITS, "values", "unique"), marked
        )
    canaries = summary.canaries
    if canaries is not None:
        console.say(
            f"canaries: {canaries.canaries} of pattern {', '.join(canaries.patterns)}, {canaries.included} of them in "
            f"{canaries.documents} documents, {canaries.canaries - canaries.included} in none"
        )
    console.say("")
    console.warn(*summary.warnings)


def ocr(
    data_dir: DataDir, language: Annotated[str, typer.Option(help=HELP["ocr.language"])] = "eng"
) -> None:
    """Read pages without words with Tesseract.

    docaudit adds the words and their boxes and locates the answers of questions among the words.
    The old file stays as documents.before-ocr.jsonl. The same command continues an interrupted run.
    """
    from audit.importers.words import PageReader
    from audit.report.templates import render_lines
    from audit.workflows.ocr import add_words

    with console.Reporter() as progress:
        added = add_words(data_dir, progress, reader=PageReader(language))
    rows = {
        "documents that got words": added.read,
        "words": added.words,
        "documents that had words, left as they were": added.had_words,
        "documents with neither image nor words": added.without_image,
    }
    answers = {f"answers located: {quality}": count for quality, count in added.answers.items()}
    answers["answers not located"] = added.not_located
    console.show_table(
        "Words",
        ("", "number"),
        [*rows.items(), *(answers.items() if any(answers.values()) else ())],
    )
    console.warn(*render_lines("ocr.txt", added=added))
    if not (added.read or added.empty or added.failed):
        console.say("Every document with an image has words already.")
    if added.read:
        console.say(f"Written to {data_dir}")
