"""A verdict on a terminal: its last twelve lines say all that matters, and `-v` prints the rest above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from audit.attacks import text_of
from audit.cards import SERVED
from audit.cli.console.tables import NOTE_STYLES, STYLES, Row, show_table
from audit.cli.console.terminal import fold_line, make_console, print_line, say, show_commands
from audit.errors import printable
from audit.report import numbers
from audit.report.answer import LABELS, explanation, findings, headline, name_documents

if TYPE_CHECKING:
    from audit.measurements import Estimate
    from audit.policy import Decision, Verdict
    from audit.record import AuditRecord

SHOWN_DIGITS = 12
"""Digits that are shown of a SHA-256."""
SUMMARY_LINES = 11
"""Lines of the summary at the end: with the prompt below they fill half a terminal of 24 lines."""
COLUMNS = ("limit", "at most", "measured (95 % CI)", "n", "outcome")


def show_subject(record: AuditRecord) -> None:
    """Print what a record is about: the model or data set, when it was scanned, and the policy that it declares."""
    target, corpus, policy = record.target, record.corpus, record.policy
    digest = (
        "no file hashed" if target.family == SERVED else f"sha256 {target.sha256[:SHOWN_DIGITS]}"
    )
    model = f"model {target.name} ({digest}), " if target.is_model else "no model, "
    declared = (
        "no policy"
        if policy is None
        else f"policy {policy.name} (sha256 {policy.sha256[:SHOWN_DIGITS]})"
    )
    say(
        f"Record of {model}data set {corpus.name} (sha256 {corpus.sha256[:SHOWN_DIGITS]}), scanned "
        f"{record.timing.started}, which declares {declared}"
    )


def show_verdict(
    verdict: Verdict,
    out: Path | None = None,
    record: AuditRecord | None = None,
    *,
    decides_exit: bool = True,
    paths: Mapping[str, str] | None = None,
    verbose: bool = False,
    ending: Sequence[str] = (),
) -> None:
    """Print what qualifies a verdict, then the summary: worst limits, what is open, the fix, the report, the verdict.

    Args:
        verdict: to show.
        out: the folder with the reports, if there is one.
        record: that was judged.
        decides_exit: False for a command whose exit code is not the verdict's.
        paths: those of `first_action`.
        verbose: print every limit, note and reason above the summary.
        ending: lines above the verdict.
    """
    from audit.report import leaks
    from audit.report.recommend import first_action

    make_console().print()
    if verbose:
        _show_details(verdict, record)
    elif record is not None:
        _show_notes(record, verdict, verbose=False)
        said = f"{headline(record, verdict)} " if record.corpus.forgotten else ""
        if said or verdict.overall in ("passed", "waived"):
            say(said + explanation(record, verdict))
    words = LABELS["outcomes"]
    outcome = (
        "violated"
        if any(one.outcome == "violated" for one in verdict.decisions)
        else verdict.overall
    )
    own = [one for one in verdict.decisions if one.outcome == outcome != "passed"]
    counted, _, rest = verdict.counts.sentence.partition(", ")
    code = f", exit code {verdict.exit_code}" if decides_exit else ""
    reason = verdict.reason if record is None else leaks.headline(record, verdict)
    last = f"{_shortened(reason, verdict, counted)}  (policy {verdict.policy}{code})"
    lines = [(verdict.stamp, verdict.overall, last)]
    if verdict.text is not None:
        lines.insert(
            0,
            (
                words[verdict.text].upper(),
                verdict.text,
                f"the redacted text itself: {verdict.text_reason}",
            ),
        )
    is_answered = verdict.overall == "passed" and (
        record is None or not leaks.leaves_findings(record, verdict)
    )
    lead = "Next: " if is_answered else "Fix: "
    step = None if record is None else first_action(record, verdict, paths)
    fix, command = ([], "") if step is None else ([step.text], step.command)
    commands = [command] if command else []
    read = (
        [] if out is None else [out / name for name in ("report.pdf", "report.html", "record.json")]
    )
    closing = [
        *ending,
        *(f"Report: {path}" for path in [path for path in read if path.exists()][:1]),
    ]

    def others(left_out: int) -> str:
        named = [
            *([f"{left_out} more {words[outcome].lower()}"] if left_out else []),
            *([rest] if rest else []),
        ]
        return f"{'Also' if verbose else '-v shows'} {', '.join(named)}." if named else ""

    texts = [*(lead + one for one in fix), *(f"  {one}" for one in commands), *closing]
    texts += [f"{stamp}  {said}" for stamp, _, said in lines]
    room = SUMMARY_LINES - sum(map(_height, texts))
    rows = _worst(own, room - _height(others(0)))
    if len(rows) < len(own):
        rows = _worst(own, room - _height(others(len(own))))
    if rows:
        named = [(name_documents(record, label), *others) for label, *others in rows]
        show_table("", (words[outcome], "measured", "limit"), named, spaced=False)
    say(*filter(None, [others(len(own) - len(rows))]))
    for text in fix:
        print_line(text, lead=f"[bold]{lead}[/]")
    show_commands("", commands)
    say(*closing)
    for stamp, kind, text in lines:
        print_line(text, lead=f"[{STYLES[kind]}]{stamp}[/]  ")


def _shortened(reason: str, verdict: Verdict, counted: str) -> str:
    """Return a verdict's reason with the first of its counts alone: a line above has the others."""
    if not verdict.counted:
        return reason
    return reason.replace(verdict.counted, counted)


def _height(text: str) -> int:
    """Return the lines that a text takes in this window."""
    return (
        fold_line(printable(text), make_console(interrupts=False).width).count("\n") + 1
        if text
        else 0
    )


