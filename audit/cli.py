"""The command line: parse, call the library, print, exit code."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from audit import __version__, actions, canary_commands, import_command, training_commands
from audit.errors import UsageError
from audit.options import (
    DataDir,
    Debug,
    Device,
    PolicyName,
    RecordPath,
    Reveal,
    Seed,
    errors_shown,
    named_paths,
)
from audit.training.defaults import EPOCHS, SHARE

EXIT_HELP = (
    "Exit codes: 0 passed; 10 a limit is violated; 11 undecided; 2 wrong usage or input; 1 docaudit failed, no record "
    "was written; 130 interrupted and 143 terminated: run the same command again to go on."
)
SWEEP_HELP = (
    "With --checkpoints the exit code is the worst of all checkpoints: 10, then 11, then 0. A checkpoint that cannot "
    "be audited counts as undecided (11); when none can, the exit code is 2."
)
app = typer.Typer(
    name="docaudit",
    help="Privacy audit of document-understanding models: attack, measure, gate and report before you deploy.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


class Budget(StrEnum):
    """How much of the work to do."""

    QUICK = "quick"
    STANDARD = "standard"
    FULL = "full"


class EngineName(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    RAY = "ray"


@app.command(cls=training_commands.DefenseCommand, epilog=f"{EXIT_HELP} {SWEEP_HELP}")
def scan(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL_DIR] DATA_DIR",
            help="A Hugging Face checkpoint (safetensors) and the folder with manifest.toml; the latter alone with "
            "--checkpoints.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the record, the reports and the evidence go.")] = Path(
        "docaudit-report"
    ),
    policy: PolicyName = "default",
    budget: Annotated[
        Budget,
        typer.Option(help="quick: a quarter of the fields, 64 candidates; standard: all, 128; full: all, 512."),
    ] = Budget.STANDARD,
    only: Annotated[list[str] | None, typer.Option(help="Run this attack only; may be repeated.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="A reference model: auxiliary, pretrained, baselines, splits or embedder; may be repeated.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an interrupted scan.")] = False,
    reveal: Reveal = False,
    dtype: Annotated[
        str,
        typer.Option(
            help="What the encoder computes in: float32, bfloat16 (kept only if a preflight finds no difference), "
            "or auto: bfloat16 on CUDA."
        ),
    ] = "auto",
    batch_tokens: Annotated[
        int | None,
        typer.Option(min=16, help="Tokens of one forward pass; lower it when memory is short.", show_default="auto"),
    ] = None,
    batch_rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Questions of one forward pass, of a model that answers them; lower it when memory is short.",
            show_default="auto",
        ),
    ] = None,
    defense: Annotated[
        str | None,
        typer.Option(
            "--defence",
            "--defense",
            metavar="NAME",
            help="Ask the model behind a countermeasure: {while_used}.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(help="local: in this process; ray: on Ray workers (install docaudit with its extra ray)."),
    ] = EngineName.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The Ray cluster that this machine is part of, or auto.",
            show_default="start Ray here",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Ray workers.", show_default="as CPUs or GPUs allow")
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="'PATTERN'",
            help="Audit every folder that matches, say 'run/checkpoint-*', and draw leak against epoch. Quote it.",
        ),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA_DIR2",
            help="Train the public model on another data set's public documents: what if an attacker has no better?",
        ),
    ] = None,
    image_noise: Annotated[
        bool,
        typer.Option("--image-noise", help="Attack with noise in place of the images: does the picture give it away?"),
    ] = False,
    attack_parameters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Parameters of attacks, as tune-attack writes them.",
            show_default="those of the budget",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Attack a model, hold the result against a policy, and write the report."""
    with errors_shown(debug):
        from audit import console, runner
        from audit import policy as policies

        model_dir, data_dir = _scanned(folders, checkpoints)
        chosen = policies.load(policy)
        policies.check_names(chosen, runner.known_metrics())
        policies.check_ranges(chosen, runner.known_metrics())
        options = runner.ScanOptions(
            model_dir=model_dir or Path(),
            data_dir=data_dir,
            out=out,
            budget=budget.value,
            only=tuple(only or ()),
            seed=seed,
            device=device,
            fresh=fresh,
            references=named_paths(reference or []),
            batch_tokens=batch_tokens,
            batch_rows=batch_rows,
            defense=defense,
            dtype=dtype,
            public_dir=public,
            image_noise=image_noise,
            engine=engine.value,
            address=address,
            workers=workers,
            attack_parameters=attack_parameters,
        )
        if checkpoints is not None:
            code = actions.swept(checkpoints, options, chosen, reveal)
        else:
            _, verdict = actions.audited(runner.open_scan(options), chosen, reveal)
            console.show_verdict(verdict, out)
            code = verdict.exit_code
    raise typer.Exit(code)


@app.command()
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
    with errors_shown(debug):
        from audit import console, tuning

        options = tuning.TuningOptions(
            model_dir=model_dir,
            data_dir=data_dir,
            out=out,
            references=named_paths(reference or []),
            epochs=epochs,
            share=share,
            seed=seed,
            device=device,
            cache=cache,
        )
        opened = tuning.open_tuning(options)
        with console.Reporter() as progress:
            tuned = tuning.run(opened, progress)
        console.show_table(*tuning.settings_table(tuned))
        console.show_table(*tuning.scores_table(tuned))
        for warning in tuning.warnings(tuned):
            console.warn(warning)
        console.say(f"Written to {out}: docaudit scan ... --attack-parameters {out}")


