"""The redaction paper's two networks with the paper's number of steps (Beltrame et al. 2024).

    python -m benchmarks.papers.redaction_tab_steps --tab tab --embedder minilm-l6-h384 \
        --work FOLDER --date 2026-11-30

fits one network after the other in the first draw, or fold, of `redaction_tab.py`, and writes
`redaction_tab/steps.md` and `steps.json` after each. What FOLDER holds is not made again, and an
unfinished network goes on from its last state. Set OMP_NUM_THREADS=1. With MALLOC_MMAP_THRESHOLD_
and MALLOC_TRIM_THRESHOLD_ at 1073741824 memory stays with the process: a third less time.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.papers.redaction_tab_cells import Embedding, Group, Settings, run_group
from benchmarks.papers.redaction_tab_learners import NETWORK_EPOCHS, NetworkKind, steps_of
from benchmarks.papers.redaction_tab_numbers import TRAINING, Numbers
from benchmarks.papers.redaction_tab_samples import TEST_SHARE, Protocol, import_tab
from benchmarks.papers.redaction_tab_words import EMBEDDINGS, NAMES, PAPER

HERE = Path(__file__).parent / "redaction_tab"
PAPER_OF_A_CLASS = 3500
"""Samples of each class after oversampling (paper, table 5)."""
PAPER_CLASSES = 8
PAPER_TRAINING = round((1 - TEST_SHARE) * PAPER_OF_A_CLASS * PAPER_CLASSES)
PAPER_STEPS = steps_of(PAPER_TRAINING, NETWORK_EPOCHS)
"""Batches that each network of the paper was fitted with."""
CELLS: tuple[tuple[Embedding, Protocol, NetworkKind], ...] = (
    ("minilm-tuned", "flawed", "mlp"),
    ("minilm-tuned", "flawed", "cnn"),
    ("minilm-tuned", "balanced", "mlp"),
    ("minilm-tuned", "balanced", "cnn"),
    ("minilm", "flawed", "mlp"),
    ("minilm", "flawed", "cnn"),
    ("minilm", "balanced", "mlp"),
    ("minilm", "balanced", "cnn"),
)
"""In the order in which they are fitted."""
TESTED: dict[tuple[Protocol, str], str] = {
    ("flawed", "clean"): "oversampled first",
    ("flawed", TRAINING): "on training samples",
    ("balanced", "clean"): "by document",
}
"""What a network is tried on, by protocol and test text."""
PAGE = """# The paper's networks with the paper's number of steps

`python -m benchmarks.papers.redaction_tab_steps` wrote this page: {date}, {machine},
{minutes} minutes of processor time.

