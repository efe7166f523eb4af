"""`docaudit inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import DataDir, Debug, show_errors

if TYPE_CHECKING:
    from audit.corpus.summary import Quartiles, Summary


def inspect(
    data_dir: DataDir,
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint, to count the fields that its tokens let each attack try.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Check a data set and say what is in it and which attacks it can feed."""
    with show_errors(debug):
        from audit.attacks import BATTERY
        from audit.corpus import manifest
        from audit.corpus.summary import summarise

        corpus = manifest.load(data_dir)
        manifest.check_references(corpus)
        _show_summary(summarise(corpus))
        task = corpus.manifest.task.kind
        rows = [
            (kind.name, kind.inapplicable_tasks.get(task) or kind.preset("standard").lacks(corpus) or "can be fed")
            for kind in BATTERY
        ]
        console.show_table("Attacks", ("attack", "with this data set"), rows)
        if model is not None:
            from audit.workflows.setup import trial_counts

            console.show_table("Trials with this model", ("attack", "split", "trials"), trial_counts(model, corpus))


def _show_summary(summary: Summary) -> None:
    """The counts of a data set; warnings last."""
    from audit.corpus.documents import SPLITS

    console.say(f"{summary.name}: {summary.task}, membership assigned {summary.assigned}, sha256 {summary.sha256[:16]}")
    console.say("")
    providers = [summary.providers[split] for split in SPLITS]
    console.show_table(
        "Documents",
        ("", *SPLITS),
        [
            ("documents", *(summary.documents[split] for split in SPLITS)),
            ("with an image", *(summary.images[split] for split in SPLITS)),
            ("image repeated in the split", *(summary.duplicate_images.within[split] for split in SPLITS)),
            ("providers", *(count.providers for count in providers)),
            ("providers with two or more", *(count.with_two for count in providers)),
            ("questions", *(summary.questions[split] for split in SPLITS)),
            ("answers among the page's words", *(summary.answers_on_page[split] for split in SPLITS)),
            ("questions with an image", *(summary.questions_with_image[split] for split in SPLITS)),
            ("links between fields", *(summary.links[split] for split in SPLITS)),
        ],
    )
    if summary.categories:
        _show_fields(summary)
    if summary.words is not None:
        console.say(f"words a document: {_range(summary.words)} (least to greatest, median)")
    if summary.questions_a_document is not None:
        console.say(f"questions a document: {_range(summary.questions_a_document)} (least to greatest, median)")
    console.say(f"images found in several splits: {summary.duplicate_images.across}")
    asked = summary.asked_providers
    console.say(
        f"providers with held-out documents: {asked.n_in} in, {asked.n_out} out; in without one: {asked.unasked}; "
        f"spellings merged: {asked.merged}"
    )
    canaries = summary.canaries
    if canaries is not None:
        console.say(
            f"canaries: {canaries.canaries} of pattern {', '.join(canaries.patterns)}, {canaries.included} of them in "
            f"{canaries.documents} documents, {canaries.canaries - canaries.included} in none"
        )
    console.say("")
    console.warn(*summary.warnings)


def _show_fields(summary: Summary) -> None:
    from audit.corpus.documents import SPLITS

    categories = summary.categories.items()
    console.show_table(
        "Fields marked for attack, of all",
        ("category", *SPLITS),
        [
            (name, *(f"{counts.attacked[split]} of {counts.fields[split]}" for split in SPLITS))
            for name, counts in categories
        ],
    )
    console.show_table(
        "Values of all fields",
        ("category", "distinct", "unique", "repeated in split", "in another split"),
        [
            (
                name,
                counts.values,
                counts.unique,
                sum(counts.repeated_within.values()),
                sum(counts.repeated_across.values()),
            )
            for name, counts in categories
        ],
    )
    console.show_table(
        "Lengths of all fields (least to greatest, median)",
        ("category", "words", "characters"),
        [(name, _range(counts.words), _range(counts.characters)) for name, counts in categories],
    )


def _range(quartiles: Quartiles) -> str:
    return f"{quartiles.least:g}-{quartiles.greatest:g}, {quartiles.median:g}"
