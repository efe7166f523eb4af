"""Runs pieces one after the other, each in a process of its own that can be stopped and leaves no memory behind."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.files import write_atomically
from benchmarks.gpu.pieces import PIECES, Piece
from benchmarks.gpu.tables import Tables, commit
from benchmarks.gpu.work import Inputs, NotTestedError, OutOfTimeError, Result, Work

LEAST_SECONDS = 20.0
"""With less left no piece is begun: most of it would go into opening torch."""
GRACE = 10.0
"""Before a piece is killed it is told to stop so many seconds earlier, between two steps."""
PRELOADED = [
    "torch",
    "transformers",
    "audit.workflows.scan",
    "audit.references.trainer",
    "audit.references.encoders",
]
"""What the pieces of a tiny run import, imported once for all."""
ADDED = "result.json"


@dataclass(frozen=True)
class Run:
    """One call of the command.

    Attributes:
        work: holds a folder for each piece.
        inputs: folders from outside.
        device: as asked for; "auto" is decided where torch is.
        tiny: see `Work`.
        tables: of all pieces.
        ends: on `clock`, when everything must be over.
        most: seconds that a piece gets in one go.
        clock: seconds that only grow.
        start: runs a piece for so many seconds, in whatever process; see `run_apart`.
        say: prints a line.
    """

    work: Path
    inputs: Inputs
    device: str
    tiny: bool
    tables: Tables
    ends: float
    most: float
    clock: Callable[[], float] = time.monotonic
    start: Callable[[Piece, Work], str] = lambda piece, work: run_apart(piece, work)
    say: Callable[[str], None] = lambda line: print(line, flush=True)


def run_pieces(pieces: Sequence[Piece], run: Run) -> bool:
    """Run pieces until each has its table or the time is up.

    Those that are not finished get another turn at the end.

    Returns:
        Whether no piece broke down.
    """
    broken: set[str] = set()
    waiting = [piece for piece in pieces if piece.name not in run.tables]
    for piece in pieces:
        if piece.name in run.tables:
            run.say(f"{piece.name}: has its table")
    while waiting:
        waiting = _run_round(waiting, run, broken)
    order = [piece.name for piece in pieces]
    run.tables.write([piece.name for piece in PIECES])
    run.say(f"{sum(name in run.tables for name in order)} of {len(order)} pieces have their table")
    return not broken


def _run_round(pieces: Sequence[Piece], run: Run, broken: set[str]) -> list[Piece]:
    """Give each piece a turn.

    Args:
        pieces: pieces that have no table yet.
        run: where and how long they run.
        broken: names of pieces that broke down, to which this round adds.

    Returns:
        The pieces that need another turn.
    """
    again: list[Piece] = []
    for piece in pieces:
        reason = _why_not(piece, run)
        if reason is not None:
            if {waiting.name for waiting in again}.intersection(piece.after):
                again.append(piece)
            else:
                run.say(f"{piece.name}: skipped, {reason}")
            continue
        seconds = min(run.most, run.ends - run.clock() - GRACE)
        if seconds < LEAST_SECONDS:
            run.say(f"{piece.name}: waits for the next call, the minutes are used up")
            continue
        ended = _turn(piece, seconds, run)
        if ended == "stopped":
            again.append(piece)
        elif ended != "done":
            broken.add(piece.name)
    return again


def _why_not(piece: Piece, run: Run) -> str | None:
    """Why a piece cannot be run now; None: it can."""
    missing = [] if run.tiny else run.inputs.missing(piece.needs)
    if missing:
        return f"it needs {' and '.join(f'--{name} FOLDER' for name in missing)}"
    before = [name for name in piece.after if name not in run.tables]
    if before:
        return f"it comes after {', '.join(before)}"
    untested = [name for name in piece.after if UNTESTED in run.tables[name]["values"]]
    if untested and not piece.whatever:
        return f"{', '.join(untested)} could not be tested"
    return None


def _turn(piece: Piece, seconds: float, run: Run) -> str:
    """Give a piece its time: "done" and its table is there, "stopped" and it goes on later, else how it broke down."""
    began = run.clock()
    (run.work / piece.name / ADDED).unlink(missing_ok=True)
    work = Work(piece.name, run.work, run.inputs, run.device, run.tiny, seconds)
    run.say(f"{piece.name}: {piece.shows}; at most {seconds:.0f} s")
    ended = run.start(piece, work)
    taken = run.clock() - began
    run.say(f"{piece.name}: {ended} after {taken:.0f} s")
    found = work.folder / ADDED
    if found.exists():
        run.tables.add(piece.name, json.loads(found.read_text()))
        return "done"
    return ended


def run_apart(piece: Piece, work: Work) -> str:
    """Run a piece in a process of its own.

    "done", "stopped" when its time was up, else how it broke down.
    """
    # A process that was forked after anything has looked for a GPU cannot use it: on one, each
    # begins from nothing.
    context: Any = multiprocessing.get_context("forkserver" if work.tiny else "spawn")
    if work.tiny:
        context.set_forkserver_preload(PRELOADED)
    told = replace(work, seconds=work.seconds - GRACE)
    # By another name transformers takes it for a worker of a data loader, and refuses to seed
    # masks.
    process = context.Process(target=run_here, args=(piece, told), name="MainProcess")
    process.start()
    try:
        process.join(work.seconds)
    finally:
        late = process.is_alive()
        for end in (process.terminate, process.kill):
            if process.is_alive():
                end()
                process.join(GRACE / 2)
    code = process.exitcode
    return {0: "done", STOPPED: "stopped"}.get(
        code or 0, "stopped" if late else f"failed with exit code {code}"
    )


UNTESTED = "not tested"
STOPPED = 75
"""The exit code of a piece whose time was up between two steps."""


def run_here(piece: Piece, work: Work) -> None:
    """Run a piece in this process and write its result; ends the process with its exit code."""
    _end_with_parent()
    from audit.targets.opening import device_named, device_words, packages

    work.device = device_named(work.device)
    began = time.monotonic()
    try:
        result = _outcome(piece, work)
    except OutOfTimeError as waits:
        work.log(f"{piece.name}: {waits}")
        sys.exit(STOPPED)
    except Exception:  # noqa: BLE001 (whatever a piece throws, the others go on)
        story = traceback.format_exc()
        (work.folder / "failed.txt").write_text(story)
        print(story, flush=True)
        sys.exit(1)
    table: dict[str, Any] = {
        "piece": piece.name,
        "shows": piece.shows,
        "tiny": work.tiny,
        "device": device_words(work.device),
        "date": time.strftime("%Y-%m-%d"),
        "versions": packages(),
        "commit": commit(),
        "cpu seconds": round(time.process_time(), 1),
        "seconds": round(time.monotonic() - began, 1),
        "values": result.values,
        "lines": result.lines,
    }
    write_atomically(work.folder / ADDED, (json.dumps(table, indent=1) + "\n").encode())


def _outcome(piece: Piece, work: Work) -> Result:
    try:
        return piece.run(work)
    except NotTestedError as reason:
        return Result({UNTESTED: str(reason)}, [f"Not tested: {reason}."])


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: nothing may hold a GPU after a kill."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
