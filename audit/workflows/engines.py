"""Choose where the trials of a scan run, and in how many processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from audit.engine.driver import AUTO, HERE, LOCAL, make_engine
from audit.engine.growing import GrowingEngine
from audit.engine.interface import Engine, EngineSettings
from audit.errors import UsageError, is_address
from audit.targets import opening
from audit.workflows.options import ScanOptions

A_GPU = 2
"""Workers of a GPU that has room: one computes while Python works in the other."""
MANY_CORES = 4
"""CPU cores above which small models take one worker each; two to four cores gain little."""


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a scan.

    Attributes:
        engine: the engine.
        notice: what nobody asked for about it; empty where there is nothing to say.
        threads: CPU threads of each of its workers.
    """

    engine: Engine
    notice: str
    threads: int


def choose_engine(options: ScanOptions, device: str, target: opening.Checkpoint) -> EngineChoice:
    """Make the engine that was asked for; where none was, one that uses the whole machine.

    Several GPUs get workers at once. One GPU, or the cores of a CPU, get them once an attack turns
    out to take long.

    Args:
        options: options of the scan.
        device: device that models are asked on.
        target: the audited model.
    """
    threads = opening.threads()
    if _is_served(options):
        notice = "A server answers: no workers are started"
        if options.engine.startswith((AUTO, LOCAL)):
            notice = ""
        return EngineChoice(HERE, notice, threads)
    settings = EngineSettings(width=options.width, threads=threads, gpu=device == "cuda")
    # How long a scan takes was measured in this process alone.
    if options.engine == AUTO and options.seconds is None:
        if device == "cuda":
            return _share_gpus(settings, target)
        if device == "cpu":
            return _share_cores(settings, target)
    return EngineChoice(make_engine(options.engine, settings), "", threads)


def _share_gpus(settings: EngineSettings, target: opening.Checkpoint) -> EngineChoice:
    """Choose workers for all GPUs of this machine: two of each that has room for both."""
    n_gpus = opening.n_gpus()
    n_each = opening.count_copies(target, A_GPU)
    n_workers = n_gpus * n_each
    if n_workers < 2:
        return _stay_here(settings, "")
    try:
        pool = make_engine(f"ray:workers={n_workers}", settings)
    except UsageError as error:
        if n_gpus == 1:
            return _stay_here(settings, f"Using one worker. For {n_workers}: {error.hint}")
        notice = f"Using 1 of {n_gpus} GPUs. For one worker each: {error.hint}"
        return _stay_here(settings, notice)
    if n_gpus == 1:
        notice = f"Long attacks get {n_workers} workers on the GPU"
        growing = GrowingEngine(lambda: pool, settings.width)
        return EngineChoice(growing, notice, settings.threads)
    each = "one worker each" if n_each == 1 else f"{n_each} workers each"
    return EngineChoice(pool, f"Using {n_gpus} GPUs: {each}", settings.threads)


def _share_cores(settings: EngineSettings, target: opening.Checkpoint) -> EngineChoice:
    """Choose a worker for each core of a CPU that has many, where the model is small."""
    n_workers = settings.threads
    if n_workers <= MANY_CORES or not opening.is_small(target, n_workers):
        return _stay_here(settings, "")
    single = EngineSettings(width=settings.width, threads=1)
    try:
        pool = make_engine(f"ray:workers={n_workers}", single)
    except UsageError as error:
        return _stay_here(settings, f"Using one process. For one a core: {error.hint}")
    notice = f"Long attacks get {n_workers} processes, one for each core"
    return EngineChoice(GrowingEngine(lambda: pool, settings.width), notice, single.threads)


def _stay_here(settings: EngineSettings, notice: str) -> EngineChoice:
    """Choose this process."""
    return EngineChoice(make_engine(LOCAL, settings), notice, settings.threads)


def _is_served(options: ScanOptions) -> bool:
    """Test whether the model or a reference is asked at an address."""
    places: list[Path] = [options.model_dir]
    for folders in options.references.values():
        places += folders
    return any(map(is_address, places))
