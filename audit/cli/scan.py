"""`docaudit scan`, of one checkpoint or all of a training run, and `docaudit forget-check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from audit.attacks import TEXTS
from audit.cli import console, options
from audit.cli.options import HELP
from audit.cli.verdicts import Formats, Outputs, choose, clearing, show
from audit.errors import UsageError, listed
from audit.files import EXPORT_OUT, FORGET_OUT, SCAN_OUT

if TYPE_CHECKING:
    from audit.policy import Policy
    from audit.workflows.options import ScanOptions
    from audit.workflows.sweep import CheckpointAudit, Sweep


def _defenses(incomplete: str) -> list[str]:
    """Complete the beginning of a countermeasure's name for the shell."""
    from audit.defenses.interface import query_defenses

    return options.complete(query_defenses())(incomplete)


def scan(
    context: typer.Context,
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL_DIR] DATA_DIR", help=HELP["scan.folders"], show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(help=HELP["scan.out"])] = Path(SCAN_OUT),
    policy: options.PolicyName = "default",
    budget: options.BudgetOption = "standard",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTACK",
            help=HELP["scan.only"].format(listed([*TEXTS], "or")),
            autocompletion=options.complete(TEXTS),
        ),
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help=HELP["scan.reference"])
    ] = None,
    no_model: Annotated[bool, typer.Option("--no-model", help=HELP["scan.no_model"])] = False,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="'PATTERN'", help=HELP["scan.checkpoints"])
    ] = None,
    derived_from: Annotated[
        Path | None,
        typer.Option(metavar="RECORD", help=HELP["scan.derived_from"], show_default=False),
    ] = None,
    defense: Annotated[
        str | None,
        typer.Option(
            "--defence",
            "--defense",
            metavar="NAME",
            help=HELP["scan.defense"],
            autocompletion=_defenses,
        ),
    ] = None,
    seed: options.Seed = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help=HELP["scan.fresh"])] = False,
    attack_parameters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=HELP["scan.attack_parameters"], show_default="those of the budget"
        ),
    ] = None,
    bounds: options.Bounds = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    batch_size: options.BatchSize = None,
    engine: options.Engine = "auto",
    evidence: options.Evidence = None,
    formats: Formats = None,
    verbose: options.Detail = None,
) -> None:
    """Attack a model and write the report with the verdict."""
    from audit.workflows.gate import load_policy
    from audit.workflows.options import ScanOptions

    model_dir, data_dir = _split_folders(folders, checkpoints, no_model)
    if checkpoints is not None and formats:
        raise UsageError(
            "--format is of one verdict, and --checkpoints reaches many", "gate each record with it"
        )
    scan_options = ScanOptions(
        model_dir,
        data_dir,
        out,
        budget=budget,
        only=tuple(only or ()),
        seed=seed,
        device=device,
        fresh=fresh,
        references=options.named_paths(reference),
        batch_size=batch_size,
        defense=defense,
        dtype=dtype,
        engine=engine,
        attack_parameters=attack_parameters,
        no_model=no_model,
        evidence_dir=evidence,
        derived_from=derived_from,
        **options.bounds_of(bounds),
    )
    if derived_from is not None:
        scan_options, loaded_policy = _as_audited(context, scan_options, policy, checkpoints)
        policy = _name_of(loaded_policy)
    else:
        loaded_policy = load_policy(policy)
    _run(scan_options, policy, loaded_policy, formats, verbose, checkpoints)


def forget_check(
    model_dir: options.ModelDir,
    data_dir: options.DataDir,
    ids: Annotated[
        Path, typer.Option(metavar="FILE", help=HELP["forget-check.ids"], show_default=False)
    ],
    reference: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help=HELP["forget-check.reference"])
    ] = None,
    out: Annotated[Path, typer.Option(help=HELP["scan.out"])] = Path(FORGET_OUT),
    policy: options.PolicyName = "forget",
    device: options.Device = "auto",
    batch_size: options.BatchSize = None,
    evidence: options.Evidence = None,
    formats: Formats = None,
    verbose: options.Detail = None,
) -> None:
    """Test whether a model has forgotten documents.

    The model must treat the documents in FILE as unseen ones, neither better nor worse. That is an
    equivalence test. It passes if both one-sided 95 % bounds lie between a limit and its mirror
    image. Too few documents leave it undecided.
    """
    from audit.importers.named import read_names
    from audit.workflows.gate import load_policy
    from audit.workflows.options import ScanOptions

    read_names(ids, "--ids")  # before anything is loaded
    scan_options = ScanOptions(
        model_dir,
        data_dir,
        out,
        only=("membership",),
        device=device,
        references=options.named_paths(reference),
        batch_size=batch_size,
        evidence_dir=evidence,
        forgotten=ids,
    )
    _run(scan_options, policy, load_policy(policy), formats, verbose)


