"""`docaudit inspect` and `ocr`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from audit.attacks import text_of
from audit.cli import console
from audit.cli.options import (
    HELP,
    DataDir,
    Folders,
    OldModel,
    References,
    Verbose,
    named_paths,
)
from audit.cli.places import split_places
from audit.errors import UsageError, command_line

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.corpus.summary import Summary
    from audit.workflows.references import InspectedModel


READY = "can be fed"
"""An attack that nothing keeps from running."""


class Readiness(NamedTuple):
    """Whether an attack can run on a data set, and on a model.

    Attributes:
        attack: name of the attack.
        reason: what keeps it from running; `READY` where nothing does.
    """

    attack: str
    reason: str

    @property
    def is_ready(self) -> bool:
        """Tell whether nothing keeps the attack from running."""
        return self.reason == READY

    @property
    def title(self) -> str:
        """Return the title of the attack, or its name where it has none."""
        return text_of(self.attack).title or self.attack


def inspect(
    folders: Folders,
    model: OldModel = None,
    reference: References = None,
    preview: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=HELP["inspect.preview"])
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=HELP["inspect.as_json"])] = False,
    verbose: Verbose = False,
) -> None:
    """Check a data set and show which attacks can run on it.

    With MODEL_DIR it also checks the model as a scan does, and counts what each attack can try.
    """
    from audit.corpus import manifest
    from audit.corpus.summary import summarise

    model, data_dir = split_places("inspect", folders, model)
    if reference and model is None:
        raise UsageError(
            "--reference is for checking a model", "docaudit inspect MODEL_DIR DATA_DIR"
        )
    with console.Reporter():
        corpus = manifest.load(data_dir)
        manifest.check_references(corpus)
        summary = summarise(corpus)
    if not as_json:
        _show_summary(summary, verbose=verbose)
    if preview is not None:
        from audit.report.revealed import draw_preview

        console.note(draw_preview(corpus, preview))
    inspected = None
    with console.Reporter() as progress:
        if model is None:
            progress.stage("looking at the attacks")
        else:
            progress.stage("opening the model")
            # Loads torch, which an inspection without a model does without.
            from audit.workflows.references import inspect_model

            inspected = inspect_model(model, corpus, data_dir, named_paths(reference))
        attacks = list(_list_readiness(corpus, inspected))
    if as_json:
        typer.echo(_as_json(summary, attacks, inspected))
        return
    _show_attacks(summary, attacks, inspected, verbose=verbose)


def _list_readiness(corpus: Corpus, model: InspectedModel | None) -> Iterator[Readiness]:
    """Say of every attack what keeps it from this data set and model, or that it can be fed."""
    from audit.attacks.battery import BATTERY
    from audit.attacks.interface import why
    from audit.case import Case
    from audit.targets.interface import NoModel

    obstacles: dict[str, str] = {}
    kinds: tuple[str, ...] = ("model", "data", "missing")
    if model is not None:
        obstacles = {**model.inapplicable, **model.skipped}
        # References of a model may be given beside the manifest: attacks that lack one are
        # `skipped`.
        kinds = ("data",)
    for kind in BATTERY:
        attack = kind.preset("standard")
        reason = obstacles.get(attack.name)
        if not reason:
            reason = why(attack, Case(NoModel(corpus), corpus), *kinds)
        yield Readiness(attack.name, reason or READY)


def _as_json(
    summary: Summary, attacks: Sequence[Readiness], inspected: InspectedModel | None
) -> str:
    """Write the numbers of a data set, and what keeps each attack from it, for a program."""
    content: dict[str, Any] = {
        "schema": 1,
        "data": asdict(summary),
        "attacks": {attack.attack: attack.reason for attack in attacks},
        "model": None,
    }
    if inspected is not None:
        content["model"] = asdict(inspected)
    return json.dumps(content, indent=2)


def _show_attacks(
    summary: Summary,
    attacks: Sequence[Readiness],
    inspected: InspectedModel | None,
    *,
    verbose: bool,
) -> None:
    """Print which attacks can run, and with a model what it lacks and what they try."""
    if inspected is None:
        _show_readiness(attacks, verbose=verbose)
        return
    for score in inspected.scores:
        if not score.is_doubtful:
            console.say(score.sentence)
    for line in inspected.warnings:
        if line not in summary.warnings:
            console.warn(line)
    _show_readiness(attacks, verbose=verbose)
    if verbose:
        columns = ("attack", "split", "trials")
        console.show_table("Trials with this model", columns, inspected.trials)


def _show_readiness(attacks: Sequence[Readiness], *, verbose: bool) -> None:
    """Print which attacks can run, and what keeps the others from it."""
    ready = [attack.title for attack in attacks if attack.is_ready]
    hint = "" if verbose else " (-v shows more)"
    ending = "."
    if ready:
        ending = f": {'; '.join(ready)}"
    console.say(f"{len(ready)} of {len(attacks)} attacks can run{hint}{ending}")
    obstacles = [f"  {attack.title}: {attack.reason}" for attack in attacks if not attack.is_ready]
    if obstacles:
        console.say("Cannot run:", *obstacles)


def _show_summary(summary: Summary, *, verbose: bool) -> None:
    """Print the counts of a data set, without those that are zero unless `verbose`.

    Warnings last.
    """
    drawn = f", drawn by {summary.drawn}" if summary.drawn else ""
    digest = f", sha256 {summary.sha256[:16]}" if verbose else ""
    membership = f"membership assigned {summary.assigned}{drawn}{digest}"
    console.say(f"{summary.name}: {summary.task}, {membership}", "")
    rows = list(_count_rows(summary, verbose=verbose))
    if not verbose:
        rows.append(_field_row(summary))
    columns = ("", "training (member)", "unseen (heldout)", "public")
    console.show_table("", columns, rows, spaced=verbose)
    if summary.categories and verbose:
        _show_categories(summary)
    canaries = summary.canaries
    if canaries is not None:
        console.say(
            f"canaries: {canaries.canaries} of pattern {', '.join(canaries.patterns)}, "
            f"{canaries.included} of them in {canaries.documents} documents, "
            f"{canaries.canaries - canaries.included} in none"
        )
    console.say("")
    console.warn(*summary.warnings)


def _count_rows(summary: Summary, *, verbose: bool) -> Iterator[tuple[object, ...]]:
    """Yield a row for each number of a data set: its name, and its value in each split.

    Unless `verbose`, numbers are left out that are zero, or those of the documents again.
    """
    from audit.corpus.documents import SPLITS

    documents = summary.counts["documents"]
    for name, counts in summary.counts.items():
        says_more = any(counts.values()) and counts != documents
        if verbose or name == "documents" or says_more:
            yield (name, *(counts[split] for split in SPLITS))


def _field_row(summary: Summary) -> tuple[object, ...]:
    """Return a row with the number of fields to attack in each split."""
    from audit.corpus.documents import SPLITS

    fields = dict.fromkeys(SPLITS, 0)
    for counts in summary.categories.values():
        for split in SPLITS:
            fields[split] += counts.attacked[split]
    n_kinds = len(summary.categories)
    kinds = "kind" if n_kinds == 1 else "kinds"
    return (f"fields to attack, of {n_kinds} {kinds}", *fields.values())


def _show_categories(summary: Summary) -> None:
    """Print for each category how many of its fields are to be attacked, and their values."""
    from audit.corpus.documents import SPLITS

    rows = []
    for name, counts in summary.categories.items():
        marked = [f"{counts.attacked[split]} of {counts.fields[split]}" for split in SPLITS]
        rows.append((name, *marked, counts.values, counts.unique))
    columns = ("category", *SPLITS, "values", "unique")
    console.show_table("Fields marked for attack, of all", columns, rows)


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
    from audit.workflows.places import quoted

    with console.Reporter() as progress:
        added = add_words(data_dir, progress, reader=PageReader(language))
    rows = [
        ("documents that got words", added.read),
        ("words", added.words),
        ("documents that had words, left as they were", added.had_words),
        ("documents with neither image nor words", added.without_image),
    ]
    answers = [(f"answers located: {quality}", count) for quality, count in added.answers.items()]
    answers.append(("answers not located", added.not_located))
    if any(count for _, count in answers):
        rows.extend(answers)
    console.show_table("Words", ("", "number"), rows)
    original = quoted(added.original)
    documents = quoted(added.path)
    again = command_line("ocr", data_dir, "--language", language)
    paths = {"original": original, "documents": documents, "again": again}
    console.warn(*render_lines("ocr.txt", added=added, **paths))
    if not (added.read or added.empty or added.failed):
        console.say("Every document with an image has words already.")
    if added.read:
        console.say(f"Written to {data_dir}")
