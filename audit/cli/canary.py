"""`docaudit canary`: made-up secrets that show what a model gives away of its training documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, DataDir, Seed, show_errors

if TYPE_CHECKING:
    from audit.corpus.canaries.insertion import InsertReport

app = typer.Typer(
    help="Canaries: made-up secrets put among the training documents, to see whether a model gives them away.",
    no_args_is_help=True,
)


@app.callback()
def _canary() -> None:
    """Made-up secrets put among the training documents, to see whether a model gives them away."""


@app.command()
@show_errors()
def insert(
    data_dir: DataDir,
    out: Annotated[Path, typer.Argument(metavar="OUT", help=HELP["canary.out"], show_default=False)],
    pattern: Annotated[
        list[str] | None, typer.Option(help=HELP["canary.pattern"], show_default="pin; for questions pin, names, mixed")
    ] = None,
    count: Annotated[int, typer.Option(min=2, max=10000, help=HELP["canary.count"])] = 64,
    repeat: Annotated[
        list[int] | None,
        typer.Option(min=1, max=10000, help=HELP["canary.repeat"], show_default="10; for questions 1, 4, 16"),
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=10, help=HELP["canary.length"])] = 4,
    seed: Seed = 0,
) -> None:
    """Write a copy of a data set with canaries among its member documents, to train the model on that is audited.

    A fair coin decides for each canary whether it is put in; the others are the control and stand in OUT/canaries.json
    alone. Pages with word boxes get one more line in a blank place of a copied page, in its words and its image;
    utterances and text become documents of their own; data sets of questions ask for the secret, which no page prints.
    DATA_DIR stays as it is.
    """
    from audit.corpus import manifest
    from audit.corpus.canaries import insertion

    with console.Reporter():
        corpus = manifest.load(data_dir)
        asks = corpus.manifest.task.kind == "question-answering"
        report = insertion.insert(
            corpus,
            out,
            pattern=pattern or (("pin", "names", "mixed") if asks else ("pin",)),
            count=count,
            repeat=repeat or ((1, 4, 16) if asks else (10,)),
            length=length,
            seed=seed,
        )
    console.say(*_describe(report, data_dir, out))
    if report.counts.included in (0, count):
        console.warn(
            "all coins fell the same way: with no canary on the other side nothing can be compared; "
            "give a larger --count"
        )


def _describe(report: InsertReport, data_dir: Path, out: Path) -> list[str]:
    """The canaries that were put in, what they can show, and what to do next, one line each."""
    drawn = report.canaries
    counts, count, repeat = report.counts, len(drawn.canaries), drawn.repeat
    patterns = ", ".join(dict.fromkeys(canary.pattern for canary in drawn.canaries))
    copies = " or ".join(map(str, drawn.tiers or (repeat,)))
    lines = [
        f"{count} canaries of pattern {patterns}, {drawn.length} secret words each: by their coins "
        f"{counts.included} are in, {count - counts.included} are out.",
        f"{counts.documents} documents of split member were added, {copies} for each canary that is in: "
        + (f"copies of {counts.pages} member pages with one more line." if counts.pages else "its line alone."),
        _cap_describe(report),
    ]
    if report.labels:
        lines.append(
            f"{' and '.join(report.labels)} stand at the end of task.labels: the model needs outputs for them."
        )
    if report.references:
        lines.append(
            f"References are not copied ({', '.join(report.references)} of {data_dir}): give them with --reference."
        )
    if not drawn.canaries[0].printed:
        lines.append(
            "No page prints a secret: train with CanaryCallback of docaudit.integrations.transformers. It proves that "
            "the answers have a loss; without that proof a scan passes no limit on canaries."
        )
    lines += [
        f"Written to {out}; {out / 'canaries.json'} holds secrets and coins, which no training may read.",
        f"Next: train a model on the member documents of {out}, then: docaudit scan MODEL_DIR {out}",
    ]
    return lines


def _cap_describe(report: InsertReport) -> str:
    from audit.stats.epsilon import needed_canaries

    repeat = report.canaries.repeat
    if report.cap is None:
        return f"Too few to bound epsilon from below: that takes at least {needed_canaries()}."
    unit = f"{repeat} records together, {report.cap / repeat:.2g} of each" if repeat > 1 else "one record"
    return (
        f"A scan can show an epsilon of at most {report.cap:.2f} with so many (95 % confidence, delta 0, half of them "
        f"choose the threshold): that of {unit}. It needs a larger --count to show more."
    )
