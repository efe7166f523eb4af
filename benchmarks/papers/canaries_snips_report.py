"""The README of `canaries_snips.py`: our numbers beside the paper's tables 2 and 3, from the lines of its models."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.corpus.canaries.schema import PATTERNS
from audit.stats.intervals import Interval, clopper_pearson
from audit.stats.rates import mean
from benchmarks.papers.canaries_snips_findings import findings
from benchmarks.papers.canaries_snips_models import PATTERN_NAMES, ROWS, Settings

Line = Mapping[str, Any]
TABLE_2 = {"color": (10, 0.40, 0.30), "pin": (500, 0.40, 0.27), "call": (10, 0.30, 0.40)}
"""R, Accuracy and HDT at n = 4: the best over R in 10, 100, 500."""
TABLE_3 = {
    10: {
        "none": (0.30, 0.33, 0.40),
        "D": (0.85, 0.80, 0.76),
        "ES": (0.80, 0.93, 0.95),
        "CE": (0.65, 0.75, 0.90),
        "D+ES": (0.98, 0.90, 0.95),
        "ES+CE": (0.90, 0.83, 0.90),
        "D+ES+CE": (0.90, 0.90, 0.90),
    },
    500: {
        "none": (0.39, 0.27, 0.38),
        "D": (0.65, 0.54, 0.83),
        "ES": (0.85, 1.00, 0.75),
        "CE": (0.58, 0.93, 0.68),
        "D+ES": (0.85, 0.93, 0.98),
        "ES+CE": (0.93, 0.98, 0.78),
        "D+ES+CE": (0.95, 0.88, 1.00),
    },
    1000: {
        "none": (0.35, 0.18, 0.48),
        "D": (0.35, 0.78, 0.58),
        "ES": (0.90, 0.83, 0.85),
        "CE": (0.70, 0.68, 0.78),
        "D+ES": (0.88, 0.98, 0.90),
        "ES+CE": (0.88, 1.00, 0.95),
        "D+ES+CE": (0.95, 0.93, 0.95),
    },
}
"""HDT of color, pin and call, by R and row. The paper leaves out the accuracies of this table:
"nearly zero"."""
PAPER_MODELS = 10
"""Models of a cell."""
ATTACKS = ("relaxed", "one start", "without characters", "exact", "continuous")
HEAD = """# Canaries in NLU models: the paper's design

Made by `canaries_snips.py` on one {processor} CPU ({system}, torch {torch}), {date}, one thread a model;
{models} models ({in_cells} a cell{unfinished}), on average {seconds:.0f} s of CPU time each to train and attack.

Each model is trained on {utterances} utterances drawn once from Snips' training part ({epochs} epochs at most) and on R
copies of one canary of each pattern ("color", "my pin code is", "call", each with n = {length} unknown words); a tenth
of the copies goes into the validation part, which early stopping looks at. Model k of a cell has the same canaries,
seed and word vectors in every cell: rows differ in their defence alone. Embeddings of {embedding} numbers, two BiLSTM
layers of {hidden} a direction, CRF, intents; Adam at {rate}, {batch} utterances a step. All three canaries are in one
model, which the paper does not say.

Word vectors start from {vectors}: FastText's cannot be had here. They are trained with the rest.

- **D**: dropout of 20 % on what goes into the first BiLSTM and of 10 % on what comes out of the last one.
- **ES**: training stops 20 epochs after the lowest validation loss, and the weights of that epoch are kept. With 30
  epochs at most, keeping the best weights is what matters.
- **CE**: a convolution over characters (30 filters of window 3). The relaxed attack mixes characters with the same
  weights as words; "without characters" is the paper's attacker, who shows the model none where words are unknown.

