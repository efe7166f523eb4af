"""Add `docaudit fix`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.attacks import text_of
from audit.cli import console
from audit.cli.options import Device, Evidence, Pretrained, named_paths, show_errors
from audit.errors import UsageError, listed
from audit.files import FIX_OUT, check_folder
from audit.report.labels import LABELS, UTILITY

if TYPE_CHECKING:
    from audit.compare.defended import Effect, MeasuredDefense
    from audit.extensions.countermeasures.fix import Fixed, Scanned, Tried
    from audit.workflows.options import ScanOptions


def add_to(app: typer.Typer) -> None:
    """Add the command `fix` to the command line."""
    app.command("fix", rich_help_panel="Fix")(show_errors()(fix))


def fix(
    scan_dir: Annotated[
        Path,
        typer.Argument(
            metavar="SCAN_DIR",
            help="Folder of a finished scan, whose arguments are taken over.",
            show_default=False,
        ),
    ],
    names: Annotated[
        str | None,
        typer.Option(
            "--try",
            metavar="NAMES",
            help="Countermeasures to try, joined by commas; dp:2 trains with epsilon 2.",
            show_default="those that may lift a violation, until one does",
        ),
    ] = None,
    confirm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Scan the model of a tried countermeasure at the budget that can pass the policy.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for models, records and the comparison.")
    ] = Path(FIX_OUT),
    evidence: Evidence = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="A shipped policy or a file.",
            show_default="the one that the scan declared",
        ),
    ] = None,
    reference: Pretrained = None,
    device: Device = "auto",
) -> None:
    """Try countermeasures, the cheapest first, until one stops the leak.

    Trains and scans the model with each, and shows leak, usefulness and verdict side by side. The
    scan itself is not run again. A killed run goes on.
    """
    from audit.workflows.apart import refuse_audited

    check_folder("--out", out)
    refuse_audited("--out", out)
    with console.Reporter() as progress:
        progress.stage(console.OPENING_SCAN)
        # Loads torch, which takes seconds.
        from audit.extensions.countermeasures.fix import Fixed, Tried, read_scan
        from audit.extensions.countermeasures.fix import fix as try_candidates

        scanned = read_scan(scan_dir, evidence, policy)
    options = _with_references(replace(scanned.options, device=device), reference)
    words = _words(reference or (), evidence, policy, device)
    scanned = replace(scanned, options=options, words=tuple(words))
    if confirm is not None:
        _confirm(scanned, out, confirm)
    outcome = scanned.verdict.overall
    if names is None and outcome != "violated":
        _refuse_unneeded(scanned)
    chosen: tuple[str, ...] = ()
    if names:
        chosen = tuple(dict.fromkeys(names.split(",")))
    result: Fixed | None = None
    with console.Reporter() as progress:
        progress.stage(console.OPENING_MODEL)
        for item in progress.follow(try_candidates(scanned, out, progress, chosen)):
            if isinstance(item, Tried):
                console.say(_in_one_line(item, scanned))
            elif isinstance(item, Fixed):
                result = item
    assert result is not None
    show_fixed(result, out)
    raise typer.Exit(result.exit_code)


def _with_references(options: ScanOptions, pairs: Sequence[str] | None) -> ScanOptions:
    """Return the options of a scan with the references of `docaudit fix`.

    What the model was fine-tuned from starts the training alone. As a reference of attacks it would
    make another scan of this one.
    """
    references = named_paths(pairs)
    start = next(iter(references.pop("pretrained", ())), options.start)
    return replace(options, references={**options.references, **references}, start=start)


def _words(
    references: Sequence[str], evidence: Path | None, policy: str | None, device: str
) -> Iterator[str]:
    """Yield the options that the next command repeats, a word each."""
    for reference in references:
        yield from ("--reference", reference)
    if evidence is not None:
        yield from ("--evidence", str(evidence))
    if policy is not None:
        yield from ("--policy", policy)
    if device != "auto":
        yield from ("--device", device)


def _refuse_unneeded(scanned: Scanned) -> None:
    """End where no limit is exceeded: there is nothing that a countermeasure could mend.

    Raises:
        Exit: the scan passed.
        UsageError: it is undecided.
    """
    if scanned.verdict.exit_code == 0:
        console.say("The scan passed. There is nothing to fix.")
        raise typer.Exit(0)
    from audit.report.action import first_action

    step = first_action(scanned.facts)
    hint = step.text if step is not None else f"read {scanned.folder / 'report.html'}"
    raise UsageError(f"{scanned.folder}: no limit is exceeded, and the verdict is undecided", hint)


def _confirm(scanned: Scanned, out: Path, label: str) -> None:
    """Scan the model of a countermeasure at the budget that can pass, and end with its verdict.

    Raises:
        Exit: always, with the exit code of the verdict.
    """
    from audit.extensions.countermeasures.fix import check_measured, confirm

    check_measured(scanned, out, label)
    with console.Reporter() as progress:
        progress.stage(console.OPENING_MODEL)
        (confirmed,) = progress.follow(confirm(scanned, out, label, progress))
    verdict = confirmed.verdict
    console.show_verdict(verdict, confirmed.folder, confirmed.record, called=confirmed.called)
    raise typer.Exit(verdict.exit_code)


def show_fixed(result: Fixed, out: Path) -> None:
    """Print what was tried side by side, and what to do next."""
    scanned = result.scanned
    from audit.extensions.countermeasures.fix import headline_limit

    attack, metric = headline_limit(scanned)
    rows = [_row(item, attack, metric) for item in result.tried]
    useful = _useful_label(result)
    columns = ("tried", text_of(attack).label(metric), useful, "verdict", "minutes")
    console.show_table("Leak against usefulness", columns, rows)
    for name, reason in result.left_out.items():
        console.say(f"{name} does not apply: {reason}")
    if result.untried:
        names = listed([*result.untried], "and")
        console.say(f"Not needed any more: {names} (try with --try).")
    console.say(*closing_lines(result))
    step = next_step(result, out)
    if step is not None:
        title, command = step
        console.show_commands(title, [command])


def closing_lines(result: Fixed) -> Iterator[str]:
    """Yield what the best countermeasure reached, and where its model lies."""
    best = result.best
    assert best is not None
    if best.is_passed:
        yield f"Cheapest that passes: {best.label}."
    elif best.stops_leaks:
        yield f"With {best.label} no limit is exceeded any more. Undecided is not a pass."
    else:
        count = "1 limit stays" if best.n_exceeded == 1 else f"{best.n_exceeded} limits stay"
        yield f"None is enough: with {best.label} {count} exceeded."
    commands = result.scanned.facts.commands
    if best.model is not None:
        yield f"Its model: {best.model}"
    elif commands.is_served:
        # Imported late: the help of all commands does without.
        from audit.extensions.countermeasures.served import closing_line

        yield closing_line(commands)
    if result.files:
        yield f"Read {listed([*map(str, result.files)], 'and')}"
    for name in ("report.pdf", "report.html"):
        report = result.scanned.folder / name
        if report.exists():
            yield f"The report of the scan shows what was tried, too: {report}"
            break


def next_step(result: Fixed, out: Path) -> tuple[str, str] | None:
    """Return what to do next, and the command for it; None where a model passes, or none helps."""
    best = result.best
    if best is None or best.is_passed or not best.stops_leaks:
        return None
    commands = result.scanned.facts.commands
    if result.can_pass:
        return "Next: see what the data set can decide", commands.plan()
    words = ["--confirm", best.label, *result.scanned.words]
    if str(out) != FIX_OUT:
        words += ["--out", str(out)]
    budget = result.scanned.options.budget
    return f"A {budget} scan cannot pass. Next: scan this model with more trials", commands.fix(
        *words
    )


def _row(item: Tried, attack: str, metric: str) -> tuple[str, ...]:
    """Return the cells of a countermeasure: leak, usefulness, verdict, minutes."""
    comparison = item.comparison
    useful = comparison.usefulness[0] if comparison.usefulness else None
    minutes = "before" if item.minutes is None else f"{item.minutes:.0f}"
    verdict = LABELS["verdicts"][comparison.verdict_after]
    if item.n_exceeded:
        verdict = f"{verdict} ({item.n_exceeded})"
    return (
        item.label,
        _leak(comparison, attack, metric),
        _change(useful, ""),
        verdict,
        minutes,
    )


def _leak(comparison: MeasuredDefense, attack: str, metric: str) -> str:
    """Write the number that decides a limit before and after.

    That of the limit's first method where the comparison does not know which decides.
    """
    # Loads the remedies, which the help of all commands does without.
    from audit.report.facts.recommend import show_deciding

    deciding = show_deciding(comparison, attack, metric)
    return deciding or _change(comparison.effect(attack, metric), attack)


def _change(effect: Effect | None, attack: str) -> str:
    """Write a number before and after."""
    if effect is None:
        return "not measured"
    # Loads the remedies, which the help of all commands does without.
    from audit.report.facts.recommend import show_value

    text = UTILITY
    if attack:
        text = text_of(attack)
    form = text.metric(effect.metric).form
    return f"{show_value(effect.before, form)} → {show_value(effect.after, form)}"


def _useful_label(result: Fixed) -> str:
    """Return the heading of usefulness: its first measure."""
    for item in result.tried:
        for effect in item.comparison.usefulness:
            return UTILITY.label(effect.metric)
    return "usefulness"


def _in_one_line(item: Tried, scanned: Scanned) -> str:
    """Say what one countermeasure does, while others are still to be tried."""
    from audit.extensions.countermeasures.fix import headline_limit

    attack, metric = headline_limit(scanned)
    _, leak, useful, verdict, _ = _row(item, attack, metric)
    label = text_of(attack).label(metric).lower()
    return f"{item.label}: {label} {leak}; usefulness {useful}; {verdict}"
