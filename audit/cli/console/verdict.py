"""Show a verdict on a terminal: its last twelve lines say all that matters.

With `-v` the rest is printed above them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from audit.attacks import text_of
from audit.cards import SERVED
from audit.cli.console.tables import NOTE_STYLES, STYLES, Row, show_table
from audit.cli.console.terminal import fold_line, make_console, print_line, say, show_commands
from audit.errors import printable
from audit.policy.grounds import Ground
from audit.report import numbers
from audit.report.answer import explanation, findings, headline, name_documents
from audit.report.labels import LABELS

if TYPE_CHECKING:
    from audit.compare.defended import MeasuredDefense
    from audit.measurements import Estimate
    from audit.policy import Decision, Limit, Outcome, Verdict
    from audit.record import AuditRecord
    from audit.report.action import Action
    from audit.report.commands import Called
    from audit.report.facts.definitions import Facts

SHOWN_DIGITS = 12
"""Digits that are shown of a SHA-256."""
SUMMARY_LINES = 11
"""Lines of the summary at the end: with the prompt below they fill half a terminal of 24 lines."""
COLUMNS = ("limit", "at most", "measured (95 % CI)", "n", "outcome")


def show_subject(record: AuditRecord) -> None:
    """Print what a record is about: the model or data set, the time of the scan, the policy."""
    corpus = record.corpus
    declared = "no policy"
    if record.policy is not None:
        declared = f"policy {record.policy.name} ({_digest(record.policy.sha256)})"
    say(
        f"Record of {_model_of(record)}data set {corpus.name} ({_digest(corpus.sha256)}), scanned "
        f"{record.timing.started}, which declares {declared}"
    )


def _model_of(record: AuditRecord) -> str:
    """Name the audited model with its digest, ending in ", "; "no model, " where there is none."""
    target = record.target
    if not target.is_model:
        return "no model, "
    digest = "no file hashed" if target.family == SERVED else _digest(target.sha256)
    return f"model {target.name} ({digest}), "


def _digest(sha256: str) -> str:
    """Write a sha256 by its first digits."""
    return f"sha256 {sha256[:SHOWN_DIGITS]}"


class _Stamped(NamedTuple):
    """A verdict as a line: its stamp, the outcome that colours it, and why."""

    stamp: str
    outcome: str
    text: str


@dataclass(frozen=True)
class _Ending:
    """What stands below the table of limits.

    Attributes:
        lead: the first word of what to do.
        step: what to do; None where nothing helps.
        closing: lines on what was written.
        verdicts: on the text, where there is one, and on the model.
    """

    lead: str
    step: Action | None
    closing: list[str]
    verdicts: list[_Stamped]

    @property
    def commands(self) -> list[str]:
        """Return the command of the next step, in a list; empty where there is none."""
        if self.step is None or not self.step.command:
            return []
        return [self.step.command]

    @property
    def height(self) -> int:
        """Count the terminal lines that the ending takes in this window."""
        texts = [] if self.step is None else [f"{self.lead}{self.step.text}"]
        texts += [f"  {command}" for command in self.commands]
        texts += self.closing
        texts += [f"{line.stamp}  {line.text}" for line in self.verdicts]
        return sum(_count_lines(text) for text in texts)


def show_verdict(
    verdict: Verdict,
    out: Path | None = None,
    record: AuditRecord | None = None,
    *,
    decides_exit: bool = True,
    called: Called | None = None,
    verbose: bool = False,
    ending: Sequence[str] = (),
    comparisons: Sequence[MeasuredDefense] = (),
) -> None:
    """Print what qualifies a verdict, then the summary.

    That is worst limits, what is open, the fix, the report, the verdict.

    Args:
        verdict: to show.
        out: the folder with the reports, if there is one.
        record: that was judged.
        decides_exit: False for a command whose exit code is not the verdict's.
        called: how the scan was called; None: nobody knows it.
        verbose: print every limit, note and reason above the summary.
        ending: lines above the verdict.
        comparisons: what countermeasures were measured to do to this model.
    """
    facts = None
    step = None
    if record is not None:
        from audit.report.action import first_action
        from audit.report.commands import Called
        from audit.report.facts.build import facts_of

        called = called or Called()
        if out is not None:
            called = called.in_folder(str(out))
        facts = facts_of(record, verdict, comparisons, called)
        step = first_action(facts)
    make_console().print()
    _show_what_qualifies(verdict, facts, verbose=verbose)
    shown_ending = _Ending(
        lead="Next: " if _is_answered(verdict, facts) else "Fix: ",
        step=step,
        closing=[*ending, *_report_line(out)],
        verdicts=_stamped_lines(verdict, facts, decides_exit=decides_exit),
    )
    _show_worst_limits(verdict, facts, shown_ending.height, verbose=verbose)
    _show_ending(shown_ending)


def _show_what_qualifies(verdict: Verdict, facts: Facts | None, *, verbose: bool) -> None:
    """Print what stands above the summary: all with `-v`, else notes and what a pass says."""
    if verbose:
        _show_details(verdict, facts)
        return
    if facts is None:
        return
    _show_notes(facts, verbose=False)
    answer = f"{headline(facts)} " if facts.record.corpus.forgotten else ""
    if answer or verdict.overall in ("passed", "waived"):
        say(answer + explanation(facts))


def _is_answered(verdict: Verdict, facts: Facts | None) -> bool:
    """Tell whether a pass leaves no finding beside it."""
    return verdict.overall == "passed" and (facts is None or not facts.leaves_findings)


def _report_line(out: Path | None) -> list[str]:
    """Name the first file of the report that was written; nothing without a folder."""
    if out is None:
        return []
    for name in ("report.pdf", "report.html", "record.json"):
        if (out / name).exists():
            return [f"Report: {out / name}"]
    return []


def _stamped_lines(verdict: Verdict, facts: Facts | None, *, decides_exit: bool) -> list[_Stamped]:
    """Return the verdict on the text, where there is one, then the verdict."""
    # A line above has the other counts.
    reason = verdict.reason_with(verdict.counts.clauses[0])
    if facts is not None:
        from audit.report.leaks import qualified

        reason = f"{reason}{qualified(facts)}"
    code = f", exit code {verdict.exit_code}" if decides_exit else ""
    text = f"{reason}  (policy {verdict.policy}{code})"
    lines = [_Stamped(verdict.stamp, verdict.overall, text)]
    if verdict.text is not None:
        stamp = LABELS["outcomes"][verdict.text].upper()
        why = f"the redacted text itself: {verdict.text_reason}"
        lines.insert(0, _Stamped(stamp, verdict.text, why))
    return lines


def _show_worst_limits(
    verdict: Verdict, facts: Facts | None, height: int, *, verbose: bool
) -> None:
    """Print the worst limits as far as the lines reach, and count the others.

    Args:
        verdict: to show.
        facts: facts of the record that was judged; None without a record.
        height: lines that are taken below.
        verbose: whether all limits stand above.
    """
    outcome = _worst_outcome(verdict)
    limits = _limits_with(verdict, outcome)
    word = LABELS["outcomes"][outcome]
    clauses = ", ".join(verdict.counts.clauses[1:])

    def left_out(n_limits: int) -> str:
        """Say how many limits of this outcome are not shown, and what became of the others."""
        parts = [f"{n_limits} more {word.lower()}"] if n_limits else []
        if clauses:
            parts.append(clauses)
        if not parts:
            return ""
        return f"{'Also' if verbose else '-v shows'} {', '.join(parts)}."

    room = SUMMARY_LINES - height
    rows = _worst_rows(limits, facts, room - _count_lines(left_out(0)))
    if len(rows) < len(limits):
        rows = _worst_rows(limits, facts, room - _count_lines(left_out(len(limits))))
    if rows:
        record = facts.record if facts else None
        labelled = [(name_documents(record, label), value, most) for label, value, most in rows]
        show_table("", (word, "measured", "limit"), labelled, spaced=False)
    line = left_out(len(limits) - len(rows))
    if line:
        say(line)


def _worst_outcome(verdict: Verdict) -> Outcome:
    """Return the outcome of the limits that a summary shows: exceeded ones, else the verdict's."""
    if any(decision.outcome == "violated" for decision in verdict.decisions):
        return "violated"
    return verdict.overall


