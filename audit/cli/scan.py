"""`docaudit scan`, of one checkpoint or of every checkpoint of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import (
    Budget,
    Debug,
    Device,
    Documents,
    Engine,
    Evidence,
    PolicyName,
    Reveal,
    Seed,
    Time,
    Weights,
    complete_attack,
    complete_query_defense,
    named_paths,
    seconds_of,
    show_errors,
)
from audit.cli.verdicts import (
    Formats,
    NoExitCode,
    OutputPaths,
    Quiet,
    SarifAnchor,
    Shown,
    Verbose,
    choose,
    clearing,
    show,
)
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.policy import Policy
    from audit.workflows.options import ScanOptions
    from audit.workflows.setup import ScanSetup

SWEEP_HELP = (
    "With --checkpoints the exit code is the worst of all checkpoints: 10, then 11, then 0. A checkpoint that cannot "
    "be audited counts as undecided (11); when none can, the exit code is 2."
)


def scan(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL_DIR] DATA_DIR",
            help="A Hugging Face checkpoint (safetensors) and the folder with manifest.toml; the latter alone with "
            "--checkpoints and --no-model.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the record, the reports and the evidence go.")] = Path(
        "docaudit-report"
    ),
    evidence: Evidence = None,
    policy: PolicyName = "default",
    budget: Annotated[
        Budget,
        typer.Option(help="quick: a quarter of the fields, 64 candidates; standard: all, 128; full: all, 512."),
    ] = "standard",
    documents: Documents = None,
    time: Time = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTACK", help="Run this attack only, may be repeated: {attacks}.", autocompletion=complete_attack
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="A reference model: auxiliary, pretrained, baselines, splits or embedder; may be repeated.",
        ),
    ] = None,
    no_model: Annotated[
        bool,
        typer.Option("--no-model", help="Audit the text alone: what do redacted copies of DATA_DIR give away?"),
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an interrupted scan.")] = False,
    reveal: Reveal = False,
    dtype: Annotated[
        str,
        typer.Option(
            help="What the encoder computes in: float32, bfloat16 (kept only if a preflight finds no difference), "
            "or auto: bfloat16 on CUDA."
        ),
    ] = "auto",
    weights: Weights = "auto",
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
            autocompletion=complete_query_defense,
            show_default=False,
        ),
    ] = None,
    engine: Engine = "local",
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
    attack_parameters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Parameters of attacks: a TOML table for each attack.",
            show_default="those of the budget",
        ),
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who audits what, and for whom: a TOML file with keys of the manifest's table audit, before these.",
            show_default=False,
        ),
    ] = None,
    formats: Formats = None,
    outputs: OutputPaths = None,
    sarif_anchor: SarifAnchor = None,
    no_exit_code: NoExitCode = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Attack a model, hold the result against a policy, and write the report."""
    with show_errors(debug):
        from audit.corpus.about import read_about
        from audit.workflows.folders import check_folders
        from audit.workflows.gate import load_policy
        from audit.workflows.options import ScanOptions

        model_dir, data_dir = _divide(folders, checkpoints, no_model)
        if checkpoints is not None and formats:
            raise UsageError("--format is of one verdict, and --checkpoints reaches many", "gate each record with it")
        shown = choose(
            formats,
            outputs,
            policy,
            data_dir,
            sarif_anchor,
            quiet=quiet,
            verbose=verbose,
            no_exit_code=no_exit_code,
        )
        chosen = load_policy(policy)
        check_folders(out, evidence)
        options = ScanOptions(
            model_dir=model_dir,
            data_dir=data_dir,
            out=out,
            budget=budget,
            only=tuple(only or ()),
            seed=seed,
            device=device,
            fresh=fresh,
            references=named_paths(reference),
            batch_tokens=batch_tokens,
            batch_rows=batch_rows,
            defense=defense,
            dtype=dtype,
            weights=weights,
            public_dir=public,
            engine=engine,
            attack_parameters=attack_parameters,
            no_model=no_model,
            documents=documents,
            seconds=seconds_of(time),
            evidence_dir=evidence,
            about={} if about is None else read_about(about),
        )
        if checkpoints is None:
            with clearing(shown):
                code = _scan_one(options, chosen, reveal, shown, quiet=quiet)
        else:
            code = _scan_all(checkpoints, options, chosen, reveal, quiet=quiet)
            code = 0 if no_exit_code and code != UsageError.exit_code else code
    raise typer.Exit(code)


