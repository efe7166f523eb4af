"""The page of all rows: a table, and for each row whose claim it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.checkpoints.results import Finding, Result
from benchmarks.checkpoints.rows import Checkpoint

BUILT = "built here, not published"
SAMPLE = "of this repository, built here, not published"
MOST_FINDINGS = 2
"""Findings that the table shows; the sections below it list all."""
SPLITS = {"member": "of training", "heldout": "unseen", "public": "public"}
"""What the page calls the documents of a split."""
COLUMNS = (
    *("model", "data", "commit", "verdict", "main findings (95 % intervals)"),
    *("not tested", "minutes", "machine", "date"),
)
HEAD = """\
# Audits of public checkpoints

`python -m benchmarks.checkpoints` wrote this page. [The README](README.md) says how to add a model
and run it again.

**A finding is about declared documents.** For a published model, the split is its publisher's
claim; nobody here trained it. The scans use no reference model, as a stranger has none, so some
attacks are not tested. An audit here accuses nobody: it measures what this checkpoint does on these
documents. The page holds no value and no name of a document. Minutes are elapsed time, without
calls that were killed; other work may have shared the machine.

Any finding is wrong in these cases:

- The publisher trained on other documents than the card says. Unseen documents in the training hide
  a leak.
- Training and unseen documents differ in source, age or quality. Then they are recognised without
  any memory. The blind check of a scan looks for that.
- Words, boxes or prompts differ from those of the training. Then the model gets strange questions.
- The backbone saw the documents before. Then both sides look alike, or the leak is the backbone's.

A model that was not run is no model that passed.
"""


def write_page(rows: Sequence[Checkpoint], results: Mapping[str, Result]) -> str:
    """Write the page in Markdown."""
    lines = [HEAD, f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for row in rows:
        cells = _cells(row, results.get(row.name))
        lines.append(f"| {' | '.join(map(_escaped, cells))} |")
    for row in rows:
        lines += ["", *_section(row, results.get(row.name))]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Keep a cell within its column."""
    return text.replace("|", "\\|").replace("\n", " ")


def _cells(row: Checkpoint, result: Result | None) -> list[str]:
    """Return the cells of a row."""
    first = [_model_of(row), row.data.name]
    nothing = [""] * (len(COLUMNS) - len(first) - 2)
    if result is None:
        return [*first, "", "not run yet", *nothing]
    if result.state != "scanned":
        return [*first, "", f"{result.state}: {result.reason}", *nothing]
    shown = [_shown(finding) for finding in result.findings[:MOST_FINDINGS]]
    return [
        *first,
        f"`{result.commit}`",
        _verdict_of(result),
        "; ".join(shown),
        ", ".join(_titles(result.not_tested)),
        f"{result.minutes:.1f}",
        result.machine,
        result.date,
    ]


def _titles(reasons: Sequence[str]) -> Iterator[str]:
    """Yield the titles of attacks without the reasons behind them."""
    for reason in reasons:
        yield reason.partition(":")[0]


def _model_of(row: Checkpoint) -> str:
    """Name the model, and say who published it."""
    if row.is_published:
        return f"[{row.name}](#{row.name}), published by {row.publisher}"
    return f"[{row.name}](#{row.name}), {_label_of(row)}"


def _label_of(row: Checkpoint) -> str:
    """Say where a model comes from that nobody published."""
    if row.build:
        return BUILT
    return SAMPLE


def _verdict_of(result: Result) -> str:
    """Write the verdict with its exit code."""
    return f"{result.verdict} (exit code {result.exit_code})"


def _shown(finding: Finding) -> str:
    """Write a finding with its outcome."""
    about = ""
    if finding.about_text:
        about = " by the text alone, whatever the model"
    return f"{finding.title}, {finding.outcome}{about}: {finding.sentence}"


def _section(row: Checkpoint, result: Result | None) -> Iterator[str]:
    """Yield the lines on a row below the table."""
    yield f"## {row.name}"
    yield ""
    yield from _origin(row)
    yield f"- Data: {row.data.name} (`{row.data.source}`); licence: {row.data.licence}."
    yield f"- Split: {row.data.split}"
    bound = ""
    if row.time:
        bound = f", at most {row.time} of trials"
    yield f"- Budget: {row.budget}{bound}; policy default."
    for sentence in row.wrong:
        yield f"- May make a finding wrong: {sentence}"
    if result is None:
        yield "- Result: not run yet."
    elif result.state != "scanned":
        yield f"- Result: {result.state}: {result.reason}."
    else:
        yield from _results(result)


def _origin(row: Checkpoint) -> Iterator[str]:
    """Yield where the model comes from, and what was checked of it."""
    if not row.is_published:
        yield f"- Model: {_label_of(row)}; licence: {row.licence}."
        return
    yield f"- Model: `{row.model}`, published by {row.publisher}; licence: {row.licence}."
    yield f"- Address: {row.checked or 'unchecked'}."


def _results(result: Result) -> Iterator[str]:
    """Yield the lines on the result of a scan."""
    counts = ", ".join(
        f"{result.documents[split]:,} {words}"
        for split, words in SPLITS.items()
        if split in result.documents
    )
    yield f"- Documents: {counts}."
    yield f"- Verdict: {_verdict_of(result)}, docaudit {result.docaudit}, {result.date}."
    for finding in result.findings:
        yield f"- {_shown(finding)}."
        if finding.why:
            yield f"  - Undecided because {finding.why}."
    for reason in result.not_tested:
        yield f"- Not tested: {reason}."
    for reason in result.inapplicable:
        yield f"- Not applicable: {reason}."
