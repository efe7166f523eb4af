"""Pieces of `benchmarks.gpu` that take no time, for tests of how they are run."""

import os
import signal
import time

from benchmarks.gpu.work import Result, Work


def count(work: Work) -> Result:
    """Two steps; each says in a file that it was done."""
    for name in ("first", "second"):
        work.step(name, lambda name=name: done(work, name))
    return Result({"steps": 2}, ["| steps |", "|---|", "| 2 |"])


def die_once(work: Work) -> Result:
    """A first step, and a second one that kills the process when it is done for the first time."""
    work.step("first", lambda: done(work, "first"))

    def second():
        tried = work.folder / "tried"
        if not tried.exists():
            tried.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return done(work, "second")

    work.step("second", second)
    return Result({}, [])


def hang(work: Work) -> Result:
    """A first step, then nothing that ends by itself."""
    work.step("first", lambda: done(work, "first"))
    time.sleep(60)
    return Result({}, [])


def done(work: Work, name: str) -> dict[str, str]:
    """Note that a step was done, once more."""
    with (work.folder / "done").open("a") as log:
        log.write(f"{name}\n")
    return {"done": name}