Attacks: **relaxed** is the paper's with four starts near zero (N(0, 0.01)) of which the lowest loss of a discrete
completion wins; **one start** its first start alone; **exact** scores every completion and takes the lowest loss, what
a perfect optimiser of the paper's objective would find; **continuous** is the paper's trivial attack on free vectors
with the nearest candidate, with four starts too. HDT is the share of unknown words that are wrong, Accuracy the share
of canaries found whole. Intervals are 95 %: Clopper-Pearson for Accuracy, BCa over models for HDT (Clopper-Pearson
where all models agree). The gate of `docaudit` reads the strongest attack, so look at exact.
"""


def write_report(lines: Sequence[Line], settings: Settings, out: Path) -> None:
    """`README.md` and `results.json` (the lines themselves) in `out`.

    Cells without models are left out.
    """
    if not lines:
        print("no model has been attacked: nothing to report")
        return
    lines = sorted(
        lines, key=lambda line: (line["repeat"], [*ROWS].index(line["row"]), line["number"])
    )
    parts = [
        _head(lines, settings),
        "## HDT, beside table 3",
        "",
        *_hdt_table(lines),
        "",
        "## Accuracy",
        "",
        'Table 3 leaves accuracies out: with defences they are "nearly zero".',
        "",
        *_accuracy_table(lines),
        "",
        "## Beside table 2",
        "",
        "Table 2 prints, for n = 4 and no defence, the best over R in 10, 100 and 500; ours is the best over our R: "
        "both are luckier than any one R.",
        "",
        *_best_table(lines),
        "",
        "## Where the canary stands",
        "",
        "Medians over models: the canary's rank among all completions by loss (1: the likeliest), and in nats how far "
        "its loss lies above the lowest one and below that of the median completion.",
        "",
        *_rank_table(lines),
        "",
        "## What defences cost",
        "",
        *_utility_table(lines),
        "",
        "## Where ours and the paper's differ",
        "",
        *findings(lines, TABLE_3),
        "",
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "README.md").write_text("\n".join(parts), encoding="utf-8")
    results = {"settings": asdict(settings), "models": lines}
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"{out / 'README.md'}: {len(lines)} models")


def _head(lines: Sequence[Line], settings: Settings) -> str:
    recipe = settings.recipe
    sizes = [len(cell) for cell in _cells(lines).values()]
    least = min(sizes)
    most = max(sizes)
    pieces = f"the word-piece embeddings of {settings.embeddings} (the mean of a word's pieces, brought to size by PCA)"
    return HEAD.format(
        processor=platform.machine(),
        system=platform.system(),
        torch=torch.__version__,
        date=datetime.now(UTC).date().isoformat(),
        models=len(lines),
        in_cells=str(least) if least == most else f"{least} to {most}",
        unfinished=""
        if least >= PAPER_MODELS
        else f": the grid is unfinished, the paper has {PAPER_MODELS}",
        seconds=np.mean([line["training"]["seconds"] + line["seconds"] for line in lines]),
        utterances=f"{settings.n_utterances:,}",
        epochs=recipe.epochs,
        length=settings.length,
        embedding=recipe.embedding_size,
        hidden=recipe.hidden_size,
        rate=recipe.learning_rate,
        batch=recipe.batch_size,
        vectors="random numbers" if settings.embeddings == "random" else pieces,
    )


def _cells(lines: Sequence[Line]) -> dict[tuple[int, str], list[Line]]:
    """The models of each cell (R, row), in the order of the lines."""
    cells: dict[tuple[int, str], list[Line]] = {}
    for line in lines:
        cells.setdefault((line["repeat"], line["row"]), []).append(line)
    return cells


def _hdt(cell: Sequence[Line], pattern: str, attack: str) -> str:
    """The mean HDT of a cell; nothing where this attack was not made."""
    found = [(line["number"], line["patterns"][pattern].get(attack)) for line in cell]
    made = [(number, one["hdt"]) for number, one in found if one is not None]
    if made:
        return _mean_words([hdt for _, hdt in made], [number for number, _ in made])
    return ""


def _mean_words(values: Sequence[float], numbers: Sequence[int]) -> str:
    """The mean and its interval over model numbers; the mean alone of a single one."""
    if len({*numbers}) < 2:
        return f"{np.mean(values):.2f} (one model)"
    return _words(mean(values, numbers, np.random.default_rng(0)))


def _accuracy(cell: Sequence[Line], pattern: str, attack: str) -> Interval:
    """Return the share of a cell's models whose canary of a pattern was recovered whole."""
    hits = sum(line["patterns"][pattern][attack]["hdt"] == 0 for line in cell)
    return clopper_pearson(hits, len(cell))


