"""Does a VT5 of two layers learn to read on two cores? See `vt5_reads.md`.

    # writes vt5_reads.json, and the tables of vt5_reads.md
    python -m benchmarks.papers.vt5_reads --work FOLDER --minutes 120

Rounds that are in the folder of `--work` already are not trained again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit import record as records
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.corpus.images import page_view
from audit.references.recipes import AnsweringRecipe, made_once
from audit.references.trainer import samples_of
from audit.stats.distances import anls
from audit.stats.rates import mean
from audit.targets.answering.loading import load_answering
from audit.targets.interface import Answer
from benchmarks.gpu.learning import draw_samples, read, write_others
from benchmarks.gpu.reading import write_vt5
from benchmarks.papers import invoices_read, provider_invoices
from benchmarks.papers.pages import put_tables
from benchmarks.papers.provider_invoices_data import Sizes
from benchmarks.papers.provider_invoices_training import fit

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).with_suffix(".md")
SIZES = Sizes(320, 40, 3000)
SHAPE = {"d_model": 128, "d_kv": 32, "num_heads": 4, "d_ff": 256, "num_layers": 2}
PIECES = 600
TOKENS = 320
READS = 0.5
"""Held-out ANLS whose lower end is to reach it before anything is audited."""
ROUND = 15_000
FIRST_ROUNDS = 2
FIRST_READ = "trade"
"""A model that is asked everything from the start learns which answers there are and never to
look."""
MOST_ROUNDS = 40
MOST_ASKED = 120
"""Held-out invoices that single questions are counted on."""
RECIPE = AnsweringRecipe(epochs=1, learning_rate=2e-3, batch_size=32)
FINE_EPOCHS = 10
FINE_RATE = 5e-4
MACHINE = "2-core CPU, one thread"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=120.0, help="for rounds of reading")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    data = work / "data"
    make = partial(invoices_read.make_data, sizes=SIZES, kind="question-answering")
    made_once(data, make)
    change = partial(invoices_read.misread, seed=invoices_read.SEED + 1)
    others = work / "others"
    made_once(others, partial(write_others, sizes=SIZES, drawn=False, change=change))
    corpus = manifest.load(data)
    reader, rounds = teach(work, corpus, manifest.load(others), 60 * options.minutes)
    result: dict[str, Any] = {"machine": MACHINE, "date": options.date, "rounds": rounds}
    if rounds:
        result["questions"] = read_by_question(reader, corpus)
    if rounds and reads_well(rounds[-1]):
        result["attack"] = attack(work, reader, corpus)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    put_tables(PAGE, tables_of(result))


def teach(
    work: Path, corpus: Corpus, others: Corpus, seconds: float
) -> tuple[Path, list[dict[str, Any]]]:
    """Teach a fresh VT5 to read in rounds, until it reads well or time is over.

    Args:
        work: folder that keeps the rounds.
        corpus: the audited invoices; its held-out ones say how well the model reads.
        others: invoices of other providers.
        seconds: time after which no round is begun.

    Returns:
        The last checkpoint, and what each round reached.
    """
    folder = work / "start"
    if not folder.exists():
        write_vt5(folder, others, SHAPE, PIECES, TOKENS)
    began = time.monotonic()
    rounds: list[dict[str, Any]] = []
    for number in range(MOST_ROUNDS):
        log = work / f"round-{number}.json"
        after = work / f"round-{number}"
        if not log.exists():
            if time.monotonic() - began > seconds:
                break
            log.write_text(json.dumps(one_round(folder, after, number, corpus, others)) + "\n")
        rounds.append(json.loads(log.read_text()))
        folder = after
        if reads_well(rounds[-1]):
            break
    return folder, rounds


def one_round(
    before: Path, after: Path, number: int, corpus: Corpus, others: Corpus
) -> dict[str, Any]:
    """Train one round, and measure how well the model reads then."""
    only = None
    if number < FIRST_ROUNDS:
        only = FIRST_READ
    samples = draw_samples(others, number, ROUND, only)
    recipe = AnsweringRecipe(
        epochs=RECIPE.epochs,
        learning_rate=RECIPE.learning_rate,
        batch_size=RECIPE.batch_size,
        seed=number,
    )
    training = after.with_suffix(".training.json")
    fit(before, after, samples, recipe, training)
    trained = json.loads(training.read_text())
    return {
        "samples": len(samples),
        "loss": trained["losses"][-1],
        "minutes": round(trained["seconds"] / 60, 1),
        **read(after, corpus, "cpu"),
    }


def read_by_question(reader: Path, corpus: Corpus) -> dict[str, list[float]]:
    """Return the held-out ANLS of each question with its interval, by the question's name."""
    target = load_answering(reader)
    heldout = corpus.of("heldout")[:MOST_ASKED]
    scores: dict[str, list[float]] = defaultdict(list)
    for document in heldout:
        view = page_view(corpus, document)
        queries = [Answer(view, question.question) for question in document.questions]
        for question, reply in zip(document.questions, target.ask(queries), strict=True):
            scores[question.id].append(anls(reply.text, question.answers))
    rng = np.random.default_rng(0)
    intervals: dict[str, list[float]] = {}
    for name, column in scores.items():
        interval = mean(column, np.arange(len(column)), rng)
        intervals[name] = [interval.value, interval.low, interval.high]
    return intervals


def reads_well(reached: dict[str, Any]) -> bool:
    """Test whether a model reads well enough to be audited."""
    return bool(reached["low"] > max(READS, reached["guess"]))


def attack(work: Path, reader: Path, corpus: Corpus) -> dict[str, Any]:
    """Train the reader on the members, and audit which providers are in.

    Returns:
        By measure: value and interval of each balanced accuracy.
    """
    pretrained = corpus.root / "references" / "pretrained"
    pretrained.parent.mkdir(exist_ok=True)
    if not pretrained.exists():
        pretrained.symlink_to(reader.resolve(), target_is_directory=True)
    recipe = AnsweringRecipe(epochs=FINE_EPOCHS, learning_rate=FINE_RATE, batch_size=32)
    model = work / "model"
    if not model.exists():
        samples = samples_of(corpus, corpus.of("member"))
        fit(pretrained, model, samples, recipe, work / "model.training.json")
    result = work / "model.json"
    provider_invoices.audit(model, corpus.root, work / "report", result, "cpu", None)
    measures = invoices_read.measured(records.read(result), provider_invoices.ATTACK)
    return invoices_read.intervals_of(measures)


def tables_of(result: dict[str, Any]) -> dict[str, list[str]]:
    """Return the page's tables."""
    rounds = ["| round | samples | minutes | loss | held-out ANLS | best guess |", "|---" * 6 + "|"]
    for number, reached in enumerate(result["rounds"], start=1):
        anls = f"{reached['anls']:.3f} [{reached['low']:.3f}, {reached['high']:.3f}]"
        cells = [str(number), f"{reached['samples']:,}", str(reached["minutes"])]
        cells += [f"{reached['loss']:.2f}", anls, f"{reached['guess']:.3f}"]
        rounds.append(f"| {' | '.join(cells)} |")
    tables = {"rounds": rounds, "made": [f"{result['machine']}, {result['date']}."]}
    questions = ["| asked for | held-out ANLS |", "|---|---|"]
    for name, (value, low, high) in result.get("questions", {}).items():
        questions.append(f"| {name} | {value:.3f} [{low:.3f}, {high:.3f}] |")
    tables["questions"] = questions
    if "attack" in result:
        tables["attack"] = invoices_read.accuracy_table(result["attack"])
    return tables


if __name__ == "__main__":
    main()
