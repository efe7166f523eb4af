"""`docaudit defend`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from audit.cli import console
from audit.cli.options import (
    Budget,
    Device,
    Evidence,
    PolicyName,
    Pretrained,
    Seed,
    named_paths,
    show_errors,
)
from audit.defenses.registry import DEFENSES, data_defenses, query_defenses, training_defenses
from audit.errors import UsageError, listed
from audit.files import check_folder

if TYPE_CHECKING:
    from audit.defenses.evaluation import Evaluation
    from audit.defenses.interface import DataDefense, Defense
    from audit.defenses.measured import Comparison, Effect
    from audit.extensions.private.options import DpOptions
    from audit.measurements import Estimate, Measurement
    from audit.workflows.defend import DefenseChoice, DefenseComparison
    from audit.workflows.options import ScanOptions

DP = "Differential privacy (dp)"
"""The panel of the options that private training alone takes."""


def _complete(incomplete: str) -> list[str]:
    """Complete the last of several names."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in DEFENSES if name.startswith(last)]


def _chosen(names: Sequence[str]) -> list[Defense]:
    """Return the countermeasures of these names; all of them without names.

    Raises:
        UsageError: there is no such countermeasure.
    """
    for name in names:
        if name not in DEFENSES:
            raise UsageError(f"no countermeasure is called {name!r}", f"one of {', '.join(DEFENSES)}")
    return [DEFENSES[name] for name in names or DEFENSES]


def _trained(baselines_like: bool) -> list[str]:
    """List the countermeasures that train, with the model that each trains."""
    return [
        f"{name}: {defense.description}"
        for name, defense in training_defenses().items()
        if defense.baselines_like == baselines_like
    ]


REWRITTEN = [*data_defenses()]
KINDS = " ".join(
    [
        f"{listed([*query_defenses()], 'and')} change the question while the model is used.",
        f"Others train a model again: {'; '.join(_trained(True))}; each beside baselines trained the same way.",
        *(f"{one}, beside the references as they are." for one in _trained(False)),
        *(
            f"{name} writes a copy of a data set {defense.description}, and says what that hides from an attacker who "
            "knows of it."
            for name, defense in data_defenses().items()
        ),
    ]
)
EPILOG = KINDS


def _dp(help_text: str, *names: str, **more: Any) -> Any:
    """An option of private training."""
    return typer.Option(*names, help=help_text, rich_help_panel=DP, show_default=False, **more)


