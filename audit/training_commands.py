"""The commands that train: baselines, split models, and countermeasures with what they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.errors import UsageError, listed
from audit.options import DataDir, Debug, Device, FilledCommand, PolicyName, Seed, errors_shown, named_paths

if TYPE_CHECKING:
    from audit.defenses.interface import DataDefense

Reference = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="pretrained=PATH: what the model was fine-tuned from, unless the manifest says it (for intents and slots "
        "the model itself, whose settings alone are read); with defend also baselines=PATH.",
    ),
]
Out = Annotated[Path, typer.Option(help="Where the models go. Those that are there already are not trained again.")]


class DefenseCommand(FilledCommand):
    """A command about countermeasures, with the registered ones in its choices and its help."""

    def choices(self) -> Mapping[str, Sequence[str]]:
        """See `FilledCommand.choices`."""
        from audit.defenses.registry import DEFENSES

        return {"countermeasure": tuple(DEFENSES)}

    def words(self) -> Mapping[str, str]:
        """See `FilledCommand.words`."""
        from audit.defenses import registry

        asked, rewritten = list(registry.query_defenses()), list(registry.data_defenses())
        kinds = [
            f"{listed(asked, 'and')} change the question while the model is used.",
            *(
                f"{name} trains a model that is {defense.description}, and baselines trained the same way."
                for name, defense in registry.training_defenses().items()
            ),
            *(
                f"{name} writes a copy of a data set {defense.description}, and says what that hides from an attacker "
                "who knows of it."
                for name, defense in registry.data_defenses().items()
            ),
        ]
        return {
            "kinds": " ".join(kinds),
            "while_used": listed(asked, "or"),
            "data_alone": f"{listed(rewritten, 'and')} {'take' if rewritten[1:] else 'takes'} DATA_DIR alone.",
        }


def train_baseline(
    data_dir: DataDir,
    out: Out = Path("baselines"),
    count: Annotated[int, typer.Option(min=1, help="How many, each with a seed of its own.")] = 1,
    reference: Reference = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the first one.", show_default="the recipe's")] = None,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Train the generalisation baseline: as the model was trained, on public documents instead of the audited ones.

    Epochs, learning rate, batch size and seed are those of [recipe] in manifest.toml; the number of samples is that of
    the member documents.
    """
    with errors_shown(debug):
        from audit import console
        from audit.corpus import manifest
        from audit.targets.environment import device_named
        from audit.training.references import baselines

        corpus = manifest.load(data_dir)
        with console.Reporter() as progress:
            places = baselines.train_baseline(
                _start(reference), corpus, out, count=count, seed=seed, device=device_named(device), progress=progress
            )
        console.say(f"{len(places)} in {out}: docaudit scan MODEL_DIR {data_dir} --reference baselines={out}")


def train_splits(
    data_dir: DataDir,
    out: Out = Path("splits"),
    count: Annotated[int, typer.Option(min=2, help="K, an even number; the paper has 50.")] = 16,
    reference: Reference = None,
    seed: Seed = 0,
    device: Device = "auto",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Train on so many Ray workers of this machine.", show_default="one after the other"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Train K models, each on half of the member documents: for memorisation scores, LiRA and RMIA."""
    with errors_shown(debug):
        from audit import console, runner
        from audit.corpus import manifest
        from audit.engine.interface import Engine
        from audit.targets.environment import device_named, threads
        from audit.training.references import splits

        chosen = device_named(device)
        engine: Engine | None = None
        if workers is not None:
            runner.check_ray()
            from audit.engine.ray import RayEngine

            engine = RayEngine(None, workers, 1, threads=threads(), gpu=chosen == "cuda")
        corpus = manifest.load(data_dir)
        with console.Reporter() as progress:
            found = splits.train_splits(
                _start(reference), corpus, out, count=count, seed=seed, device=chosen, engine=engine, progress=progress
            )
        console.say(f"{len(found)} models in {out}: docaudit scan MODEL_DIR {data_dir} --reference splits={out}")


def defend(
    countermeasure: Annotated[str, typer.Argument(metavar="COUNTERMEASURE", show_default=False)],
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL_DIR DATA_DIR", help="{data_alone}", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Where models, records and the comparison go.")] = Path("docaudit-defence"),
    policy: PolicyName = "default",
    reference: Reference = None,
    budget: Annotated[str, typer.Option(help="quick, standard or full; see scan.")] = "standard",
    seed: Seed = 0,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Measure a countermeasure: what the model gives away without it and with it, and what it costs.

    {kinds}
    """
    with errors_shown(debug):
        from audit.defenses.interface import DataDefense
        from audit.defenses.registry import DEFENSES

        defense = DEFENSES[countermeasure]
        if isinstance(defense, DataDefense):
            _rewrite(defense, folders, reference, out, seed, device)
            return
        from audit import defending, runner

        if len(folders) != 2:
            raise UsageError(f"{countermeasure} takes MODEL_DIR and DATA_DIR, not {len(folders)} folders")
        model_dir, data_dir = folders
        options = runner.ScanOptions(
            model_dir=model_dir,
            data_dir=data_dir,
            out=out,
            only=("memorisation",),
            budget=budget,
            seed=seed,
            device=device,
            references=named_paths(reference or []),
        )
        defending.measure(countermeasure, options, policy)


def _rewrite(
    defense: DataDefense, folders: list[Path], reference: list[str] | None, out: Path, seed: int, device: str
) -> None:
    from audit import evading

    named = named_paths(reference or [])
    embedders = named.pop("embedder", [])
    if len(folders) != 1 or named or len(embedders) > 1:
        raise UsageError(f"{defense.name} takes DATA_DIR alone, and at most --reference embedder=PATH")
    found = evading.evade_and_measure(
        folders[0], out, defense=defense, embedder=next(iter(embedders), None), seed=seed, device=device
    )
    evading.show(found, out)


def _start(reference: list[str] | None) -> Path | None:
    """What the model was fine-tuned from, when the command line says it."""
    named = named_paths(reference or [])
    superfluous = sorted(set(named) - {"pretrained"})
    if superfluous or len(named.get("pretrained", [])) > 1:
        raise UsageError(f"--reference {(superfluous or ['pretrained'])[0]}: give one, pretrained=PATH")
    return next(iter(named.get("pretrained", [])), None)