@app.command(epilog=EXIT_HELP)
def gate(record_path: RecordPath, policy: PolicyName = "default", debug: Debug = False) -> None:
    """Hold a record against a policy; the exit code is the verdict. Needs no model and no GPU."""
    with errors_shown(debug):
        from audit import console
        from audit import policy as policies
        from audit import record as records
        from audit.attacks import known_metrics

        chosen = policies.load(policy)
        policies.check_ranges(chosen, known_metrics())
        verdict = policies.evaluate(records.read(record_path), chosen, policies.today())
        console.show_verdict(verdict)
    raise typer.Exit(verdict.exit_code)


@app.command()
def report(
    record_paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORD...",
            help="record.json, or the folder a scan wrote; several checkpoints of one run draw their trend.",
            show_default=False,
        ),
    ],
    policy: PolicyName = "default",
    out: Annotated[
        Path | None,
        typer.Option(help="Where the reports go; needed for a trend.", show_default="beside the record"),
    ] = None,
    reveal: Reveal = False,
    debug: Debug = False,
) -> None:
    """Draw the HTML and PDF report of a record again, held against a policy. Exits 0 when they were written.

    Several records, of checkpoints of one training run, draw leak and usefulness against epoch: trend.html, trend.pdf.
    """
    with errors_shown(debug):
        from audit import policy as policies
        from audit import record as records
        from audit.attacks import known_metrics

        if len(record_paths) > 1 and (out is None or reveal):
            raise UsageError(
                "a trend of several records needs --out" if out is None else "a trend has no values to reveal",
                "docaudit report RECORD RECORD ... --out FOLDER",
            )
        found = [records.read(path) for path in record_paths]
        chosen = policies.load(policy)
        policies.check_ranges(chosen, known_metrics())
        verdicts = [policies.evaluate(record, chosen, policies.today()) for record in found]
        beside = record_paths[0] if record_paths[0].is_dir() else record_paths[0].parent
        folder = out or beside
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {folder}: {error.strerror}", "name a folder") from None
        if len(found) == 1:
            actions.reported(found[0], verdicts[0], chosen, folder, beside if reveal else None)
        else:
            actions.compared(found, verdicts, folder)


@app.command()
def inspect(
    data_dir: DataDir,
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint, to count the fields that its tokens let each attack try.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Check a data set and say what is in it and which attacks it can feed."""
    with errors_shown(debug):
        from audit import console
        from audit.attacks import BATTERY
        from audit.corpus import manifest
        from audit.corpus.summary import summarise

        corpus = manifest.load(data_dir)
        manifest.check_references(corpus)
        console.show_summary(summarise(corpus))
        task = corpus.manifest.task.kind
        rows = [
            (kind.name, kind.inapplicable_tasks.get(task) or kind.preset("standard").lacks(corpus) or "can be fed")
            for kind in BATTERY
        ]
        console.show_table("Attacks", ("attack", "with this data set"), rows)
        if model is not None:
            from audit import runner

            console.show_table(
                "Trials with this model", ("attack", "split", "trials"), runner.trial_counts(model, corpus)
            )


@app.command()
def plan(
    data_dir: DataDir,
    policy: PolicyName = "default",
    budget: Annotated[Budget, typer.Option(help="See scan.")] = Budget.STANDARD,
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint, to count what its tokens leave and to time a few trials.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="With --model: a reference model; see scan.")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the plan there, as JSON.")] = None,
    debug: Debug = False,
) -> None:
    """Say before any model runs which limits a data set can decide, what it is too small for, and what a scan costs.

    Describes the documents to check that those in training and those kept aside do not differ in themselves (the blind
    check), which opens their page images. Exits 0 whatever the data set can decide. Times are those of the trials,
    without training reference models.
    """
    with errors_shown(debug):
        from audit.planning import show

        show.planned(
            data_dir, policy, budget.value, model=model, references=named_paths(reference or []), device=device, out=out
        )


app.command("import", cls=import_command.ImportCommand)(import_command.import_data)
app.command()(training_commands.train_baseline)
app.command()(training_commands.train_splits)
app.command(cls=training_commands.DefenseCommand)(training_commands.defend)
app.add_typer(canary_commands.app, name="canary")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"docaudit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tells the owner of a document-understanding model what it gives away about its training documents."""


def _scanned(folders: list[Path], checkpoints: str | None) -> tuple[Path | None, Path]:
    """The folders of the model (None with --checkpoints) and of the data set."""
    if checkpoints is None:
        if len(folders) != 2:
            raise UsageError(
                f"scan takes MODEL_DIR and DATA_DIR, not {len(folders)} folders",
                "docaudit scan MODEL_DIR DATA_DIR, or docaudit scan --checkpoints 'PATTERN' DATA_DIR",
            )
        return folders[0], folders[1]
    if len(folders) != 1:
        raise UsageError(
            f"--checkpoints takes DATA_DIR alone, not {len(folders)} folders",
            "leave MODEL_DIR out, and quote the pattern so that the shell leaves it alone",
        )
    return None, folders[0]


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.stderr.write("\nterminated; run the same command again to go on\n")
    raise SystemExit(143)


def main() -> None:
    """The `docaudit` command."""
    # Nothing docaudit does needs the network: libraries must not try.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    signal.signal(signal.SIGTERM, _terminated)
    app()