def _limits_with(verdict: Verdict, outcome: Outcome) -> list[Decision]:
    """List the limits with an outcome; of those that are met none is shown."""
    if outcome == "passed":
        return []
    return [decision for decision in verdict.decisions if decision.outcome == outcome]


def _show_ending(ending: _Ending) -> None:
    """Print the end of a summary: next step, its command, closing lines, stamped verdicts."""
    if ending.step is not None:
        print_line(ending.step.text, lead=f"[bold]{ending.lead}[/]")
    show_commands("", ending.commands)
    say(*ending.closing)
    for line in ending.verdicts:
        print_line(line.text, lead=f"[{STYLES[line.outcome]}]{line.stamp}[/]  ")


def _count_lines(text: str) -> int:
    """Count the lines that a text takes in this window."""
    if not text:
        return 0
    width = make_console(interrupts=False).width
    return fold_line(printable(text), width).count("\n") + 1


def _worst_rows(
    limits: Sequence[Decision], facts: Facts | None, room: int
) -> list[tuple[str, str, str]]:
    """Return rows for limits of one outcome, as far as the lines reach.

    The first limit of each attack comes before others, and is never left out.
    """
    if not limits:
        return []
    first = _first_of_each_attack(limits)
    rows = []
    for place, decision in enumerate(limits):
        label, value, most = _summary_row(decision, leads=place in first)
        rows.append((f"{label}{_counts_of(decision, facts)}", value, most))
    ranked = sorted(
        range(len(limits)), key=lambda place: (place not in first, -_relative_excess(limits[place]))
    )
    width = _label_width(rows)
    fitting: set[int] = set()
    room -= 1  # the heading
    for place in ranked:
        room -= fold_line(rows[place][0], width).count("\n") + 1
        if room >= 0 or place in first:
            fitting.add(place)
    return [row for place, row in enumerate(rows) if place in fitting]


