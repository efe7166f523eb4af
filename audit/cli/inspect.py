"""`docaudit inspect`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import DataDir, References, named_paths
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.corpus.summary import Summary
    from audit.workflows.references import InspectedModel


def inspect(
    data_dir: DataDir,
    model: Annotated[
        Path | None,
        typer.Option(help="A checkpoint, to check it as a scan does, and to count what each attack can try."),
    ] = None,
    reference: References = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Check a data set and say what is in it and which attacks it can feed; with a model, all that a scan refuses."""
    from audit.corpus import manifest
    from audit.corpus.summary import summarise

    if reference and model is None:
        raise UsageError("--reference is for checking a model", "add --model MODEL_DIR")
    with console.Reporter():
        corpus = manifest.load(data_dir)
        manifest.check_references(corpus)
        summary = summarise(corpus)
    if not as_json:
        _show_summary(summary)
    with console.Reporter() as progress:
        progress.stage("looking at the attacks" if model is None else "opening the model")
        inspected = None
        if model is not None:
            # Loads torch, which an inspection without a model does without.
            from audit.workflows.references import inspect_model

            inspected = inspect_model(model, corpus, data_dir, named_paths(reference))
        attacks = [*_outlook(corpus, inspected)]
    if as_json:
        content = {"schema": 1, "data": asdict(summary), "attacks": dict(attacks)}
        typer.echo(json.dumps(content | {"model": None if inspected is None else asdict(inspected)}, indent=2))
        return
    given = "data set" if inspected is None else "data set and model"
    console.show_table("Attacks", ("attack", f"with this {given}"), attacks)
    if inspected is not None:
        console.warn(*(line for line in inspected.warnings if line not in summary.warnings))
        console.show_table("Trials with this model", ("attack", "split", "trials"), inspected.trials)
        console.say(*inspected.lacking)


def _outlook(corpus: Corpus, model: InspectedModel | None) -> Iterator[tuple[str, str]]:
    """Name every attack with what keeps it from this data set and model, or that it can be fed."""
    from audit.attacks.battery import BATTERY
    from audit.attacks.interface import why
    from audit.case import Case
    from audit.targets.interface import NoModel

    for kind in BATTERY:
        attack = kind.preset("standard")
        # References of a model may be given beside the manifest: what they lack is listed with it.
        kinds = ("model", "data", "missing") if model is None else ("data",)
        barred = None if model is None else model.inapplicable.get(attack.name)
        yield attack.name, barred or why(attack, Case(NoModel(corpus), corpus), *kinds) or "can be fed"


def _show_summary(summary: Summary) -> None:
    """The counts of a data set; warnings last."""
    from audit.corpus.documents import SPLITS

    drawn = f", drawn by {summary.drawn}" if summary.drawn else ""
    console.say(
        f"{summary.name}: {summary.task}, membership assigned {summary.assigned}{drawn}, sha256 {summary.sha256[:16]}"
    )
    console.say("")
    rows = [(name, *(own[split] for split in SPLITS)) for name, own in summary.counts.items()]
    console.show_table("Documents", ("", *SPLITS), rows)
    if summary.categories:
        fields = [
            (name, *(f"{own.attacked[split]} of {own.fields[split]}" for split in SPLITS), own.values, own.unique)
            for name, own in summary.categories.items()
        ]
        console.show_table("Fields marked for attack, of all", ("category", *SPLITS, "values", "unique"), fields)
    console.say(f"images found in several splits: {summary.images_in_several_splits}")
    asked = summary.asked_providers
    console.say(
        f"providers with held-out documents: {asked.n_in} in, {asked.n_out} out; in without one: {asked.unasked}"
    )
    canaries = summary.canaries
    if canaries is not None:
        console.say(
            f"canaries: {canaries.canaries} of pattern {', '.join(canaries.patterns)}, {canaries.included} of them in "
            f"{canaries.documents} documents, {canaries.canaries - canaries.included} in none"
        )
    console.say("")
    console.warn(*summary.warnings)