def _scan_one(options: ScanOptions, policy: Policy, reveal: bool, shown: Shown, *, quiet: bool) -> int:
    """Scan a checkpoint, and give the exit code."""
    with console.Reporter(quiet=quiet) as progress:
        # Before torch and the model are loaded, which takes seconds.
        progress.part("opening the model and the data set")
        from audit.workflows.report import revealed_in
        from audit.workflows.scan import audit_checkpoint

        opened = _open(options)
        tell = console.say if shown.as_text else console.note
        result = audit_checkpoint(opened, policy, reveal, progress, (lambda _: None) if quiet else tell)
    console.warn(*result.warnings)

    def in_words() -> None:
        paths = {"MODEL_DIR": options.model_dir, "DATA_DIR": options.data_dir, "POLICY.toml": shown.policy}
        given = {name: str(path) for name, path in paths.items() if path != Path()}
        console.show_verdict(result.verdict, options.out, result.record, decides_exit=shown.exit_code, paths=given)
        if reveal:
            console.show_revealed(revealed_in(options.evidence))

    return show(shown, result.record, result.verdict, in_words)


def _open(options: ScanOptions) -> ScanSetup:
    """Open a scan, and print what must be known of it before it runs."""
    from audit.workflows.plan.references import missing_references
    from audit.workflows.setup import open_scan
    from audit.workflows.text_alone import open_text_scan

    if options.no_model:
        opened = open_text_scan(options)
        console.warn(*opened.warnings)
    else:
        opened = open_scan(options)
        console.warn(*opened.warnings, *missing_references(opened))
    return opened


def _scan_all(pattern: str, options: ScanOptions, policy: Policy, reveal: bool, *, quiet: bool) -> int:
    """Scan every checkpoint that matches, and give the exit code of them all."""
    from audit.report.sweep_page import summary
    from audit.workflows import sweep

    run = sweep.find_checkpoints(pattern)
    results = []
    with console.Reporter(quiet=quiet) as progress:
        for result in progress.follow(sweep.sweep_checkpoints(run, options, policy, reveal, progress)):
            if result.refusal is not None:
                console.show_error(result.refusal)
            results.append(result)
    console.warn(*sweep.write_trend(run, results, options.out))
    if quiet:
        return sweep.exit_code(results)
    rows = [(result.checkpoint.x, result.checkpoint.name, result.record, result.verdict) for result in results]
    columns = summary([record for _, _, record, _ in rows if record is not None])
    console.show_sweep(run.axis, rows, columns, sweep.answer_of(run, results), sweep.files_of(results, options.out))
    return sweep.exit_code(results)


def _divide(folders: list[Path], checkpoints: str | None, no_model: bool) -> tuple[Path, Path]:
    """The folders of the model (unused with --checkpoints and --no-model) and of the data set."""
    alone = "--no-model" if no_model else "--checkpoints"
    if no_model and checkpoints is not None:
        raise UsageError("--checkpoints names models, and --no-model audits none", "give one of them")
    if checkpoints is None and not no_model:
        if len(folders) != 2:
            raise UsageError(
                f"scan takes MODEL_DIR and DATA_DIR, not {len(folders)} folders",
                "docaudit scan MODEL_DIR DATA_DIR, or docaudit scan --checkpoints 'PATTERN' DATA_DIR, or docaudit scan "
                "--no-model DATA_DIR",
            )
        return folders[0], folders[1]
    if len(folders) != 1:
        raise UsageError(
            f"{alone} takes DATA_DIR alone, not {len(folders)} folders",
            "leave MODEL_DIR out"
            if no_model
            else "leave MODEL_DIR out, and quote the pattern so that the shell leaves it alone",
        )
    return Path(), folders[0]