def defend(
    countermeasure: Annotated[
        str,
        typer.Argument(
            metavar="COUNTERMEASURE",
            help=f"One of {listed([*DEFENSES], 'and')}, or several joined by commas; none with --all.",
            autocompletion=_complete,
            show_default=False,
        ),
    ],
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL_DIR DATA_DIR",
            help=f"{listed(REWRITTEN, 'and')} {'take' if REWRITTEN[1:] else 'takes'} DATA_DIR alone.",
            show_default=False,
        ),
    ],
    every: Annotated[
        bool,
        typer.Option(
            "--all", is_eager=True, help="Measure every countermeasure on a model that applies, side by side."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Where models, records and the comparison go.")] = Path("docaudit-defence"),
    evidence: Evidence = None,
    policy: PolicyName = "default",
    reference: Pretrained = None,
    budget: Annotated[Budget, typer.Option(help="See scan.")] = "standard",
    seed: Seed = 0,
    device: Device = "auto",
    unit: Annotated[Literal["document", "provider"] | None, _dp("Whoever is protected as a whole.")] = None,
    epsilon: Annotated[float | None, _dp("The guarantee; give it or --to-policy.")] = None,
    to_policy: Annotated[
        str | None, _dp("As much noise as proves a policy's limits on membership and providers.", metavar="POLICY")
    ] = None,
    delta: Annotated[float | None, _dp("Of the guarantee. Default: 1 / N^1.1 of N units.")] = None,
    per_unit: Annotated[int | None, _dp("Documents of a unit at most, drawn once. Default: all.", min=1)] = None,
    trained: Annotated[
        str | None, _dp("What is trained: lora:RANK, head or full. Default: lora:16.", "--train")
    ] = None,
    embeddings: Annotated[bool | None, _dp("Train embeddings too.", "--embeddings")] = None,
    engine: Annotated[str | None, _dp("Of gradients: auto, exact, vmap or hooks. Default: auto.")] = None,
    steps: Annotated[int | None, _dp("Of training. Default: by a rule.", min=1)] = None,
    expected_units: Annotated[float | None, _dp("Units of a step on average. Default: by a rule.")] = None,
    max_norm: Annotated[float | None, _dp("To which a unit's contribution is clipped. Default: 1.")] = None,
    learning_rate: Annotated[float | None, _dp("Of training. Default: by what is trained.")] = None,
    local_steps: Annotated[
        int | None, _dp("Passes over a unit's documents that make its contribution. Default: 0, its gradient.", min=0)
    ] = None,
    clients: Annotated[Path | None, _dp("File that names the client of every provider: federated training.")] = None,
    client_rate: Annotated[float | None, _dp("Chance that a client takes part in a round. Default: 1.")] = None,
    rows: Annotated[int | None, _dp("Samples of one forward pass at most. Default: 8.", min=1)] = None,
    reproducible: Annotated[
        bool | None, _dp("Seeded noise, for tests: there is no guarantee then.", "--reproducible")
    ] = None,
) -> None:
    """Measure countermeasures: what the model gives away without and with each, by every attack, and what it costs."""
    with show_errors():
        from audit.defenses.interface import DataDefense
        from audit.extensions.private.options import DpOptions
        from audit.workflows.options import ScanOptions

        given = {
            "unit": unit,
            "epsilon": epsilon,
            "to_policy": to_policy,
            "delta": delta,
            "per_unit": per_unit,
            "trained": trained,
            "embeddings": embeddings,
            "engine": engine,
            "steps": steps,
            "expected_units": expected_units,
            "max_norm": max_norm,
            "learning_rate": learning_rate,
            "local_steps": local_steps,
            "clients": clients,
            "client_rate": client_rate,
            "rows": rows,
            "reproducible": reproducible,
        }
        named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        names = () if every else tuple(dict.fromkeys(countermeasure.split(",")))
        chosen = _chosen(names)
        _refuse_options(named, chosen)
        check_folder("--out", out)
        if len(names) == 1 and isinstance(chosen[0], DataDefense):
            if evidence is not None:
                raise UsageError(f"--evidence: {names[0]} audits no model and keeps none")
            _evade(chosen[0], folders, out, named_paths(reference), seed, device)
            return
        places = [Path(countermeasure), *folders] if every else folders
        options = DpOptions(**named, seed=seed) if named else None
        _refuse_places(names, places)
        scan = ScanOptions(
            model_dir=places[0],
            data_dir=places[-1],
            out=out,
            budget=budget,
            seed=seed,
            device=device,
            references=named_paths(reference),
            evidence_dir=evidence,
        )
        _measure(names, scan, policy, options)


def _refuse_options(given: dict[str, Any], chosen: Sequence[Defense]) -> None:
    """Refuse options of private training where none of the countermeasures takes them."""
    from audit.defenses.interface import TakesPrivacyOptions

    if given and not any(isinstance(defense, TakesPrivacyOptions) for defense in chosen):
        names = ", ".join(f"--{'train' if name == 'trained' else name.replace('_', '-')}" for name in given)
        others = ", ".join(defense.name for defense in chosen)
        raise UsageError(f"{names}: options of differential privacy, not of {others}", "docaudit defend dp")


def _evade(
    defense: DataDefense, folders: Sequence[Path], out: Path, references: dict[str, list[Path]], seed: int, device: str
) -> None:
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


def _refuse_places(names: Sequence[str], places: Sequence[Path]) -> None:
    if len(places) != 2:
        raise UsageError(f"{', '.join(names) or '--all'} takes MODEL_DIR and DATA_DIR, not {len(places)} folders")


def _measure(names: Sequence[str], options: ScanOptions, policy: str, dp: DpOptions | None) -> None:
    from audit.workflows.defend import measure_defense, measure_defenses

    with console.Reporter() as progress:
        if len(names) == 1:
            for comparison in progress.follow(measure_defense(names[0], options, policy, progress, dp)):
                _show_comparison(comparison)
            return
        for choice in progress.follow(measure_defenses(names, options, policy, progress, dp)):
            _show_choice(choice)


def _show_comparison(comparison: DefenseComparison) -> None:
    _show_effects(comparison.comparison)
    contexts = [change for change in comparison.changes if change.context not in ("", "exact")]
    rows = [
        (
            change.metric,
            change.context,
            console.format_estimate(change.before),
            console.format_estimate(change.after),
            console.format_estimate(change.difference),
            f"{change.p:.4f}",
        )
        for change in contexts
    ]
    if rows:
        columns = ("", "context", "before", "after", "difference", "p")
        console.show_table("Memorised answers in other contexts", columns, rows)
    if comparison.channel is not None:
        shown = console.format_estimate(comparison.channel)
        console.say(f"AUC of saying that the answer is not there, as a sign of membership: {shown}")
    console.say(f"Read {', '.join(map(str, comparison.files))}")


def _show_choice(choice: DefenseChoice) -> None:
    from audit.report.defense_choice import percent, view_of

    for comparison in choice.comparisons:
        _show_effects(comparison)
    view = view_of(choice.comparisons)
    rows = [
        (row.name, row.verdict, percent(row.reach), row.worst, _format(row.useful), "front" if row.on_front else "")
        for row in view.choices
    ]
    columns = ("", "verdict", "worst limit used up", "its limit", view.measure, "")
    console.show_table("Leak against usefulness", columns, rows)
    for name, reason in choice.left_out.items():
        console.say(f"{name}: not measured: {reason}")
    console.say(view.sentence, f"Read {', '.join(map(str, choice.files))}")


def _show_effects(comparison: Comparison) -> None:
    from audit.report.defense_battery import view_of

    rows = [_effect_row(effect) for effect in (*comparison.effects, *comparison.usefulness)]
    columns = ("", "before", "after", "difference", "p", "")
    console.show_table(f"{comparison.title}: what it changes", columns, rows)
    console.say(*(f"not compared: {line}" for line in view_of(comparison).missing))
    console.say(f"Verdict by “{comparison.policy}”: {comparison.verdict_before} → {comparison.verdict_after}")


def _effect_row(effect: Effect) -> tuple[str, ...]:
    name = f"{effect.attack} {effect.metric}" if effect.attack else effect.metric
    if effect.difference is None or effect.p is None:
        return name, _format(effect.before), _format(effect.after), "-", "-", effect.note
    difference = console.format_estimate(effect.difference)
    paired = "" if effect.paired else "not paired"
    return name, _format(effect.before), _format(effect.after), difference, f"{effect.p:.4f}", paired


def _format(item: Measurement | Estimate | None) -> str:
    return console.format_estimate(item) if item is not None and item.kind == "estimate" else "-"


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
