"""`docaudit train-baseline` and `docaudit train-splits`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import DataDir, Device, Engine, Pretrained, Seed, named_paths, show_errors
from audit.errors import UsageError
from audit.files import check_folder

Out = Annotated[Path, typer.Option(help="Where the models go. Those that are there already are not trained again.")]


def train_baseline(
    data_dir: DataDir,
    out: Out = Path("baselines"),
    count: Annotated[int, typer.Option(min=1, help="How many, each with a seed of its own.")] = 1,
    reference: Pretrained = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the first one.", show_default="the recipe's")] = None,
    device: Device = "auto",
) -> None:
    """Train the generalisation baseline: as the model was trained, on public documents instead of the audited ones.

    Epochs, learning rate, batch size and seed are those of the recipe in manifest.toml; the number of samples is that
    of the member documents.
    """
    with show_errors():
        check_folder("--out", out)
        from audit.workflows.train import train_baselines

        with console.Reporter() as progress:
            n_trained = train_baselines(
                data_dir, out, start=_start(reference), count=count, seed=seed, device=device, progress=progress
            )
        console.say(f"{n_trained} in {out}: docaudit scan MODEL_DIR {data_dir} --reference baselines={out}")


def train_splits(
    data_dir: DataDir,
    out: Out = Path("splits"),
    count: Annotated[int, typer.Option(min=2, help="K, an even number; the paper has 50.")] = 16,
    reference: Pretrained = None,
    seed: Seed = 0,
    device: Device = "auto",
    engine: Engine = "local",
) -> None:
    """Train K models, each on half of the member documents: for memorisation scores, LiRA and RMIA."""
    with show_errors():
        check_folder("--out", out)
        from audit.workflows import train

        with console.Reporter() as progress:
            n_trained = train.train_splits(
                data_dir,
                out,
                start=_start(reference),
                count=count,
                seed=seed,
                device=device,
                engine=engine,
                progress=progress,
            )
        console.say(f"{n_trained} models in {out}: docaudit scan MODEL_DIR {data_dir} --reference splits={out}")


def _start(reference: Sequence[str] | None) -> Path | None:
    """The checkpoint that the model was fine-tuned from, when the command line names it."""
    named = named_paths(reference)
    superfluous = sorted(set(named) - {"pretrained"})
    if superfluous or len(named.get("pretrained", [])) > 1:
        raise UsageError(f"--reference {(superfluous or ['pretrained'])[0]}: give one, pretrained=PATH")
    return next(iter(named.get("pretrained", [])), None)
