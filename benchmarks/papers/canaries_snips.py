"""Tables 2 and 3 of the canary extraction paper (Parikh et al. 2022) on a part of Snips, with the exact minimiser.

    python -m benchmarks.papers.canaries_snips --snips snips \
        --embeddings minilm-l6-h384 --jobs 2

trains 10 models in each cell of 3 numbers of copies and 7 rows of defences, with one canary of each
pattern (color, pin, call) of n = 4 unknown words, and attacks each: the relaxed attack
(`audit.attacks.canaries.search`), the enumeration of all completions, and the paper's trivial
attack on free vectors. A line for each model goes into `--work` as soon as it is done; what is
there is not made again. `--stage report` writes `canaries_snips/` from these lines,
whichever models are missing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from benchmarks.papers.canaries_snips_attacks import attack, usefulness
from benchmarks.papers.canaries_snips_models import REPEATS, ROWS, Cell, Settings, material, train
from benchmarks.papers.canaries_snips_report import write_report

HERE = Path(__file__).parent


def main() -> None:
    """Read the options, run what is missing, write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--snips", type=Path, default=Path("snips"), help="as it is distributed")
    parser.add_argument(
        "--embeddings", type=Path, help="a BERT-like checkpoint for word vectors; none: random ones"
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/canaries"))
    parser.add_argument("--out", type=Path, default=HERE / "canaries_snips")
    parser.add_argument("--stage", choices=("run", "report", "all"), default="all")
    parser.add_argument("--models", type=int, default=10, help="of a cell")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=tuple(ROWS))
    parser.add_argument("--repeats", nargs="+", type=int, default=REPEATS)
    parser.add_argument("--epochs", type=int, default=Settings().recipe.epochs)
    parser.add_argument("--utterances", type=int, default=Settings.n_utterances)
    parser.add_argument(
        "--length", type=int, default=Settings.length, help="n, unknown words of a canary"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    options = parser.parse_args()
    settings = Settings(
        n_utterances=options.utterances,
        length=options.length,
        recipe=replace(Settings().recipe, epochs=options.epochs),
        embeddings="random" if options.embeddings is None else options.embeddings.name,
    )
    options.work.mkdir(parents=True, exist_ok=True)
    results = options.work / f"models-{settings.key}.jsonl"
    # Model by model, not cell by cell: a grid that was broken off is balanced.
    cells = [
        Cell(number, repeat, row)
        for number in range(options.models)
        for repeat in options.repeats
        for row in options.rows
    ]
    if options.stage != "report":
        run(cells, settings, options, results)
    if options.stage != "run":
        write_report(read(results), settings, options.out)


def run(
    cells: Sequence[Cell], settings: Settings, options: argparse.Namespace, results: Path
) -> None:
    """Train and attack the models that have no line in `results` yet."""
    known = {_cell_of(line) for line in read(results)}
    todo = [cell for cell in cells if cell not in known]
    print(f"{len(todo)} models to train, {len(cells) - len(todo)} are in {results}", flush=True)
    if not todo:
        return
    # Made once, before processes would make it side by side.
    material(options.snips, options.work, settings, options.embeddings)
    context = multiprocessing.get_context("spawn")
    with (
        results.open("a", encoding="utf-8") as stream,
        ProcessPoolExecutor(options.jobs, context, torch.set_num_threads, (1,)) as pool,
    ):
        given = options.snips, options.work, options.embeddings
        waiting = [pool.submit(one_model, cell, settings, *given) for cell in todo]
        for place, done in enumerate(as_completed(waiting), start=1):
            line = done.result()
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
            print(f"{place}/{len(todo)} {_words(line)}", flush=True)


def one_model(
    cell: Cell, settings: Settings, source: Path, work: Path, backbone: Path | None
) -> dict[str, Any]:
    """Everything about one model; its weights are not kept."""
    data = material(source, work, settings, backbone)
    folder = Path(tempfile.mkdtemp(prefix="canaries-", dir=work))
    try:
        target, training = train(cell, settings, data, folder)
        found = attack(cell, settings.length, target)
        return {
            **asdict(cell),
            "training": training,
            "utility": usefulness(target, data.test),
            **found,
        }
    finally:
        shutil.rmtree(folder)


def read(results: Path) -> list[dict[str, Any]]:
    """The lines so far; one that was cut off is left out, and its model made again."""
    lines = []
    if results.exists():
        content = results.read_text(encoding="utf-8")
        whole = content[: content.rfind("\n") + 1]
        if whole != content:
            results.write_text(whole, encoding="utf-8")
        lines = [json.loads(line) for line in whole.splitlines()]
    return lines


def _cell_of(line: dict[str, Any]) -> Cell:
    return Cell(line["number"], line["repeat"], line["row"])


def _words(line: dict[str, Any]) -> str:
    parts = []
    for name, attacks in line["patterns"].items():
        part = f"{name} {attacks['relaxed']['hdt']:.2f}"
        exact = attacks.get("exact")
        if exact is not None:
            part = f"{part}/{exact['hdt']:.2f} (rank {exact['rank']})"
        parts.append(part)
    found = ", ".join(parts)
    training = line["training"]
    useful = line["utility"]
    return (
        f"{line['row']} R={line['repeat']} #{line['number']}: HDT relaxed/exact {found};"
        f" F1 {useful['slot_f1']:.3f}, intents {useful['intent_accuracy']:.3f};"
        f" CPU {training['seconds']:.1f} + {line['seconds']:.1f} s, epoch {training['kept_epoch']:.0f}"
    )


if __name__ == "__main__":
    main()