def _as_audited(
    context: typer.Context, scan_options: ScanOptions, policy: str, checkpoints: str | None
) -> tuple[ScanOptions, Policy]:
    """Return options and policy by which an export is scanned as the audited model was."""
    from audit.workflows import exports
    from audit.workflows.gate import load_policy

    names = options.are_given(context, *exports.FIXED, "out", "policy")
    # Bounds of documents and of time are one parameter of the command.
    names += exports.options_given(scan_options)
    if "out" not in names:
        scan_options = replace(scan_options, out=Path(EXPORT_OUT))
    exports.refuse_other_subjects(scan_options, checkpoints is not None)
    requested = None
    if "policy" in names:
        requested = load_policy(policy)
    return exports.scan_as_audited(scan_options, requested, names)


def _name_of(policy: Policy) -> str:
    """Return how commands name a policy: a shipped one by its name, else its place."""
    from audit.policy.reading import shipped_policies

    if policy.name in shipped_policies():
        return policy.name
    return "POLICY.toml"


def _run(
    scan_options: ScanOptions,
    policy: str,
    loaded_policy: Policy,
    formats: list[str] | None,
    verbose: bool | None,
    checkpoints: str | None = None,
) -> NoReturn:
    """Scan one checkpoint, or all that a pattern matches, and end with the exit code."""
    from audit.workflows.options import check_folders

    quiet = verbose is False
    outputs = choose(formats, quiet=quiet)
    check_folders(scan_options)
    if checkpoints is None:
        with clearing(outputs):
            code = _scan_one(scan_options, loaded_policy, policy, outputs, verbose=verbose)
    else:
        code = _scan_all(checkpoints, scan_options, loaded_policy, quiet=quiet)
    raise typer.Exit(code)


def _scan_one(
    scan_options: ScanOptions,
    policy: Policy,
    policy_name: str,
    outputs: Outputs,
    *,
    verbose: bool | None,
) -> int:
    """Scan a checkpoint, and return the exit code."""
    with console.Reporter(quiet=verbose is False) as progress:
        # Before torch and the model are loaded, which takes seconds.
        progress.stage(console.OPENING_MODEL)
        from audit.workflows.scan import run

        result = run(scan_options, policy, progress, console.warn)

    def in_words() -> None:
        """Print the verdict on the scan in sentences."""
        called = scan_options.called(policy_name)
        console.show_verdict(
            result.verdict, scan_options.out, result.record, called=called, verbose=bool(verbose)
        )

    return show(
        outputs, result.record, result.verdict, in_words, policy_name, scan_options.data_dir
    )


def _scan_all(pattern: str, scan_options: ScanOptions, policy: Policy, *, quiet: bool) -> int:
    """Scan every checkpoint that matches, and return the exit code of them all."""
    audits = []
    with console.Reporter(quiet=quiet) as progress:
        progress.stage(console.OPENING_MODEL)
        from audit.workflows import sweep

        run = sweep.find_checkpoints(pattern)
        steps = sweep.sweep_checkpoints(run, scan_options, policy, progress)
        for audit in progress.follow(steps):
            if audit.refusal is not None:
                console.show_error(audit.refusal)
            audits.append(audit)
    console.warn(*sweep.write_trend(run, audits, scan_options.out))
    if not quiet:
        _show_sweep(run, audits, scan_options.out)
    return sweep.exit_code(audits)


def _show_sweep(run: Sweep, audits: Sequence[CheckpointAudit], out: Path) -> None:
    """Print a row for each checkpoint, the one to take, and where the reports are."""
    from audit.report import trend
    from audit.report.checkpoints import answer, summary

    rows = []
    verdicts = []
    for audit in audits:
        checkpoint = audit.checkpoint
        rows.append((checkpoint.x, checkpoint.name, audit.record, audit.verdict))
        verdicts.append((checkpoint.x, checkpoint.name, audit.verdict))
    columns = summary([audit.record for audit in audits if audit.record is not None])
    drawn = [out / name for name in (trend.PDF_NAME, trend.HTML_NAME)]
    files = [str(path) for path in drawn if path.exists()]
    files.append(f"the reports in {out / 'CHECKPOINT'}")
    console.show_sweep(run.axis, rows, columns, answer(run.axis, verdicts).text, files)


def _split_folders(
    folders: list[Path], checkpoints: str | None, no_model: bool
) -> tuple[Path, Path]:
    """Return the folders of the model and of the data set.

    That of the model is unused with --checkpoints and --no-model.
    """
    if no_model and checkpoints is not None:
        raise UsageError(
            "--checkpoints names models, and --no-model audits none", "give one of them"
        )
    takes = "scan takes MODEL_DIR and DATA_DIR"
    expected = 2
    if no_model:
        takes = "--no-model takes DATA_DIR alone"
        expected = 1
    elif checkpoints is not None:
        takes = "--checkpoints takes DATA_DIR alone"
        expected = 1
    if len(folders) != expected:
        raise UsageError(f"{takes}, not {len(folders)} folders", HELP["scan.usage"])
    if expected == 1:
        return Path(), folders[0]
    return folders[0], folders[1]
