"""Growth of a scan with documents and parameters, beside a straight line.

    python -m benchmarks.performance.growth  # writes growth.json and growth.md
    python -m benchmarks.performance.growth --documents 40 --out /tmp/growth.json

A quick scan tries all documents of a data set that `scale` makes: 1, 4 and 16 times as
many. The largest is scanned again with 4 times the parameters in the layers. Models have random
weights, so no attack stops early. Every scan is a process of its own: its processor seconds and its
peak memory are those that the system counted. The straight line goes through the scans of 1 and 4
times the documents: a scan of 16 times above the line grows faster than the data set.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.performance.scale import ITEMS, PUBLIC, SYLLABLES, cost, make

DOCUMENTS = 40
"""Members and held-out documents of the smallest data set."""
TIMES = (1, 4, 16)
WIDTHS = (64, 128)
"""Hidden sizes of the models: twice the width has four times the parameters in its layers."""
PIECES = (
    *ITEMS,
    *(
        f"{begin}{part}"
        for part in (*SYLLABLES, *map(str, range(10, 1000)))
        for begin in ("", "##")
    ),
)
"""Tokens of the models, so that a field has a few as in a real vocabulary. Two-letter syllables are
among them."""
PARAMETERS = "[reconstruction]\nn_candidates = 8\n"
"""Few candidates a token: candidates multiply all sizes by the same number."""
MEASURED = ("processor seconds", "peak megabytes")


def main() -> None:
    """Measure every size and width, and write the numbers and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    cases = [(times, WIDTHS[0]) for times in TIMES] + [(TIMES[2], WIDTHS[1])]
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {
                "documents": times,
                "width": width,
                **measure(Path(folder), times * options.documents, width),
            }
            for times, width in cases
        ]
    measured = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} CPU cores, {os.environ.get('OMP_NUM_THREADS', 'all')} threads",
        "documents": options.documents,
        "scans": rows,
        "line": {name: ratio_to_linear(rows, name) for name in MEASURED},
    }
    options.out.write_text(json.dumps(measured, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(text(measured))
    print(text(measured))


def measure(folder: Path, n: int, width: int) -> dict[str, float]:
    """Scan a new data set of `n` members and held-out documents; return what the scan cost."""
    folder /= f"{n}-{width}"
    # In a process of its own: the system would count this one's memory for the scan that it starts.
    made = multiprocessing.get_context("spawn").Process(
        target=make, args=(folder, n + PUBLIC, width, PIECES)
    )
    made.start()
    made.join()
    (folder / "parameters.toml").write_text(PARAMETERS)
    where = (
        folder / "model",
        folder / "data",
        "--out",
        folder / "out",
        "--attack-parameters",
        folder / "parameters.toml",
    )
    return cost(
        [str(part) for part in ("scan", *where, "--budget", "quick", "--seed", 0, "--quiet")]
    )


def ratio_to_linear(rows: list[dict[str, Any]], name: str) -> float:
    """Return column `name` of the third scan over its linear extrapolation from two."""
    first, second, third = (row[name] for row in rows[:3])
    slope = (second - first) / (TIMES[1] - TIMES[0])
    straight = first + slope * (TIMES[2] - TIMES[0])
    return float(round(third / straight, 2))


def text(measured: dict[str, Any]) -> str:
    """Write the table."""
    rows = [
        f"| {row['documents']} x | {(row['width'] // WIDTHS[0]) ** 2} x | {row['processor seconds']:.0f} "
        f"| {row['peak megabytes']:,} |"
        for row in measured["scans"]
    ]
    ratios = ", ".join(f"{name} {ratio}" for name, ratio in measured["line"].items())
    return "\n".join(
        [
            "# Growth of a scan",
            "",
            f"`python -m benchmarks.performance.growth`, {measured['machine']}, {measured['date']}.",
            f"A quick scan tries all documents: 1 x is {measured['documents']} documents of about 40 words.",
            "",
            "| documents | parameters | processor seconds | peak memory, MB |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            f"The scan of 16 x documents over a straight line through 1 x and 4 x: {ratios}.",
            "A number under 1 means that the scan grows slower than the data set.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
