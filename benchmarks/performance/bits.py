"""Do answers depend on rows and threads in their last bits, and what does it cost that they do not?

    # writes bits.json and the tables of bits.md
    python -m benchmarks.performance.bits

Processes with and without the setting take turns, so that a busy machine slows down both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.papers.pages import put_tables

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).with_suffix(".md")
SETTINGS = {"without": "", "with": "AUTO,STRICT"}
"""Values of `MKL_CBWR`; docaudit sets the second one."""
VARIABLE = "MKL_CBWR"
SHAPES = ((96, 192), (768, 768), (768, 3072), (3072, 768), (1024, 4096), (4096, 1024))
"""Inputs and outputs of a layer."""
N_ROWS = (1, 2, 5, 16, 64, 257, 512)
MOST_ROWS = N_ROWS[-1]
THREADS = (1, 2, 4)
TIMED_ROWS = 512
TIMED_PRODUCTS = 25
TURNS = 5
N_TEXTS = 8
N_TOKENS = 48
WIDE: dict[str, dict[str, Any]] = {
    "Bert": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_hidden_layers": 2,
    },
    "GPT2": {"n_embd": 768, "n_head": 12, "n_layer": 2},
    "T5": {"d_model": 768, "d_ff": 3072, "d_kv": 64, "num_heads": 12, "num_layers": 2},
    "Qwen2": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "num_hidden_layers": 2,
        "vocab_size": 4000,
    },
}
"""Models of two wide layers with random weights, by family."""


def main() -> None:
    """Run both settings in turn, and write the numbers and the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--child", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(JOBS[options.child]()))
        return
    same = {name: run_child("bits", value) for name, value in SETTINGS.items()}
    seconds: dict[str, list[Mapping[str, Any]]] = {name: [] for name in SETTINGS}
    for _ in range(TURNS):
        for name, value in SETTINGS.items():
            seconds[name].append(run_child("seconds", value))
    result = {
        "machine": options.machine,
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "same": same,
        "seconds": seconds,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    put_tables(PAGE, tables_of(result))


def run_child(job: str, value: str) -> Mapping[str, Any]:
    """Measure in a process of its own: the library reads the setting once.

    Args:
        job: of `JOBS`.
        value: value of `MKL_CBWR`.
    """
    # Empty, not missing: docaudit would set it.
    environment = {**os.environ, VARIABLE: value}
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.performance.bits", "--child", job],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    measurements: Mapping[str, Any] = json.loads(process.stdout)
    return measurements


def compare_bits() -> dict[str, dict[str, bool]]:
    """Compare layers and models with themselves.

    Returns:
        By layer or model: whether the rows of a batch have the same bits in smaller ones ("rows"),
        and with other numbers of threads ("threads").
    """
    same: dict[str, dict[str, bool]] = {}
    for n_in, n_out in SHAPES:
        layer = seeded_layer(n_in, n_out)
        same[f"{n_in} to {n_out}"] = check_bits(layer, torch.randn(MOST_ROWS, n_in), N_ROWS)
    for name, settings in WIDE.items():
        texts = torch.randint(10, 1000, (N_TEXTS, N_TOKENS))
        same[name] = check_bits(model_of(name, settings), texts, tuple(range(1, N_TEXTS)))
    return same


def time_products() -> dict[str, float]:
    """Return the seconds of a product in one thread by layer."""
    torch.set_num_threads(1)
    seconds: dict[str, float] = {}
    for n_in, n_out in SHAPES:
        seconds[f"{n_in} to {n_out}"] = time_product(seeded_layer(n_in, n_out), n_in)
    return seconds


def seeded_layer(n_in: int, n_out: int) -> Callable[[Tensor], Tensor]:
    """Make a layer with random weights."""
    torch.manual_seed(0)
    return torch.nn.Linear(n_in, n_out)


def model_of(name: str, settings: Mapping[str, Any]) -> Callable[[Tensor], Tensor]:
    """Make a model of a family, which gives the states of its last layer."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**settings)
    kind = f"{name}EncoderModel" if name == "T5" else f"{name}Model"
    model = getattr(transformers, kind)(config).eval()

    def states(ids: Tensor) -> Tensor:
        """Return the states of texts of equal length."""
        last: Tensor = model(input_ids=ids).last_hidden_state
        return last

    return states


@torch.no_grad()
def check_bits(
    run: Callable[[Tensor], Tensor], inputs: Tensor, sizes: Sequence[int]
) -> dict[str, bool]:
    """Test whether the first rows come out alike in smaller batches, and with other threads.

    Args:
        run: what is tested, row by row.
        inputs: the largest batch.
        sizes: smaller ones, each of the first rows.
    """
    by_threads: list[Tensor] = []
    same_rows = True
    for count in THREADS:
        torch.set_num_threads(count)
        whole = run(inputs)
        by_threads.append(whole)
        for size in sizes:
            same_rows &= torch.equal(run(inputs[:size]), whole[:size])
    same_threads = all(torch.equal(by_threads[0], other) for other in by_threads[1:])
    return {"rows": same_rows, "threads": same_threads}


@torch.no_grad()
def time_product(layer: Callable[[Tensor], Tensor], n_in: int) -> float:
    """Return the seconds of a product, median of several."""
    inputs = torch.randn(TIMED_ROWS, n_in)
    seconds: list[float] = []
    for _ in range(TIMED_PRODUCTS):
        start = time.perf_counter()
        layer(inputs)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


JOBS: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "bits": compare_bits,
    "seconds": time_products,
}
"""What a process measures, by name."""


def tables_of(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write the tables of the page."""
    lines = [
        "| layer or model | rows, without | rows, with | threads, without | threads, with | time |",
        "| --- " * 6 + "|",
    ]
    for name in result["same"]["with"]:
        cells: list[str] = []
        for tested in ("rows", "threads"):
            for setting in SETTINGS:
                same = result["same"][setting][name][tested]
                cells.append("same" if same else "differ")
        lines.append(f"| {name} | {' | '.join(cells)} | {cost_of(result['seconds'], name)} |")
    made = (
        f"{result['machine']}, {result['date']}, PyTorch {result['torch']}, {result['capability']}."
    )
    return {"bits": lines, "made": [made]}


def cost_of(seconds: Mapping[str, Sequence[Mapping[str, float]]], name: str) -> str:
    """Write the ratio of times with and without the setting: median and range over turns."""
    ratios: list[float] = []
    for without, with_it in zip(seconds["without"], seconds["with"], strict=True):
        if name in with_it:
            ratios.append(with_it[name] / without[name])
    if not ratios:
        return "-"
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