def _words(interval: Interval) -> str:
    """Return a value with its interval as text."""
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _by_pattern(
    lines: Sequence[Line], columns: Sequence[str], values: Callable[..., Sequence[str]]
) -> list[str]:
    """A table with a row for each R, row of defences and pattern."""
    rows = [
        [str(repeat), row, pattern, *values(cell, pattern, repeat, row)]
        for (repeat, row), cell in _cells(lines).items()
        for pattern in PATTERN_NAMES
    ]
    return _table(["R", "row", "canary", *columns], rows)


def _hdt_table(lines: Sequence[Line]) -> list[str]:
    def values(cell: Sequence[Line], pattern: str, repeat: int, row: str) -> list[str]:
        paper = TABLE_3.get(repeat, {}).get(row)
        return [
            *(_hdt(cell, pattern, attack) for attack in ATTACKS),
            f"{1 - 1 / len(PATTERNS[pattern].candidates):.2f}",
            "" if paper is None else f"{paper[PATTERN_NAMES.index(pattern)]:.2f}",
        ]

    return _by_pattern(lines, [*ATTACKS, "chance", "*paper*"], values)


def _accuracy_table(lines: Sequence[Line]) -> list[str]:
    def values(cell: Sequence[Line], pattern: str, repeat: int, row: str) -> list[str]:
        chance = f"{1 / cell[0]['patterns'][pattern]['exact']['completions']:.0e}"
        return [
            *(
                _words(_accuracy(cell, pattern, attack))
                for attack in ("relaxed", "exact", "continuous")
            ),
            chance,
        ]

    return _by_pattern(lines, ["relaxed", "exact", "continuous", "chance"], values)


def _best_table(lines: Sequence[Line]) -> list[str]:
    rows = []
    undefended = {repeat: cell for (repeat, row), cell in _cells(lines).items() if row == "none"}
    for pattern in PATTERN_NAMES:
        repeat, accuracy, hdt = TABLE_2[pattern]
        for attack in ("relaxed", "exact") if undefended else ():
            best = min(
                undefended, key=lambda r: float(np.mean(_distances(undefended[r], pattern, attack)))
            )
            cell = undefended[best]
            own = [str(best), _words(_accuracy(cell, pattern, attack)), _hdt(cell, pattern, attack)]
            rows.append([pattern, attack, *own, str(repeat), f"{accuracy:.2f}", f"{hdt:.2f}"])
    return _table(["canary", "attack", "R", "Accuracy", "HDT", "*R*", "*Accuracy*", "*HDT*"], rows)


def _distances(cell: Sequence[Line], pattern: str, attack: str) -> list[float]:
    """Return the Hamming distances of a pattern's recovered secrets, one for each model."""
    return [line["patterns"][pattern][attack]["hdt"] for line in cell]


def _rank_table(lines: Sequence[Line]) -> list[str]:
    def values(cell: Sequence[Line], pattern: str, repeat: int, row: str) -> list[str]:
        exact = [line["patterns"][pattern]["exact"] for line in cell]
        above = np.median([one["true_loss"] - one["loss"] for one in exact])
        below = np.median([one["median_loss"] - one["true_loss"] for one in exact])
        rank = np.median([one["rank"] for one in exact])
        return [f"{rank:.0f} of {exact[0]['completions']:,}", f"{above:.4f}", f"{below:.3f}"]

    return _by_pattern(lines, ["rank", "above the lowest", "below the median"], values)


def _utility_table(lines: Sequence[Line]) -> list[str]:
    rows = []
    for row in ROWS:
        own = [line for line in lines if line["row"] == row]
        if not own:
            continue
        numbers = [line["number"] for line in own]
        measured = [
            _mean_words([line["utility"][name] for line in own], numbers)
            for name in ("slot_f1", "intent_accuracy")
        ]
        epochs = [line["training"]["kept_epoch"] for line in own]
        rows.append(
            [row, *measured, f"{np.median(epochs):.0f} ({min(epochs):.0f}-{max(epochs):.0f})"]
        )
    held_out = lines[0]["utility"]["utterances"]
    note = f"On {held_out} test utterances; means over all R, intervals over model numbers; median epoch that was kept."
    return [note, "", *_table(["row", "slot F1", "intent accuracy", "epoch"], rows)]