def _worst(own: Sequence[Decision], room: int) -> list[tuple[str, str, str]]:
    """Return rows for limits of one outcome, the first of each attack before others, as far as the lines reach."""
    if not own:
        return []
    first = {one.limit.attack: place for place, one in reversed([*enumerate(own)])}.values()
    ranked = sorted(range(len(own)), key=lambda place: (place not in first, -_excess(own[place])))
    rows = [_summary_row(one, named=place in first) for place, one in enumerate(own)]
    width = (
        make_console(interrupts=False).width
        - 4
        - sum(max(len(row[column]) for row in rows) for column in (1, 2))
    )
    shown: set[int] = set()
    room -= 1  # the heading
    for place in ranked:
        room -= fold_line(rows[place][0], max(width, 20)).count("\n") + 1
        if room >= 0 or not shown:
            shown.add(place)
    return [row for place, row in enumerate(rows) if place in shown]


def _excess(decision: Decision) -> float:
    """Return how much of the way from the limit to the largest possible value was measured."""
    measured, bound = decision.measured, decision.limit.max
    if measured is None or bound is None:
        return 0.0
    most = text_of(decision.limit.attack).metric(decision.limit.metric).upper
    beyond = abs(measured.value - 0.5) + 0.5 if measured.is_area else measured.value
    return (beyond - bound) / (most - bound) if most is not None else 1 - bound / max(beyond, 1e-9)


def _summary_row(decision: Decision, *, named: bool) -> tuple[str, str, str]:
    """Name a limit by the question of its attack, or where another row has that, by its own label."""
    limit, measured = decision.limit, decision.measured
    text = text_of(limit.attack)
    label = text.short_question or text.title if named else f"  {text.label(limit.metric)}"
    value = "not measured" if measured is None else _value(decision, measured)
    if measured is not None and decision.outcome == "undecided":
        value += _interval(decision, measured)
    return printable(label or limit.attack), value, _bound(decision)


def _value(decision: Decision, measured: Estimate) -> str:
    """Write a value with its unit, an area with its name."""
    metric = text_of(decision.limit.attack).metric(decision.limit.metric)
    bound = decision.limit.max if decision.limit.max is not None else decision.limit.min or 0.0
    shown = numbers.amount(
        measured, metric.form, numbers.distinct_digits(measured, bound, metric.form)
    )
    unit = {"count": f" {measured.unit}", "bits": " bits"}.get(metric.kind, "")
    return f"{'AUC ' if metric.kind == 'auc' else ''}{shown}{unit}".replace(numbers.NBSP, " ")


def _interval(decision: Decision, measured: Estimate) -> str:
    if decision.count_range:
        return f" ({decision.count_range})"
    return f" ({numbers.between(measured, text_of(decision.limit.attack).metric(decision.limit.metric).form)})"


def _bound(decision: Decision) -> str:
    limit = decision.limit
    form = text_of(limit.attack).metric(limit.metric).form
    text = numbers.limit_number if form == "points" else numbers.limit_text
    least = "" if limit.max is not None else "at least "
    return f"{least}{text(limit.max if limit.max is not None else limit.min or 0.0, form)}".replace(
        numbers.NBSP, " "
    )


def _show_details(verdict: Verdict, record: AuditRecord | None) -> None:
    """Print the answer in sentences, every limit, why some are open, and all notes."""
    words = LABELS["outcomes"]
    if record is not None:
        print_line(f"{headline(record, verdict)} {explanation(record, verdict)}")
        make_console().print()
    rows: list[Row] = []
    open_: dict[tuple[str, str, str, str], list[str]] = {}
    for decision in verdict.decisions:
        text, limit = text_of(decision.limit.attack), decision.limit
        named = f"{text.title or limit.attack} [{limit.attack}]"
        if decision.outcome != "inapplicable":
            rows += [] if named in rows else [named]
            rows.append(_limit_row(decision, words[decision.outcome]))
        if decision.outcome not in ("passed", "violated"):
            key = (words[decision.outcome], named, decision.reason, decision.remedy)
            open_.setdefault(key, []).append(limit.metric)
    if rows:
        show_table("", COLUMNS, rows, {words[outcome]: style for outcome, style in STYLES.items()})
    for (word, named, reason, remedy), metrics in open_.items():
        print_line(
            f"{word}: {named} {', '.join(metrics)}: {reason}{f'. Fix: {remedy}' if remedy else ''}",
            "yellow",
        )
    if record is not None:
        _show_notes(record, verdict, verbose=True)
    make_console().print()


def _limit_row(decision: Decision, outcome: str) -> tuple[object, ...]:
    text, limit, measured = text_of(decision.limit.attack), decision.limit, decision.measured
    label = f"{text.label(limit.metric)} [{limit.metric}]"
    if measured is None:
        return label, _bound(decision), "-", "-", outcome
    value = f"{_value(decision, measured)}{_interval(decision, measured)}"
    return label, _bound(decision), value, measured.n, outcome


def _show_notes(record: AuditRecord, verdict: Verdict, *, verbose: bool) -> None:
    """Print what qualifies a verdict; of one that is exceeded only what no summary line says."""
    from audit.report.leaks import notes

    hidden = {"policy", "outside", "declared"} if verdict.overall == "violated" else {"policy"}
    for note in notes(record, verdict):
        if verbose or note.kind not in hidden:
            print_line(note.text, NOTE_STYLES[note.kind])
    if record.target.is_model and record.corpus.draw:
        said = f"{record.corpus.draw}: this holds for a model that was trained on its members after that"
        print_line(said[0].upper() + said[1:])
    if record.timing.origin:
        print_line(f"{record.timing.origin}.")
    if verbose and verdict.overall == "undecided" and (lines := [*findings(record, verdict)]):
        print_line("Findings so far", "bold")
        say(*(f"  {line}" for line in lines))