The paper trains its networks for {epochs} epochs on {paper_training:,} samples, in batches of 100.
That makes {paper_steps:,} steps.
[Ours](README.md#how-much-of-the-papers-numbers-is-protocol) had {epochs} epochs of fewer samples:
the *steps before*. Here they are to take {steps:,} steps. A network that was stopped early goes on
from its last state when the script is run again. The CNN oversampled first did: minutes of its
first run, from a log, are added by hand. MiniLM without fine-tuning was not run for want of time.
Samples, networks, learning rates and seeds are the same. Each row has one draw or fold.

**The question, fixed before the first run.** Does the paper's number lie in the 95 % interval of
ours? Then it is *reached*. Where the whole interval is lower, it is *not reached*; where it is
higher, *surpassed*. The paper's test accuracy stands beside *oversampled first*, which is its
protocol. Its training accuracy stands beside *on training samples*. The paper has no number
*by document*, which is what an attacker gets on new documents. Chance is 0.125.

"""


@dataclass(frozen=True)
class Row:
    """One network on one kind of test samples.

    Attributes:
        embedding, protocol, network: which; see `Group`.
        tested: what it was tried on, a value of `TESTED`.
        steps_before: batches of the network in `results.json`.
        before: its accuracy.
        steps: batches of the new network.
        n: samples that were told.
        documents: documents of these.
        accuracy, low, high: of the new network, with its 95 % interval by document.
        paper: the paper's number; None where it has none.
        verdict: of `verdict`; None where the paper has no number.
        minutes: processor minutes of fitting and telling.
    """

    embedding: Embedding
    protocol: Protocol
    network: NetworkKind
    tested: str
    steps_before: int
    before: float
    steps: int
    n: int
    documents: int
    accuracy: float
    low: float
    high: float
    paper: float | None
    verdict: str | None
    minutes: float


def main() -> None:
    """Fit what is missing, and write the page after each network."""
    options = _options()
    settings = Settings(
        data=import_tab(options.tab, options.work),
        embedder=options.embedder.resolve(),
        work=options.work,
        steps=options.steps,
    )
    for embedding, protocol, network in CELLS:
        if not options.report:
            group = Group(protocol, embedding, "length", "clean", ("clean",), 0)
            run_group(settings, group, [network])
            write(settings, options)
            print(f"done: {embedding}, {protocol}, {network}", flush=True)
    write(settings, options)


def _options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tab", type=Path, required=True, help="the folder with texts.json and mentions.json"
    )
    parser.add_argument(
        "--embedder", type=Path, required=True, help="MiniLM's folder, of sentence-transformers"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of what was measured")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the page")
    parser.add_argument("--steps", type=int, default=PAPER_STEPS, help="batches of a network")
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    parser.add_argument("--report", action="store_true", help="fit nothing; write what is there")
    parser.add_argument("--date", required=True, help="date of the run, YYYY-MM-DD")
    return parser.parse_args()


def write(settings: Settings, options: argparse.Namespace) -> None:
    """Write the page and its numbers from the networks that are fitted."""
    rows = list(rows_of(settings))
    minutes = {(row.embedding, row.protocol, row.network): row.minutes for row in rows}
    content = {
        "machine": options.machine,
        "date": options.date,
        "processor_minutes": round(sum(minutes.values()), 1),
        "rows": [asdict(row) for row in rows],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "steps.json").write_text(json.dumps(content, indent=1) + "\n")
    (options.out / "steps.md").write_text(page_of(rows, content, options.steps))


def rows_of(settings: Settings) -> Iterable[Row]:
    """Yield the rows of the networks that are fitted."""
    lines = _lines(settings)
    record = json.loads((HERE / "results.json").read_text())
    for embedding, protocol, network in CELLS:
        line = lines.get((embedding, protocol, network))
        if line is None:
            continue
        numbers = Numbers(replace(settings, steps=line["steps"]))
        for text, tested in tests_of(protocol).items():
            measured = numbers.row(protocol, embedding, "length", network, tested=text)
            if measured is None:
                continue
            accuracy = measured.accuracy
            paper = _paper(embedding, network, tested)
            words = None
            if paper is not None:
                words = verdict(paper, accuracy.low, accuracy.high, line["steps"])
            yield Row(
                embedding=embedding,
                protocol=protocol,
                network=network,
                tested=tested,
                steps_before=steps_of(line["n_training"], NETWORK_EPOCHS),
                before=_before(record["rows"], embedding, protocol, network, text),
                steps=line["steps"],
                n=accuracy.n,
                documents=accuracy.clusters,
                accuracy=round(accuracy.value, 3),
                low=round(accuracy.low, 3),
                high=round(accuracy.high, 3),
                paper=paper,
                verdict=words,
                minutes=round(line["seconds"] / 60, 1),
            )


def tests_of(protocol: Protocol) -> dict[str, str]:
    """Return what networks of a protocol are tried on, by test text."""
    return {text: tested for (of, text), tested in TESTED.items() if of == protocol}


def _lines(settings: Settings) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the line of each network, by embedding, protocol and kind: that of most steps."""
    path = settings.work / "cells.jsonl"
    lines: dict[tuple[str, str, str], dict[str, Any]] = {}
    if not path.exists():
        return lines
    for text in path.read_text().splitlines():
        line = json.loads(text)
        key = (line["embedding"], line["protocol"], line["classifier"])
        most = lines[key]["steps"] if key in lines else 0
        if line["steps"] is not None and line["steps"] > most:
            lines[key] = line
    return lines


def _paper(embedding: Embedding, network: NetworkKind, tested: str) -> float | None:
    """Return the paper's number that stands beside ours."""
    training, test = PAPER[embedding][network]
    return {"oversampled first": test, "on training samples": training}.get(tested)


def _before(
    rows: Sequence[dict[str, Any]],
    embedding: Embedding,
    protocol: Protocol,
    network: NetworkKind,
    text: str,
) -> float:
    """Return the accuracy of a network of as many epochs as the paper's, from its record."""
    wanted = (protocol, embedding, "length", "clean", text, network)
    names = ("protocol", "embedding", "mask", "trained", "tested", "classifier")
    for row in rows:
        if tuple(row[name] for name in names) == wanted:
            return round(float(row["accuracy"]["value"]), 3)
    raise KeyError(f"results.json has no row of {wanted}")


def verdict(paper: float, low: float, high: float, steps: int) -> str:
    """Say whether a number of the paper lies in our interval, after as many steps as the paper's."""
    if steps < PAPER_STEPS:
        return "undecided: stopped early"
    if high < paper:
        return "not reached"
    if low > paper:
        return "surpassed"
    return "reached"


def page_of(rows: Sequence[Row], content: dict[str, Any], steps: int) -> str:
    """Write the table beside the paper's numbers."""
    text = PAGE.format(
        date=content["date"],
        machine=content["machine"],
        minutes=content["processor_minutes"],
        epochs=NETWORK_EPOCHS,
        paper_training=PAPER_TRAINING,
        paper_steps=PAPER_STEPS,
        steps=steps,
    )
    lines = [
        "|  |  | tried on | steps before | accuracy before | steps | accuracy | paper | verdict "
        "| processor minutes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        paper = "-" if row.paper is None else f"{row.paper:.3f}"
        lines.append(
            f"| {EMBEDDINGS[row.embedding]} | {NAMES[row.network]} | {row.tested} "
            f"| {row.steps_before:,} | {row.before:.3f} | {row.steps:,} "
            f"| {row.accuracy:.3f} [{row.low:.3f}, {row.high:.3f}] "
            f"| {paper} | {row.verdict or '-'} | {row.minutes} |"
        )
    missing = [cell for cell in CELLS if not any(_is_of(row, cell) for row in rows)]
    for embedding, protocol, network in missing:
        tested = ", ".join(tests_of(protocol).values())
        lines.append(
            f"| {EMBEDDINGS[embedding]} | {NAMES[network]} | {tested} "
            "| - | - | - | not run yet | - | - | - |"
        )
    return text + "\n".join(lines) + "\n"


def _is_of(row: Row, cell: tuple[Embedding, Protocol, NetworkKind]) -> bool:
    """Whether a row is of this network."""
    return (row.embedding, row.protocol, row.network) == cell


if __name__ == "__main__":
    main()