def _first_of_each_attack(limits: Sequence[Decision]) -> set[int]:
    """Return the places of limits before which none of their attack stands."""
    first: dict[str, int] = {}
    for place, decision in enumerate(limits):
        first.setdefault(decision.limit.attack, place)
    return set(first.values())


def _label_width(rows: Sequence[tuple[str, str, str]]) -> int:
    """Return the letters that are left for the labels of rows."""
    measured = max(len(row[1]) for row in rows)
    most = max(len(row[2]) for row in rows)
    return max(20, make_console(interrupts=False).width - 4 - measured - most)


def _relative_excess(decision: Decision) -> float:
    """Return how much of the way from the limit to the largest possible value was measured."""
    measured = decision.measured
    bound = decision.limit.max
    if measured is None or bound is None:
        return 0.0
    beyond = measured.value
    if measured.is_area:
        beyond = abs(measured.value - 0.5) + 0.5
    most = text_of(decision.limit.attack).metric(decision.limit.metric).upper
    if most is not None:
        return (beyond - bound) / (most - bound)
    return 1 - bound / max(beyond, 1e-9)


def _summary_row(decision: Decision, *, leads: bool) -> tuple[str, str, str]:
    """Name a limit by the question of its attack, or where another row has that, by its label."""
    limit = decision.limit
    measured = decision.measured
    text = text_of(limit.attack)
    label = f"  {text.label(limit.metric)}"
    if leads:
        label = text.short_question or text.title or limit.attack
    value = "not measured"
    if measured is not None:
        value = _value(decision, measured)
        if decision.outcome == "undecided":
            value += f"{_interval(decision, measured)}{_unconfirmed(decision)}"
    return printable(label), value, _bound(limit)


def _counts_of(decision: Decision, facts: Facts | None) -> str:
    """Write the counts behind an exceeded difference of shares; empty behind other numbers."""
    if facts is None or decision.outcome != "violated":
        return ""
    row = facts.by_attack.get(decision.limit.attack)
    if row is None or row.deciding != decision:
        return ""
    if row.trained is None or row.unseen is None:
        return ""
    return f" ({numbers.reached(row.trained)}, unseen {numbers.reached(row.unseen)})"


def _value(decision: Decision, measured: Estimate) -> str:
    """Write a value with its unit, an area with its name."""
    metric = text_of(decision.limit.attack).metric(decision.limit.metric)
    value = numbers.amount(measured, metric.form, numbers.digits_of(decision, metric.form))
    if metric.kind == "auc":
        value = f"AUC {value}"
    unit = {"count": f" {measured.unit}", "bits": " bits"}.get(metric.kind, "")
    return f"{value}{unit}".replace(numbers.NBSP, " ")


def _interval(decision: Decision, measured: Estimate) -> str:
    """Write the interval of a limited number in brackets; of a count, what it excludes in units."""
    if decision.count_range:
        return f" ({decision.count_range})"
    form = text_of(decision.limit.attack).metric(decision.limit.metric).form
    return f" ({numbers.between(measured, form, numbers.digits_of(decision, form))})"


