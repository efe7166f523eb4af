"""`docaudit defend`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import Debug, Device, PolicyName, Pretrained, Seed, named_paths, show_errors
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.defenses.evaluation import Evaluation
    from audit.workflows.defend import DefenseComparison


def defend(
    countermeasure: Annotated[str, typer.Argument(metavar="COUNTERMEASURE", show_default=False)],
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL_DIR DATA_DIR", help="{data_alone}", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Where models, records and the comparison go.")] = Path("docaudit-defence"),
    policy: PolicyName = "default",
    reference: Pretrained = None,
    budget: Annotated[str, typer.Option(help="quick, standard or full; see scan.")] = "standard",
    seed: Seed = 0,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Measure a countermeasure: what the model gives away without it and with it, and what it costs.

    {kinds}
    """
    with show_errors(debug):
        from audit.defenses.interface import DataDefense
        from audit.defenses.registry import DEFENSES

        defense = DEFENSES[countermeasure]
        references = named_paths(reference)
        if isinstance(defense, DataDefense):
            from audit.workflows.evade import evade_and_measure

            embedders = references.pop("embedder", [])
            if len(folders) != 1 or references or len(embedders) > 1:
                raise UsageError(f"{defense.name} takes DATA_DIR alone, and at most --reference embedder=PATH")
            embedder = next(iter(embedders), None)
            with console.Reporter() as progress:
                evaluation = evade_and_measure(
                    folders[0], out, defense=defense, embedder=embedder, seed=seed, device=device, progress=progress
                )
            _show_evaluation(evaluation, out)
            return
        from audit.workflows.defend import measure_defense
        from audit.workflows.setup import ScanOptions

        if len(folders) != 2:
            raise UsageError(f"{countermeasure} takes MODEL_DIR and DATA_DIR, not {len(folders)} folders")
        options = ScanOptions(
            model_dir=folders[0],
            data_dir=folders[1],
            out=out,
            only=("memorisation",),
            budget=budget,
            seed=seed,
            device=device,
            references=references,
        )
        with console.Reporter() as progress:
            for comparison in progress.follow(measure_defense(countermeasure, options, policy, progress)):
                _show_comparison(comparison)


def _show_comparison(comparison: DefenseComparison) -> None:
    rows = [
        (
            change.metric,
            change.context or "complete pages",
            console.format_estimate(change.before),
            console.format_estimate(change.after),
            console.format_estimate(change.difference),
            f"{change.p:.4f}",
        )
        for change in comparison.changes
    ]
    console.show_table("What the countermeasure changes", ("", "context", "before", "after", "difference", "p"), rows)
    if comparison.channel is not None:
        shown = console.format_estimate(comparison.channel)
        console.say(f"AUC of saying that the answer is not there, as a sign of membership: {shown}")
    console.say(f"Read {', '.join(map(str, comparison.files))}")


def _show_evaluation(evaluation: Evaluation, out: Path) -> None:
    from audit.workflows.evade import COMPARISON, DATA

    rows = [
        (
            one.attacker.words,
            console.format_estimate(one.accuracy),
            console.format_estimate(one.macro_f1),
            console.format_estimate(one.lift),
            "-" if one.change is None else console.format_estimate(one.change),
            "-" if one.p is None else f"{one.p:.4f}",
        )
        for one in evaluation.attacked
    ]
    setting = f"mask {evaluation.mask}, {evaluation.classifier} on {evaluation.embedding}"
    title = f"What redactions give away ({setting})"
    console.show_table(title, ("", "accuracy", "macro-F1", "lift", "change", "p"), rows)
    cost = evaluation.cost
    if cost.answers:
        console.say(f"{cost.answers_lost} of {cost.answers} answers stand on their page no more")
    console.say(evaluation.sentence)
    console.say(f"The evaded copy is {out / DATA}, the numbers are in {out / COMPARISON}")
