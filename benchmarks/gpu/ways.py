"""One block of the attack at the paper's size, in the ways that a scan can run it.

One worker or two on a GPU, with a plain or a compiled encoder; and without its forward passes,
which is the time that Python takes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch

from audit.targets.encoders.compiling import COMPILED
from benchmarks.gpu.memory import peak_megabytes, reset_peak
from benchmarks.gpu.passes import paper_case
from benchmarks.gpu.speed import BLOCK, published
from benchmarks.gpu.work import Inputs, Json, Result, Work
from benchmarks.papers import cdmi_speed

SECONDS = 90.0
"""That a way may take on a GPU of an H100's class: loading, compiling, and a block."""
PLAIN = "plain"
HOST = "none"


@dataclass(frozen=True)
class Way:
    """One way to run a block.

    Attributes:
        n_workers: processes that share the block.
        passes: `PLAIN`, `COMPILED`, or `HOST`: the encoder gives zeros at once.
    """

    n_workers: int
    passes: str

    @property
    def name(self) -> str:
        """Name of the way's row."""
        workers = "one worker" if self.n_workers == 1 else f"{self.n_workers} workers"
        return f"{workers}, passes: {self.passes}"


WAYS = (
    Way(1, PLAIN),
    Way(2, PLAIN),
    Way(1, COMPILED),
    Way(2, COMPILED),
    Way(1, HOST),
    Way(2, HOST),
)


def measure_ways(work: Work) -> Result:
    """Attack the same fields in every way, one way after the other."""
    _, target, dtype = paper_case(work, 2)
    rate = work.step(
        "rate", partial(cdmi_speed.matmul_rate, target, dtype, 0.2 if work.tiny else 3.0)
    )
    rows = []
    for number, way in enumerate(WAYS):
        measured = work.step(f"way-{number}", partial(run_way, way, work), SECONDS)
        rows.append({"way": way.name, **measured})
    values = {"dtype": dtype, "matmul FLOP/s": rate, "rows": rows}
    return Result(values, lines(values))


def run_way(way: Way, work: Work) -> Json:
    """Start the way's processes, and give the seconds from the first start to the last end."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(way.n_workers)
    answers = context.SimpleQueue()
    n_fields = BLOCK[work.tiny] * 2
    processes = []
    for number in range(way.n_workers):
        share = (number, way.n_workers, n_fields)
        arguments = (way.passes, share, work.device, work.tiny, ready, answers)
        process = context.Process(target=attack_share, args=arguments)
        process.start()
        processes.append(process)
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        return {"failure": "a worker ended with an error"}
    return total_of([answers.get() for _ in processes], n_fields)


def total_of(shares: Sequence[dict[str, Any]], n_fields: int) -> Json:
    """Join what the processes of a way measured."""
    start = min(share["start"] for share in shares)
    end = max(share["end"] for share in shares)
    return {
        "seconds": end - start,
        "fields": n_fields,
        "candidates": sum(share["candidates"] for share in shares),
        "FLOP": sum(share["FLOP"] for share in shares),
        "peak memory MB": max(share["peak memory MB"] for share in shares),
    }


def attack_share(
    passes: str,
    share: tuple[int, int, int],
    device: str,
    tiny: bool,
    ready: Barrier,
    answers: Any,
) -> None:
    """Attack every n-th field in a process of its own, once all processes are ready.

    Args:
        passes: see `Way`.
        share: number of the process, number of processes, number of fields.
        device: "cpu" or "cuda".
        tiny: whether everything is tiny.
        ready: waits for all processes.
        answers: gets what was measured.
    """
    number, n_workers, n_fields = share
    work = Work("ways", Path(), Inputs(), device, tiny)  # keeps no step
    if tiny:
        # The compiler takes longer than everything else.
        torch.compile = partial(torch.compile, backend="eager")
    case, target, _ = paper_case(work, n_fields)
    if passes == COMPILED:
        target = case.target.rounded(COMPILED)  # type: ignore[attr-defined]
    if passes == HOST:
        skip_passes(target)
        skip_passes(case.references.auxiliary)
    attack = published(work, 1)
    trials = cdmi_speed.trials_of(case, n_fields)
    rounded = replace(case, target=target)
    cdmi_speed.product(rounded, attack, trials[:1])
    cdmi_speed.wait_for(device)
    reset_peak(device)
    ready.wait()
    start = time.perf_counter()
    _, counting, _ = cdmi_speed.product(rounded, attack, trials[number::n_workers])
    cdmi_speed.wait_for(device)
    answers.put(
        {
            "start": start,
            "end": time.perf_counter(),
            "candidates": counting.candidates,
            "FLOP": cdmi_speed.flop(target, counting.lengths),
            "peak memory MB": peak_megabytes(device),
        }
    )


def skip_passes(target: Any) -> None:
    """Have an encoder give zeros at once."""
    n_hidden = target.model.config.hidden_size
    zero = torch.zeros(1, 1, n_hidden, device=target.card.device)

    def states_of(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return zero.expand(*inputs["input_ids"].shape, n_hidden)

    target.forward._last_states = states_of


def lines(values: dict[str, Any]) -> list[str]:
    """Print a row for each way."""
    rate = values["matmul FLOP/s"]
    text = [
        f"{values['dtype']}; the device's own matmul rate {rate / 1e12:.3g} TFLOP/s. Without "
        "passes only Python, heads and losses are left.",
        "",
        "| way | fields | seconds | candidates/s | share of the matmul rate | peak MB |",
        "|---" * 6 + "|",
    ]
    text += [line_of(row, rate) for row in values["rows"]]
    return text


def line_of(row: dict[str, Any], rate: float) -> str:
    """Print the row of a way; it has no share of the matmul rate where it has no passes."""
    if "failure" in row:
        return f"| {row['way']} | failed: {row['failure']} | | | | |"
    share = "-"
    if not row["way"].endswith(HOST):
        share = f"{row['FLOP'] / row['seconds'] / rate:.2f}"
    candidates = f"{row['candidates'] / row['seconds']:,.0f}"
    memory = f"{row['peak memory MB']:,.0f}"
    cells = (row["way"], row["fields"], f"{row['seconds']:.1f}", candidates, share, memory)
    return f"| {' | '.join(map(str, cells))} |"