def _unconfirmed(decision: Decision) -> str:
    """Say why a number wholly over its limit decides nothing; empty of others."""
    if decision.ground is not Ground.NOT_CONFIRMED:
        return ""
    return f", not confirmed: p = {decision.p_value:.2g}"


def _bound(limit: Limit) -> str:
    """Write what a limit allows: its maximum, or "at least" its minimum."""
    form = text_of(limit.attack).metric(limit.metric).form
    bound = numbers.bound_of(limit)
    text = numbers.limit_text(bound, form)
    if form == "points":
        text = numbers.limit_number(bound, form)
    least = "" if limit.max is not None else "at least "
    return f"{least}{text}".replace(numbers.NBSP, " ")


def _show_details(verdict: Verdict, facts: Facts | None) -> None:
    """Print the answer in sentences, every limit, why some are open, and all notes."""
    if facts is not None:
        print_line(f"{headline(facts)} {explanation(facts)}")
        make_console().print()
    rows = _limit_rows(verdict)
    if rows:
        words = LABELS["outcomes"]
        show_table("", COLUMNS, rows, {words[outcome]: style for outcome, style in STYLES.items()})
    for line in _open_lines(verdict):
        print_line(line, "yellow")
    if facts is not None:
        _show_notes(facts, verbose=True)
    make_console().print()


def _limit_rows(verdict: Verdict) -> list[Row]:
    """Return a row for each limit that applies, under the titles of attacks."""
    rows: list[Row] = []
    for decision in verdict.decisions:
        if decision.outcome == "inapplicable":
            continue
        heading = _attack_heading(decision)
        if heading not in rows:
            rows.append(heading)
        rows.append(_limit_row(decision))
    return rows


def _open_lines(verdict: Verdict) -> list[str]:
    """Say why limits are neither met nor exceeded.

    All limits of an attack with the same reason share a line.
    """
    metrics: dict[tuple[str, str, str], list[str]] = {}
    for decision in verdict.decisions:
        if decision.outcome in ("passed", "violated"):
            continue
        fix = f". Fix: {decision.remedy}" if decision.remedy else ""
        key = (
            LABELS["outcomes"][decision.outcome],
            _attack_heading(decision),
            f"{decision.reason}{fix}",
        )
        metrics.setdefault(key, []).append(decision.limit.metric)
    return [
        f"{word}: {heading} {', '.join(names)}: {reason}"
        for (word, heading, reason), names in metrics.items()
    ]


def _attack_heading(decision: Decision) -> str:
    """Write the heading of an attack's limits: its title, and its name in brackets."""
    attack = decision.limit.attack
    return f"{text_of(attack).title or attack} [{attack}]"


def _limit_row(decision: Decision) -> tuple[object, ...]:
    """Make the table row of a limit: label, bound, value with interval, units, outcome."""
    limit = decision.limit
    measured = decision.measured
    outcome = LABELS["outcomes"][decision.outcome]
    label = f"{text_of(limit.attack).label(limit.metric)} [{limit.metric}]"
    if measured is None:
        return label, _bound(limit), "-", "-", outcome
    value = f"{_value(decision, measured)}{_interval(decision, measured)}"
    return label, _bound(limit), value, measured.n, outcome


def _show_notes(facts: Facts, *, verbose: bool) -> None:
    """Print what qualifies a verdict; of one that is exceeded only what no summary line says."""
    from audit.report.leaks import notes

    record = facts.record
    hidden = {"policy"}
    if facts.verdict.overall == "violated":
        hidden = {"policy", "outside", "declared"}
    for note in notes(facts):
        if verbose or note.kind not in hidden:
            print_line(note.text, NOTE_STYLES[note.kind])
    if record.target.is_model and record.corpus.draw:
        draw = record.corpus.draw
        holds = "this holds for a model that was trained on its members after that"
        print_line(f"{draw[0].upper()}{draw[1:]}: {holds}")
    if record.timing.origin:
        print_line(f"{record.timing.origin}.")
    if verbose and facts.verdict.overall == "undecided":
        _show_findings(facts)


def _show_findings(facts: Facts) -> None:
    """Print what each attack with an undecided limit found so far, a line each."""
    lines = [f"  {line}" for line in findings(facts)]
    if lines:
        print_line("Findings so far", "bold")
        say(*lines)
