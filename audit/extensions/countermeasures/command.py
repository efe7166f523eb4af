"""Add `docaudit defend` and `docaudit fix`."""

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
from audit.cli.places import FORMS
from audit.defenses.interface import DEFENSES, query_defenses, refuse_unknown
from audit.errors import UsageError, listed
from audit.extensions.countermeasures import fix_command
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.files import DEFENCE_OUT, check_folder
from audit.policy.decision import word_of

if TYPE_CHECKING:
    from audit.compare.defended import MeasuredDefense
    from audit.extensions.countermeasures.measuring import Measured
    from audit.measurements import Measurement

ALL = "all"
DP = "Differential privacy (dp)"
"""The panel of the options that private training alone takes."""


def add_to(app: typer.Typer) -> None:
    """Add the commands `defend` and `fix` to the command line."""
    app.command("defend", epilog=_kinds(), rich_help_panel="Fix")(show_errors()(defend))
    fix_command.add_to(app)


def _kinds() -> str:
    """Return help text that says what each countermeasure does."""
    training = {name: one for name, one in DEFENSES.items() if isinstance(one, TrainingDefense)}
    does = [
        f"{name}: {one.description}{'' if one.baselines_like else ', beside the references as they are'}"
        for name, one in training.items()
    ]
    asked = listed([*query_defenses()], "and")
    return (
        f"{asked} work while the model is used, without training. Retraining countermeasures also train baselines "
        f"the same way: {'; '.join(does)}."
    )


def _complete(incomplete: str) -> list[str]:
    """Return completions of the last of several names joined by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*DEFENSES, ALL) if name.startswith(last)]


def _private_option(help_text: str, *names: str, **more: Any) -> Any:
    """Return a command-line option of private training."""
    return typer.Option(*names, help=help_text, rich_help_panel=DP, show_default=False, **more)


def defend(
    countermeasure: Annotated[
        str,
        typer.Argument(
            metavar="COUNTERMEASURE",
            help=f"{listed([*DEFENSES], 'or')}, several joined by commas, or all that apply (all).",
            autocompletion=_complete,
            show_default=False,
        ),
    ],
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL_DIR DATA_DIR",
            help="The audited model and its data set.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for models, records and the comparison.")
    ] = Path(DEFENCE_OUT),
    evidence: Evidence = None,
    policy: PolicyName = "default",
    reference: Pretrained = None,
    budget: Annotated[Budget, typer.Option(help="See scan.")] = "standard",
    seed: Seed = 0,
    device: Device = "auto",
    unit: Annotated[
        Literal["document", "provider"] | None,
        _private_option("The unit that is protected as a whole."),
    ] = None,
    epsilon: Annotated[
        float | None, _private_option("The guarantee; give it or --to-policy.")
    ] = None,
    to_policy: Annotated[
        str | None,
        _private_option(
            "Add the noise that proves a policy's limits on membership and providers.",
            metavar="POLICY",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        _private_option(
            "A setting of the training, as trained=head or steps=200; see docs/countermeasures.md.",
            "--set",
        ),
    ] = None,
) -> None:
    """Measure what countermeasures do to leaks and usefulness."""
    from audit.workflows.options import ScanOptions, check_apart
    from audit.workflows.places import check_places

    names = (
        () if ALL in countermeasure.split(",") else tuple(dict.fromkeys(countermeasure.split(",")))
    )
    named = {"unit": unit, "epsilon": epsilon, "to_policy": to_policy}
    settings = {name: own for name, own in named.items() if own is not None} | _settings(
        setting or ()
    )
    check_folder("--out", out)
    if len(folders) != 2:
        raise UsageError(
            f"{countermeasure} takes MODEL_DIR and DATA_DIR, not {len(folders)} folders"
        )
    scan = ScanOptions(
        model_dir=folders[0],
        data_dir=folders[1],
        out=out,
        budget=budget,
        seed=seed,
        device=device,
        references=named_paths(reference),
        evidence_dir=evidence,
    )
    check_apart(scan)
    refuse_unknown(names)
    check_places(scan.model_dir, scan.data_dir, scan.references, FORMS["defend"])
    with console.Reporter() as progress:
        progress.stage(console.OPENING_MODEL)
        # Loads torch, which a missing folder does without.
        from audit.extensions.countermeasures.measuring import measure_defenses

        for measured in progress.follow(measure_defenses(names, scan, policy, progress, settings)):
            _show_measured(measured)


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return the settings given as `--set NAME=VALUE`, by name.

    Raises:
        UsageError: one is not written so.
    """
    settings = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not (name and separator and value):
            raise UsageError(f"--set {pair!r}: write NAME=VALUE")
        settings[name.replace("-", "_")] = value
    return settings


def _show_measured(measured: Measured) -> None:
    """Show what countermeasures change, and side by side where there are several."""
    from audit.extensions.countermeasures.page import (
        cheapest_sentence,
        choices,
        measure_of,
        percent,
    )

    for comparison in measured.comparisons:
        _show_effects(comparison)
    if len(measured.comparisons) > 1:
        rows = [
            (
                row.name,
                row.verdict,
                percent(row.reach),
                row.worst,
                _format_estimate(row.useful),
                "front" if row.on_front else "",
            )
            for row in choices(measured.comparisons)
        ]
        columns = (
            "",
            "verdict",
            "worst limit used up",
            "its limit",
            measure_of(measured.comparisons),
            "",
        )
        console.show_table("Leak against usefulness", columns, rows)
    for name, reason in measured.left_out.items():
        console.say(f"{name}: not measured: {reason}")
    console.say(
        cheapest_sentence(measured.comparisons), f"Read {', '.join(map(str, measured.files))}"
    )


def _show_effects(comparison: MeasuredDefense) -> None:
    """Show a table of every number of a comparison before and after."""
    rows = []
    for effect in (*comparison.effects, *comparison.usefulness):
        cells = [
            f"{effect.attack} {effect.metric}".strip(),
            _format_estimate(effect.before),
            _format_estimate(effect.after),
        ]
        if effect.difference is None or effect.p is None:
            rows.append((*cells, "-", "-", effect.note))
        else:
            paired = "" if effect.paired else "not paired"
            rows.append((*cells, _format_estimate(effect.difference), f"{effect.p:.4f}", paired))
    columns = ("", "before", "after", "difference", "p", "")
    console.show_table(f"{comparison.title}: what it changes", columns, rows)
    if comparison.side_channel is not None:
        shown = console.format_estimate(comparison.side_channel)
        console.say(f"AUC of saying that the answer is not there, as a sign of membership: {shown}")
    console.say(*(f"not compared: {line}" for line in comparison.missing))
    console.say(
        f"Verdict by “{comparison.policy}”: {word_of(comparison.verdict_before)} →"
        f" {word_of(comparison.verdict_after)}"
    )


def _format_estimate(item: Measurement | None) -> str:
    """Write an estimate with its interval; "-" for anything else."""
    return console.format_estimate(item) if item is not None and item.kind == "estimate" else "-"
