"""What is won by preparing a batch while a device computes? See `overlap.md`.

    python -m benchmarks.performance.overlap --pass-seconds 0.078

A device is simulated: it computes on its own, a pass takes the time that an H100 took, and whoever
reads its states waits. Preparing batches is real. The same code is run on a device that computes at
once, as before: there nothing overlaps.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.targets.encoded_page import Encoding
from audit.targets.encoders.target import EncoderTarget
from benchmarks.papers import cdmi_speed

RESULT = Path(__file__).with_suffix(".json")
N_CANDIDATES = 128
N_PAGES = 40
TOKENS = 65_536
"""Padded tokens of a pass on a GPU."""
REPEATS = 3


class SimulatedDevice:
    """A device that works through passes in order, each as long as the last.

    Args:
        seconds: seconds of a pass.
        waits: whether whoever starts a pass waits for it.
    """

    def __init__(self, seconds: float, waits: bool) -> None:
        self.seconds = seconds
        self.waits = waits
        self.n_passes = 0
        self._free = 0.0

    def start(self) -> float:
        """Start a pass, and return the time when it ends."""
        self.n_passes += 1
        self._free = max(self._free, time.perf_counter()) + self.seconds
        if self.waits:
            wait_until(self._free)
        return self._free


def wait_until(end: float) -> None:
    """Sleep until a time of the clock."""
    time.sleep(max(0.0, end - time.perf_counter()))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pass-seconds", type=float, action="append")
    parser.add_argument("--machine", default="2-core CPU")
    options = parser.parse_args()
    torch.set_num_threads(1)
    case = cdmi_speed.invented_case(N_PAGES, "cpu")
    target: Any = case.target
    pages = [target.encode(document) for document in case.corpus.documents]
    rows = []
    for seconds in options.pass_seconds or [0.078, 0.042]:
        together = min(run(target, pages, seconds, waits=False) for _ in range(REPEATS))
        in_turn = min(run(target, pages, seconds, waits=True) for _ in range(REPEATS))
        rows.append(
            {
                "seconds of a pass": seconds,
                "seconds of a batch, in turn": round(in_turn, 4),
                "seconds of a batch, overlapped": round(together, 4),
                "ratio": round(in_turn / together, 2),
            }
        )
        print(json.dumps(rows[-1]))
    result = {"machine": options.machine, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


def run(target: EncoderTarget, pages: list[Encoding], seconds: float, *, waits: bool) -> float:
    """Return the seconds that a batch takes from its preparation to its reading."""
    forward = target.forward
    forward.batch.size = TOKENS
    forward.fixed_rows = True
    device = SimulatedDevice(seconds, waits)
    simulated: Any = forward
    simulated._encode = lambda inputs, bucket: device.start()
    rng = np.random.default_rng(0)
    candidates = rng.integers(5, 1000, (len(pages), N_CANDIDATES))

    def page_of(row: int) -> Encoding:
        number, candidate = divmod(row, N_CANDIDATES)
        return pages[number].with_tokens([3], [int(candidates[number, candidate])])

    lengths = [len(page.ids) for page in pages for _ in range(N_CANDIDATES)]
    start = time.perf_counter()
    for _, end in forward.hidden(lengths, page_of):
        wait_until(end)  # type: ignore[arg-type]
    return (time.perf_counter() - start) / device.n_passes


if __name__ == "__main__":
    main()
