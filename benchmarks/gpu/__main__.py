"""Runs what waits for a GPU, in order of worth, until it is done or the minutes are used up.

    python -m benchmarks.gpu --minutes 40 --out gpu
    # every piece whole, on a CPU: shows that it runs
    python -m benchmarks.gpu --tiny --out /tmp/tiny
    python -m benchmarks.gpu --list

A piece whose table is in `--out` or `--work` is skipped; one that was killed goes on from the steps
that it kept. `--out` gets `tables.json` and `tables.md`. README.md beside this file says how to use
it with short loans of a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.gpu.pieces import MOST_SECONDS, PIECES
from benchmarks.gpu.running import Run, run_pieces
from benchmarks.gpu.tables import Tables
from benchmarks.gpu.work import Inputs


def main() -> None:
    """See the module's docstring."""
    options = _options()
    if options.list:
        list_pieces()
        return
    unknown = {*options.only} - {piece.name for piece in PIECES}
    if unknown:
        raise SystemExit(f"--only: no piece is called {', '.join(sorted(unknown))}; see --list")
    work = options.work or options.out / "work"
    run = Run(
        work,
        Inputs(options.sroie, options.funsd, options.backbone),
        options.device,
        options.tiny,
        Tables(options.out, work, tiny=options.tiny),
        ends=time.monotonic() + 60 * options.minutes,
        most=MOST_SECONDS,
    )
    chosen = [piece for piece in PIECES if not options.only or piece.name in options.only]
    sys.exit(0 if run_pieces(chosen, run) else 1)


def list_pieces() -> None:
    """Print each piece, what it shows, and the folders that it needs."""
    for piece in PIECES:
        folders = ", ".join(f"--{name}" for name in piece.needs)
        needs = f" [needs {folders}]" if folders else ""
        print(f"{piece.name:24} {piece.shows}{needs}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--minutes", type=float, default=40.0, help="everything ends before; default: 40"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/.work/gpu/out"), help="gets the tables"
    )
    parser.add_argument(
        "--work",
        type=Path,
        help="models, data and steps, kept between runs; default: work in --out",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PIECE", help="may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="print the pieces and end")
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="tiny models, data made on the spot: no result, runs on a CPU",
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    parser.add_argument("--sroie", type=Path, help="SROIE's folder (img, box, key)")
    parser.add_argument("--funsd", type=Path, help="FUNSD's folder (annotations, images)")
    parser.add_argument(
        "--backbone", type=Path, help="a BERT-like checkpoint's folder, such as MiniLM's"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
