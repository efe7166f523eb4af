"""`docaudit tune-attack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import DataDir, Debug, Device, Seed, named_paths, show_errors
from audit.files import check_file
from audit.training.defaults import EPOCHS, SHARE


def tune_attack(
    model_dir: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_DIR",
            help="The model to be audited: what the shadow target is to be like.",
            show_default=False,
        ),
    ],
    data_dir: DataDir,
    out: Annotated[Path, typer.Option(help="The file for scan's --attack-parameters.")] = Path("attack.toml"),
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="pretrained=PATH", help="What the model was fine-tuned from, unless the manifest says it."
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes of the shadow target over its documents: the model's own number.")
    ] = EPOCHS,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the public documents for the shadow target.")
    ] = SHARE,
    seed: Seed = 0,
    device: Device = "auto",
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Where the models that are trained for this are kept.", show_default="references, beside --out"
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Fit the reconstruction attack's parameters on a shadow target inside the public split, not on audited fields."""
    with show_errors(debug):
        check_file("--out", out)
        from audit.workflows import tune

        options = tune.TuningOptions(
            model_dir=model_dir,
            data_dir=data_dir,
            out=out,
            references=named_paths(reference),
            epochs=epochs,
            share=share,
            seed=seed,
            device=device,
            cache=cache,
        )
        with console.Reporter() as progress:
            opened = tune.open_tuning(options)
            tuned = tune.tune_attack(opened, progress)
        settings = [(name, f"{default:g}", f"{value:g}") for name, default, value in tune.settings_of(tuned)]
        console.show_table("Parameters", ("parameter", "default", "tuned"), settings)
        console.show_table(
            f"What they reach on {tuned.n_fields} fields of {tuned.n_documents} documents of the shadow target",
            ("", "objective", "fields", "tokens"),
            [
                (label, f"{score.objective:.4f}", f"{score.fields:.4f}", f"{score.tokens:.4f}")
                for label, score in tune.scores_of(tuned)
            ],
        )
        console.warn(*tune.warn_of_tuned(tuned))
        console.say(f"Written to {out}: docaudit scan ... --attack-parameters {out}")
